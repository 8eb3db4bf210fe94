import pytest

from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.kv import (
    KEYS_PER_GET_MAX,
    DeleteKey,
    GetJson,
    GetKey,
    GetKeyHistory,
    GetKeys,
    PutKey,
    ScanKeys,
    Value,
    Values,
)
from flo.testing.clock import NOON_MS
from given import Later, given


def put(key, value=b"v", **more):
    return PutKey(key=key, value=value, **more)


def scanned(engine, **query):
    return [one.key for one in engine.query(ScanKeys(**query)).items]


def test_many_are_got_in_the_order_in_which_they_were_asked_for():
    engine = given(put("a", b"1"), put("b", b"2", ttl_ms=5), put("c", b"3"), Later(5))

    assert engine.query(GetKeys(keys=["c", "b", "x", "a", "c"])) == Values(
        items=[
            Value(value=b"3", version=3),
            Value(),
            Value(),
            Value(value=b"1", version=1),
            Value(value=b"3", version=3),
        ]
    )


@pytest.mark.parametrize(
    "query",
    [
        GetKey(key=""),
        GetKey(key="a", block_ms=-1),
        GetKey(key="a", block_ms=300_001),
        GetKeys(keys=[]),
        GetKeys(keys=["a"] * (KEYS_PER_GET_MAX + 1)),
        ScanKeys(limit=0),
        ScanKeys(limit=1_001),
        GetKeyHistory(key="a", limit=0),
        GetKeyHistory(key="a", limit=66),
        GetJson(key="a", path="x"),
    ],
)
def test_a_question_that_makes_no_sense_is_invalid(query):
    with pytest.raises(Invalid):
        given(put("a", b"{}")).query(query)


def test_keys_are_scanned_by_prefix_in_order_and_without_their_values():
    engine = given(put("user/2"), put("user/1"), put("other"), put("user/3", ttl_ms=5), Later(5))

    (first, second) = engine.query(ScanKeys(prefix="user/")).items

    assert (first.key, first.version, first.at_ms, first.value) == ("user/1", 2, NOON_MS, None)
    assert second.key == "user/2"
    assert scanned(engine) == ["other", "user/1", "user/2"]


def test_a_scan_goes_on_where_the_page_before_it_ended():
    engine = given(*(put(f"k{number}") for number in range(5)))
    first = engine.query(ScanKeys(limit=2))
    assert ([one.key for one in first.items], first.cursor) == (["k0", "k1"], "k1")

    engine.execute(DeleteKey(key="k1"), put("k00"))

    assert scanned(engine, cursor=first.cursor, limit=9) == ["k2", "k3", "k4"]
    assert engine.query(ScanKeys(limit=5, cursor="k0")).cursor is None


def test_values_come_along_if_asked_for_as_many_as_an_answer_may_hold(monkeypatch):
    monkeypatch.setattr("flo.engine.kv.queries.VALUES_PER_ANSWER_LENGTH_MAX", 25)
    engine = given(*(put(f"k{number}", bytes(10)) for number in range(4)), put("z", bytes(30)))

    first = engine.query(ScanKeys(with_values=True))
    rest = engine.query(ScanKeys(with_values=True, cursor=first.cursor))
    last = engine.query(ScanKeys(with_values=True, cursor=rest.cursor))

    assert [len(page.items) for page in (first, rest, last)] == [2, 2, 1]
    assert (first.items[0].value, last.items[0].value) == (bytes(10), bytes(30))
    assert last.cursor is None
    assert len(engine.query(ScanKeys()).items) == 5


def test_a_scan_of_nothing_is_empty():
    page = given().query(ScanKeys(prefix="x"))

    assert (page.items, page.cursor) == ([], None)


def test_json_is_got_by_path_with_the_version_of_the_whole():
    engine = given(put("a", b"1"), put("a", b'{"x": [1, {"y": "z"}]}', ttl_ms=500))

    assert engine.query(GetJson(key="a", path="$.x[1]")) == Value(
        value=b'{"y":"z"}', version=2, expires_at_ms=NOON_MS + 500
    )


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (GetJson(key="nobody"), NotFound),
        (GetJson(key="expired"), NotFound),
        (GetJson(key="a", path="$.y"), NotFound),
        (GetJson(key="text"), Conflict),
        (GetKeyHistory(key="nobody"), NotFound),
        (GetKeyHistory(key="expired"), NotFound),
    ],
)
def test_what_is_not_there_or_no_json_is_said_to_be_so(query, error):
    engine = given(put("a", b"{}"), put("text", b"x"), put("expired", b"{}", ttl_ms=5), Later(5))

    with pytest.raises(error):
        engine.query(query)


def test_a_history_is_as_long_as_asked_for():
    engine = given(*(put("a", b"%d" % number) for number in range(5)))

    history = engine.query(GetKeyHistory(key="a", limit=2)).items

    assert [one.value for one in history] == [b"4", b"3"]
