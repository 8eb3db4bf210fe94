"""What a page, a look-up and a commit cost when there is ten and a hundred times as much.

Every point is measured at three sizes, by turns, and stands beside the smallest: the ratio is what
growth costs. Time is the processor's, of all threads, as others may be using the machine.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from bench.figure import Figure
from flo.engine.codec import EVENT_CODEC
from flo.engine.context import Context
from flo.engine.machine import execute
from flo.engine.runs.events import RunReleased
from flo.engine.runs.records import ARCHIVE_KIND, Run
from flo.engine.state import State
from flo.engine.volatile import VolatileState
from flo.engine.workflows.folds import SUMMARY_KIND
from flo.engine.workflows.records import WorkflowSummary
from flo.log.base import Log
from flo.log.memory import MemoryLog
from flo.log.sqlite.log import SqliteLog
from flo.model.actions import RegisterAction
from flo.model.base import Message
from flo.model.groups import Ack, JoinGroup, ReadGroup
from flo.model.runs import Claim, Complete, Invoke, ListRuns, RunStatus
from flo.model.storage.archive import Archived
from flo.model.streams import Append, NewRecord
from flo.model.workers import ListWorkers, RegisterWorker
from flo.model.workflows import (
    CreateWorkflow,
    ListWorkflowRuns,
    StartWorkflow,
    WorkflowStatus,
)
from flo.shard.loop import Shard
from flo.workflow.search import tags_of

LIVE = (1_000, 10_000, 100_000)
ARCHIVED = (10_000, 100_000, 1_000_000)
WAITING = (20, 200, 2_000)
ROUNDS = 15
RATIO_MAX = 1.5
ROWS_PER_APPEND = 5_000
DOCUMENT = """
kind: Workflow
name: {name}
version: "1"
searchAttributes:
  - {{name: customer, type: string, from: $.input.customer}}
start:
  waitForSignal: {{type: go}}
  transitions: {{success: flo.Completed}}
"""

_encode = msgspec.msgpack.Encoder().encode

Call = Callable[[], Awaitable[Any]]


class Point(NamedTuple):
    name: str
    calls: dict[int, Call]
    """By size."""
    count: int = 20
    """How many calls are one sample."""


async def run(folder: Path) -> list[Figure]:
    async with AsyncExitStack() as stack:
        figures = await _measured(await _live_points(stack))
    async with AsyncExitStack() as stack:
        figures += await _measured(await _waiting_points(stack))
    async with AsyncExitStack() as stack:
        logs = {size: await _archive(folder / f"{size}.db", size, stack) for size in ARCHIVED}
        figures += await _measured(await _archived_points(logs, stack))
        figures += await _measured_beside_lists(logs)
    return figures


async def _started(state: State, log: Log, stack: AsyncExitStack) -> Shard:
    shard = Shard(state, log)
    await shard.start()
    stack.push_async_callback(shard.stop)
    return shard


async def _measured(points: Sequence[Point]) -> list[Figure]:
    figures: list[Figure] = []
    for point in points:
        samples: dict[int, list[float]] = {size: [] for size in point.calls}
        for _ in range(ROUNDS):
            for size, call in point.calls.items():
                began = time.process_time()
                for _ in range(point.count):
                    await call()
                samples[size].append((time.process_time() - began) / point.count)
        figures += _figures(point.name, {size: median(taken) for size, taken in samples.items()})
    return figures


def _figures(name: str, seconds: dict[int, float]) -> list[Figure]:
    least = next(iter(seconds.values()))
    return [
        Figure(
            name=f"{name}, {size:,}",
            value=taken * 1e3,
            unit="ms",
            goal=least * RATIO_MAX * 1e3,
            more_is_better=False,
            floor=taken / least,
            floor_name="× the smallest",
        )
        for size, taken in seconds.items()
    ]


# ── live ──────────────────────────────────────────────────────────────────────────────────────────


async def _live_points(stack: AsyncExitStack) -> list[Point]:
    shards = {size: await _started(_live(size), MemoryLog(), stack) for size in LIVE}

    def point(name: str, query: Callable[[int], Message]) -> Point:
        calls = {size: _asking(shard, query(size)) for size, shard in shards.items()}
        return Point(name, calls)

    waiting = WorkflowStatus.WAITING
    return [
        point("live workflow runs, a page", lambda size: ListWorkflowRuns()),
        point("  a later page", lambda size: ListWorkflowRuns(cursor=str(size // 2))),
        point("  by status", lambda size: ListWorkflowRuns(status=waiting)),
        point("  by a status that none has", lambda size: ListWorkflowRuns(status=NONE_HAS)),
        point("  by a rare workflow", lambda size: ListWorkflowRuns(workflow="rare")),
        point("  by search attribute", lambda size: ListWorkflowRuns(where='customer = "7"')),
        point("  by time", lambda size: ListWorkflowRuns(since_ms=NOW_MS + size - 10)),
        point("live runs, a page", lambda size: ListRuns(action="noop")),
        point("  by status", lambda size: ListRuns(action="noop", status=RunStatus.RUNNING)),
        point("  of all actions by status", lambda size: ListRuns(status=RunStatus.RUNNING)),
        point("workers, a page", lambda size: ListWorkers()),
    ]


NONE_HAS = WorkflowStatus.PENDING
NOW_MS = 1_790_000_000_000


def _live(size: int) -> State:
    """So many workflow runs that wait, runs of an action, and a hundredth as many workers."""
    state, volatile = State(), VolatileState(NOW_MS)

    def do(message: Message, at_ms: int = NOW_MS) -> None:
        execute(state, message, Context(at_ms, lambda: 0.5, volatile))

    for name in ("often", "rare"):
        do(CreateWorkflow(text=DOCUMENT.format(name=name)))
    do(RegisterAction(name="noop"))
    do(RegisterAction(name="other"))
    for number in range(size):
        name = "rare" if number < 20 else "often"
        payload = b'{"customer": "%d"}' % (7 if number < 20 else number)
        do(StartWorkflow(name=name, input=payload), NOW_MS + number)
        do(Invoke(action="noop"))
        if number == 20:
            do(Claim(worker_id="w", actions=["noop"], max_tasks=20))
    for number in range(size // 10):
        do(RegisterWorker(worker_id=f"worker-{number}", processes=["other"]))
    return state


def _asking(shard: Shard, message: Message) -> Call:
    async def ask() -> None:
        await shard.ask(message)

    return ask


# ── waiting ───────────────────────────────────────────────────────────────────────────────────────


async def _waiting_points(stack: AsyncExitStack) -> list[Point]:
    return [
        Point("invoke, claim, complete; workers that wait", {
            size: await _with_workers(size, stack) for size in WAITING
        }),
        Point("the same, and a run that nobody may have", {
            size: await _with_workers(size, stack, is_stuck=True) for size in WAITING
        }),
        Point("append, read, ack; consumers that wait", {
            size: await _with_consumers(size, stack) for size in WAITING
        }),
    ]  # fmt: skip


async def _with_workers(size: int, stack: AsyncExitStack, *, is_stuck: bool = False) -> Call:
    """A run goes to one of those who wait, who completes it and waits again."""
    shard = await _started(State(), MemoryLog(), stack)
    await shard.ask(RegisterAction(name="noop"))
    claimed: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    def wait(worker_id: str) -> None:
        claim = Claim(worker_id=worker_id, actions=["noop"], block_ms=300_000)
        shard.submit([claim], lambda answers: claimed.put_nowait((worker_id, answers[0])))

    for number in range(size):
        worker_id = f"worker-{number}"
        await shard.ask(RegisterWorker(worker_id=worker_id, processes=["noop"]))
        wait(worker_id)
    if is_stuck:
        await shard.ask(Invoke(action="noop", labels={"gpu": True}))

    async def cycle() -> None:
        await shard.ask(Invoke(action="noop"))
        worker_id, assigned = await claimed.get()
        (task,) = assigned.tasks
        await shard.ask(Complete(run_id=task.task_id, worker_id=worker_id))
        wait(worker_id)

    return cycle


async def _with_consumers(size: int, stack: AsyncExitStack) -> Call:
    shard = await _started(State(), MemoryLog(), stack)
    await shard.ask(Append(stream="orders", records=[NewRecord(payload=b"x")]))
    place: dict[str, Any] = {"stream": "orders", "group": "ship"}
    given: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    def wait(consumer: str) -> None:
        read = ReadGroup(**place, consumer=consumer, block_ms=300_000)
        shard.submit([read], lambda answers: given.put_nowait((consumer, answers[0])))

    for number in range(size):
        await shard.ask(JoinGroup(**place, consumer=f"c-{number}"))
        wait(f"c-{number}")

    async def cycle() -> None:
        await shard.ask(Append(stream="orders", records=[NewRecord(payload=b"x")]))
        consumer, records = await given.get()
        await shard.ask(Ack(**place, ids=[one.stream_id for one in records.items]))
        wait(consumer)

    return cycle


# ── archived ──────────────────────────────────────────────────────────────────────────────────────


async def _archived_points(logs: dict[int, SqliteLog], stack: AsyncExitStack) -> list[Point]:
    shards = {size: await _started(_known(size), log, stack) for size, log in logs.items()}
    failed = RunStatus.FAILED

    def point(name: str, query: Message) -> Point:
        return Point(name, {size: _answering(shard, query) for size, shard in shards.items()}, 5)

    return [
        point("archived runs, a page", ListRuns(action="a-0")),
        point("  by status", ListRuns(action="a-0", status=failed)),
        point("  of all actions by status", ListRuns(status=failed)),
        point("  of all actions", ListRuns()),
        point("archived workflow runs by status",
              ListWorkflowRuns(status=WorkflowStatus.FAILED)),
        point("  by workflow and status",
              ListWorkflowRuns(workflow="often", status=WorkflowStatus.FAILED)),
        point("  by search attribute", ListWorkflowRuns(where='customer = "7"')),
    ]  # fmt: skip


async def _measured_beside_lists(logs: dict[int, SqliteLog]) -> list[Figure]:
    """How long an idempotency look-up takes while lists are read without end; on the clock."""
    samples: dict[int, list[float]] = {size: [] for size in logs}
    for _ in range(ROUNDS):
        for size, log in logs.items():
            listing = asyncio.create_task(_list_without_end(log))
            await asyncio.sleep(0)
            for number in range(100):
                began = time.perf_counter()
                key = ("default", "a-1", f"key-{number * 97 % size}")
                await log.archive.find_keys(ARCHIVE_KIND, [key])
                samples[size].append(time.perf_counter() - began)
            listing.cancel()
            await asyncio.wait({listing})
    name = "idempotency look-up beside a list"
    return _figures(name, {size: median(taken) for size, taken in samples.items()})


async def _list_without_end(log: SqliteLog) -> None:
    while True:
        await log.archive.page(ARCHIVE_KIND, "default", "a-0", below=None, limit=1_000)


async def _archive(path: Path, size: int, stack: AsyncExitStack) -> SqliteLog:
    """So many finished runs of five actions and half as many finished workflow runs."""
    log = SqliteLog(path, EVENT_CODEC)
    stack.push_async_callback(log.close)
    event = RunReleased(namespace="default", run_id="a-1")
    for first in range(1, size + 1, ROWS_PER_APPEND):
        numbers = range(first, min(first + ROWS_PER_APPEND, size + 1))
        rows = [_run_row(number, size) for number in numbers]
        rows += [_workflow_row(number, size) for number in numbers if number % 2 == 0]
        await log.append([event], rows, NOW_MS)
    await log.checkpoint()
    return log


def _run_row(number: int, size: int) -> Archived:
    """The failed ones, as many in every archive, are spread over all of it."""
    action = f"a-{number % 5}"
    status = RunStatus.FAILED if number % (size // 500) < 5 else RunStatus.COMPLETED
    run = Run(
        run_id=f"{action}-{number}", action=action, number=number, input=b"{}", priority=10,
        created_at_ms=NOW_MS, ready_at_ms=NOW_MS, status=status, sequence=number,
    )  # fmt: skip
    return Archived(
        kind=ARCHIVE_KIND, namespace="default", name=action, number=number, status=status,
        finished_at_ms=NOW_MS, key=f"key-{number}", body=_encode(run), sequence=number,
    )  # fmt: skip


def _workflow_row(number: int, size: int) -> Archived:
    is_rare = number % (size // 100) == 0
    status = WorkflowStatus.FAILED if is_rare else WorkflowStatus.COMPLETED
    attributes: dict[str, str | int | float] = {"customer": "7" if is_rare else f"c{number}"}
    summary = WorkflowSummary(
        run_id=f"wfrun-{number}", number=number, workflow="often", version="1", status=status,
        created_at_ms=NOW_MS, finished_at_ms=NOW_MS, attributes=attributes,
    )  # fmt: skip
    return Archived(
        kind=SUMMARY_KIND, namespace="default", name="often", number=number, status=status,
        finished_at_ms=NOW_MS, key=None, body=_encode(summary), sequence=number,
        tags=tags_of(attributes),
    )  # fmt: skip


def _known(size: int) -> State:
    """A state that knows how many runs there have been."""
    state = State()
    space = state.space_made("default")
    space.run_sequence = space.workflow_number = size
    space.numbers = {f"a-{number}": size for number in range(5)}
    return state


def _answering(shard: Shard, message: Message) -> Call:
    async def ask() -> None:
        page: Any = await shard.ask(message)
        assert len(page.items) == 50

    return ask
