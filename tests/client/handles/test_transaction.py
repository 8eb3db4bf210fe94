import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from flo import Check, Committed, Conflict, Flo, KvTransaction, TooLarge, Value
from flo.model.kv import OPERATIONS_PER_TRANSACTION_MAX, Change
from flo.server.server import Server


async def test_what_is_said_in_the_block_happens_at_its_end(server: Server, flo: Flo) -> None:
    await flo.kv.put("a", 1)
    await flo.kv.put("c", 1)
    async with Flo(server.address) as other:
        async with flo.kv.transaction() as txn:
            value = await txn.get("a")
            txn.put("b", int(value.value or 0) + 1, ttl=60)
            txn.delete("c")
            txn.increment("d", 5)
            assert [key async for key in other.kv.keys("")] == ["a", "c"]

        assert [key async for key in other.kv.keys("")] == ["a", "b", "d"]
        assert (await other.kv.get("b")).expires_at_ms is not None
    assert (txn.result.changes, txn.result.values) == (3, {"d": 5})
    assert (await flo.kv.get("b")).version == txn.result.version


async def test_a_transaction_sees_its_own_changes(flo: Flo) -> None:
    version = await flo.kv.put("a", 1)
    async with flo.kv.transaction() as txn:
        txn.increment("a", 2)
        assert (await txn.get("a")).value == b"3"
        txn.put("a", 10)
        txn.increment("a")
        seen = await txn.get("a")
        assert (seen.value, seen.version) == (b"11", version)
        txn.delete("a")
        assert (await txn.get("a")).value is None
        txn.increment("a", -1)
    assert await flo.kv.get_json("a") == -1

    txn = flo.kv.transaction()
    txn.put("a", "text")
    txn.increment("a")
    with pytest.raises(Conflict, match="no whole number"):
        await txn.get("a")


async def test_a_transaction_whose_reads_have_changed_is_refused(server: Server, flo: Flo) -> None:
    await flo.kv.put("a", 1)
    async with Flo(server.address) as other:
        txn = flo.kv.transaction()
        await txn.get("a")
        await txn.get("missing")
        await other.kv.put("a", 1)  # the same value, and another version
        txn.put("b", 1)
        with pytest.raises(Conflict) as raised:
            await txn.commit()
        assert raised.value.code == "version_mismatch"
        assert raised.value.details["key"] == "a"

        txn = flo.kv.transaction()
        await txn.get("missing")
        await other.kv.put("missing", "no longer")
        txn.put("b", 1)
        with pytest.raises(Conflict, match="expected version 0 of key 'missing'"):
            await txn.commit()
    assert not await flo.kv.exists("b")
    with pytest.raises(RuntimeError, match="has not been committed"):
        _ = txn.result


async def test_the_end_of_a_block_raises_the_conflict(flo: Flo) -> None:
    async def undercut() -> None:
        async with flo.kv.transaction() as txn:
            await txn.get("a")
            await flo.kv.put("a", 1)

    with pytest.raises(Conflict):
        await undercut()


async def test_a_key_that_was_made_again_has_changed(flo: Flo) -> None:
    await flo.kv.put("a", 1)
    txn = flo.kv.transaction()
    await txn.get("a")
    await flo.kv.delete("a")
    await flo.kv.put("a", 1)
    txn.put("b", 1)

    with pytest.raises(Conflict):
        await txn.commit()


async def test_what_was_only_read_is_checked_too(flo: Flo) -> None:
    await flo.kv.put("a", 1)
    async with flo.kv.transaction() as txn:
        await txn.get("a")
    assert txn.result.changes == 0

    txn = flo.kv.transaction()
    await txn.get("a")
    await flo.kv.put("a", 2)
    with pytest.raises(Conflict):
        await txn.commit()


async def test_a_key_is_asked_for_once(flo: Flo) -> None:
    await flo.kv.put("a", 1)
    txn = flo.kv.transaction()
    first = await txn.get("a")
    await flo.kv.put("a", 2)

    assert await txn.get("a") == first


async def test_who_asks_for_a_key_at_the_same_time_sees_the_same() -> None:
    answers = [Value(value=b"old", version=1), Value(value=b"new", version=2)]
    checked: list[Check] = []

    async def get(key: str) -> Value:
        value = answers.pop(0)
        await asyncio.sleep(0)
        return value

    async def transact(checks: list[Check], changes: list[Change]) -> Committed:
        checked.extend(checks)
        return Committed(version=2, changes=0)

    txn = KvTransaction(get, transact)
    first, second = await asyncio.gather(txn.get("a"), txn.get("a"))
    await txn.commit()

    assert first == second == Value(value=b"old", version=1)
    assert checked == [Check(key="a", version=1)]


async def test_nothing_happens_when_the_block_raises(flo: Flo) -> None:
    with suppress(LookupError):
        async with flo.kv.transaction() as txn:
            txn.put("a", 1)
            raise LookupError
    assert not await flo.kv.exists("a")

    async with flo.kv.transaction() as txn:
        pass
    assert txn.result.changes == 0


async def test_a_transaction_that_is_too_large_is_refused_as_a_whole(flo: Flo) -> None:
    txn = flo.kv.transaction()
    for number in range(OPERATIONS_PER_TRANSACTION_MAX + 1):
        txn.put(f"k{number}", number)
    with pytest.raises(TooLarge, match="at most 256 operations") as raised:
        await txn.commit()

    assert raised.value.code == "transaction_too_large"
    assert [key async for key in flo.kv.keys("")] == []


async def transfer(flo: Flo, source: str, target: str) -> None:
    while True:
        try:
            async with flo.kv.transaction() as txn:
                taken = int((await txn.get(source)).value or 0)
                given = int((await txn.get(target)).value or 0)
                txn.put(source, taken - 1)
                txn.put(target, given + 1)
        except Conflict:
            continue
        return


async def careless_transfer(flo: Flo, source: str, target: str) -> None:
    """The control: what it reads is not checked."""
    taken = int((await flo.kv.get(source)).value or 0)
    given = int((await flo.kv.get(target)).value or 0)
    await flo.kv.put(source, taken - 1)
    await flo.kv.put(target, given + 1)


@pytest.mark.parametrize(("move", "is_kept"), [(transfer, True), (careless_transfer, False)])
async def test_money_that_is_moved_by_many_at_once_is_neither_lost_nor_made(
    server: Server, flo: Flo, move: Callable[[Flo, str, str], Awaitable[None]], is_kept: bool
) -> None:
    accounts = ("anna", "boris", "carol")
    for account in accounts:
        await flo.kv.put(account, 100)
    async with Flo(server.address) as other:
        await asyncio.gather(
            *(
                move(one, accounts[n % 3], accounts[(n + 1 + n % 2) % 3])
                for n in range(30)
                for one in (flo, other)
            )
        )
    total = sum([await flo.kv.get_json(account) for account in accounts])

    assert (total == 300) is is_kept
