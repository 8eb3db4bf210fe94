"""Group reads through the shard: parked and woken, fetched from the store, and drained."""

import asyncio

import pytest

from flo.engine.groups.events import RecordsDelivered
from flo.engine.state import State
from flo.engine.streams.events import RecordsAppended
from flo.model.declare.dead_letters import DeadLettersChanged
from flo.model.errors import Corrupt, NotFound, Unavailable
from flo.model.groups import (
    Ack,
    ClaimRecords,
    CreateGroup,
    DeleteGroup,
    GetGroup,
    GroupMode,
    GroupRecords,
    GroupSettings,
    JoinGroup,
    LeaveGroup,
    ListDeadRecords,
    ListPending,
    Nack,
    PurgeDeadRecords,
    ReadGroup,
    RequeueDeadRecords,
)
from flo.model.namespaces import DeleteNamespace
from flo.model.streams import Append, DeleteStream, NewRecord, TrimStream
from flo.model.workers import DrainWorker, RegisterWorker, WorkerType
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS
from settled import begun, settled

GROUP = {"stream": "orders", "group": "billing"}
ONCE = GroupSettings(max_deliveries=1)


def append(*payloads, key=None):
    records = [NewRecord(payload=one, key=key) for one in payloads]
    return Append(stream="orders", records=records)


def read(consumer=ANNA, **more):
    return ReadGroup(**GROUP, consumer=consumer, **{"limit": 10, **more})


def patient(consumer=ANNA, **more):
    return read(consumer, block_ms=5_000, **more)


def ids(*sequences):
    return [f"{NOON_MS}-{sequence}" for sequence in sequences]


def nack(*sequences, **more):
    return Nack(**GROUP, ids=ids(*sequences), **more)


def sequences(reply):
    return [record.sequence for record in reply.items]


async def joined(shard, settings=None, consumers=(ANNA, BORIS)):
    await shard.ask(CreateGroup(**GROUP, settings=settings or GroupSettings()))
    for consumer in consumers:
        await shard.ask(JoinGroup(**GROUP, consumer=consumer))


@pytest.fixture
async def forgetful(log, clock, monkeypatch):
    """A shard that keeps only the newest chunk in memory, with a group of five records."""
    monkeypatch.setattr("flo.shard.cache.records.TAILS_LENGTH_MAX", 1)
    monkeypatch.setattr("flo.shard.cache.records.PAGES_LENGTH_MAX", 1)
    shard = Shard(State(), log, clock)
    await shard.start()
    await joined(shard)
    for one in (b"a", b"b", b"c", b"d", b"e"):
        await shard.ask(append(one))
    log.begun.clear()
    yield shard
    log.gate.open()
    log.records.gate.open()
    log.archive.gate.open()
    await shard.stop()


# Waiting


async def test_who_waits_is_served_in_the_same_append(shard, log):
    await joined(shard)
    waiting = await begun(shard.ask(patient()))
    log.begun.clear()

    await shard.ask(append(b"a", b"b"))

    assert sequences(await waiting) == [1, 2]
    assert [[type(event) for event in events] for events in log.begun] == [
        [RecordsAppended, RecordsDelivered]
    ]
    assert shard._polls.everyone() == []


async def test_a_record_goes_to_one_of_those_who_wait(shard):
    await joined(shard)
    waiting = [await begun(shard.ask(patient(one))) for one in (ANNA, BORIS)]

    await shard.ask(append(b"a"))
    await settled()
    assert [one.done() for one in waiting] == [True, False]

    await shard.ask(append(b"b"))
    assert sequences(await waiting[1]) == [2]


async def test_a_wait_ends_with_nothing(shard, clock):
    await joined(shard)
    waiting = await begun(shard.ask(patient()))

    clock.advance(5_000)

    assert await waiting == GroupRecords()


@pytest.mark.parametrize(
    "message",
    [
        nack(1),
        LeaveGroup(**GROUP, consumer=BORIS),
        Nack(**GROUP, ids=ids(1), consumer=BORIS),
    ],
)
async def test_what_another_gives_back_goes_to_who_waits(shard, message):
    await joined(shard)
    await shard.ask(append(b"a"))
    await shard.ask(read(BORIS))
    waiting = await begun(shard.ask(patient()))

    await shard.ask(message)

    assert sequences(await waiting) == [1]


async def test_what_another_is_late_with_goes_to_who_waits(shard, clock):
    await joined(shard, GroupSettings(ack_timeout_ms=1_000))
    await shard.ask(append(b"a"))
    await shard.ask(read(BORIS))
    waiting = await begun(shard.ask(patient()))

    for _ in range(3):
        clock.advance(500)
        await settled()

    assert (await waiting).deliveries == [2]


async def test_what_was_delayed_goes_to_who_waits(shard, clock):
    await joined(shard)
    await shard.ask(append(b"a"))
    await shard.ask(read(BORIS))
    await shard.ask(nack(1, delay_ms=1_000))
    waiting = await begun(shard.ask(patient()))

    for _ in range(3):
        clock.advance(500)
        await settled()

    assert sequences(await waiting) == [1]


async def test_a_key_that_is_freed_goes_to_who_waits(shard):
    await joined(shard, GroupSettings(mode=GroupMode.KEY_SHARED))
    await shard.ask(append(b"a", b"b", key="k"))
    await shard.ask(read(BORIS, limit=1))
    waiting = await begun(shard.ask(patient()))
    await shard.ask(Ack(**GROUP, ids=ids(1)))
    await settled()
    assert not waiting.done()

    await shard.ask(LeaveGroup(**GROUP, consumer=BORIS))

    assert sequences(await waiting) == [2]


async def test_a_key_goes_to_who_waits_when_its_consumer_has_been_silent_for_too_long(shard, clock):
    await joined(shard, GroupSettings(mode=GroupMode.KEY_SHARED, ack_timeout_ms=1_000))
    await shard.ask(append(b"a", b"b", key="k"))
    await shard.ask(read(BORIS, limit=1))
    await shard.ask(Ack(**GROUP, ids=ids(1)))
    waiting = await begun(shard.ask(patient()))
    clock.advance(1_000)
    await settled()
    assert not waiting.done()

    clock.advance(1)

    assert sequences(await waiting) == [2]


async def test_what_one_consumer_passes_over_goes_to_the_one_whose_key_it_is(shard):
    await joined(shard, GroupSettings(mode=GroupMode.KEY_SHARED))
    await shard.ask(append(b"a", key="k"))
    await shard.ask(read(BORIS))
    await shard.ask(Ack(**GROUP, ids=ids(1)))
    others = await begun(shard.ask(patient()))
    waiting = await begun(shard.ask(patient(BORIS)))

    await shard.ask(append(b"b", key="k"))

    assert sequences(await waiting) == [2]
    assert not others.done()
    others.cancel()


async def test_a_dead_letter_that_comes_back_goes_to_who_waits(shard):
    await joined(shard, ONCE)
    await shard.ask(append(b"a"))
    await shard.ask(read())
    await shard.ask(nack(1))
    assert await shard.ask(read()) == GroupRecords()
    waiting = await begun(shard.ask(patient()))

    assert (await shard.ask(RequeueDeadRecords(**GROUP))).ids == ids(1)

    assert sequences(await waiting) == [1]


async def test_a_stand_by_takes_over_when_the_chosen_one_leaves(shard):
    await joined(shard, GroupSettings(mode=GroupMode.EXCLUSIVE))
    await shard.ask(append(b"a", b"b"))
    assert sequences(await shard.ask(read(limit=1))) == [1]
    waiting = await begun(shard.ask(patient(BORIS)))

    await shard.ask(LeaveGroup(**GROUP, consumer=ANNA))

    assert sequences(await waiting) == [1, 2]


async def test_a_wait_that_is_begun_again_keeps_its_end(forgetful, log, clock):
    await forgetful.ask(read())
    waiting = await begun(forgetful.ask(patient(BORIS)))
    clock.advance(3_000)
    log.records.gate.shut()
    await forgetful.ask(nack(1))  # it is woken, and has to fetch the record
    await settled()
    await forgetful.ask(Ack(**GROUP, ids=ids(1)))  # there is nothing any more
    log.records.gate.open()
    await settled()
    assert not waiting.done()

    clock.advance(1_999)
    await settled()
    assert not waiting.done()
    clock.advance(1)

    assert await waiting == GroupRecords()


async def test_a_wait_whose_end_has_come_while_it_fetched_ends(forgetful, log, clock):
    await forgetful.ask(read())
    waiting = await begun(forgetful.ask(patient(BORIS)))
    log.records.gate.shut()
    await forgetful.ask(nack(1))
    await settled()
    await forgetful.ask(Ack(**GROUP, ids=ids(1)))
    clock.advance(6_000)
    log.records.gate.open()

    assert await waiting == GroupRecords()


async def test_who_is_woken_by_an_append_that_cannot_begin_is_told_so(forgetful, log, monkeypatch):
    await forgetful.ask(read())
    waiting = await begun(forgetful.ask(patient(BORIS)))

    def fail(*arguments, **named):
        raise OSError("no space left")

    monkeypatch.setattr(log, "append", fail)
    with pytest.raises(Unavailable):
        await forgetful.ask(nack(1))  # the read is woken, and has to fetch the record

    with pytest.raises(Unavailable, match="no space left"):
        await waiting


async def test_who_has_gone_is_given_nothing(shard):
    await joined(shard)
    waiting = await begun(shard.ask(patient()))
    waiting.cancel()
    await settled()
    assert shard._polls.everyone() == []

    await shard.ask(append(b"a"))

    assert sequences(await shard.ask(read(BORIS))) == [1]


async def test_who_has_gone_while_its_records_were_fetched_is_given_nothing(forgetful, log):
    log.records.gate.shut()
    waiting = await begun(forgetful.ask(patient()))
    waiting.cancel()
    await settled()
    log.records.gate.open()
    await settled()

    assert log.begun == []
    assert sequences(await forgetful.ask(read(BORIS))) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (DeleteGroup(**GROUP), "group_not_found"),
        (DeleteStream(stream="orders"), "stream_not_found"),
        (LeaveGroup(**GROUP, consumer=ANNA), "consumer_not_joined"),
    ],
)
async def test_who_waits_for_what_is_deleted_or_has_left_it_is_told_so(shard, message, code):
    await joined(shard)
    waiting = await begun(shard.ask(patient(join=False)))

    await shard.ask(message)

    with pytest.raises(NotFound) as refusal:
        await waiting
    assert refusal.value.code == code


async def test_who_reads_without_having_joined_joins_and_may_wait(shard):
    waiting = await begun(shard.ask(patient()))
    await shard.ask(append(b"1"))
    assert sequences(await waiting) == [1]

    await shard.ask(LeaveGroup(**GROUP, consumer=ANNA))
    assert sequences(await shard.ask(read())) == [1]


async def test_who_waits_in_a_namespace_that_is_deleted_is_told_so(shard):
    prod = {"namespace": "prod"}
    await shard.ask(JoinGroup(**GROUP, consumer=ANNA, **prod))
    waiting = await begun(shard.ask(patient(join=False, **prod)))

    await shard.ask(DeleteNamespace(name="prod", force=True))

    with pytest.raises(NotFound):
        await waiting


async def test_a_worker_that_drains_waits_no_more(shard):
    await joined(shard)
    worker = RegisterWorker(worker_id=ANNA, processes=[], worker_type=WorkerType.STREAM)
    await shard.ask(worker)
    waiting = await begun(shard.ask(patient(worker_id=ANNA)))
    other = await begun(shard.ask(patient(BORIS)))

    await shard.ask(DrainWorker(worker_id=ANNA))

    assert await waiting == GroupRecords(draining=True)
    assert not other.done()
    other.cancel()


async def test_nobody_hears_of_a_record_before_it_is_durable(shard, log):
    await joined(shard)
    waiting = await begun(shard.ask(patient()))
    log.gate.shut()
    appending = await begun(shard.ask(append(b"a")))

    assert not waiting.done()
    log.gate.open()

    assert sequences(await waiting) == [1]
    await appending


# Fetching


async def test_what_is_not_in_memory_is_fetched(forgetful, log):
    assert sequences(await forgetful.ask(read())) == [1, 2, 3, 4, 5]
    assert log.records.asked == [(1, 1, 5)]


async def test_a_group_that_lags_gets_through(forgetful):
    seen = []
    while reply := await forgetful.ask(read(limit=2)):
        if not reply.items:
            break
        seen += sequences(reply)

    assert seen == [1, 2, 3, 4, 5]


async def test_scattered_records_are_fetched_part_by_part(forgetful, log):
    await forgetful.ask(read())
    await forgetful.ask(nack(1, 3, 5))
    log.records.asked.clear()

    assert sequences(await forgetful.ask(read(BORIS))) == [1, 3, 5]
    assert log.records.asked == [(1, 1, 1), (1, 3, 1), (1, 5, 1)]


async def test_what_is_trimmed_while_it_is_fetched_is_not_handed_out(forgetful, log):
    log.records.gate.shut()
    reading = await begun(forgetful.ask(read()))
    await forgetful.ask(TrimStream(stream="orders", max_length=2))
    assert not reading.done()
    log.records.gate.open()

    assert sequences(await reading) == [4, 5]


@pytest.mark.parametrize("message", [DeleteStream(stream="orders"), DeleteGroup(**GROUP)])
async def test_what_is_deleted_while_it_is_fetched_is_not_found(forgetful, log, message):
    log.records.gate.shut()
    reading = await begun(forgetful.ask(read(join=False)))
    await forgetful.ask(message)
    log.records.gate.open()

    with pytest.raises(NotFound):
        await reading


async def test_a_record_that_is_missing_in_the_store_is_corrupt_and_stops_nobody_else(
    forgetful, log
):
    log.records.trim({1: 3}, 1_000)

    with pytest.raises(Corrupt):
        await forgetful.ask(read())

    assert forgetful.closed is None
    await forgetful.ask(append(b"f"))


async def test_two_who_fetch_the_same_records_do_not_both_get_them(forgetful, log):
    log.records.gate.shut()
    reading = [await begun(forgetful.ask(read(one, limit=3))) for one in (ANNA, BORIS)]
    log.records.gate.open()

    assert [sequences(await one) for one in reading] == [[1, 2, 3], [4, 5]]


async def test_what_is_under_way_is_listed_and_claimed_from_the_store(forgetful):
    await forgetful.ask(read(limit=3))

    page = await forgetful.ask(ListPending(**GROUP))
    assert [one.stream_id for one in page.items] == ids(1, 2, 3)
    assert sequences(await forgetful.ask(ClaimRecords(**GROUP, consumer=ANNA))) == [1, 2, 3]


async def test_what_was_acknowledged_is_handed_out_though_its_append_is_under_way(
    log, clock, monkeypatch
):
    monkeypatch.setattr("flo.shard.cache.records.TAILS_LENGTH_MAX", 1)
    shard = Shard(State(), log, clock, wait_for_log=False)
    await shard.start()
    await joined(shard)
    log.gate.shut()
    other = Append(stream="clicks", records=[NewRecord(payload=b"x")])
    await asyncio.gather(shard.ask(append(b"a")), shard.ask(other))

    reading = await begun(shard.ask(read()))
    log.gate.open()

    assert sequences(await reading) == [1]
    await shard.stop()
    assert fingerprint(recover(log.read).state) == fingerprint(shard.state)


# Dead letters


@pytest.fixture
async def deadly(shard, log):
    """Three records have died."""
    await joined(shard, ONCE)
    await shard.ask(append(b"a", b"b", b"c"))
    await shard.ask(read())
    await shard.ask(nack(1, 2, 3))
    assert await shard.ask(read()) == GroupRecords()
    shard._prefetch.recent._rows.clear()
    return shard


def numbers(page):
    return [one.record.sequence for one in page.items]


async def test_dead_letters_are_listed_from_the_archive(deadly):
    assert numbers(await deadly.ask(ListDeadRecords(**GROUP))) == [3, 2, 1]


async def test_a_dead_letter_is_in_the_archive_with_the_event_that_says_so(shard, log):
    await joined(shard, ONCE)
    await shard.ask(append(b"a"))
    await shard.ask(read())
    await shard.ask(nack(1))
    log.filed.clear()

    await shard.ask(read())

    assert log.filed == [([1], [])]


async def test_dead_letters_that_are_purged_while_a_page_is_asked_are_not_on_it(deadly, log):
    log.archive.gate.shut()
    purging = await begun(deadly.ask(PurgeDeadRecords(**GROUP, ids=ids(2))))
    listing = await begun(
        deadly.ask(ListDeadRecords(**GROUP))
    )  # the archive has answered with three
    log.archive.gate.open()

    assert await purging == DeadLettersChanged(ids=ids(2))
    assert numbers(await listing) == [3, 1]


async def test_a_dead_letter_is_changed_by_one_of_two_who_ask_at_once(deadly, log):
    log.archive.gate.shut()
    messages = [PurgeDeadRecords(**GROUP), RequeueDeadRecords(**GROUP)]
    asking = [await begun(deadly.ask(message)) for message in messages]
    log.archive.gate.open()
    changed = [await one for one in asking]

    assert [len(one.ids) for one in changed] == [3, 0]
    assert (await deadly.ask(GetGroup(**GROUP))).dead == 0


async def test_a_dead_letter_that_is_named_by_two_at_once_is_found_by_one(deadly, log):
    log.archive.gate.shut()
    asking = [await begun(deadly.ask(PurgeDeadRecords(**GROUP, ids=ids(1)))) for _ in range(2)]
    log.archive.gate.open()

    assert await asking[0] == DeadLettersChanged(ids=ids(1))
    with pytest.raises(NotFound) as refusal:
        await asking[1]
    assert refusal.value.code == "dead_letter_not_found"
    assert (await deadly.ask(GetGroup(**GROUP))).dead == 2


async def test_a_dead_letter_that_comes_back_leaves_the_archive_in_the_same_append(deadly, log):
    log.filed.clear()

    await deadly.ask(RequeueDeadRecords(**GROUP, ids=ids(2)))

    assert log.filed == [([], [2])]
    assert fingerprint(recover(log.read).state) == fingerprint(deadly.state)
