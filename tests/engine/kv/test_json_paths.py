import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.engine.kv.json_paths import delete_at, get_at, parse_document, parse_path, set_at
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge

DOCUMENT = {"user": {"name": "x", "odd name": 1, "é": 2}, "items": [10, [20, 21]], "none": None}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def copied(document):
    return json.loads(json.dumps(document))


def written(steps):
    return "$" + "".join(f"[{json.dumps(step)}]" for step in steps)


def places(document, steps=()):
    """Every path into a document, with what is there."""
    yield steps, document
    if isinstance(document, dict):
        for name, inner in document.items():
            yield from places(inner, (*steps, name))
    elif isinstance(document, list):
        for index, inner in enumerate(document):
            yield from places(inner, (*steps, index))


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$", ()),
        ("$.user.name", ("user", "name")),
        ("$.a-b_c9", ("a-b_c9",)),
        ("$[0][-1]", (0, -1)),
        ('$["odd name"]', ("odd name",)),
        ('$["a\\"b"].c', ('a"b', "c")),
        ('$["\\u00e9"]', ("é",)),
        ('$[""]', ("",)),
        ("$.items[1][0]", ("items", 1, 0)),
    ],
)
def test_a_path_is_fields_and_indexes(path, steps):
    assert parse_path(path) == steps


@pytest.mark.parametrize(
    "path",
    [
        *["", "user", ".user", "$user", "$.", "$..a", "$.1", "$[", "$[]", "$[a]", "$[1", "$['a']"],
        *['$["a]', '$["\\x"]', "$.a b", "$[9999999999]", "$" + ".a" * 600, "$.*", "$[0:1]"],
    ],
)
def test_what_is_no_path_is_invalid(path):
    with pytest.raises(Invalid) as refusal:
        parse_path(path)

    assert refusal.value.code == "invalid_path"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.user.name", b'"x"'),
        ('$.user["odd name"]', b"1"),
        ("$.items[1][-1]", b"21"),
        ("$.items[-2]", b"10"),
        ("$.none", b"null"),
    ],
)
def test_what_is_at_a_path_is_given_as_json(path, found):
    assert get_at(DOCUMENT, path) == found


@pytest.mark.parametrize(
    "path", ["$.nobody", "$.items[2]", "$.items[-3]", "$.items.name", "$.user[0]", "$.none.x"]
)
def test_what_is_not_there_is_not_found(path):
    for look in (get_at, delete_at):
        with pytest.raises(NotFound) as refusal:
            look(copied(DOCUMENT), path)
        assert refusal.value.code == "path_not_found"


def test_a_set_makes_the_last_field_of_a_path_but_nothing_on_the_way():
    assert json.loads(set_at(copied(DOCUMENT), "$.user.age", 7))["user"]["age"] == 7

    with pytest.raises(NotFound):
        set_at(copied(DOCUMENT), "$.nobody.age", 7)


def test_a_set_may_append_to_a_list_and_no_further():
    assert json.loads(set_at([1, 2], "$[2]", 3)) == [1, 2, 3]
    assert json.loads(set_at([1, 2], "$[-1]", 3)) == [1, 3]

    for path in ("$[3]", "$[-3]", "$.name"):
        with pytest.raises(NotFound):
            set_at([1, 2], path, 3)


@pytest.mark.parametrize("text", [b"", b"{", b"{'a': 1}", b"\xff", b"1 2", b"nan", b"[" * 20_000])
def test_what_is_no_json_has_the_wrong_type(text):
    with pytest.raises(Conflict) as refusal:
        parse_document(text, "the document")

    assert refusal.value.code == "wrong_type"


def test_what_is_nested_too_deep_is_too_large():
    with pytest.raises(TooLarge):
        parse_document(b"[" * 101 + b"]" * 101, "the document")


@given(JSON)
def test_whatever_is_in_a_document_is_got_at_its_path(document):
    for steps, inner in places(document):
        path = written(steps)
        assert parse_path(path) == steps
        assert json.loads(get_at(document, path)) == inner


@given(JSON, JSON, st.data())
def test_what_is_set_is_there_and_the_rest_as_it_was(document, value, data):
    steps, _ = data.draw(st.sampled_from(list(places(document))))

    changed = json.loads(set_at(copied(document), written(steps), value))

    assert json.loads(get_at(changed, written(steps))) == value
    for others, inner in places(document):
        is_apart = others[: len(steps)] != steps and steps[: len(others)] != others
        if is_apart:
            assert json.loads(get_at(changed, written(others))) == inner


@given(JSON, st.data())
def test_what_is_deleted_is_gone_and_the_rest_as_it_was(document, data):
    within = [steps for steps, _ in places(document) if steps]
    if not within:
        return
    steps = data.draw(st.sampled_from(within))
    expected = copied(document)
    parent = expected
    for step in steps[:-1]:
        parent = parent[step]
    del parent[steps[-1]]

    assert json.loads(delete_at(copied(document), written(steps))) == expected


@given(JSON, st.text(alphabet='$.[]"ab01-\\', max_size=12))
def test_any_path_is_followed_or_refused_in_our_words(document, path):
    for use in (get_at, lambda document, path: set_at(document, path, 1)):
        with suppress(Invalid, NotFound):
            json.loads(use(copied(document), path))
