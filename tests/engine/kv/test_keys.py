from hypothesis import given
from hypothesis import strategies as st

from flo.engine.kv.keys import Keys
from flo.engine.kv.records import KeyValue

NAMES = st.text(alphabet="ab/é\U0001f600", max_size=4)


def value(text=b"v", expires_at_ms=None):
    return KeyValue(value=text, version=1, at_ms=0, expires_at_ms=expires_at_ms)


def keys_of(*names):
    keys = Keys()
    for name in names:
        keys.put(name, value())
    return keys


def test_what_has_expired_is_gone_even_before_that_is_a_fact():
    keys = Keys()
    keys.put("a", value(expires_at_ms=100))

    assert keys.get("a", 99) == value(expires_at_ms=100)
    assert keys.get("a", 100) is None
    assert "a" in keys


def test_keys_are_in_order():
    assert list(keys_of("b", "a", "c")) == ["a", "b", "c"]


def test_the_keys_with_a_prefix_lie_together():
    keys = keys_of("a", "user/1", "user/2", "user0", "userz", "v")

    assert list(keys.with_prefix("user/", None)) == ["user/1", "user/2"]
    assert list(keys.with_prefix("user/", "user/1")) == ["user/2"]
    assert list(keys.with_prefix("user/", "user/2")) == []
    assert list(keys.with_prefix("x", None)) == []


def test_a_cursor_that_is_no_key_any_more_is_as_good():
    assert list(keys_of("a", "c").with_prefix("", "b")) == ["c"]


@given(st.sets(NAMES), NAMES, st.none() | NAMES)
def test_a_branch_finds_what_a_look_at_every_key_finds(names, prefix, after):
    found = list(keys_of(*names).with_prefix(prefix, after))

    assert found == sorted(
        name for name in names if name.startswith(prefix) and (after is None or name > after)
    )
