import pytest

from flo.engine.context import NO_RECORDS, NOTHING_RECALLED, Recalled
from flo.engine.lookup import is_recalled, recalls_for
from flo.engine.streams.lookups import (
    PARTS_MAX,
    STREAM_RECALLS,
    Known,
    RecallLetter,
    RecallLetters,
    RecallPlace,
    RecallRecords,
)
from flo.model.archive import ArchiveAddress
from flo.model.groups import (
    ClaimRecords,
    CreateGroup,
    GroupMode,
    GroupSettings,
    JoinGroup,
    ListLetters,
    ListPending,
    Nack,
    PurgeLetters,
    ReadGroup,
    RequeueLetters,
)
from flo.model.streams import Append, NewRecord, PositionBy, ReadStream, StreamPosition, TrimStream
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, given

ORDERS = {"stream": "orders"}
GROUP = {"stream": "orders", "group": "billing"}
END = StreamPosition(11, 40, 0)


@pytest.fixture
def story():
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


def wanted(story, message, records=NO_RECORDS, recalled=NOTHING_RECALLED):
    return list(recalls_for(story.state, message, Known(story.now_ms, recalled, records)))


def id_places(at_ms, sequence):
    return [
        RecallPlace(1, "from_time", PositionBy.TIME, at_ms, END),
        RecallPlace(1, "from_sequence", PositionBy.SEQUENCE, sequence, END),
        RecallPlace(1, "until_time", PositionBy.TIME, at_ms + 1, END),
    ]


LATER = NOON_MS + 1_000


@pytest.mark.parametrize(
    ("message", "recalls"),
    [
        (ReadStream(**ORDERS), [RecallRecords(1, 3, 8)]),
        (ReadStream(**ORDERS, limit=5), [RecallRecords(1, 3, 5)]),
        (ReadStream(**ORDERS, last=2), [RecallRecords(1, 9, 2)]),
        (ReadStream(**ORDERS, after="$"), []),
        (ReadStream(**ORDERS, after=f"{LATER}-10"), []),
        (
            ReadStream(**ORDERS, after=f"{LATER}-4", limit=5),
            [RecallRecords(1, 4, 6), *id_places(LATER, 5)],
        ),
        (ReadStream(**ORDERS, after=f"{LATER}-0"), id_places(LATER, 1)),
        (ReadStream(**ORDERS, after="x"), []),
        (ReadStream(**ORDERS, limit=0), []),
        (ReadStream(stream="nobody"), []),
        (TrimStream(**ORDERS), []),
        (TrimStream(**ORDERS, max_length=8), []),
        (
            TrimStream(**ORDERS, max_length=7),
            [RecallPlace(1, "length", PositionBy.SEQUENCE, 4, END)],
        ),
        (TrimStream(**ORDERS, max_age_ms=0), []),
        (TrimStream(**ORDERS, max_bytes=9), [RecallPlace(1, "bytes", PositionBy.OFFSET, 31, END)]),
        (TrimStream(**ORDERS, before=f"{LATER}-5"), id_places(LATER, 5)),
        (TrimStream(**ORDERS, before="x"), []),
        (TrimStream(stream="nobody"), []),
        (CreateGroup(stream="orders", group="new"), []),
        (CreateGroup(stream="orders", group="new", start="$"), []),
        (CreateGroup(stream="orders", group="new", start=f"{LATER}-5"), id_places(LATER, 6)),
        (CreateGroup(stream="nobody", group="new", start="5-5"), []),
        (
            ReadGroup(**GROUP, consumer=ANNA, limit=3),
            [RecallRecords(1, 3, 1), RecallRecords(1, 5, 1), RecallRecords(1, 7, 3)],
        ),
        (ReadGroup(**GROUP, consumer=ANNA), [RecallRecords(1, 3, 1), RecallRecords(1, 7, 1)]),
        (ReadGroup(**GROUP, consumer=ANNA, limit=0), []),
        (ReadGroup(**GROUP, consumer=ANNA, limit=-1), []),
        (ReadGroup(**GROUP, consumer=ANNA, limit=2**64), []),
        (
            ClaimRecords(**GROUP, consumer=ANNA),
            [RecallRecords(1, 4, 1), RecallRecords(1, 6, 1)],
        ),
        (ClaimRecords(**GROUP, consumer=ANNA, limit=-1), []),
        (ClaimRecords(**GROUP, consumer=ANNA, limit=2**64), []),
        (ClaimRecords(**GROUP, consumer=BORIS), []),
        (ListPending(**GROUP), [RecallRecords(1, 4, 1), RecallRecords(1, 6, 1)]),
        (ListPending(**GROUP, limit=0), []),
        (ListLetters(**GROUP), [RecallLetters(DEFAULT, "orders/billing/1", 11, 51)]),
        (
            ListLetters(**GROUP, cursor="7", limit=5),
            [RecallLetters(DEFAULT, "orders/billing/1", 7, 6)],
        ),
        (ListLetters(**GROUP, cursor="x"), []),
        (RequeueLetters(**GROUP), [RecallLetters(DEFAULT, "orders/billing/1", 11, 101)]),
        (
            PurgeLetters(**GROUP, ids=["0-4", "0-4", "0-9"]),
            [
                RecallLetter(ArchiveAddress("letter", DEFAULT, "orders/billing/1", number))
                for number in (4, 9)
            ],
        ),
        (PurgeLetters(stream="orders", group="nobody"), []),
    ],
)
def test_what_is_not_in_memory_has_to_be_looked_up(story, message, recalls):
    assert wanted(story, message) == recalls


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
def test_nothing_is_fetched_while_the_first_record_is_within_reach(story, message):
    assert wanted(story, message, story.records) == []


def test_what_was_found_out_about_a_place_is_not_asked_again(story):
    query = ReadStream(**ORDERS, after=f"{LATER}-0")
    places = {(1, one.what): StreamPosition(3, 8, LATER) for one in wanted(story, query)}

    assert wanted(story, query, recalled=Recalled(places=places)) == [RecallRecords(1, 3, 8)]


def test_a_stand_by_needs_nothing():
    settings = GroupSettings(mode=GroupMode.EXCLUSIVE)
    story = given(
        Append(**ORDERS, records=[NewRecord(payload=b"")]),
        CreateGroup(**GROUP, settings=settings),
        *(JoinGroup(**GROUP, consumer=one) for one in (ANNA, BORIS)),
        ReadGroup(**GROUP, consumer=ANNA),
    )

    assert wanted(story, ReadGroup(**GROUP, consumer=BORIS)) == []
    assert wanted(story, ReadGroup(**GROUP, consumer=ANNA)) == [RecallRecords(1, 1, 1)]


def test_only_so_many_parts_are_fetched_at_a_time():
    story = given(
        Append(**ORDERS, records=[NewRecord(payload=b"")] * 40),
        JoinGroup(**GROUP, consumer=ANNA),
        ReadGroup(**GROUP, consumer=ANNA, limit=40),
        Nack(**GROUP, ids=[f"0-{number}" for number in range(1, 40, 2)]),
    )

    recalls = wanted(story, ReadGroup(**GROUP, consumer=ANNA, limit=40))

    assert recalls == [RecallRecords(1, number, 1) for number in range(1, 2 * PARTS_MAX, 2)]


@pytest.mark.parametrize(
    ("recalled", "recall", "known"),
    [
        (Recalled(), RecallRecords(1, 3, 1), False),
        (Recalled(), RecallPlace(1, "age", PositionBy.TIME, 5, END), False),
        (Recalled(places={(1, "age"): END}), RecallPlace(1, "age", PositionBy.TIME, 5, END), True),
        (Recalled(places={(2, "age"): END}), RecallPlace(1, "age", PositionBy.TIME, 5, END), False),
        (Recalled(), RecallLetters(DEFAULT, "a/b/1", 5, 5), False),
        (Recalled(letter_pages={"a/b/1": ()}), RecallLetters(DEFAULT, "a/b/1", 5, 5), True),
        (Recalled(letter_pages={"a/b/2": ()}), RecallLetters(DEFAULT, "a/b/1", 5, 5), False),
    ],
)
def test_nothing_is_an_answer_too_but_not_one_of_another_life(recalled, recall, known):
    assert is_recalled(recalled, recall) is known


def test_a_letter_that_is_not_there_is_an_answer_too():
    address = ArchiveAddress("letter", DEFAULT, "orders/billing/1", 4)

    assert not is_recalled(Recalled(), RecallLetter(address))
    assert is_recalled(Recalled(letters={address: None}), RecallLetter(address))


def test_every_word_that_needs_the_store_is_in_the_table():
    assert {message.__name__ for message in STREAM_RECALLS} == {
        "ReadStream",
        "TrimStream",
        "CreateGroup",
        "ReadGroup",
        "PullTrigger",
        "ClaimRecords",
        "ListPending",
        "ListLetters",
        "RequeueLetters",
        "PurgeLetters",
    }
