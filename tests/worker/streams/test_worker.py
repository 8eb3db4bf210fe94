"""A whole stream worker at a real server."""

import asyncio
import os
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from flo import Flo, Invalid, StreamContext, StreamWorker, TooLarge
from flo.model.workers import WorkerType
from worker.log_watcher import watching_log


class Order(msgspec.Struct):
    id: int


@asynccontextmanager
async def at_work(worker: StreamWorker) -> AsyncIterator[None]:
    serving = asyncio.ensure_future(worker.serve())
    yield
    worker.stop()
    await serving


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        pass


async def until_settled(flo: Flo, group: str = "default") -> None:
    async def is_settled() -> bool:
        view = await flo.streams.group("orders", group).info()
        return view.lag == view.pending == view.waiting == 0

    await until(is_settled)


async def test_a_handler_gets_every_record_and_what_it_handled_is_acked(flo: Flo) -> None:
    seen: list[Any] = []
    worker = StreamWorker(flo, stream="orders", group="billing", worker_id="anna")

    @worker.handler
    async def bill(ctx: StreamContext, order: Order) -> None:
        seen.append((order.id, ctx.stream, ctx.group, ctx.consumer, ctx.headers, ctx.deliveries))

    await flo.streams.append("orders", {"id": 1}, headers={"trace": "abc"})
    async with at_work(worker):
        await flo.streams.group("orders", "billing").join("boris")  # so that there is a group
        await flo.streams.append("orders", {"id": 2})
        while len(seen) < 2:
            await flo.ping()
        await until_settled(flo, "billing")
        view = await flo.workers.get("anna")

    assert seen == [
        (1, "orders", "billing", "anna", {"trace": "abc"}, 1),
        (2, "orders", "billing", "anna", {}, 1),
    ]
    (process,) = view.processes
    assert (view.worker_type, view.tasks_completed) == (WorkerType.STREAM, 2)
    assert (process.name, process.kind, process.run_count) == (
        "orders/billing",
        "stream_consumer",
        2,
    )
    consumers = (await flo.streams.group("orders", "billing").info()).consumers
    assert [consumer.name for consumer in consumers] == ["boris"]


async def test_sync_handlers_run_in_threads_side_by_side(flo: Flo) -> None:
    together = threading.Barrier(3)
    threads: set[str] = set()

    def handle(ctx: StreamContext) -> None:
        together.wait()
        threads.add(threading.current_thread().name)

    await flo.streams.append_many("orders", range(3))
    async with at_work(StreamWorker(flo, stream="orders", handler=handle)):
        while len(threads) < 3:
            await flo.ping()
        await until_settled(flo)

    assert all(name.startswith("flo-handler-") for name in threads)


async def test_a_sync_handler_that_takes_too_long_sees_it_and_its_record_comes_again(
    flo: Flo,
) -> None:
    seen: list[int] = []

    def handle(ctx: StreamContext) -> None:
        seen.append(ctx.deliveries)
        while ctx.deliveries == 1 and not ctx.cancelled:
            os.sched_yield()
        ctx.raise_if_cancelled()

    await flo.streams.append("orders")
    async with at_work(
        StreamWorker(flo, stream="orders", handler=handle, message_timeout=0.05, block_ms=100)
    ):
        while len(seen) < 2:
            await flo.ping()
        await until_settled(flo)

    assert seen == [1, 2]


async def test_a_record_that_fails_again_and_again_becomes_a_dead_letter(flo: Flo) -> None:
    seen: list[int] = []
    group = flo.streams.group("orders", "billing")
    await group.create(max_deliveries=3)
    worker = StreamWorker(flo, stream="orders", group="billing")

    @worker.handler
    async def bill(ctx: StreamContext, order: Order) -> None:
        seen.append(order.id)
        if order.id == 1:
            raise ValueError("no such customer")

    await flo.streams.append_many("orders", [{"id": 1}, {"id": 2}, {"id": "three"}])
    async with at_work(worker):
        while (await group.info()).dead < 2:
            pass
        await until_settled(flo, "billing")
        view = await flo.workers.get(worker.worker_id)

    dead = (await group.dead()).items
    assert sorted(one.record.payload for one in dead) == [
        b'{"id":"three"}',
        b'{"id":1}',
    ]
    assert sorted(seen) == [1, 1, 1, 2]
    assert (view.tasks_completed, view.tasks_failed) == (1, 6)


async def test_two_workers_share_the_records_of_a_group(flo: Flo) -> None:
    seen: list[tuple[str, int]] = []

    async def handle(ctx: StreamContext, number: int) -> None:
        seen.append((ctx.consumer, number))

    workers = [
        StreamWorker(flo, stream="orders", worker_id=name, handler=handle, batch_size=2)
        for name in ("anna", "boris")
    ]
    async with at_work(workers[0]), at_work(workers[1]):
        while len((await flo.workers.list()).items) < 2:
            pass
        await flo.streams.append_many("orders", range(40))
        while len(seen) < 40:
            await flo.ping()
        await until_settled(flo)

    assert sorted(number for _, number in seen) == list(range(40))
    assert {name for name, _ in seen} == {"anna", "boris"}


async def test_a_handler_that_blocks_the_loop_is_named_in_the_log(flo: Flo) -> None:
    with watching_log("blocks the event loop") as watcher:

        async def handle(ctx: StreamContext) -> None:
            watcher.heard.wait()

        appended = await flo.streams.append("orders")
        worker = StreamWorker(flo, stream="orders", handler=handle, blocking_limit=0.5)
        async with at_work(worker):
            while not watcher.heard.is_set():
                await flo.ping()
            await until_settled(flo)

    (line,) = [line for line in watcher.lines if "blocks" in line]
    assert f"the handler of 'orders/default' (task {appended.stream_id})" in line


def test_what_is_not_given_has_its_default() -> None:
    worker = StreamWorker(stream="orders")

    assert worker.group == "default"
    assert re.fullmatch(rf"{re.escape(socket.gethostname())}-[0-9a-f]{{8}}", worker.worker_id)
    assert worker.consumer == worker.worker_id
    assert worker.machine_id == socket.gethostname()
    assert (worker._policy.concurrency, worker._policy.block_ms) == (10, 30_000)
    assert (worker._pace.batch_size, worker._pace.message_timeout_s) == (10, 300.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream": "a b"}, "expected a stream name"),
        ({"group": ""}, "expected the name of a group"),
        ({"consumer": "a/b"}, "expected the name of a consumer"),
        ({"worker_id": "a b"}, "expected a worker id"),
        ({"concurrency": 0}, "expected concurrency from 1"),
        ({"batch_size": 0}, "expected batch_size from 1 to 1000, got 0"),
        ({"batch_size": 1_001}, "expected batch_size from 1 to 1000, got 1001"),
        ({"block_ms": -1}, "expected block_ms from 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        StreamWorker(**{"stream": "orders", **options})


async def test_a_worker_without_a_handler_has_nothing_to_do(flo: Flo) -> None:
    with pytest.raises(Invalid, match="has no handler"):
        await StreamWorker(flo, stream="orders").serve()


def test_a_worker_has_one_handler() -> None:
    worker = StreamWorker(stream="orders", handler=lambda ctx: None)

    with pytest.raises(Invalid, match="has a handler already"):
        worker.handler(lambda ctx: None)


async def test_a_registration_that_is_refused_is_told(flo: Flo) -> None:
    worker = StreamWorker(
        flo, stream="orders", handler=lambda ctx: None, metadata={"text": "x" * 20_000}
    )

    with pytest.raises(TooLarge, match="expected metadata of at most"):
        await worker.serve()


async def test_a_sync_handler_that_returns_too_late_has_a_line(flo: Flo) -> None:
    may_return = threading.Event()
    worker = StreamWorker(flo, stream="orders", message_timeout=0.05)

    @worker.handler
    def handle(ctx: StreamContext) -> None:
        if ctx.deliveries == 1:
            may_return.wait()
        else:
            may_return.set()

    await flo.streams.append("orders", 1)
    with watching_log("too late") as watcher:
        async with at_work(worker):
            await asyncio.to_thread(watcher.heard.wait)

    failed, *_ = watcher.lines
    assert "the handler ran over its message_timeout of 0.05 s; it is redelivered" in failed
    late = ": its handler returned too late, and that counts for nothing"
    assert len([line for line in watcher.lines if line.endswith(late)]) == 1
