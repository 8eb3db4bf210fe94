import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from client.fake import FakeServer
from client.network import Network
from client.virtual import run_virtual, turns
from flo import Conflict, Flo, Invalid, NewRecord, NotFound, StreamRecord, Unavailable
from flo.client.streams import FOLLOW_BLOCK_S
from flo.model.base import Message
from flo.model.streams import Append, Appended, ReadStream, RecordPage
from flo.server.server import Server
from flo.testing.clock import NOON_MS, ManualClock
from flo.testing.local import local_server
from flo.testing.process import ServerProcess
from flo.wire.codec import Answer
from flo.wire.opcodes import Form


def payloads(records: Sequence[StreamRecord]) -> list[bytes]:
    return [record.payload for record in records]


async def taken(records: AsyncIterator[StreamRecord], count: int) -> list[StreamRecord]:
    return [await anext(records) for _ in range(count)]


async def test_a_record_is_appended_with_all_that_goes_with_it_and_read_back(flo: Flo) -> None:
    appended = await flo.streams.append(
        "orders", {"order_id": 7}, headers={"source": "shop"}, key="alice"
    )
    (record,) = (await flo.streams.read("orders")).items

    assert appended.stream_id == appended.last_id == record.stream_id
    assert (record.payload, record.sequence) == (b'{"order_id":7}', 1)
    assert (record.headers, record.key) == ({"source": "shop"}, "alice")


async def test_many_records_are_appended_in_their_order(flo: Flo) -> None:
    first, second = await flo.streams.append_many(
        "orders", [NewRecord(payload=b"0", key="alice"), *range(1, 1_500)]
    )
    assert (first.count, second.count) == (1_000, 500)

    page = await flo.streams.read("orders", limit=1_000)
    rest = await flo.streams.read("orders", after=page.last, limit=1_000)
    assert payloads([*page.items, *rest.items]) == [b"%d" % number for number in range(1_500)]
    assert page.items[0].key == "alice"
    assert rest.last == second.last_id


async def test_an_append_of_many_that_is_stopped_says_how_far_it_came(flo: Flo) -> None:
    wrong = NewRecord(payload=b"", partition=5)
    with pytest.raises(Invalid, match="1000 records were appended before") as raised:
        await flo.streams.append_many("orders", [*range(1_000), wrong])

    assert raised.value.details["appended"] == 1_000
    assert (await flo.streams.info("orders")).count == 1_000


async def test_nothing_to_append_is_no_append(flo: Flo) -> None:
    assert await flo.streams.append_many("orders", []) == []
    with pytest.raises(NotFound, match="'orders' does not exist") as raised:
        await flo.streams.read("orders")
    assert raised.value.code == "stream_not_found"


def test_appends_of_one_turn_are_one_frame_in_their_order() -> None:
    def appending(operation: Form, messages: Sequence[Message]) -> list[Answer]:
        return [Appended(stream_id="1-1", last_id="1-1", count=1) for _ in messages]

    async def main() -> list[tuple[str, list[Any]]]:
        server = FakeServer(appending)
        async with Flo("flo:9000", connect=server.connect) as flo:
            await asyncio.gather(*(flo.streams.append("orders", n) for n in range(100)))
            await flo.streams.append("orders", 100)
        return server.requests

    (many, messages), (alone, (last,)) = run_virtual(main())
    assert (many, alone) == ("append_many", "append")
    assert [message.records[0].payload for message in messages] == [b"%d" % n for n in range(100)]
    assert isinstance(last, Append)


async def test_concurrent_appends_keep_their_order_on_a_real_server(flo: Flo) -> None:
    names = ("orders", "emails")
    appended = await asyncio.gather(
        *(flo.streams.append(names[number % 2], number) for number in range(3_000))
    )

    for place, name in enumerate(names):
        page = await flo.streams.read(name, limit=1_000)
        rest = await flo.streams.read(name, after=page.last, limit=1_000)
        records = [*page.items, *rest.items]
        assert [int(record.payload) for record in records] == list(range(place, 3_000, 2))
        assert [record.stream_id for record in records] == [
            one.stream_id for one in appended[place::2]
        ]


async def test_one_append_that_is_refused_does_not_spoil_the_others_of_its_frame(flo: Flo) -> None:
    answers = await asyncio.gather(
        flo.streams.append("orders", 1),
        flo.streams.append("orders", 2, partition=9),
        flo.streams.append("orders", 3),
        return_exceptions=True,
    )

    assert isinstance(answers[1], Invalid)
    assert payloads((await flo.streams.read("orders")).items) == [b"1", b"3"]


def test_an_append_whose_connection_breaks_is_repeated_with_its_number() -> None:
    async def main() -> FakeServer:
        server = FakeServer()
        async with Flo("flo:9000", connect=server.connect) as flo:
            append = asyncio.ensure_future(flo.streams.append("orders", 1))
            await turns()
            server.hang_up()
            await asyncio.sleep(1.0)
            server.reply([Appended(stream_id="1-0", last_id="1-0", count=1)])
            assert (await append).count == 1
        return server

    server = run_virtual(main())
    assert server.names == ["append", "append"]
    assert server.keys[0] is not None
    assert server.keys[0] == server.keys[1]


async def test_a_stream_is_read_by_range_from_its_end_and_by_partition(flo: Flo) -> None:
    await flo.streams.create("orders", partitions=4)
    ids = [
        (await flo.streams.append("orders", number, partition=number % 4)).stream_id
        for number in range(8)
    ]

    between = await flo.streams.read("orders", after=ids[1], until=ids[4])
    assert [record.stream_id for record in between.items] == ids[2:5]
    assert payloads((await flo.streams.read("orders", last=2)).items) == [b"6", b"7"]
    assert payloads((await flo.streams.read("orders", partition=3)).items) == [b"3", b"7"]
    assert payloads((await flo.streams.read("orders", limit=1)).items) == [b"0"]
    tail = await flo.streams.read("orders", after="$")
    assert (tail.items, tail.last) == ([], ids[-1])

    await flo.streams.append("orders", "hers", key="alice")
    hers = await flo.streams.read("orders", after=ids[-1], key="alice")
    assert payloads(hers.items) == [b'"hers"']


async def test_a_read_waits_for_a_record_also_of_a_stream_that_is_not_there_yet(
    server: Server, flo: Flo
) -> None:
    async with Flo(server.address) as other:
        reading = asyncio.create_task(flo.streams.read("orders", after="$", block=60))
        await flo.ping()
        await flo.ping()  # the read has asked where the end is, and then for what comes after it
        assert not reading.done()
        await other.streams.append("orders", 1)

        assert payloads((await reading).items) == [b"1"]


async def test_a_read_that_waits_in_vain_is_empty(tmp_path: Path) -> None:
    clock = ManualClock()
    async with local_server(tmp_path, clock) as server, Flo(server.address) as flo:
        last = (await flo.streams.append("orders", 1)).stream_id
        reading = asyncio.create_task(flo.streams.read("orders", after=last, block=60))
        await flo.ping()
        await flo.kv.get("a")  # the shard has seen the read
        clock.advance(60_000)

        assert await reading == RecordPage(items=[], last=last)


async def test_a_follower_begins_where_it_is_told(flo: Flo) -> None:
    ids = [(await flo.streams.append("orders", number)).stream_id for number in range(5)]

    assert payloads(await taken(flo.streams.follow("orders", after="0-0"), 5)) == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
    ]
    after = flo.streams.follow("orders", after=ids[2], limit=1)
    assert payloads(await taken(after, 2)) == [b"3", b"4"]
    newest = flo.streams.follow("orders", last=3, limit=2)
    assert payloads(await taken(newest, 3)) == [b"2", b"3", b"4"]
    await flo.streams.append("orders", 5)
    assert payloads(await taken(newest, 1)) == [b"5"]


async def test_a_follower_of_the_end_sees_everything_that_comes(flo: Flo) -> None:
    await flo.streams.append("orders", "before")
    following = flo.streams.follow("orders")
    first = asyncio.ensure_future(anext(following))
    while not first.done():  # it begins somewhere here
        await flo.streams.append("orders", "around")
    await flo.streams.append_many("orders", ["after"] * 100)
    end = (await flo.streams.info("orders")).count

    record = await first
    rest = await taken(following, end - record.sequence)
    assert record.payload == b'"around"'
    assert all(b.sequence == a.sequence + 1 for a, b in pairwise([record, *rest]))


async def test_a_follower_sees_a_stream_that_is_made_anew(tmp_path: Path) -> None:
    clock = ManualClock()
    async with local_server(tmp_path, clock) as server, Flo(server.address) as flo:
        await flo.streams.append("orders", "old")
        following = flo.streams.follow("orders", after="0-0")
        await taken(following, 1)
        await flo.streams.delete("orders")
        clock.advance(1)
        await flo.streams.append("orders", "new")

        assert payloads(await taken(following, 1)) == [b'"new"']


Reaction = Callable[[Flo], AsyncIterator[StreamRecord]]


def follow(flo: Flo) -> AsyncIterator[StreamRecord]:
    return flo.streams.follow("orders")


async def forgetful_follow(flo: Flo) -> AsyncIterator[StreamRecord]:
    """The control: asks for what comes after the end, and a repeated question means a later one."""
    query = ReadStream(stream="orders", after="$", block_ms=60_000)
    while True:
        page = await flo._session.call(query, timeout_s=60.0)
        for record in page.items:
            yield record


async def sequences_seen(
    folder: Path, follow: Reaction, end: Callable[[ServerProcess], Any]
) -> list[int]:
    """What a follower sees while the server ends, comes back and is appended to without it."""
    with ServerProcess(folder) as server:
        network = Network(server.address)
        async with (
            Flo(server.address) as writer,
            Flo(server.address, connect=network.connect, timeout=5.0) as reader,
        ):
            following = follow(reader)
            seen = await seen_until(following, b'"before"', writer)
            waiting = asyncio.ensure_future(anext(following))
            while await is_answered(waiting, reader):
                seen.append((await waiting).sequence)
                waiting = asyncio.ensure_future(anext(following))
            network.is_up = False
            await asyncio.to_thread(end, server)
            await asyncio.to_thread(server.start)
            await writer.streams.append_many("orders", ["meanwhile"] * 50)
            network.is_up = True
            seen += await seen_until(waiting_first(waiting, following), b'"end"', writer)
    return seen


async def seen_until(
    following: AsyncIterator[StreamRecord], payload: bytes, writer: Flo
) -> list[int]:
    """What is seen until somebody who writes this over and over again has been heard."""
    seen: list[int] = []
    while True:
        record = asyncio.ensure_future(anext(following))
        while not record.done():
            await writer.streams.append("orders", payload)
        seen.append(record.result().sequence)
        if record.result().payload == payload:
            return seen


async def waiting_first(
    waiting: asyncio.Future[StreamRecord], rest: AsyncIterator[StreamRecord]
) -> AsyncIterator[StreamRecord]:
    yield await waiting
    async for record in rest:
        yield record


async def is_answered(asked: asyncio.Future[StreamRecord], reader: Flo) -> bool:
    """Whether what was asked has an answer, when the shard has answered what was asked later."""
    await turns()
    await reader.kv.get("anything")
    await turns()
    return asked.done()


def check_each_once(seen: list[int]) -> None:
    assert seen == list(range(seen[0], seen[-1] + 1))


@pytest.mark.parametrize("end", [ServerProcess.kill, ServerProcess.stop])
async def test_a_follower_misses_nothing_and_repeats_nothing_when_the_server_is_restarted(
    tmp_path: Path, end: Callable[[ServerProcess], Any]
) -> None:
    check_each_once(await sequences_seen(tmp_path, follow, end))


async def test_a_follower_that_forgets_its_place_is_found_out(tmp_path: Path) -> None:
    seen = await sequences_seen(tmp_path, forgetful_follow, ServerProcess.kill)
    with pytest.raises(AssertionError):
        check_each_once(seen)


def test_a_follower_waits_for_a_server_that_is_away_for_long() -> None:
    async def main() -> list[StreamRecord]:
        server = FakeServer()
        async with Flo("flo:9000", connect=server.connect, timeout=30.0) as flo:
            following = flo.streams.follow("orders", after="5-5")
            first = asyncio.ensure_future(anext(following))
            await turns()
            server.refusals = 200
            server.hang_up()
            await asyncio.wait({first}, timeout=900.0)
            assert not server.refusals
            (name, (query,)) = server.requests[-1]
            assert (name, query.after) == ("read_stream", "5-5")
            record = StreamRecord(sequence=6, at_ms=6, payload=b"")
            server.reply([RecordPage(items=[record], last="6-6")])
            return [await first]

    assert [record.sequence for record in run_virtual(main())] == [6]


def test_a_follower_ends_when_its_client_is_closed() -> None:
    async def main() -> None:
        server = FakeServer()
        flo = Flo("flo:9000", connect=server.connect)
        first = asyncio.ensure_future(anext(flo.streams.follow("orders", after="0-0")))
        await turns()
        await flo.close()
        with pytest.raises(Unavailable, match="closed"):
            await first

    run_virtual(main())


def test_a_follower_asks_again_after_every_empty_answer() -> None:
    async def main() -> list[str]:
        server = FakeServer()
        async with Flo("flo:9000", connect=server.connect) as flo:
            first = asyncio.ensure_future(anext(flo.streams.follow("orders", after="0-0")))
            for last in ("1-1", "2-2"):
                await turns()
                server.reply([RecordPage(last=last)])
            await turns()
            first.cancel()
        assert {messages[0].block_ms for _, messages in server.requests} == {FOLLOW_BLOCK_S * 1_000}
        return [messages[0].after for _, messages in server.requests]

    assert run_virtual(main()) == ["0-0", "1-1", "2-2"]


async def test_a_stream_is_looked_at_listed_and_deleted(flo: Flo) -> None:
    await flo.streams.create("orders", partitions=2, max_age=3_600, max_length=10, max_bytes=999)
    await flo.streams.append("emails", b"12345")
    orders, emails = await flo.streams.info("orders"), await flo.streams.info("emails")

    assert (orders.partitions, orders.count, orders.first_id) == (2, 0, None)
    assert orders.retention.max_age_ms == 3_600_000
    assert (orders.retention.max_length, orders.retention.max_bytes) == (10, 999)
    assert (emails.count, emails.bytes, emails.partitions) == (1, 5, 1)
    assert [one.name for one in (await flo.streams.list()).items] == ["emails", "orders"]
    assert [one.name for one in (await flo.streams.list("ord")).items] == ["orders"]
    page = await flo.streams.list(limit=1)
    assert (await flo.streams.list(cursor=page.cursor)).items == [orders]

    with pytest.raises(Conflict) as raised:
        await flo.streams.create("orders")
    assert raised.value.code == "stream_exists"
    await flo.streams.delete("orders")
    with pytest.raises(NotFound):
        await flo.streams.info("orders")


async def test_what_a_stream_keeps_is_said_anew(flo: Flo) -> None:
    await flo.streams.create("orders", max_length=10)
    await flo.streams.alter("orders", max_age=1.5)

    retention = (await flo.streams.info("orders")).retention
    assert (retention.max_age_ms, retention.max_length) == (1_500, None)


async def test_a_stream_is_trimmed_by_length_id_bytes_and_age(tmp_path: Path) -> None:
    clock = ManualClock()
    async with local_server(tmp_path, clock) as server, Flo(server.address) as flo:
        for number in range(10):
            await flo.streams.append("orders", b"%d" % number)
            clock.advance(1_000)

        assert (await flo.streams.trim("orders", max_length=9, dry_run=True)).removed == 1
        assert (await flo.streams.info("orders")).count == 10
        trimmed = await flo.streams.trim("orders", max_length=9)
        assert (trimmed.removed, trimmed.first_id) == (1, f"{NOON_MS + 1_000}-2")
        assert (await flo.streams.trim("orders", before=f"{NOON_MS + 3_000}-4")).removed == 2
        assert (await flo.streams.trim("orders", max_bytes=5)).removed == 2
        assert (await flo.streams.trim("orders", max_age=3.5)).removed == 2
        assert payloads((await flo.streams.read("orders")).items) == [b"7", b"8", b"9"]

        await flo.streams.alter("orders", max_length=1)
        assert (await flo.streams.trim("orders")).removed == 2


async def test_streams_of_another_namespace_are_others(server: Server, flo: Flo) -> None:
    await flo.streams.append("orders", 1)
    async with Flo(server.address, namespace="prod") as prod:
        assert (await prod.streams.list()).items == []
        await prod.streams.append("orders", 2)
        assert payloads((await prod.streams.read("orders")).items) == [b"2"]
