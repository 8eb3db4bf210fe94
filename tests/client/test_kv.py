import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from client.fake import FakeServer
from client.virtual import run_virtual, turns
from flo import (
    Check,
    Conflict,
    Delete,
    Flo,
    Increment,
    Invalid,
    NotFound,
    Put,
    TimedOut,
    Unavailable,
    Value,
)
from flo.client.session.long_polls import ANSWER_GRACE_S, POLL_S_MAX
from flo.model.base import Message
from flo.model.kv import KEYS_PER_GET_MAX, SCAN_LIMIT_MAX, GetKey, Versioned
from flo.server.server import Server
from flo.testing.clock import ManualClock
from flo.testing.local import local_server
from flo.wire.codec import Answer
from flo.wire.opcodes import Form


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def timed(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Flo]:
    """A client of a server whose time the test holds."""
    async with local_server(tmp_path / "timed", clock) as server, Flo(server.address) as flo:
        yield flo


async def test_a_value_is_put_got_and_deleted(flo: Flo) -> None:
    assert await flo.kv.put("user:1", b"\x00as it is") == 1
    assert await flo.kv.get("user:1") == Value(value=b"\x00as it is", version=1)
    assert await flo.kv.put("user:1", {"name": "Alice"}) == 2
    assert (await flo.kv.get("user:1")).value == b'{"name":"Alice"}'
    assert await flo.kv.exists("user:1")

    assert await flo.kv.delete("user:1")
    assert not await flo.kv.delete("user:1")
    assert await flo.kv.get("user:1") == Value(value=None, version=0)
    assert not await flo.kv.exists("user:1")


async def test_a_version_is_never_given_twice(flo: Flo) -> None:
    first = await flo.kv.put("a", 1)
    await flo.kv.delete("a")

    assert await flo.kv.put("a", 1) > first + 1


async def test_a_put_may_be_conditional(flo: Flo) -> None:
    version = await flo.kv.put("a", 1, if_absent=True)
    with pytest.raises(Conflict, match="exists") as raised:
        await flo.kv.put("a", 2, if_absent=True)
    assert raised.value.code == "condition_failed"
    with pytest.raises(Conflict, match="does not exist"):
        await flo.kv.put("b", 2, if_present=True)
    with pytest.raises(Conflict, match="expected version 7") as raised:
        await flo.kv.put("a", 2, if_version=7)
    assert raised.value.code == "version_mismatch"
    assert raised.value.details == {"key": "a", "expected": 7, "actual": version}

    version = await flo.kv.put("a", 2, if_version=version, if_present=True)
    with pytest.raises(Conflict):
        await flo.kv.delete("a", if_version=version - 1)
    assert await flo.kv.delete("a", if_version=version)
    await flo.kv.put("a", 3, if_version=0)


async def test_of_many_who_compare_and_set_one_wins_each_time(server: Server) -> None:
    async def count_up(flo: Flo, times: int) -> None:
        for _ in range(times):
            while True:
                value = await flo.kv.get("count")
                try:
                    await flo.kv.put("count", int(value.value or 0) + 1, if_version=value.version)
                except Conflict:
                    continue
                break

    async with Flo(server.address) as first, Flo(server.address) as second:
        await asyncio.gather(*(count_up(one, 20) for one in (first, second, first, second)))
        assert await first.kv.get_json("count") == 80


async def test_a_key_expires_unless_it_is_told_to_stay(timed: Flo, clock: ManualClock) -> None:
    kv = timed.kv
    for key in ("short", "touched", "kept", "set again"):
        await kv.put(key, key, ttl=10)
    await kv.touch("touched", 20.5)
    await kv.persist("kept")
    await kv.put("set again", 1)
    clock.advance(10_000)

    assert [key async for key in kv.keys("")] == ["kept", "set again", "touched"]
    clock.advance(10_500)
    assert not await kv.exists("touched")
    with pytest.raises(NotFound) as raised:
        await kv.touch("short", 1)
    assert raised.value.code == "key_not_found"


async def test_many_values_are_got_in_order(flo: Flo) -> None:
    await asyncio.gather(*(flo.kv.put(f"k{number}", number) for number in range(300)))
    wanted = [f"k{number}" for number in range(300, -1, -1)]
    assert len(wanted) > KEYS_PER_GET_MAX

    found = await flo.kv.get_many(wanted)
    assert [value.value for value in found] == [None, *(b"%d" % n for n in range(299, -1, -1))]
    assert await flo.kv.get_many([]) == []


def test_puts_of_one_turn_are_one_frame_in_their_order() -> None:
    def putting(operation: Form, messages: Sequence[Message]) -> list[Answer]:
        return [Versioned(version=place) for place, _ in enumerate(messages, 1)]

    async def main() -> list[tuple[str, list[Any]]]:
        server = FakeServer(putting)
        async with Flo("flo:9000", connect=server.connect) as flo:
            versions = await asyncio.gather(*(flo.kv.put("a", number) for number in range(50)))
            assert versions == list(range(1, 51))
        return server.requests

    ((name, messages),) = run_virtual(main())
    assert name == "put_key_many"
    assert [message.value for message in messages] == [b"%d" % number for number in range(50)]


async def test_concurrent_puts_of_one_key_keep_their_order_on_a_real_server(flo: Flo) -> None:
    versions = await asyncio.gather(*(flo.kv.put("a", number) for number in range(2_500)))

    assert versions == sorted(versions)
    assert await flo.kv.get_json("a") == 2_499


async def test_a_number_is_counted_up_and_down(flo: Flo) -> None:
    assert await flo.kv.increment("visits") == 1
    assert await flo.kv.increment("visits", 41) == 42
    assert await flo.kv.increment("visits", -50) == -8
    assert (await flo.kv.get("visits")).value == b"-8"

    await flo.kv.put("text", "no number")
    with pytest.raises(Conflict) as raised:
        await flo.kv.increment("text")
    assert raised.value.code == "wrong_type"


async def test_keys_are_scanned_by_prefix_page_by_page(flo: Flo) -> None:
    await asyncio.gather(*(flo.kv.put(f"user:{n:04}", n) for n in range(SCAN_LIMIT_MAX + 5)))
    await flo.kv.put("other", 0)

    page = await flo.kv.scan("user:", limit=2, with_values=True)
    assert [(one.key, one.value) for one in page.items] == [
        ("user:0000", b"0"),
        ("user:0001", b"1"),
    ]
    more = await flo.kv.scan("user:", limit=1, cursor=page.cursor)
    assert [(one.key, one.value) for one in more.items] == [("user:0002", None)]
    keys = [key async for key in flo.kv.keys("user:")]
    assert keys == [f"user:{n:04}" for n in range(SCAN_LIMIT_MAX + 5)]
    assert [key async for key in flo.kv.keys("nobody")] == []


async def test_the_older_values_of_a_key_are_kept(flo: Flo) -> None:
    for number in range(5):
        await flo.kv.put("a", number)

    history = await flo.kv.history("a", limit=3)
    assert [(one.version, one.value) for one in history] == [(5, b"4"), (4, b"3"), (3, b"2")]
    with pytest.raises(NotFound):
        await flo.kv.history("b")


async def test_a_json_document_is_read_and_changed_in_place(flo: Flo) -> None:
    version = await flo.kv.set_json("user", {"name": "Alice", "tags": ["a"], "address": None})
    assert await flo.kv.get_json("user", "$.name") == "Alice"
    await flo.kv.set_json("user", "b", "$.tags[1]", if_version=version)
    await flo.kv.set_json("user", b'{"city":"Bern"}', "$.address")
    await flo.kv.set_json("user", None, "$.name")
    assert await flo.kv.get_json("user") == {
        "name": None,
        "tags": ["a", "b"],
        "address": {"city": "Bern"},
    }

    with pytest.raises(Conflict):
        await flo.kv.set_json("user", 1, if_version=version)
    assert await flo.kv.delete_json("user", "$.tags[0]") == version + 4
    assert await flo.kv.get_json("user", "$.tags") == ["b"]
    with pytest.raises(NotFound):
        await flo.kv.get_json("user", "$.missing")
    assert await flo.kv.delete_json("user") is None
    with pytest.raises(NotFound):
        await flo.kv.get_json("user")


async def test_who_waits_for_a_key_is_woken_by_another_client(server: Server, flo: Flo) -> None:
    async with Flo(server.address) as other:
        waiting = asyncio.create_task(flo.kv.wait("ready", timeout=60))
        await turns()
        assert not await flo.kv.exists("ready")  # the wait was asked before, on the same line
        assert not waiting.done()
        version = await other.kv.put("ready", "yes")

        assert await waiting == Value(value=b'"yes"', version=version)
        assert (await flo.kv.wait("ready")).version == version  # it is there already


async def test_who_waits_for_notifications_of_a_key_hears_of_changes_only(
    server: Server, flo: Flo
) -> None:
    version = await flo.kv.put("config", 1)
    async with Flo(server.address) as other:
        waiting = asyncio.create_task(flo.kv.wait("config", newer_than=version))
        await turns()
        await flo.kv.get("config")
        await other.kv.touch("config", 600)
        assert not waiting.done()
        changed = await other.kv.put("config", 2)
        assert (await waiting).version == changed

        gone = asyncio.create_task(flo.kv.wait("config", newer_than=changed))
        await other.kv.delete("config")
        assert await gone == Value(value=None, version=0)


def test_a_wait_lasts_as_long_as_it_may_over_many_polls() -> None:
    async def main() -> list[int]:
        server = FakeServer()
        async with Flo("flo:9000", connect=server.connect) as flo:
            waiting = asyncio.ensure_future(flo.kv.wait("a", timeout=70.0))
            for block_s in (POLL_S_MAX, POLL_S_MAX, 10.0):
                await asyncio.sleep(block_s)
                server.reply([Value()])
            with pytest.raises(TimedOut, match="'a' has not changed in time"):
                await waiting
        return [messages[0].block_ms for _, messages in server.requests]

    assert run_virtual(main()) == [30_000, 30_000, 10_000]


def test_a_wait_without_an_end_outlasts_a_server_that_is_away() -> None:
    async def main() -> Value:
        server = FakeServer()
        async with Flo("flo:9000", connect=server.connect) as flo:
            waiting = asyncio.ensure_future(flo.kv.wait("a", timeout=None))
            await turns()
            server.refusals = 50
            server.hang_up()
            await asyncio.wait({waiting}, timeout=600.0)
            server.reply([Unavailable("the server is stopping", code="server_stopping")])
            await asyncio.wait({waiting}, timeout=1.0)
            assert isinstance(server.requests[-1][1][0], GetKey)
            server.reply([Value(value=b"1", version=1)])
            return await waiting

    assert run_virtual(main()).version == 1


def test_a_wait_ends_in_time_when_the_server_is_silent() -> None:
    async def main() -> float:
        server = FakeServer()
        async with Flo("flo:9000", connect=server.connect) as flo:
            with pytest.raises(Unavailable):
                await flo.kv.wait("a", timeout=5.0)
            return asyncio.get_running_loop().time()

    assert run_virtual(main()) <= 5.0 + ANSWER_GRACE_S + 0.1


@pytest.mark.parametrize(
    "change",
    [
        lambda kv: kv.put("a", 1),
        lambda kv: kv.put("a", 1, if_absent=True),
        lambda kv: kv.put("a", 1, if_version=1),
        lambda kv: kv.delete("a"),
        lambda kv: kv.increment("a"),
        lambda kv: kv.touch("a", 1),
        lambda kv: kv.persist("a"),
        lambda kv: kv.set_json("a", 1),
        lambda kv: kv.delete_json("a"),
        lambda kv: kv.transact(changes=[Delete(key="a")]),
        lambda kv: kv.begin(),
        lambda kv: kv.commit(1),
        lambda kv: kv.rollback(1),
    ],
)
def test_a_change_whose_connection_breaks_is_repeated_with_its_number(change: Any) -> None:
    async def main() -> FakeServer:
        server = FakeServer()
        async with Flo("flo:9000", connect=server.connect) as flo:
            changing = asyncio.ensure_future(change(flo.kv))
            await turns()
            server.hang_up()
            await asyncio.wait({changing}, timeout=1.0)
            changing.cancel()
        return server

    first, again = run_virtual(main()).keys
    assert first is not None
    assert first == again


async def test_several_changes_are_done_together_or_not_at_all(flo: Flo) -> None:
    version = await flo.kv.put("a", 10)
    committed = await flo.kv.transact(
        checks=[Check(key="a", version=version), Check(key="b", version=0)],
        changes=[Increment(key="a", delta=-3), Put(key="b", value=b"x"), Delete(key="c")],
    )
    assert (committed.changes, committed.values) == (2, {"a": 7})
    assert (await flo.kv.get("b")).version == committed.version

    with pytest.raises(Conflict) as raised:
        await flo.kv.transact([Check(key="b", version=0)], [Put(key="a", value=b"lost")])
    assert raised.value.code == "version_mismatch"
    assert await flo.kv.get_json("a") == 7


async def test_a_transaction_may_be_filled_call_by_call(server: Server, flo: Flo) -> None:
    await flo.kv.put("a", 1)
    txn = (await flo.kv.begin()).transaction
    assert (await flo.kv.get("a", transaction=txn)).value == b"1"
    assert await flo.kv.put("b", 2, transaction=txn) == 0
    assert await flo.kv.increment("a", 4, transaction=txn) == 0
    assert not await flo.kv.delete("c", transaction=txn)
    assert (await flo.kv.get("a", transaction=txn)).value == b"5"
    assert not await flo.kv.exists("b")
    assert (await flo.kv.commit(txn)).values == {"a": 5}
    assert await flo.kv.get_json("b") == 2

    txn = (await flo.kv.begin()).transaction
    await flo.kv.get("a", transaction=txn)
    await flo.kv.put("a", "mine", transaction=txn)
    async with Flo(server.address) as other:
        await other.kv.put("a", "theirs")
    with pytest.raises(Conflict):
        await flo.kv.commit(txn)
    assert await flo.kv.get_json("a") == "theirs"

    txn = (await flo.kv.begin()).transaction
    await flo.kv.put("a", "never", transaction=txn)
    await flo.kv.rollback(txn)
    with pytest.raises(NotFound) as raised:
        await flo.kv.commit(txn)
    assert raised.value.code == "transaction_not_found"


async def test_what_cannot_be_a_key_or_a_value_is_refused(flo: Flo) -> None:
    with pytest.raises(Invalid, match="expected a key"):
        await flo.kv.put("", 1)
    with pytest.raises(Invalid, match="expected a value of at most"):
        await flo.kv.put("a", b"x" * (256 * 1024 + 1))
    with pytest.raises(Invalid, match="a value that JSON can hold"):
        await flo.kv.put("a", object())


async def test_keys_outlive_the_server(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server, Flo(server.address) as flo:
        version = await flo.kv.put("a", 1)

    async with local_server(tmp_path / "data") as server, Flo(server.address) as flo:
        assert await flo.kv.get("a") == Value(value=b"1", version=version)
        assert await flo.kv.put("a", 2, if_version=version) == version + 1
