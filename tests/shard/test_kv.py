"""Keys through the shard: who waits for one, and transactions that meet."""

import asyncio

import pytest

from flo.model.errors import Conflict, NotFound
from flo.model.kv import (
    BeginTransaction,
    CommitTransaction,
    Delete,
    DeleteKey,
    ExpireKey,
    GetKey,
    IncrementKey,
    Put,
    PutKey,
    ReadInTransaction,
    SetJson,
    Transact,
    Value,
)
from flo.model.namespaces import DeleteNamespace
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from settled import begun, settled

PUT = PutKey(key="a", value=b"1")


def wait(key="a", **more):
    return GetKey(key=key, block_ms=5_000, **more)


@pytest.mark.parametrize(
    "message",
    [
        PUT,
        IncrementKey(key="a"),
        SetJson(key="a", document=b"1"),
        Transact(changes=[Put(key="b", value=b"2"), Put(key="a", value=b"1")]),
    ],
)
async def test_who_waits_for_a_key_gets_it_when_it_is_made(shard, message):
    waiting = await begun(shard.ask(wait()))
    await shard.ask(PutKey(key="b", value=b"other"))
    assert not waiting.done()

    await shard.ask(message)

    assert (await waiting).value == b"1"
    assert shard._polls.everyone() == []


async def test_who_waits_hears_of_nothing_before_it_is_durable(shard, log):
    waiting = await begun(shard.ask(wait()))
    log.gate.shut()
    putting = await begun(shard.ask(PUT))
    assert not waiting.done()

    log.gate.open()

    assert await waiting == Value(value=b"1", version=1)
    await putting


async def test_a_key_that_is_there_is_not_waited_for(shard):
    await shard.ask(PUT)

    assert await shard.ask(wait()) == Value(value=b"1", version=1)
    assert await shard.ask(wait(newer_than=0)) == Value(value=b"1", version=1)


async def test_a_wait_ends_with_what_there_is(shard, clock):
    missing = await begun(shard.ask(wait("nobody")))
    await shard.ask(PUT)
    unchanged = await begun(shard.ask(wait(newer_than=1)))

    clock.advance(5_000)

    assert await missing == Value()
    assert await unchanged == Value(value=b"1", version=1)


@pytest.mark.parametrize(
    ("message", "value"),
    [
        (PutKey(key="a", value=b"2"), Value(value=b"2", version=2)),
        (DeleteKey(key="a"), Value()),
        (Transact(changes=[Delete(key="a")]), Value()),
    ],
)
async def test_who_waits_for_another_version_gets_it_even_if_that_is_none(shard, message, value):
    await shard.ask(PUT)
    waiting = await begun(shard.ask(wait(newer_than=1)))

    await shard.ask(message)

    assert await waiting == value


async def test_who_waits_for_another_version_is_told_that_the_key_expired(shard, clock):
    await shard.ask(PutKey(key="a", value=b"1", ttl_ms=1_000))
    waiting = await begun(shard.ask(wait(newer_than=1)))

    for _ in range(3):
        clock.advance(500)
        await settled()

    assert await waiting == Value()


async def test_a_key_that_is_made_and_deleted_at_once_is_waited_for_still(shard, clock):
    waiting = await begun(shard.ask(wait()))
    clock.advance(3_000)

    await asyncio.gather(shard.ask(PUT), shard.ask(DeleteKey(key="a")))
    await settled()
    assert not waiting.done()

    clock.advance(1_999)
    assert not waiting.done()
    clock.advance(1)
    assert await waiting == Value()


async def test_what_only_expires_later_wakes_nobody(shard):
    await shard.ask(PUT)
    waiting = await begun(shard.ask(wait(newer_than=1)))

    await shard.ask(ExpireKey(key="a", ttl_ms=9_000))
    await settled()

    assert not waiting.done()
    waiting.cancel()


async def test_who_has_gone_does_not_wait(shard):
    waiting = await begun(shard.ask(wait()))

    waiting.cancel()
    await settled()

    assert shard._polls.everyone() == []
    await shard.ask(PUT)


async def test_who_waits_in_a_deleted_namespace_waits_for_the_next_one(shard):
    prod = {"namespace": "prod"}
    await shard.ask(PutKey(key="b", value=b"", **prod))
    waiting = await begun(shard.ask(wait(**prod)))

    await shard.ask(DeleteNamespace(name="prod", force=True))
    await settled()
    assert not waiting.done()

    await shard.ask(PutKey(key="a", value=b"new", **prod))
    assert await waiting == Value(value=b"new", version=1)


async def test_of_many_who_put_with_the_same_version_one_succeeds(shard):
    puts = [PutKey(key="a", value=b"%d" % one, if_version=0) for one in range(50)]

    answers = await asyncio.gather(*map(shard.ask, puts), return_exceptions=True)

    assert sum(isinstance(one, Conflict) for one in answers) == 49
    assert (await shard.ask(GetKey(key="a"))) == Value(value=b"0", version=1)


async def test_of_two_transactions_that_read_what_the_other_writes_one_commits(shard):
    await shard.ask(PUT)
    numbers = [(await shard.ask(BeginTransaction())).transaction for _ in range(2)]
    for number in numbers:
        await shard.ask(ReadInTransaction(key="a", transaction=number))
        await shard.ask(IncrementKey(key="a", transaction=number))

    commits = [CommitTransaction(transaction=number) for number in numbers]
    answers = await asyncio.gather(*map(shard.ask, commits), return_exceptions=True)

    assert answers[0].values == {"a": 2}
    assert isinstance(answers[1], Conflict)
    assert (await shard.ask(GetKey(key="a"))).value == b"2"


async def test_an_open_transaction_is_forgotten_by_a_restart_and_its_number_not_used_again(
    shard, log, clock
):
    opened = (await shard.ask(BeginTransaction())).transaction
    await shard.ask(PutKey(key="a", value=b"1", transaction=opened))
    clock.advance(1)

    after = Shard(recover(log.read).state, log, clock)
    await after.start()

    with pytest.raises(NotFound):
        await after.ask(CommitTransaction(transaction=opened))
    assert (await after.ask(BeginTransaction())).transaction != opened
    assert fingerprint(after.state) == fingerprint(shard.state)
    await after.stop()
