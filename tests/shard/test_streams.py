"""Streams through the shard: records from memory and from the store, and who waits for them."""

import asyncio

import pytest

from flo.engine.state import State
from flo.model.errors import Corrupt, Invalid, NotFound
from flo.model.namespaces import DeleteNamespace
from flo.model.streams import Append, DeleteStream, NewRecord, ReadStream, RecordPage, TrimStream
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from flo.testing.clock import NOON_MS
from settled import begun, settled

ORDERS = {"stream": "orders"}


def append(*payloads, **where):
    return Append(**ORDERS, records=[NewRecord(payload=one) for one in payloads], **where)


def read(**query):
    return ReadStream(**ORDERS, **query)


def payloads(page):
    return [record.payload for record in page.items]


@pytest.fixture
async def forgetful(log, clock, monkeypatch):
    """A shard that keeps only the newest chunk in memory; five records have been appended."""
    monkeypatch.setattr("flo.shard.cache.records.TAILS_LENGTH_MAX", 1)
    monkeypatch.setattr("flo.shard.cache.records.PAGES_LENGTH_MAX", 1)
    shard = Shard(State(), log, clock)
    await shard.start()
    for one in (b"a", b"b", b"c", b"d", b"e"):
        await shard.ask(append(one))
    yield shard
    log.gate.open()
    log.records.gate.open()
    await shard.stop()


# Storing


async def test_the_appends_of_one_commit_are_one_chunk_of_each_stream(shard, log):
    messages = [
        append(b"a"),
        append(b"b", b"c"),
        Append(stream="clicks", records=append(b"x").records),
    ]
    await asyncio.gather(*(shard.ask(message) for message in (*messages, append(b"d"))))

    assert len(log.begun) == 1
    chunks = await log.records.read(1, 1, 9, 1_000)
    assert [(chunk.first, len(chunk.records)) for chunk in chunks] == [(1, 4)]
    assert len(await log.records.read(2, 1, 9, 1_000)) == 1


async def test_records_that_were_refused_are_not_stored(shard, log):
    answers = await asyncio.gather(
        shard.ask(append(b"a")),
        shard.ask(Append(**ORDERS, records=[NewRecord(payload=b"x", partition=9)])),
        shard.ask(append(b"b")),
        return_exceptions=True,
    )

    assert isinstance(answers[1], Invalid)
    (chunk,) = await log.records.read(1, 1, 9, 1_000)
    assert [(one.sequence, one.payload) for one in chunk.records] == [(1, b"a"), (2, b"b")]


# Fetching


async def test_what_is_in_memory_is_not_fetched(shard, log):
    await shard.ask(append(b"a", b"b"))

    assert payloads(await shard.ask(read())) == [b"a", b"b"]
    assert log.records.asked == []


async def test_what_is_not_in_memory_is_fetched(forgetful, log):
    assert payloads(await forgetful.ask(read())) == [b"a", b"b", b"c", b"d", b"e"]
    assert log.records.asked == [(1, 1, 5)]


async def test_a_reader_gets_through_the_stream_page_by_page(forgetful):
    seen, after = [], "0-0"
    while page := await forgetful.ask(read(after=after, limit=2)):
        if not page.items:
            break
        seen, after = seen + payloads(page), page.last

    assert seen == [b"a", b"b", b"c", b"d", b"e"]


async def test_a_time_is_looked_up(forgetful, clock):
    clock.advance(1_000)
    await forgetful.ask(append(b"late"))

    assert payloads(await forgetful.ask(read(after=f"{NOON_MS + 1_000}-0"))) == [b"late"]
    assert len((await forgetful.ask(read(after=f"{NOON_MS}-0"))).items) == 6


@pytest.mark.parametrize("meanwhile", ["trim", "trim of everything"])
async def test_what_is_trimmed_while_it_is_fetched_is_not_read(forgetful, log, meanwhile):
    log.records.gate.shut()
    reading = await begun(forgetful.ask(read()))
    left = 2 if meanwhile == "trim" else 0
    await forgetful.ask(TrimStream(**ORDERS, max_length=left))
    assert not reading.done()
    log.records.gate.open()

    assert payloads(await reading) == [b"d", b"e"][2 - left :]


async def test_what_the_store_has_let_go_of_since_is_not_missed(forgetful, log):
    log.records.gate.shut()
    reading = await begun(forgetful.ask(read()))
    state = forgetful.state.spaces["default"].streams["orders"]
    state.first, state.offset = 4, 3
    log.records.trim({1: 4}, 1_000)
    log.records.gate.open()

    assert payloads(await reading) == [b"d", b"e"]


async def test_a_stream_that_is_deleted_while_it_is_fetched_is_not_found(forgetful, log):
    log.records.gate.shut()
    reading = await begun(forgetful.ask(read()))
    await forgetful.ask(DeleteStream(**ORDERS))
    log.records.gate.open()

    with pytest.raises(NotFound):
        await reading


async def test_a_stream_that_was_made_again_is_not_mistaken_for_the_one_before(forgetful, log):
    log.records.gate.shut()
    reading = await begun(forgetful.ask(read()))
    await forgetful.ask(DeleteStream(**ORDERS))
    await forgetful.ask(append(b"new"))
    log.records.gate.open()

    assert payloads(await reading) == [b"new"]


async def test_a_record_that_should_be_there_and_is_not_is_corrupt(forgetful, log):
    log.records.trim({1: 3}, 1_000)

    with pytest.raises(Corrupt, match="record 1 of stream 1 is missing"):
        await forgetful.ask(read())
    assert forgetful.closed is None


async def test_what_was_acknowledged_is_read_though_its_append_is_still_under_way(
    log, clock, monkeypatch
):
    monkeypatch.setattr("flo.shard.cache.records.TAILS_LENGTH_MAX", 1)
    monkeypatch.setattr("flo.shard.cache.records.PAGES_LENGTH_MAX", 1)
    shard = Shard(State(), log, clock, wait_for_log=False)
    await shard.start()
    log.gate.shut()
    both = [
        shard.ask(append(b"a")),
        shard.ask(Append(stream="clicks", records=[NewRecord(payload=b"x")])),
    ]
    await asyncio.gather(*both)

    reading = await begun(shard.ask(read()))
    assert not reading.done()
    log.gate.open()

    assert payloads(await reading) == [b"a"]
    await shard.stop()


# Waiting


async def test_who_waits_for_more_gets_it_when_it_comes(shard):
    await shard.ask(append(b"old"))
    waiting = await begun(shard.ask(read(after="$", block_ms=5_000)))
    assert not waiting.done()

    await shard.ask(append(b"a", b"b"))

    assert payloads(await waiting) == [b"a", b"b"]
    assert shard._polls.everyone() == []


async def test_who_waits_hears_of_nothing_before_it_is_durable(shard, log):
    waiting = await begun(shard.ask(read(block_ms=5_000)))
    log.gate.shut()
    appending = await begun(shard.ask(append(b"a")))
    assert not waiting.done()

    log.gate.open()

    assert payloads(await waiting) == [b"a"]
    await appending


async def test_who_finds_something_does_not_wait(shard):
    await shard.ask(append(b"old"))

    assert payloads(await shard.ask(read(block_ms=5_000))) == [b"old"]


async def test_a_wait_ends_with_nothing_and_with_where_to_go_on(shard, clock):
    await shard.ask(append(b"old"))
    waiting = await begun(shard.ask(read(after="$", block_ms=5_000)))

    clock.advance(4_999)
    assert not waiting.done()
    clock.advance(1)

    assert await waiting == RecordPage(last=f"{NOON_MS}-1")


async def test_a_wait_goes_on_to_its_own_end_when_others_are_written_to(shard, clock):
    waiting = await begun(shard.ask(read(partition=0, block_ms=5_000)))
    clock.advance(3_000)
    await shard.ask(Append(stream="clicks", records=[NewRecord(payload=b"x")]))
    await shard.ask(append(b"a", namespace="prod"))
    assert not waiting.done()

    clock.advance(2_000)
    assert (await waiting).items == []


async def test_a_wait_that_is_begun_again_ends_when_the_first_would_have(shard, clock):
    waiting = await begun(shard.ask(read(block_ms=5_000)))
    clock.advance(3_000)
    await shard.ask(append(b"a"))
    assert payloads(await waiting) == [b"a"]

    waiting = await begun(shard.ask(read(after="$", block_ms=5_000)))
    clock.advance(3_000)
    await shard.ask(DeleteStream(**ORDERS))  # it is asked again, and finds nothing
    await settled()
    assert not waiting.done()
    clock.advance(1_999)
    assert not waiting.done()
    clock.advance(1)
    assert (await waiting).items == []


async def test_a_stream_may_be_waited_for_before_it_is_there(shard):
    waiting = await begun(shard.ask(read(after="$", block_ms=5_000)))

    await shard.ask(append(b"first"))

    assert payloads(await waiting) == [b"first"]


async def test_who_has_gone_does_not_wait(shard):
    waiting = await begun(shard.ask(read(block_ms=5_000)))

    waiting.cancel()
    await settled()

    assert shard._polls.everyone() == []
    await shard.ask(append(b"a"))


async def test_who_waits_in_a_deleted_namespace_waits_for_the_next_one(shard):
    prod = {"namespace": "prod"}
    await shard.ask(append(b"old", **prod))
    waiting = await begun(shard.ask(read(after="$", block_ms=5_000, **prod)))

    await shard.ask(DeleteNamespace(name="prod", force=True))
    assert not waiting.done()

    await shard.ask(append(b"new", **prod))
    assert payloads(await waiting) == [b"new"]


async def test_everyone_who_waits_for_a_stream_gets_everything(shard):
    waiting = [await begun(shard.ask(read(block_ms=5_000))) for _ in range(20)]

    await shard.ask(append(b"a"))

    assert [payloads(await one) for one in waiting] == [[b"a"]] * 20


# A restart


async def test_records_are_there_after_a_restart(shard, log, clock):
    await shard.ask(append(b"a", b"b"))
    await shard.ask(TrimStream(**ORDERS, max_length=1))

    after = Shard(recover(log.read).state, log, clock)
    await after.start()

    assert fingerprint(after.state) == fingerprint(shard.state)
    assert payloads(await after.ask(read())) == [b"b"]
    assert (await after.ask(append(b"c"))).stream_id == f"{NOON_MS}-3"
    await after.stop()
