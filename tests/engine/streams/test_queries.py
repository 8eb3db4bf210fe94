import pytest

from flo.engine.streams.rules import partition_of
from flo.model.errors import Invalid, NotFound
from flo.model.groups import (
    CreateGroup,
    GetGroup,
    GroupSettings,
    JoinGroup,
    ListGroups,
    ListPending,
    Nack,
    ReadGroup,
)
from flo.model.streams import (
    Append,
    CreateStream,
    GetStream,
    ListStreams,
    NewRecord,
    ReadStream,
    RecordPage,
    Retention,
    TrimStream,
)
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, given

ORDERS = {"stream": "orders"}
GROUP = {"stream": "orders", "group": "billing"}


def append(count, **more):
    return Append(**ORDERS, records=[NewRecord(payload=b"paid", **more)] * count)


def read(engine, **query):
    return [one.sequence for one in engine.query(ReadStream(**ORDERS, **query)).items]


@pytest.fixture
def engine():
    """Eight records, two a second, of which the first two have been trimmed."""
    engine = given()
    for _ in range(4):
        engine.execute(append(2), Later(1_000))
    engine.execute(TrimStream(**ORDERS, max_length=6))
    return engine


@pytest.mark.parametrize(
    ("query", "sequences"),
    [
        ({}, [3, 4, 5, 6, 7, 8]),
        ({"limit": 2}, [3, 4]),
        ({"after": f"{NOON_MS + 1_000}-3"}, [4, 5, 6, 7, 8]),
        ({"after": f"{NOON_MS + 1_000}-4"}, [5, 6, 7, 8]),
        ({"after": f"{NOON_MS + 2_000}-0"}, [5, 6, 7, 8]),
        ({"after": f"{NOON_MS + 1_999}-99"}, [5, 6, 7, 8]),
        ({"after": f"{NOON_MS + 2_000}-99"}, [7, 8]),
        ({"after": f"{NOON_MS}-1"}, [3, 4, 5, 6, 7, 8]),
        ({"after": f"{NOON_MS + 3_000}-8"}, []),
        ({"after": "99999999999999-0"}, []),
        ({"after": "$"}, []),
        ({"until": f"{NOON_MS + 2_000}-5"}, [3, 4, 5]),
        ({"until": f"{NOON_MS + 2_000}-0"}, [3, 4]),
        ({"until": f"{NOON_MS}-1"}, []),
        ({"last": 3}, [6, 7, 8]),
        ({"last": 3, "after": "$"}, [6, 7, 8]),
        ({"last": 100}, [3, 4, 5, 6, 7, 8]),
        ({"last": 3, "limit": 2}, [6, 7]),
    ],
)
def test_a_read_begins_after_an_id_and_ends_with_another(engine, query, sequences):
    assert read(engine, **query) == sequences


def test_a_page_says_where_to_go_on(engine):
    query, seen = ReadStream(**ORDERS, limit=4), []
    while items := (page := engine.query(query)).items:
        seen += [one.sequence for one in items]
        query = ReadStream(**ORDERS, limit=4, after=page.last)

    assert seen == [3, 4, 5, 6, 7, 8]
    assert page.last == f"{NOON_MS + 3_000}-8"


def test_an_empty_page_at_the_end_says_where_the_end_is(engine):
    assert engine.query(ReadStream(**ORDERS, after="$")) == RecordPage(last=f"{NOON_MS + 3_000}-8")


def test_a_read_of_one_partition_passes_the_others_over_but_says_how_far_it_looked():
    engine = given(CreateStream(**ORDERS, partitions=4))
    engine.execute(*(append(1, partition=number % 4) for number in range(8)))

    page = engine.query(ReadStream(**ORDERS, partition=1))

    assert [one.sequence for one in page.items] == [2, 6]
    assert page.last == f"{NOON_MS}-8"
    assert read(engine, partition=1, limit=1) == [2]


def test_a_key_stands_for_its_partition():
    engine = given(CreateStream(**ORDERS, partitions=16), append(3, key="k"), append(3, key="l"))
    assert partition_of("k", 16) != partition_of("l", 16)

    assert read(engine, key="k") == [1, 2, 3]


def test_a_page_is_full_when_it_is_long_enough():
    records = [NewRecord(payload=bytes(400_000))] * 5
    engine = given(Append(**ORDERS, records=records))

    page = engine.query(ReadStream(**ORDERS))

    assert [one.sequence for one in page.items] == [1, 2, 3]
    assert read(engine, after=page.last) == [4, 5]


def test_a_record_out_of_reach_ends_the_page_there(engine):
    del engine.records.stored[1, 6]

    page = engine.query(ReadStream(**ORDERS))

    assert [one.sequence for one in page.items] == [3, 4, 5]
    assert page.last == f"{NOON_MS + 2_000}-5"


def test_a_stream_that_is_not_there_may_be_waited_for_but_not_read():
    with pytest.raises(NotFound):
        given().query(ReadStream(**ORDERS))

    assert given().query(ReadStream(**ORDERS, block_ms=5)) == RecordPage()


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 1_001},
        {"last": -1},
        {"last": 1_001},
        {"block_ms": -1},
        {"block_ms": 300_001},
        {"after": "now"},
        {"until": "then"},
        {"partition": 1},
        {"partition": -1},
    ],
)
def test_a_read_that_makes_no_sense_is_invalid(engine, query):
    with pytest.raises(Invalid):
        engine.query(ReadStream(**ORDERS, **query))


# What is said of streams


def test_a_stream_is_shown_with_its_bounds(engine):
    engine.execute(CreateGroup(**GROUP), CreateGroup(stream="orders", group="audit"))

    view = engine.query(GetStream(**ORDERS))

    assert (view.name, view.namespace, view.partitions) == ("orders", DEFAULT, 1)
    assert (view.count, view.bytes) == (6, 24)
    assert (view.first_id, view.last_id) == (f"{NOON_MS + 1_000}-3", f"{NOON_MS + 3_000}-8")
    assert view.groups == ["audit", "billing"]
    assert (view.created_at_ms, view.retention) == (NOON_MS, Retention())


def test_an_empty_stream_has_no_ids():
    for engine in (
        given(CreateStream(**ORDERS)),
        given(append(2), TrimStream(**ORDERS, max_length=0)),
    ):
        view = engine.query(GetStream(**ORDERS))
        assert (view.count, view.bytes, view.first_id, view.last_id) == (0, 0, None, None)


def test_streams_are_listed_by_prefix_a_page_at_a_time():
    engine = given(*(CreateStream(stream=name) for name in ("b-2", "a", "b-1", "b-3")))

    first = engine.query(ListStreams(prefix="b", limit=2))
    rest = engine.query(ListStreams(prefix="b", limit=2, cursor=first.cursor))

    assert [one.name for one in first.items] == ["b-1", "b-2"]
    assert ([one.name for one in rest.items], rest.cursor) == (["b-3"], None)
    assert engine.query(ListStreams(namespace="prod")).items == []


# What is said of groups


@pytest.fixture
def grouped():
    """Five records: 1 and 3 are with Anna, 2 is delayed, 4 with Boris, 5 is new."""
    settings = GroupSettings(ack_timeout_ms=1_000)
    return given(
        append(5),
        CreateGroup(**GROUP, settings=settings),
        *(JoinGroup(**GROUP, consumer=one) for one in (BORIS, ANNA)),
        ReadGroup(**GROUP, consumer=ANNA, limit=3),
        ReadGroup(**GROUP, consumer=BORIS, limit=1),
        Nack(**GROUP, ids=[f"{NOON_MS}-2"], delay_ms=500),
    )


def test_a_group_is_shown_with_its_consumers(grouped):
    view = grouped.query(GetGroup(**GROUP))

    assert (view.lag, view.pending, view.waiting, view.dead) == (1, 3, 1, 0)
    assert [(one.name, one.pending, one.is_chosen) for one in view.consumers] == [
        (ANNA, 2, False),
        (BORIS, 1, False),
    ]
    assert view.settings.ack_timeout_ms == 1_000


def test_groups_are_listed_a_page_at_a_time(grouped):
    grouped.execute(*(CreateGroup(stream="orders", group=name) for name in ("a", "z")))

    first = grouped.query(ListGroups(**ORDERS, limit=2))
    rest = grouped.query(ListGroups(**ORDERS, limit=2, cursor=first.cursor))

    assert [one.name for one in (*first.items, *rest.items)] == ["a", "billing", "z"]
    with pytest.raises(NotFound):
        grouped.query(ListGroups(stream="nobody"))


def test_what_is_under_way_is_listed_the_oldest_first(grouped):
    page = grouped.query(ListPending(**GROUP))

    assert [(one.stream_id, one.consumer, one.deliveries) for one in page.items] == [
        (f"{NOON_MS}-1", ANNA, 1),
        (f"{NOON_MS}-3", ANNA, 1),
        (f"{NOON_MS}-4", BORIS, 1),
    ]
    assert page.items[0].until_ms == NOON_MS + 1_000
    first = grouped.query(ListPending(**GROUP, limit=2))
    rest = grouped.query(ListPending(**GROUP, limit=2, cursor=first.cursor))
    assert [one.stream_id for one in (*first.items, *rest.items)] == [
        one.stream_id for one in page.items
    ]
    assert (page.cursor, rest.cursor) == (None, None)


def test_what_is_under_way_can_be_of_one_consumer(grouped):
    page = grouped.query(ListPending(**GROUP, consumer=BORIS))

    assert [one.stream_id for one in page.items] == [f"{NOON_MS}-4"]
    assert grouped.query(ListPending(**GROUP, consumer="nobody")).items == []


@pytest.mark.parametrize("more", [{"limit": 0}, {"limit": 1_001}, {"cursor": "x"}])
def test_a_list_that_makes_no_sense_is_invalid(grouped, more):
    with pytest.raises(Invalid):
        grouped.query(ListPending(**GROUP, **more))
