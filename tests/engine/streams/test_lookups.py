import pytest

from flo.engine.context import NO_RECORDS, Context
from flo.engine.groups import lookups as group_lookups
from flo.engine.groups.lookups import DeadRecordLookup, DeadRecordPageLookup
from flo.engine.lookup import Found, RecordLookup
from flo.engine.machine import lookups_for
from flo.engine.schedules.feature import FEATURE as SCHEDULES
from flo.engine.streams import lookups as stream_lookups
from flo.engine.streams.lookups import PARTS_MAX
from flo.engine.streams.positions import PositionLookup
from flo.model.groups import (
    ClaimRecords,
    CreateGroup,
    GroupMode,
    GroupSettings,
    JoinGroup,
    ListDeadRecords,
    ListPending,
    Nack,
    PurgeDeadRecords,
    ReadGroup,
    RequeueDeadRecords,
)
from flo.model.storage.archive import ArchiveAddress
from flo.model.storage.records import PositionBy, StreamPosition
from flo.model.streams import Append, NewRecord, ReadStream, TrimStream
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, given

ORDERS = {"stream": "orders"}
GROUP = {"stream": "orders", "group": "billing"}
END = StreamPosition(11, 40, 0)


@pytest.fixture
def engine():
    """Ten records, kept from 3 on: 4 and 6 are with Anna, 3 and 5 wait, the rest is new."""
    return given(
        Append(**ORDERS, records=[NewRecord(payload=b"paid")] * 2),
        Later(1_000),
        Append(**ORDERS, records=[NewRecord(payload=b"paid")] * 8),
        TrimStream(**ORDERS, max_length=8),
        CreateGroup(**GROUP),
        JoinGroup(**GROUP, consumer=ANNA),
        ReadGroup(**GROUP, consumer=ANNA, limit=4),
        Nack(**GROUP, ids=["0-3", "0-5"]),
    )


def wanted(engine, message, records=NO_RECORDS, fetched=None):
    context = Context(
        engine.now_ms, lambda: 0.5, engine.volatile, Found({}, fetched or {}), records
    )
    return list(lookups_for(engine.state, message, context))


def id_places(at_ms, sequence):
    return [
        PositionLookup(1, "from_time", PositionBy.TIME, at_ms, END),
        PositionLookup(1, "from_sequence", PositionBy.SEQUENCE, sequence, END),
        PositionLookup(1, "until_time", PositionBy.TIME, at_ms + 1, END),
    ]


LATER = NOON_MS + 1_000


@pytest.mark.parametrize(
    ("message", "lookups"),
    [
        (ReadStream(**ORDERS), [RecordLookup(1, 3, 8)]),
        (ReadStream(**ORDERS, limit=5), [RecordLookup(1, 3, 5)]),
        (ReadStream(**ORDERS, last=2), [RecordLookup(1, 9, 2)]),
        (ReadStream(**ORDERS, after="$"), []),
        (ReadStream(**ORDERS, after=f"{LATER}-10"), []),
        (
            ReadStream(**ORDERS, after=f"{LATER}-4", limit=5),
            [RecordLookup(1, 4, 6), *id_places(LATER, 5)],
        ),
        (ReadStream(**ORDERS, after=f"{LATER}-0"), id_places(LATER, 1)),
        (ReadStream(**ORDERS, after="x"), []),
        (ReadStream(**ORDERS, limit=0), []),
        (ReadStream(stream="nobody"), []),
        (TrimStream(**ORDERS), []),
        (TrimStream(**ORDERS, max_length=8), []),
        (
            TrimStream(**ORDERS, max_length=7),
            [PositionLookup(1, "length", PositionBy.SEQUENCE, 4, END)],
        ),
        (TrimStream(**ORDERS, max_age_ms=0), []),
        (
            TrimStream(**ORDERS, max_bytes=9),
            [PositionLookup(1, "bytes", PositionBy.OFFSET, 31, END)],
        ),
        (TrimStream(**ORDERS, before=f"{LATER}-5"), id_places(LATER, 5)),
        (TrimStream(**ORDERS, before="x"), []),
        (TrimStream(stream="nobody"), []),
        (CreateGroup(stream="orders", group="new"), []),
        (CreateGroup(stream="orders", group="new", start="$"), []),
        (CreateGroup(stream="orders", group="new", start=f"{LATER}-5"), id_places(LATER, 6)),
        (CreateGroup(stream="nobody", group="new", start="5-5"), []),
        (
            ReadGroup(**GROUP, consumer=ANNA, limit=3),
            [RecordLookup(1, 3, 1), RecordLookup(1, 5, 1), RecordLookup(1, 7, 3)],
        ),
        (ReadGroup(**GROUP, consumer=ANNA), [RecordLookup(1, 3, 1), RecordLookup(1, 7, 1)]),
        (ReadGroup(**GROUP, consumer=ANNA, limit=0), []),
        (ReadGroup(**GROUP, consumer=ANNA, limit=-1), []),
        (ReadGroup(**GROUP, consumer=ANNA, limit=2**64), []),
        (
            ClaimRecords(**GROUP, consumer=ANNA),
            [RecordLookup(1, 4, 1), RecordLookup(1, 6, 1)],
        ),
        (ClaimRecords(**GROUP, consumer=ANNA, limit=-1), []),
        (ClaimRecords(**GROUP, consumer=ANNA, limit=2**64), []),
        (ClaimRecords(**GROUP, consumer=BORIS), []),
        (ListPending(**GROUP), [RecordLookup(1, 4, 1), RecordLookup(1, 6, 1)]),
        (ListPending(**GROUP, limit=0), []),
        (ListDeadRecords(**GROUP), [DeadRecordPageLookup(DEFAULT, "orders/billing/1", 11, 51)]),
        (
            ListDeadRecords(**GROUP, cursor="7", limit=5),
            [DeadRecordPageLookup(DEFAULT, "orders/billing/1", 7, 6)],
        ),
        (ListDeadRecords(**GROUP, cursor="x"), []),
        (RequeueDeadRecords(**GROUP), [DeadRecordPageLookup(DEFAULT, "orders/billing/1", 11, 101)]),
        (
            PurgeDeadRecords(**GROUP, ids=["0-4", "0-4", "0-9"]),
            [
                DeadRecordLookup(ArchiveAddress("dead_record", DEFAULT, "orders/billing/1", number))
                for number in (4, 9)
            ],
        ),
        (PurgeDeadRecords(stream="orders", group="nobody"), []),
    ],
)
def test_what_is_not_in_memory_has_to_be_looked_up(engine, message, lookups):
    assert wanted(engine, message) == lookups


@pytest.mark.parametrize(
    "message",
    [
        ReadStream(**ORDERS),
        ReadStream(**ORDERS, after=f"{LATER}-4"),
        ReadGroup(**GROUP, consumer=ANNA, limit=5),
        ClaimRecords(**GROUP, consumer=ANNA),
        ListPending(**GROUP),
    ],
)
def test_nothing_is_fetched_while_the_first_record_is_within_reach(engine, message):
    assert wanted(engine, message, engine.records) == []


def test_what_was_found_out_about_a_place_is_not_asked_again(engine):
    query = ReadStream(**ORDERS, after=f"{LATER}-0")
    fetched = {one.key(): StreamPosition(3, 8, LATER) for one in wanted(engine, query)}

    assert wanted(engine, query, fetched=fetched) == [RecordLookup(1, 3, 8)]


def test_a_stand_by_needs_nothing():
    settings = GroupSettings(mode=GroupMode.EXCLUSIVE)
    engine = given(
        Append(**ORDERS, records=[NewRecord(payload=b"")]),
        CreateGroup(**GROUP, settings=settings),
        *(JoinGroup(**GROUP, consumer=one) for one in (ANNA, BORIS)),
        ReadGroup(**GROUP, consumer=ANNA),
    )

    assert wanted(engine, ReadGroup(**GROUP, consumer=BORIS)) == []
    assert wanted(engine, ReadGroup(**GROUP, consumer=ANNA)) == [RecordLookup(1, 1, 1)]


def test_only_so_many_parts_are_fetched_at_a_time():
    engine = given(
        Append(**ORDERS, records=[NewRecord(payload=b"")] * 40),
        JoinGroup(**GROUP, consumer=ANNA),
        ReadGroup(**GROUP, consumer=ANNA, limit=40),
        Nack(**GROUP, ids=[f"0-{number}" for number in range(1, 40, 2)]),
    )

    lookups = wanted(engine, ReadGroup(**GROUP, consumer=ANNA, limit=40))

    assert lookups == [RecordLookup(1, number, 1) for number in range(1, 2 * PARTS_MAX, 2)]


AGE = PositionLookup(1, "age", PositionBy.TIME, 5, END)
DEAD_RECORDS = DeadRecordPageLookup(DEFAULT, "a/b/1", 5, 5)
DEAD_RECORD = DeadRecordLookup(ArchiveAddress("dead_record", DEFAULT, "orders/billing/1", 4))


@pytest.mark.parametrize(
    ("fetched", "lookup", "known"),
    [
        ({}, RecordLookup(1, 3, 1), False),
        ({}, AGE, False),
        ({PositionLookup(1, "age").key(): END}, AGE, True),
        ({PositionLookup(2, "age").key(): END}, AGE, False),
        ({}, DEAD_RECORDS, False),
        ({DeadRecordPageLookup(DEFAULT, "a/b/1").key(): ()}, DEAD_RECORDS, True),
        ({DeadRecordPageLookup(DEFAULT, "a/b/2").key(): ()}, DEAD_RECORDS, False),
        ({}, DEAD_RECORD, False),
        ({DEAD_RECORD.key(): None}, DEAD_RECORD, True),
    ],
)
def test_nothing_is_an_answer_too_but_not_one_of_another_life(fetched, lookup, known):
    assert (lookup in Found({}, fetched)) is known


def test_every_message_that_needs_the_store_is_in_the_table():
    tables = stream_lookups.LOOKUPS, group_lookups.LOOKUPS, SCHEDULES.lookups
    assert {message.__name__ for table in tables for message in table} == {
        "ReadStream",
        "TrimStream",
        "CreateGroup",
        "ReadGroup",
        "PullTrigger",
        "ClaimRecords",
        "ListPending",
        "ListDeadRecords",
        "RequeueDeadRecords",
        "PurgeDeadRecords",
    }
