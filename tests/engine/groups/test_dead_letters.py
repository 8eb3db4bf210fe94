import pytest
from msgspec.structs import replace

from flo.engine.groups.events import DeadRecordPurged, DeadRecordRevived
from flo.model.declare.dead_letters import DeadLettersChanged
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.groups import (
    CreateGroup,
    DeleteGroup,
    GetGroup,
    GroupMode,
    GroupSettings,
    JoinGroup,
    ListDeadRecords,
    Nack,
    PurgeDeadRecords,
    ReadGroup,
    RequeueDeadRecords,
)
from flo.model.namespaces import DeleteNamespace
from flo.model.streams import Append, DeleteStream, NewRecord, TrimStream
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, given

GROUP = {"stream": "orders", "group": "billing"}
ONCE = GroupSettings(max_deliveries=1)


def ids(*sequences):
    return [f"{NOON_MS}-{sequence}" for sequence in sequences]


def read(consumer=ANNA, limit=20):
    return ReadGroup(**GROUP, consumer=consumer, limit=limit)


def dying(*sequences, settings=ONCE, count=5):
    """What lets these of so many records die; the others are with Anna."""
    records = [NewRecord(payload=b"%d" % one, key="k", headers={"n": "x"}) for one in range(count)]
    return [
        Append(stream="orders", records=records),
        CreateGroup(**GROUP, settings=settings),
        JoinGroup(**GROUP, consumer=ANNA),
        read(),
        *([Nack(**GROUP, ids=ids(*sequences)), Later(5), read()] if sequences else []),
    ]


def dead_sequences(engine, **more):
    return [one.record.sequence for one in engine.query(ListDeadRecords(**GROUP, **more)).items]


def dead(engine):
    return engine.query(GetGroup(**GROUP)).dead


def test_a_dead_letter_is_in_the_archive_with_all_that_was_in_its_record():
    engine = given(*dying(2))

    (dead_record,) = engine.query(ListDeadRecords(**GROUP)).items

    assert (dead_record.record.payload, dead_record.record.key, dead_record.record.headers) == (
        b"1",
        "k",
        {"n": "x"},
    )
    assert (dead_record.deliveries, dead_record.died_at_ms) == (1, NOON_MS + 5)
    (address,) = engine.dead_records
    assert address == ("dead_record", DEFAULT, "orders/billing/1", 2)


def test_the_newest_dead_letters_are_listed_first_a_page_at_a_time():
    engine = given(*dying(1, 2, 3, 5))

    first = engine.query(ListDeadRecords(**GROUP, limit=3))

    assert [one.record.sequence for one in first.items] == [5, 3, 2]
    assert dead_sequences(engine, cursor=first.cursor) == [1]
    assert engine.query(ListDeadRecords(**GROUP, limit=4)).cursor is None


@pytest.mark.parametrize("more", [{"limit": 0}, {"limit": 1_001}, {"cursor": "x"}, {"cursor": ""}])
def test_a_page_that_makes_no_sense_is_invalid(more):
    with pytest.raises(Invalid):
        given(*dying(1)).query(ListDeadRecords(**GROUP, **more))


def test_a_dead_letter_outlives_its_record():
    engine = given(*dying(1), TrimStream(stream="orders", max_length=1))

    assert dead_sequences(engine) == [1]
    assert dead(engine) == 1


# Requeue


def test_a_dead_letter_that_is_requeued_is_handed_out_as_if_for_the_first_time():
    engine = given(*dying(1, 3))

    decision = engine.execute(RequeueDeadRecords(**GROUP, ids=ids(3)))

    assert decision.reply == DeadLettersChanged(ids=ids(3))
    assert [type(event) for event in decision.events] == [DeadRecordRevived]
    reply = engine.execute(read()).reply
    assert ([one.sequence for one in reply.items], reply.deliveries) == ([3], [1])
    assert (dead_sequences(engine), dead(engine)) == ([1], 1)


def test_without_names_the_newest_are_requeued_and_whether_there_are_more_is_told():
    engine = given(*dying(1, 2, 3))

    assert engine.execute(RequeueDeadRecords(**GROUP, limit=2)).reply == DeadLettersChanged(
        ids=ids(3, 2), more=True
    )
    assert engine.execute(RequeueDeadRecords(**GROUP, limit=2)).reply == DeadLettersChanged(
        ids=ids(1)
    )
    assert engine.execute(RequeueDeadRecords(**GROUP)).reply == DeadLettersChanged(ids=[])
    assert dead(engine) == 0


def test_a_dead_letter_may_die_again_and_again():
    engine = given(*dying(1))
    for _ in range(3):
        engine.execute(RequeueDeadRecords(**GROUP), read(), Nack(**GROUP, ids=ids(1)), read())
        assert (dead_sequences(engine), dead(engine)) == ([1], 1)


def test_a_dead_letter_that_comes_back_goes_to_the_slot_of_its_key():
    settings = GroupSettings(mode=GroupMode.KEY_SHARED, max_deliveries=1)
    engine = given(*dying(1, settings=settings, count=2), JoinGroup(**GROUP, consumer=BORIS))

    engine.execute(RequeueDeadRecords(**GROUP))

    assert engine.execute(read(BORIS)).reply.items == []  # Anna has the other record of its key
    assert [one.sequence for one in engine.execute(read()).reply.items] == [1]


def test_a_record_that_was_trimmed_cannot_come_back():
    engine = given(*dying(1, 4), TrimStream(stream="orders", max_length=2))

    with pytest.raises(Conflict) as refusal:
        engine.execute(RequeueDeadRecords(**GROUP, ids=ids(4, 1)))
    assert refusal.value.code == "record_trimmed"

    assert engine.execute(RequeueDeadRecords(**GROUP)).reply == DeadLettersChanged(ids=ids(4))
    assert dead_sequences(engine) == [1]


def test_there_is_no_more_to_requeue_once_dead_letters_are_met_whose_records_were_trimmed():
    engine = given(*dying(1, 2, 4), TrimStream(stream="orders", max_length=2))

    reply = engine.execute(RequeueDeadRecords(**GROUP, limit=2)).reply

    assert reply == DeadLettersChanged(ids=ids(4), more=False)


# Purge


def test_a_dead_letter_that_is_purged_is_gone_for_good():
    engine = given(*dying(1, 3))

    decision = engine.execute(PurgeDeadRecords(**GROUP, ids=ids(1)))

    assert decision.reply == DeadLettersChanged(ids=ids(1))
    assert [type(event) for event in decision.events] == [DeadRecordPurged]
    assert (dead_sequences(engine), dead(engine)) == ([3], 1)
    assert engine.execute(read()).reply.items == []


def test_a_dead_letter_whose_record_was_trimmed_can_be_purged():
    engine = given(*dying(1), TrimStream(stream="orders", max_length=0))

    assert engine.execute(PurgeDeadRecords(**GROUP)).reply == DeadLettersChanged(ids=ids(1))


@pytest.mark.parametrize("message", [RequeueDeadRecords, PurgeDeadRecords])
@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"ids": ids(2)}, NotFound),
        ({"ids": ids(1, 9)}, NotFound),
        ({"ids": []}, Invalid),
        ({"ids": ["x"]}, Invalid),
        ({"ids": ids(*range(1, 1_002))}, Invalid),
        ({"limit": 0}, Invalid),
        ({"limit": 1_001}, Invalid),
    ],
)
def test_all_that_is_named_must_be_a_dead_letter(message, more, error):
    engine = given(*dying(1))

    with pytest.raises(error):
        engine.execute(message(**GROUP, **more))

    assert dead_sequences(engine) == [1]


@pytest.mark.parametrize("message", [RequeueDeadRecords, PurgeDeadRecords])
def test_a_dead_letter_that_is_named_twice_is_meant_once(message):
    engine = given(*dying(1))

    assert engine.execute(message(**GROUP, ids=ids(1, 1))).reply == DeadLettersChanged(ids=ids(1))
    assert dead(engine) == 0


# Other lives


@pytest.mark.parametrize("end", [DeleteGroup(**GROUP), DeleteStream(stream="orders")])
def test_a_group_that_was_made_again_does_not_meet_the_dead_letters_of_the_one_before(end):
    engine = given(*dying(1), end, JoinGroup(**GROUP, consumer=ANNA))

    assert (dead_sequences(engine), dead(engine)) == ([], 0)
    assert len(engine.dead_records) == 1


def test_a_namespace_that_was_made_again_does_not_meet_the_dead_letters_of_the_one_before():
    prod = {"namespace": "prod"}
    engine = given(
        *(
            replace(message, **prod) if not isinstance(message, Later) else message
            for message in dying(1)
        )
    )
    assert len(engine.query(ListDeadRecords(**GROUP, **prod)).items) == 1

    engine.execute(DeleteNamespace(name="prod", force=True))
    engine.execute(JoinGroup(**GROUP, consumer=ANNA, **prod))

    assert engine.query(ListDeadRecords(**GROUP, **prod)).items == []
