"""The lifecycle of a block worker, from its start to its end, with a server that the test plays."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from client.virtual import run_virtual
from flo import Flo
from flo.model.blocks.blocks import BlocksRegistered, RegisterBlocks
from flo.model.blocks.jobs import JobInput, JobResult, LockWanted
from flo.model.blocks.names import JobType, job_action
from flo.model.errors import Invalid, NotFound, Unavailable
from flo.model.runs import Claim, Complete, Fail, Task
from flo.model.workers import DeregisterWorker, Heartbeat, RegisterWorker, WorkerType
from flo.worker.blocks.block import Block, block, declaration_of
from flo.worker.blocks.context import BlockContext
from flo.worker.blocks.values import AcquireResult, Params, Partial
from flo.worker.blocks.worker import BlockWorker, ShutdownTimedOut
from flo.worker.lifecycle import WorkerExpiredError
from worker.log_watcher import watching_log
from worker.task_server import TaskServer, task


class Port(Params):
    number: int = 1


class Configure(Block[Port, Any]):
    """Says which phase it was called in, and in which thread."""

    async def acquire(self, params: Partial[Port]) -> AcquireResult:
        return AcquireResult([f"port/{params.number}"])

    async def run(self, params: Port, ctx: BlockContext) -> dict[str, Any]:
        return {"ran": params.number, "in": threading.current_thread().name}

    async def rollback(self, params: Port, ctx: BlockContext, result: Any) -> None:
        assert result["ran"] == params.number


block(package="test.worker", version="1.2.0")(Configure)
CONFIGURE = declaration_of(Configure).id


def serving(server: TaskServer, *blocks: Any, **options: Any) -> BlockWorker:
    server.answers = {
        RegisterBlocks: BlocksRegistered(blocks=[]),
        **server.answers,
    }
    flo = Flo("flo:9000", connect=server.connect, rng=lambda: 1.0)
    return BlockWorker(flo, blocks=blocks or [Configure], worker_id="anna", **options)


@asynccontextmanager
async def running(
    server: TaskServer, *blocks: Any, **options: Any
) -> AsyncIterator[asyncio.Task[None]]:
    """A worker that works; it is told to stop at the end."""
    worker = serving(server, *blocks, **options)
    task = asyncio.create_task(worker.serve())
    await worker.registered()
    try:
        yield task
    finally:
        worker.stop()
        await asyncio.wait({task})


def job(
    kind: JobType, number: int = 1, block_id: str = CONFIGURE, attempt: int = 1, **fields: Any
) -> Task:
    given = JobInput(
        job=kind,
        block=block_id,
        run_id="wfrun-1",
        step="s",
        parameters={"number": number},
        **fields,
    )
    action = job_action(block_id, kind)
    return task(number, action, msgspec.json.encode(given), attempt)


def results(server: TaskServer) -> list[JobResult]:
    return [msgspec.json.decode(one.output, type=JobResult) for one in server.heard(Complete)]


async def heard(server: TaskServer, kind: type[Any], count: int = 1) -> list[Any]:
    while len(server.heard(kind)) < count:  # noqa: ASYNC110 (another thread is at work)
        await asyncio.sleep(0.001)
    return server.heard(kind)


# The startup sequence


def test_it_starts_in_the_order_of_the_lifecycle(tmp_path: Path) -> None:
    (tmp_path / "block_of_startup.py").write_text(
        "import flo.worker.blocks.block as b\n"
        "@b.block(package='test.startup')\n"
        "async def found(params): ...\n"
    )

    async def main() -> TaskServer:
        server = TaskServer()
        worker = serving(server, dirs=[tmp_path])
        task = asyncio.create_task(worker.serve())
        await asyncio.sleep(21)
        worker.stop()
        await task
        assert "test.startup/found:1.0.0" in [one.id for one in worker.blocks]
        return server

    names = list(dict.fromkeys(run_virtual(main()).names))
    assert names == [
        "register_worker",
        "register_blocks",
        "await_notifications",
        "claim",
        "heartbeat",
        "drain_worker",
        "deregister_worker",
    ]


def test_it_registers_itself_and_then_its_blocks_with_their_schemas() -> None:
    async def main() -> TaskServer:
        server = TaskServer()
        async with running(server, lanes=2):
            pass
        return server

    server = run_virtual(main())
    (worker,) = server.heard(RegisterWorker)
    assert (worker.worker_type, worker.max_concurrency) == (WorkerType.BLOCK, 2)
    assert worker.processes == [job_action(CONFIGURE, kind) for kind in JobType]
    (registration,) = server.heard(RegisterBlocks)
    assert registration.blocks == [declaration_of(Configure).spec]
    assert registration.worker_id == "anna"


def test_there_is_a_heartbeat_every_20_s_and_it_asks_for_jobs_every_10_s() -> None:
    async def main() -> TaskServer:
        server = TaskServer()
        async with running(server):
            await asyncio.sleep(59)
        return server

    server = run_virtual(main())
    assert len(server.heard(Heartbeat)) == 2
    assert len(server.heard(Claim)) == 6
    assert {one.block_ms for one in server.heard(Claim)} == {10_000}


def test_both_intervals_can_be_chosen() -> None:
    async def main() -> TaskServer:
        server = TaskServer()
        async with running(server, heartbeat_interval=2, poll_interval=1):
            await asyncio.sleep(4.5)
        return server

    server = run_virtual(main())
    assert len(server.heard(Heartbeat)) == 2
    assert len(server.heard(Claim)) == 5


def test_a_worker_without_blocks_does_not_start(tmp_path: Path) -> None:
    server = TaskServer()
    flo = Flo("flo:9000", connect=server.connect)

    with pytest.raises(Invalid, match="there are no blocks: looked in") as raised:
        run_virtual(BlockWorker(flo, dirs=[tmp_path]).serve())
    assert raised.value.code == "no_blocks"
    assert server.heard(RegisterWorker) == []


def test_a_worker_whose_blocks_are_refused_leaves_again() -> None:
    server = TaskServer()
    server.answers[RegisterBlocks] = Invalid("asks for more", code="block_incompatible")

    with pytest.raises(Invalid, match="asks for more"):
        run_virtual(serving(server).serve())
    assert server.names[-1] == "deregister_worker"
    assert server.heard(Claim) == []


def test_a_server_of_another_protocol_is_refused_before_anything_is_registered() -> None:
    server = TaskServer()
    server.refuses_hello = True

    with pytest.raises(Invalid, match="expected another protocol"):
        run_virtual(serving(server, dirs=["no/such/folder"]).serve())
    assert server.names == []


def test_a_worker_that_cannot_register_in_time_gives_up() -> None:
    server = TaskServer()
    server.answers[RegisterWorker] = Unavailable("not now")

    with pytest.raises(Unavailable, match="not now"):
        run_virtual(serving(server, startup_timeout=5).serve())
    assert 4 <= len(server.heard(RegisterWorker)) <= 7


def test_a_worker_that_is_told_to_stop_while_it_registers_leaves() -> None:
    async def main() -> TaskServer:
        server = TaskServer()
        server.answers[RegisterWorker] = Unavailable("not now")
        worker = serving(server)
        task = asyncio.create_task(worker.serve())
        await asyncio.sleep(3)
        worker.stop()
        await task
        return server

    assert "claim" not in run_virtual(main()).names


# Jobs


async def test_each_type_of_job_calls_its_phase() -> None:
    server = TaskServer()
    async with running(server):
        server.assign(
            job(JobType.ACQUIRE, 1),
            job(JobType.EXECUTE, 2),
            job(JobType.ROLLBACK, 3, result={"ran": 3}),
        )
        await heard(server, Complete, 3)

    acquired, executed, rolled_back = results(server)
    assert acquired.locks == [LockWanted(key="port/1")]
    assert executed.data == {"ran": 2, "in": "flo-lane-1"}
    assert rolled_back == JobResult()


async def test_jobs_run_one_at_a_time_in_their_order() -> None:
    seen: list[str] = []

    @block(package="test.worker", name="in_order")
    async def in_order(params: Port) -> None:
        seen.append(f"{params.number} begins")
        await asyncio.sleep(0)
        seen.append(f"{params.number} ends")

    block_id = declaration_of(in_order).id
    server = TaskServer()
    async with running(server, in_order):
        server.assign(*(job(JobType.EXECUTE, number, block_id) for number in (1, 2, 3)))
        await heard(server, Complete, 3)

    assert seen == [f"{number} {what}" for number in (1, 2, 3) for what in ("begins", "ends")]
    assert {one.max_tasks for one in server.heard(Claim)} == {1}


async def test_with_two_lanes_two_jobs_run_at_a_time_each_in_its_own_thread() -> None:
    both = threading.Barrier(2)

    @block(package="test.worker", name="together")
    async def together(params: Port) -> str:
        both.wait()
        return threading.current_thread().name

    block_id = declaration_of(together).id
    server = TaskServer()
    async with running(server, together, lanes=2, blocking_threshold=0):
        server.assign(*(job(JobType.EXECUTE, number, block_id) for number in (1, 2)))
        await heard(server, Complete, 2)

    assert {result.data for result in results(server)} == {"flo-lane-1", "flo-lane-2"}


async def test_a_failure_is_a_result_and_what_rollback_raises_is_tried_again() -> None:
    server = TaskServer()
    async with running(server):
        server.assign(job(JobType.ROLLBACK, 1, result={"ran": 2}))
        (failure,) = await heard(server, Fail)
        wrong = job(JobType.EXECUTE, 2)
        given = msgspec.json.decode(wrong.payload, type=JobInput)
        given = msgspec.structs.replace(given, parameters={"number": "two"})
        server.assign(msgspec.structs.replace(wrong, payload=msgspec.json.encode(given)))
        await heard(server, Complete)

    assert (failure.retry, failure.code) == (True, "AssertionError")
    (result,) = results(server)
    assert (result.success, result.code) == (False, "invalid_parameters")


async def test_heartbeats_go_on_while_a_job_blocks_its_lane_and_its_line_is_told() -> None:
    with watching_log("blocks its lane") as watcher:
        go_on = threading.Event()

        @block(package="test.worker", name="blocking")
        async def blocking(params: Port) -> None:
            go_on.wait()

        block_id = declaration_of(blocking).id
        server = TaskServer()
        async with running(server, blocking, heartbeat_interval=0.01, blocking_threshold=0.02):
            server.assign(job(JobType.EXECUTE, 1, block_id))
            await asyncio.to_thread(watcher.heard.wait)
            count = len(server.heard(Heartbeat))
            await heard(server, Heartbeat, count + 2)
            go_on.set()
            await heard(server, Complete)

    (line,) = [line for line in watcher.lines if "blocks its lane" in line]
    assert "(execute of test.worker/blocking:1.0.0) blocks its lane for " in line
    assert f"at {__file__}:" in line
    assert "in blocking: go_on.wait()" in line


async def test_a_job_that_blocks_fails_where_that_is_strict() -> None:
    with watching_log("blocks its lane") as watcher:

        @block(package="test.worker", name="strict")
        async def strict(params: Port) -> None:
            watcher.heard.wait()

        block_id = declaration_of(strict).id
        server = TaskServer()
        async with running(server, strict, blocking_threshold=0.02, strict_blocking=True):
            server.assign(job(JobType.EXECUTE, 1, block_id))
            await heard(server, Complete)

    (result,) = results(server)
    assert (result.success, result.code) == (False, "blocked_lane")
    assert "in strict" in result.message


async def test_a_job_that_is_cancelled_is_stopped_and_reports_nothing() -> None:
    began, stopped = threading.Event(), threading.Event()

    @block(package="test.worker", name="cancelled")
    async def cancelled(params: Port) -> None:
        began.set()
        try:
            await asyncio.sleep(3_600)
        finally:
            stopped.set()

    block_id = declaration_of(cancelled).id
    server = TaskServer()
    async with running(server, cancelled):
        given = job(JobType.EXECUTE, 1, block_id)
        server.assign(given)
        await asyncio.to_thread(began.wait)
        server.tell(given.task_id)
        await asyncio.to_thread(stopped.wait)

    assert server.heard(Complete) == server.heard(Fail) == []


# The shutdown


def holding() -> tuple[Any, threading.Event, Callable[[], None]]:
    """A block that waits, the event that it has begun, and a way to let it go."""
    began = threading.Event()
    held: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @block(package="test.worker", name="holding")
    async def hold(params: Port) -> str:
        go_on = asyncio.Event()
        held.append((asyncio.get_running_loop(), go_on))
        began.set()
        await go_on.wait()
        return "done"

    def let_go() -> None:
        loop, event = held[0]
        loop.call_soon_threadsafe(event.set)

    return hold, began, let_go


async def test_the_five_steps_of_a_shutdown() -> None:
    hold, began, let_go = holding()
    server = TaskServer()
    worker = serving(server, hold, heartbeat_interval=0.01)
    serve = asyncio.create_task(worker.serve())
    await worker.registered()
    server.assign(job(JobType.EXECUTE, 1, declaration_of(hold).id))
    await asyncio.to_thread(began.wait)

    worker.stop()  # 1. it takes no more …
    await heard(server, Heartbeat, len(server.heard(Heartbeat)) + 3)  # and lives until 3.
    claims = len(server.heard(Claim))
    server.assign(job(JobType.EXECUTE, 2, declaration_of(hold).id))
    let_go()
    await serve  # 5. … and it returns, which is exit code 0

    assert len(server.heard(Claim)) == claims
    (result,) = results(server)  # 2. the job it had was finished
    assert result.data == "done"
    assert server.names[-2:] == ["complete", "deregister_worker"]  # 3. no heartbeat after it, 4.


async def test_jobs_that_do_not_end_in_time_are_cancelled_and_handed_back() -> None:
    hold, began, _ = holding()
    server = TaskServer()
    worker = serving(server, hold, shutdown_timeout=0.2, cancel_grace=0.1)
    serve = asyncio.create_task(worker.serve())
    await worker.registered()
    server.assign(job(JobType.EXECUTE, 1, declaration_of(hold).id))
    await asyncio.to_thread(began.wait)
    worker.stop()

    with pytest.raises(ShutdownTimedOut, match="has handed back 1 jobs"):
        await serve
    assert server.heard(Complete) == server.heard(Fail) == []
    assert len(server.heard(DeregisterWorker)) == 1


async def test_a_job_that_cannot_even_be_cancelled_does_not_keep_the_worker() -> None:
    began, go_on = threading.Event(), threading.Event()

    @block(package="test.worker", name="deaf")
    async def deaf(params: Port) -> None:
        began.set()
        go_on.wait()

    server = TaskServer()
    worker = serving(server, deaf, shutdown_timeout=0.2, cancel_grace=0.1, blocking_threshold=0)
    serve = asyncio.create_task(worker.serve())
    await worker.registered()
    server.assign(job(JobType.EXECUTE, 1, declaration_of(deaf).id))
    await asyncio.to_thread(began.wait)
    worker.stop()

    with pytest.raises(ShutdownTimedOut):
        await serve
    assert len(server.heard(DeregisterWorker)) == 1
    go_on.set()


# Expiry


def test_a_worker_that_the_server_has_forgotten_ends_and_does_not_register_again() -> None:
    async def main() -> TaskServer:
        server = TaskServer()
        worker = serving(server)
        serve = asyncio.create_task(worker.serve())
        await worker.registered()
        server.answers[Heartbeat] = NotFound("gone", code="worker_not_found")
        with pytest.raises(WorkerExpiredError, match="anna has expired"):
            await serve
        return server

    server = run_virtual(main())
    assert len(server.heard(RegisterWorker)) == 1
    assert server.heard(DeregisterWorker) == []


async def test_the_job_that_an_expired_worker_has_is_finished_and_reported() -> None:
    hold, began, let_go = holding()
    server = TaskServer()
    worker = serving(server, hold, heartbeat_interval=0.01)
    serve = asyncio.create_task(worker.serve())
    await worker.registered()
    server.assign(job(JobType.EXECUTE, 1, declaration_of(hold).id))
    await asyncio.to_thread(began.wait)
    with watching_log("has expired") as watcher:
        server.answers[Heartbeat] = NotFound("gone", code="worker_not_found")
        await asyncio.to_thread(watcher.heard.wait)
    let_go()

    with pytest.raises(WorkerExpiredError):
        await serve
    assert [result.data for result in results(server)] == ["done"]


def test_a_worker_may_rejoin_if_it_is_told_so() -> None:
    async def main() -> TaskServer:
        server = TaskServer()
        async with running(server, on_expiry="rejoin"):
            server.answers[Heartbeat] = NotFound("gone", code="worker_not_found")
            await asyncio.sleep(21)
        return server

    server = run_virtual(main())
    assert len(server.heard(RegisterWorker)) == len(server.heard(RegisterBlocks)) == 2
