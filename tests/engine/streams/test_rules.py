import pytest

from flo.engine.streams.events import RecordsAppended, StreamCreated, StreamTrimmed
from flo.engine.streams.rules import partition_of
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.groups import GetGroup, JoinGroup, ReadGroup
from flo.model.namespaces import DeleteNamespace
from flo.model.streams import (
    HEADERS_LENGTH_MAX,
    HEADERS_MAX,
    PARTITIONS_MAX,
    RECORDS_PER_APPEND_MAX,
    AlterStream,
    Append,
    Appended,
    CreateStream,
    DeleteStream,
    GetStream,
    NewRecord,
    ReadStream,
    Retention,
    Trimmed,
    TrimStream,
)
from flo.testing.clock import NOON_MS
from given import ANNA, DEFAULT, Later, given

ORDERS = {"stream": "orders"}
GROUP = {"stream": "orders", "group": "billing"}


def append(*payloads, **settings):
    return Append(**ORDERS, records=[NewRecord(payload=one, **settings) for one in payloads])


def trim(**bounds):
    return TrimStream(**ORDERS, **bounds)


def payloads(engine, **query):
    return [record.payload for record in engine.query(ReadStream(**ORDERS, **query)).items]


ONE = append(b"paid")


# Making one


def test_the_first_append_makes_the_stream():
    engine = given()

    decision = engine.execute(append(b"a", b"bc"))

    assert decision.reply == Appended(stream_id=f"{NOON_MS}-1", last_id=f"{NOON_MS}-2", count=2)
    assert [type(event) for event in decision.events] == [StreamCreated, RecordsAppended]
    assert payloads(engine) == [b"a", b"bc"]


def test_a_stream_is_made_once():
    engine = given(CreateStream(**ORDERS))

    with pytest.raises(Conflict) as refusal:
        engine.execute(CreateStream(**ORDERS))

    assert refusal.value.code == "stream_exists"


def test_the_event_of_an_append_carries_no_payload():
    decision = given(CreateStream(**ORDERS)).execute(append(b"paid", b"", key="k"))

    assert decision.events == (
        RecordsAppended(namespace=DEFAULT, **ORDERS, count=2, at_ms=NOON_MS, length=6),
    )
    (chunk,) = decision.chunks
    assert (chunk.stream, chunk.first, chunk.offset, chunk.end) == (1, 1, 0, 3)
    assert [record.payload for record in chunk.records] == [b"paid", b""]


@pytest.mark.parametrize(
    "message",
    [
        CreateStream(stream=""),
        CreateStream(stream="a b"),
        CreateStream(stream="a" * 257),
        CreateStream(**ORDERS, namespace="no/such"),
        CreateStream(**ORDERS, partitions=0),
        CreateStream(**ORDERS, partitions=PARTITIONS_MAX + 1),
        CreateStream(**ORDERS, retention=Retention(max_length=0)),
        CreateStream(**ORDERS, retention=Retention(max_age_ms=0)),
        CreateStream(**ORDERS, retention=Retention(max_bytes=-1)),
        Append(stream="a b", records=[NewRecord(payload=b"")]),
        Append(**ORDERS, records=[]),
        Append(**ORDERS, records=[NewRecord(payload=b"")] * (RECORDS_PER_APPEND_MAX + 1)),
        append(b"", partition=1),
        append(b"", partition=-1),
    ],
)
def test_what_no_stream_can_be_is_invalid(message):
    engine = given()

    with pytest.raises(Invalid):
        engine.execute(message)

    assert engine.events == []


@pytest.mark.parametrize(
    "message", [AlterStream(**ORDERS, retention=Retention()), DeleteStream(**ORDERS), trim()]
)
def test_what_is_not_there_cannot_be_changed(message):
    with pytest.raises(NotFound) as refusal:
        given().execute(message)

    assert refusal.value.code == "stream_not_found"


def test_there_are_only_so_many_streams(monkeypatch):
    monkeypatch.setattr("flo.engine.streams.rules.STREAMS_MAX", 2)
    engine = given(CreateStream(stream="a"), CreateStream(stream="b", namespace="prod"), ONE)

    with pytest.raises(Conflict) as refusal:
        engine.execute(CreateStream(stream="c"))

    assert refusal.value.code == "too_many_streams"
    engine.execute(ONE, CreateStream(stream="c", namespace="prod"))


# Ids


def test_ids_grow_with_every_record():
    engine = given(ONE, Later(5), append(b"a", b"b"), ONE)

    ids = [record.stream_id for record in engine.query(ReadStream(**ORDERS)).items]

    assert ids == [f"{NOON_MS}-1", f"{NOON_MS + 5}-2", f"{NOON_MS + 5}-3", f"{NOON_MS + 5}-4"]


def test_ids_grow_even_when_the_clock_goes_back():
    engine = given(ONE, Later(-5_000), ONE, Later(5_003), ONE)

    records = engine.query(ReadStream(**ORDERS)).items

    assert [(one.at_ms - NOON_MS, one.sequence) for one in records] == [(0, 1), (0, 2), (3, 3)]


def test_ids_go_on_after_everything_was_trimmed():
    engine = given(ONE, ONE, trim(max_length=0))

    assert engine.execute(ONE).reply.stream_id == f"{NOON_MS}-3"
    assert payloads(engine) == [b"paid"]


def test_streams_of_one_name_in_two_namespaces_know_nothing_of_each_other():
    engine = given(ONE, ONE, Append(**ORDERS, namespace="prod", records=[NewRecord(payload=b"x")]))

    assert payloads(engine) == [b"paid"] * 2
    assert payloads(engine, namespace="prod") == [b"x"]


# What is in a record


def test_a_record_keeps_its_headers_its_key_and_its_partition():
    engine = given(CreateStream(**ORDERS, partitions=8))
    engine.execute(append(b"paid", headers={"trace": "t-1"}, key="k", partition=5))

    (record,) = engine.query(ReadStream(**ORDERS)).items

    assert (record.headers, record.key, record.partition) == ({"trace": "t-1"}, "k", 5)
    assert record.length == len("paid" + "trace" + "t-1" + "k")


def test_no_headers_are_none():
    engine = given(append(b"", headers={}))

    assert engine.query(ReadStream(**ORDERS)).items[0].headers is None


@pytest.mark.parametrize(
    "headers",
    [
        {f"h{number}": "" for number in range(HEADERS_MAX + 1)},
        {"h": "x" * HEADERS_LENGTH_MAX},
    ],
)
def test_headers_have_their_bounds(headers):
    engine = given()

    with pytest.raises(TooLarge):
        engine.execute(append(b"", headers=headers))


def test_headers_up_to_their_bounds_are_taken():
    given(
        append(b"", headers={f"{number:02}": "" for number in range(HEADERS_MAX)}),
        append(b"", headers={"h": "x" * (HEADERS_LENGTH_MAX - 1)}),
    )


def test_one_record_that_is_refused_refuses_its_whole_append():
    engine = given(ONE)

    with pytest.raises(Invalid):
        engine.execute(
            Append(
                **ORDERS, records=[NewRecord(payload=b"a"), NewRecord(payload=b"b", partition=9)]
            )
        )

    assert payloads(engine) == [b"paid"]


# Partitions


def test_a_key_always_chooses_the_same_partition():
    engine = given(CreateStream(**ORDERS, partitions=16))
    for _ in range(3):
        engine.execute(*(append(b"", key=f"key-{number}") for number in range(40)))

    chosen = {}
    for record in engine.query(ReadStream(**ORDERS, limit=1_000)).items:
        chosen.setdefault(record.key, set()).add(record.partition)

    assert all(len(partitions) == 1 for partitions in chosen.values())
    assert len(set.union(*chosen.values())) > 8
    assert chosen["key-7"] == {partition_of("key-7", 16)}


def test_chance_spreads_what_has_no_key():
    engine = given(CreateStream(**ORDERS, partitions=4), ONE)

    assert engine.query(ReadStream(**ORDERS)).items[0].partition == 2  # the dice show a half


def test_a_stream_of_one_partition_takes_every_key():
    engine = given(*(append(b"", key=f"key-{number}") for number in range(20)))

    assert {record.partition for record in engine.query(ReadStream(**ORDERS)).items} == {0}


# Trimming


@pytest.fixture
def engine():
    """Six records of 10 bytes, a second apart: a to f; it is a second after the last."""
    engine = given()
    for one in b"abcdef":
        engine.execute(append(bytes([one]) * 10), Later(1_000))
    return engine


@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        ({"max_length": 6}, 6),
        ({"max_length": 2}, 2),
        ({"max_length": 0}, 0),
        ({"max_age_ms": 6_000}, 6),
        ({"max_age_ms": 5_999}, 5),
        ({"max_age_ms": 1_000}, 1),
        ({"max_age_ms": 999}, 0),
        ({"max_bytes": 60}, 6),
        ({"max_bytes": 59}, 5),
        ({"max_bytes": 20}, 2),
        ({"max_bytes": 9}, 0),
        ({"before": f"{NOON_MS}-1"}, 6),
        ({"before": f"{NOON_MS + 2_000}-3"}, 4),
        ({"before": f"{NOON_MS + 2_000}-4"}, 3),
        ({"before": f"{NOON_MS + 2_000}-0"}, 4),
        ({"before": f"{NOON_MS + 2_001}-0"}, 3),
        ({"before": f"{NOON_MS + 1_500}-99"}, 4),
        ({"before": "0-0"}, 6),
        ({"before": "99999999999999-0"}, 0),
        ({"max_length": 4, "max_bytes": 20, "max_age_ms": 5_000}, 2),
        ({"max_length": 4, "before": f"{NOON_MS + 5_000}-6"}, 1),
        ({}, 6),
    ],
)
def test_a_trim_lets_go_of_all_that_any_bound_leaves_out(engine, bounds, kept):
    dry = engine.execute(trim(dry_run=True, **bounds))
    assert dry.events == ()

    reply = engine.execute(trim(**bounds)).reply

    first_id = f"{NOON_MS + (6 - kept) * 1_000}-{7 - kept}" if kept else None
    assert reply == dry.reply == Trimmed(removed=6 - kept, first_id=first_id)
    assert payloads(engine) == [bytes([one]) * 10 for one in b"abcdef"[6 - kept :]]
    view = engine.query(GetStream(**ORDERS))
    assert (view.count, view.bytes, view.first_id) == (kept, kept * 10, first_id)


@pytest.mark.parametrize(
    "bounds",
    [
        {"max_length": -1},
        {"max_age_ms": -1},
        {"max_bytes": -1},
        {"before": "yesterday"},
        {"before": "5"},
    ],
)
def test_a_trim_with_a_bound_that_makes_no_sense_is_invalid(engine, bounds):
    with pytest.raises(Invalid):
        engine.execute(trim(**bounds))


def test_a_trim_without_bounds_goes_by_what_the_stream_keeps(engine):
    engine.execute(AlterStream(**ORDERS, retention=Retention(max_length=4)))
    assert engine.execute(trim()).reply.removed == 2

    engine.execute(AlterStream(**ORDERS, retention=Retention(max_age_ms=2_500)), Later(400))
    assert engine.execute(trim()).reply.removed == 2
    assert engine.execute(trim()).reply.removed == 0

    engine.execute(AlterStream(**ORDERS, retention=Retention(max_bytes=15)))
    assert engine.execute(trim()).reply.removed == 1
    assert payloads(engine) == [b"f" * 10]


def test_a_trim_with_bounds_of_its_own_does_not_go_by_what_the_stream_keeps(engine):
    engine.execute(AlterStream(**ORDERS, retention=Retention(max_length=1)))

    assert engine.execute(trim(max_length=5)).reply.removed == 1


def test_records_without_a_byte_are_trimmed_with_what_came_before_them():
    engine = given(append(b"12345"), append(b""), append(b""), append(b"12345"))

    engine.execute(trim(max_bytes=5))

    assert payloads(engine) == [b"", b"", b"12345"]


def test_a_trim_of_nothing_is_no_event(engine):
    assert engine.execute(trim(max_length=10)).events == ()


def test_a_trim_is_an_event_that_says_where_the_stream_begins(engine):
    assert engine.execute(trim(max_length=4)).events == (
        StreamTrimmed(namespace=DEFAULT, **ORDERS, first=3, offset=20, at_ms=NOON_MS + 2_000),
    )


def test_what_a_group_held_of_the_beginning_is_gone_too(engine):
    engine.execute(JoinGroup(**GROUP, consumer=ANNA), ReadGroup(**GROUP, consumer=ANNA, limit=3))

    engine.execute(trim(max_length=4))

    group = engine.query(GetGroup(**GROUP))
    assert (group.pending, group.waiting, group.lag) == (1, 0, 3)
    assert engine.state.due.next_at_ms() is not None
    engine.execute(trim(max_length=1))
    group = engine.query(GetGroup(**GROUP))
    assert (group.pending, group.lag) == (0, 1)
    assert len(engine.state.due) == 0
    assert [
        one.payload for one in engine.execute(ReadGroup(**GROUP, consumer=ANNA)).reply.items
    ] == [b"f" * 10]


# Deleting one


def test_a_stream_that_was_made_again_has_nothing_of_the_one_before():
    engine = given(ONE, ONE, JoinGroup(**GROUP, consumer=ANNA), ReadGroup(**GROUP, consumer=ANNA))
    assert len(engine.state.due) == 1

    engine.execute(DeleteStream(**ORDERS))
    assert len(engine.state.due) == 0
    with pytest.raises(NotFound):
        engine.query(ReadStream(**ORDERS))

    assert engine.execute(append(b"new")).reply.stream_id == f"{NOON_MS}-1"
    assert payloads(engine) == [b"new"]
    assert engine.query(GetStream(**ORDERS)).groups == []
    assert engine.state.spaces[DEFAULT].streams["orders"].number == 2


def test_a_number_is_never_given_twice_even_in_a_namespace_that_was_deleted():
    prod = {"namespace": "prod"}
    engine = given(CreateStream(**ORDERS, **prod), DeleteNamespace(name="prod", force=True))

    engine.execute(CreateStream(**ORDERS, **prod), CreateStream(**ORDERS))

    numbers = [space.streams["orders"].number for space in engine.state.spaces.values()]
    assert sorted(numbers) == [2, 3]


def test_what_a_stream_keeps_can_be_changed_and_unset():
    engine = given(CreateStream(**ORDERS, retention=Retention(max_length=1)), ONE, ONE)

    engine.execute(AlterStream(**ORDERS, retention=Retention()))

    assert engine.execute(trim()).reply.removed == 0
    with pytest.raises(Invalid):
        engine.execute(AlterStream(**ORDERS, retention=Retention(max_length=0)))
