"""A whole worker at a real server."""

import asyncio
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from msgspec.structs import asdict

from client.threaded import server_in_thread
from flo import (
    ActionContext,
    ActionLimits,
    ActionWorker,
    BlockingFlo,
    Flo,
    Invalid,
    NonRetryableError,
    NotFound,
    RunStatus,
    RunUnsuccessful,
    TooLarge,
    WorkerStatus,
)
from flo.client.session.transport import tcp
from flo.model.ids import PAYLOAD_LENGTH_MAX
from flo.server.server import Server
from worker.log_watcher import watching_log


class Order(msgspec.Struct):
    id: int
    amount: float


@asynccontextmanager
async def at_work(worker: ActionWorker) -> AsyncIterator[None]:
    serving = asyncio.ensure_future(worker.serve())
    yield
    worker.stop()
    await serving


async def test_a_handler_gets_its_input_and_its_result_comes_back(flo: Flo) -> None:
    worker = ActionWorker(flo)

    @worker.action("process-order")
    async def process_order(ctx: ActionContext, order: Order) -> dict[str, Any]:
        return {"id": order.id, "attempt": ctx.attempt, "task": ctx.task_id}

    async with at_work(worker):
        await flo.actions.register("process-order")
        invocation = await flo.actions.invoke("process-order", Order(7, 9.5))

        assert await invocation.result() == {"id": 7, "attempt": 1, "task": "process-order-1"}


async def test_sync_and_async_handlers_work_side_by_side(server: Server) -> None:
    worker = ActionWorker(server.address, concurrency=4)

    @worker.action("sync")
    def in_a_thread(count: int) -> int:
        return count + 1

    @worker.action("async")
    async def in_the_loop(count: int) -> int:
        return count - 1

    async with Flo(server.address) as flo:
        for name in ("sync", "async"):
            await flo.actions.register(name)
        async with at_work(worker):
            up = await flo.actions.invoke_many("sync", range(20))
            down = await flo.actions.invoke_many("async", range(20))

            assert [await one.result(int) for one in up] == list(range(1, 21))
            assert [await one.result(int) for one in down] == list(range(-1, 19))


async def test_a_failing_handler_is_tried_again_until_it_succeeds(flo: Flo) -> None:
    worker = ActionWorker(flo)

    @worker.action("flaky", retry_delay_ms=0)
    async def flaky(ctx: ActionContext) -> int:
        if ctx.attempt < 3:
            raise ConnectionError("not yet")
        return ctx.attempt

    await flo.actions.register("flaky", retry_delay_ms=0)
    async with at_work(worker):
        invocation = await flo.actions.invoke("flaky")
        assert await invocation.result() == 3

    run = await invocation.status()
    assert [attempt.error.splitlines()[0] for attempt in run.attempts] == [
        "ConnectionError: not yet"
    ] * 2


async def test_a_handler_that_always_fails_is_dead_lettered(flo: Flo) -> None:
    worker = ActionWorker(flo)

    @worker.action("broken", max_retries=1, retry_delay_ms=0)
    async def broken(ctx: ActionContext) -> None:
        raise RuntimeError("for ever")

    await flo.actions.register("broken", max_retries=1, retry_delay_ms=0)
    async with at_work(worker):
        with pytest.raises(RunUnsuccessful, match="RuntimeError: for ever") as raised:
            await (await flo.actions.invoke("broken")).result()

    assert raised.value.run.attempt == 2
    assert (await flo.actions.status("broken-1")).dead_lettered


async def test_a_non_retryable_error_ends_the_run_at_once(flo: Flo) -> None:
    worker = ActionWorker(flo)

    @worker.action("validate")
    async def validate(ctx: ActionContext) -> None:
        raise NonRetryableError("missing orderId")

    await flo.actions.register("validate")
    async with at_work(worker):
        ended = await (await flo.actions.invoke("validate")).wait()

    assert (ended.status, ended.attempt) == (RunStatus.FAILED, 1)
    assert ended.error == "NonRetryableError: missing orderId"
    assert not (await flo.actions.status("validate-1")).dead_lettered


async def test_a_sync_handler_extends_its_lease(flo: Flo) -> None:
    worker = ActionWorker(flo, auto_touch=False)
    leases_ms: list[int | None] = []
    loop = asyncio.get_running_loop()

    def lease_ms() -> int | None:
        run = asyncio.run_coroutine_threadsafe(flo.actions.status("report-1"), loop).result()
        return run.lease_expires_at_ms

    @worker.action("report")
    def report(ctx: ActionContext) -> None:
        leases_ms.append(lease_ms())
        ctx.touch(600_000)
        leases_ms.append(lease_ms())

    await flo.actions.register("report")
    async with at_work(worker):
        await (await flo.actions.invoke("report")).wait()

    before, after = leases_ms
    assert before is not None
    assert after is not None
    assert after > before + 500_000


async def test_settings_given_to_a_worker_are_registered_and_others_left_alone(flo: Flo) -> None:
    await flo.actions.register("old", timeout_ms=60_000, max_retries=7, description="Old.")
    worker = ActionWorker(flo)
    worker.register_action("old", lambda: None, max_retries=1)
    worker.register_action("new", lambda: None, timeout_ms=5_000, description="New.")

    async with at_work(worker):
        await registered(flo, worker)
        old, new = await flo.actions.get("old"), await flo.actions.get("new")

    assert (old.timeout_ms, old.max_retries, old.description) == (60_000, 1, "Old.")
    assert (new.timeout_ms, new.max_retries, new.description) == (5_000, 3, "New.")


async def test_a_worker_that_changes_a_setting_leaves_the_limits_alone(flo: Flo) -> None:
    limits = ActionLimits(concurrency_max=2, concurrency_key="{input.who}", max_per_minute=90)
    await flo.actions.register("old", limits=limits)
    worker = ActionWorker(flo)
    worker.register_action("old", lambda: None, max_retries=1)

    async with at_work(worker):
        await registered(flo, worker)
        old = await flo.actions.get("old")

    assert old.max_retries == 1
    assert old.limits is not None
    assert ActionLimits(**asdict(old.limits)) == limits


async def test_a_worker_that_starts_as_its_action_is_registered_takes_nothing_back(
    flo: Flo,
) -> None:
    limits = ActionLimits(concurrency_max=2)
    asked = flo.actions.get
    late = [
        lambda: flo.actions.register("a", timeout_ms=7_000),
        lambda: flo.actions.register("a", timeout_ms=7_000, limits=limits),
    ]

    async def get(name: str) -> Any:
        """Somebody else is faster, twice: once where nothing was, once where something was."""
        try:
            return await asked(name)
        finally:
            if late:
                await late.pop(0)()

    worker = ActionWorker(flo)
    worker.register_action("a", lambda: None, max_retries=1)
    flo.actions.get = get  # type: ignore[method-assign]
    async with at_work(worker):
        await registered(flo, worker)
        action = await asked("a")

    assert (action.timeout_ms, action.max_retries, action.version) == (7_000, 1, 3)
    assert action.limits is not None
    assert action.limits.concurrency_max == 2


async def test_a_worker_may_say_how_its_action_is_limited(flo: Flo) -> None:
    worker = ActionWorker(flo)
    worker.register_action("new", lambda: None, limits=ActionLimits(max_per_second=3))

    async with at_work(worker):
        await registered(flo, worker)
        new = await flo.actions.get("new")

    assert new.limits is not None
    assert (new.limits.max_per_second, new.limits.concurrency_max) == (3, None)


async def test_a_worker_that_starts_again_changes_nothing(flo: Flo) -> None:
    for _ in range(2):
        worker = ActionWorker(flo)
        worker.register_action("a", lambda: None)
        async with at_work(worker):
            await registered(flo, worker)

    assert (await flo.actions.get("a")).version == 1


async def test_a_worker_is_known_while_it_works_and_gone_when_it_has_drained(flo: Flo) -> None:
    worker = ActionWorker(flo, concurrency=3, labels={"gpu": True})
    worker.register_action("a", lambda: None)
    async with at_work(worker):
        view = await registered(flo, worker)
        assert (view.max_concurrency, view.labels) == (3, {"gpu": True})
        assert view.machine_id == socket.gethostname()
        assert [process.name for process in view.processes] == ["a"]

    with pytest.raises(NotFound):
        await flo.workers.get(worker.worker_id)


async def test_a_worker_drained_from_outside_finishes_its_task_and_leaves(flo: Flo) -> None:
    worker = ActionWorker(flo)
    may_end = asyncio.Event()

    @worker.action("slow")
    async def slow(ctx: ActionContext) -> str:
        await flo.workers.drain(worker.worker_id)
        await may_end.wait()
        return "finished"

    await flo.actions.register("slow")
    serving = asyncio.ensure_future(worker.serve())
    invocation = await flo.actions.invoke("slow")
    may_end.set()
    await serving

    assert await invocation.result() == "finished"


@pytest.mark.parametrize("channel", ["sdk", "http", "cli"])
async def test_a_drained_worker_takes_no_more_finishes_what_it_has_and_deregisters(
    server: Server, flo: Flo, channel: str
) -> None:
    worker = ActionWorker(flo, concurrency=2)
    begun, may_end = asyncio.Event(), asyncio.Event()

    @worker.action("slow")
    async def slow(ctx: ActionContext) -> str:
        begun.set()
        await may_end.wait()
        return "finished"

    await flo.actions.register("slow")
    serving = asyncio.ensure_future(worker.serve())
    first = await flo.actions.invoke("slow")
    await begun.wait()
    await drain(server, flo, worker.worker_id, channel)
    assert (await flo.workers.get(worker.worker_id)).status is WorkerStatus.DRAINING
    second = await flo.actions.invoke("slow")
    may_end.set()
    await serving

    assert await first.result() == "finished"
    assert (await second.status()).status is RunStatus.PENDING
    with pytest.raises(NotFound):
        await flo.workers.get(worker.worker_id)


async def drain(server: Server, flo: Flo, worker_id: str, channel: str) -> None:
    if channel == "sdk":
        await flo.workers.drain(worker_id)
    elif channel == "http":
        async with httpx.AsyncClient(base_url=server.http_url) as http:
            (await http.post(f"/api/v1/workers/{worker_id}/drain")).raise_for_status()
    else:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "flo.cli.app.main",
                "worker",
                "drain",
                "--worker-id",
                worker_id,
            ),
            env={**os.environ, "FLO_ENDPOINT": server.address},
        )
        assert await process.wait() == 0


async def test_a_cancelled_run_reaches_an_async_handler_at_once(flo: Flo) -> None:
    worker = ActionWorker(flo, auto_touch=False)  # so that nothing but the news can tell
    begun, ended = asyncio.Event(), asyncio.Event()
    contexts: list[ActionContext] = []

    @worker.action("slow", timeout_ms=600_000)
    async def slow(ctx: ActionContext) -> None:
        contexts.append(ctx)
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            raise

    async with at_work(worker):
        await registered(flo, worker)
        invocation = await flo.actions.invoke("slow")
        await begun.wait()
        await invocation.cancel("no longer needed")
        await ended.wait()
        assert contexts[0].cancelled
        view = await flo.workers.get(worker.worker_id)

    run = await invocation.status()
    assert (run.status, run.error, run.attempt) == ("cancelled", "no longer needed", 1)
    assert (view.tasks_completed, view.tasks_failed) == (0, 0)


async def test_a_sync_handler_sees_that_its_run_was_cancelled(flo: Flo) -> None:
    worker = ActionWorker(flo, auto_touch=False)
    begun, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @worker.action("slow", timeout_ms=600_000)
    def slow(ctx: ActionContext) -> None:
        loop.call_soon_threadsafe(begun.set)
        while not ctx.cancelled:
            os.sched_yield()
        loop.call_soon_threadsafe(ended.set)
        ctx.raise_if_cancelled()

    async with at_work(worker):
        await registered(flo, worker)
        invocation = await flo.actions.invoke("slow")
        await begun.wait()
        await invocation.cancel()
        await ended.wait()

    assert (await invocation.status()).status is RunStatus.CANCELLED


async def test_a_handler_that_blocks_the_loop_is_named_in_the_log(flo: Flo) -> None:
    worker = ActionWorker(flo, blocking_limit=0.02)

    with watching_log("the handler of 'resize-image'") as watcher:

        @worker.action("resize-image")
        async def resize_image(ctx: ActionContext) -> None:
            watcher.heard.wait()

        async with at_work(worker):
            await registered(flo, worker)
            await (await flo.actions.invoke("resize-image")).result()

    (line,) = [line for line in watcher.lines if "the handler of 'resize-image'" in line]
    assert "the handler of 'resize-image' (task resize-image-1) blocks the event loop" in line
    assert "in resize_image" in line


class Receipt(msgspec.Struct):
    paid: float


async def test_an_output_that_its_schema_refuses_fails_the_run_for_good(flo: Flo) -> None:
    worker = ActionWorker(flo)

    @worker.action("charge", output_schema=Receipt)
    async def charge(ctx: ActionContext) -> dict[str, str]:
        return {"paid": "all of it"}

    async with at_work(worker):
        await registered(flo, worker)
        ended = await (await flo.actions.invoke("charge")).wait()

    assert (ended.status, ended.attempt) == (RunStatus.FAILED, 1)
    assert ended.error is not None
    assert ended.error.startswith("the result was refused: the output does not fit its schema: ")
    assert "/paid" in ended.error
    assert [run.run_id for run in (await flo.actions.dead("charge")).items] == ["charge-1"]


async def test_schemas_that_a_worker_does_not_name_stay_as_they_are(flo: Flo) -> None:
    await flo.actions.register("charge", input_schema=Order, output_schema=Receipt)
    before = await flo.actions.get("charge")
    worker = ActionWorker(flo)
    worker.register_action("charge", lambda: None, max_retries=7)

    async with at_work(worker):
        await registered(flo, worker)

    after = await flo.actions.get("charge")
    assert (after.version, after.max_retries) == (2, 7)
    assert (after.input_schema, after.output_schema) == (before.input_schema, before.output_schema)


async def test_the_largest_input_and_output_pass_and_larger_ones_are_refused(flo: Flo) -> None:
    worker = ActionWorker(flo)

    @worker.action("echo")
    async def echo(ctx: ActionContext) -> bytes:
        return ctx.payload

    @worker.action("swell")
    async def swell(ctx: ActionContext) -> bytes:
        return bytes(PAYLOAD_LENGTH_MAX + 1)

    largest = b"0" * PAYLOAD_LENGTH_MAX
    async with at_work(worker):
        await registered(flo, worker)
        echoed = await flo.actions.invoke("echo", largest)
        assert await echoed.result(bytes) == largest
        swollen = await (await flo.actions.invoke("swell")).wait()
        with pytest.raises(TooLarge, match="at most 16777216 bytes, got 16777217"):
            await flo.actions.invoke("echo", largest + b"0")

    run = await echoed.status()
    assert (run.input, run.output) == (largest, largest)
    assert (swollen.status, swollen.attempt) == (RunStatus.FAILED, 1)
    assert swollen.error is not None
    assert "at most 16777216 bytes, got 16777217" in swollen.error


class Scissors:
    """A way to the server on which an answer can be cut off."""

    def __init__(self, address: str) -> None:
        self._connect = tcp(address)
        self.cuts_next_answer = False
        self.connections_count = 0

    async def connect(self, factory: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        self.connections_count += 1
        protocol = factory()
        receive = protocol.data_received

        def data_received(data: bytes) -> None:
            if self.cuts_next_answer:
                self.cuts_next_answer = False
                transport.abort()
            else:
                receive(data)

        protocol.data_received = data_received  # type: ignore[method-assign]
        transport = await self._connect(lambda: protocol)
        return transport


@pytest.mark.parametrize("succeeds", [True, False])
async def test_a_report_whose_answer_is_lost_is_sent_again_and_counts_once(
    server: Server, flo: Flo, succeeds: bool
) -> None:
    scissors = Scissors(server.address)
    async with Flo(server.address, connect=scissors.connect) as cut:
        worker = ActionWorker(cut)

        @worker.action("charge", retry_delay_ms=100)  # the claim is cut off too, and comes again
        async def charge(ctx: ActionContext) -> str:
            if ctx.attempt == 1:
                scissors.cuts_next_answer = True
            if ctx.attempt == 1 and not succeeds:
                raise ConnectionError("the bank does not answer")
            return f"charged at attempt {ctx.attempt}"

        async with at_work(worker):
            await registered(flo, worker)
            invocation = await flo.actions.invoke("charge")
            assert await invocation.result() == f"charged at attempt {1 if succeeds else 2}"
            await cut.ping()  # whatever is sent again has been sent
            view = await flo.workers.get(worker.worker_id)

    run = await invocation.status()
    assert scissors.connections_count == 2
    assert [attempt.number for attempt in run.attempts] == ([] if succeeds else [1])
    assert (view.tasks_completed, view.tasks_failed) == (1, 0 if succeeds else 1)


async def test_labels_choose_the_worker(flo: Flo) -> None:
    done_by: dict[str, str] = {}

    def made(name: str, labels: dict[str, Any]) -> ActionWorker:
        worker = ActionWorker(flo, worker_id=name, labels=labels)

        @worker.action("render")
        async def render(ctx: ActionContext) -> None:
            done_by[ctx.task_id] = name

        return worker

    await flo.actions.register("render")
    small, large = made("small", {"vram": 16}), made("large", {"vram": 24, "gpu": True})
    async with at_work(small), at_work(large):
        invocations = [
            await flo.actions.invoke("render", labels={"vram": 16}),
            await flo.actions.invoke("render", labels={"vram": 24}),
        ]
        for invocation in invocations:
            await invocation.wait()

    assert done_by == {"render-1": "small", "render-2": "large"}


def test_a_worker_has_a_name_of_its_own() -> None:
    hostname = re.escape(socket.gethostname())
    first, second = ActionWorker().worker_id, ActionWorker().worker_id

    assert re.fullmatch(f"{hostname}-[0-9a-f]{{8}}", first)
    assert first != second


@pytest.mark.parametrize(
    "options",
    [{"concurrency": 0}, {"block_ms": -1}, {"worker_id": "with space"}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        ActionWorker(**options)


def test_a_worker_lives_in_the_namespace_of_its_client() -> None:
    flo = Flo(namespace="prod")
    ActionWorker(flo, namespace="prod")

    with pytest.raises(Invalid, match="'prod', got 'test'"):
        ActionWorker(flo, namespace="test")


def test_a_name_has_one_handler() -> None:
    worker = ActionWorker()
    worker.register_action("a", lambda: None)

    with pytest.raises(Invalid, match="'a' has a handler"):
        worker.register_action("a", lambda: None)
    with pytest.raises(Invalid, match="action name"):
        worker.register_action("no such name", lambda: None)


async def test_a_worker_without_handlers_does_not_start() -> None:
    with pytest.raises(Invalid, match="no handlers"):
        await ActionWorker().serve()


async def test_a_worker_starts_once(flo: Flo) -> None:
    worker = ActionWorker(flo)
    worker.register_action("a", lambda: None)
    worker.stop()  # before it started: it has nothing to do
    await worker.serve()
    worker.stop()

    with pytest.raises(Invalid, match="started before"):
        await worker.serve()


def test_a_decorated_function_stays_what_it_was() -> None:
    def handler(ctx: ActionContext) -> None:
        pass

    assert ActionWorker().action("a")(handler) is handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_running_worker_drains_on_a_signal(tmp_path: Path, number: int) -> None:
    with server_in_thread(tmp_path) as address:
        worker = ActionWorker(address)
        may_end = threading.Event()

        @worker.action("slow")
        def slow(ctx: ActionContext) -> str:
            os.kill(os.getpid(), number)
            may_end.wait()
            return "finished"

        def let_it_end_once_it_drains() -> None:
            with BlockingFlo(address) as flo:
                while flo.workers.get(worker.worker_id).status != "draining":
                    pass
            may_end.set()

        with BlockingFlo(address) as flo:
            flo.actions.register("slow")
            invocation = flo.actions.invoke("slow")
            flo.workers.register(worker.worker_id, ["slow"])  # so that there is one to look at
            watching = threading.Thread(target=let_it_end_once_it_drains)
            watching.start()
            worker.run()
            watching.join()
            assert invocation.result() == "finished"


async def registered(flo: Flo, worker: ActionWorker) -> Any:
    """The worker, once the server knows it."""
    while True:
        try:
            return await flo.workers.get(worker.worker_id)
        except NotFound:
            await asyncio.sleep(0)
