"""The server is killed again and again under a trigger: each event is in exactly one run.

    python tests/acceptance/test_trigger_kills.py --events 100000 --kills 20

A client appends the numbers from 0 on, a worker performs the action of the runs, and the server is
killed at moments that the seed decides. An append whose answer was lost is looked up in the stream
before the next one is made, so that the stream holds each number once. At the end the inputs of
all runs are laid beside the stream.
"""

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from flo import ActionWorker, Flo, NotFound, Unavailable
from flo.model.ids import LIST_LIMIT_MAX
from flo.model.storage.records import StreamRecord
from flo.model.streams import RECORDS_PER_READ_MAX
from flo.model.workflows import WorkflowRunView
from flo.testing.process import ServerProcess

STREAM = "numbers"
WORKFLOW = "count"
GROUP = f"wf-{WORKFLOW}"
ACTION = "see"
APPEND_MAX = 200
AHEAD_MAX = 500
"""Appends stay this close to the runs, so that a kill meets both."""
CONCURRENCY = 500
LEASE_MS = 2_000
"""Tasks whose way to the worker was cut off come again after this."""

TRIGGER = f"trigger: {{stream: {STREAM}, batch_size: %d, batch_timeout_ms: 100}}\n"
TEXT = f"""\
kind: Workflow
name: {WORKFLOW}
version: "1"
start:
  run: "@actions/{ACTION}"
  transitions: {{success: flo.Completed, failure: flo.Failed}}
"""


class Trace:
    """How far it has come, and what has happened on the way."""

    def __init__(self, seed: int, events: int) -> None:
        self.rng = random.Random(seed)
        self.events = events
        self.appended = 0
        self.lost = 0
        """Appends whose answer was lost."""
        self.found = 0
        """Those of them that had been made."""
        self.seen: set[int] = set()
        """The events of the tasks that the worker was given."""
        self._heard = asyncio.Event()

    def see(self, event: int | list[int]) -> None:
        self.seen.update(event if isinstance(event, list) else [event])
        self._heard.set()

    async def reaches(self, count: int) -> None:
        while len(self.seen) < count:
            self._heard.clear()
            await self._heard.wait()


async def trigger_through_kills(
    server: ServerProcess, trace: Trace, kills: int, batch_size: int = 1
) -> "End":
    async with Flo(server.address) as flo, working(flo, trace):
        await flo.workflows.create(TEXT + TRIGGER % batch_size)
        async with asyncio.TaskGroup() as group:
            group.create_task(append_all(flo, trace))
            group.create_task(kill_again_and_again(server, trace, kills))
        return await the_end(flo)


@asynccontextmanager
async def working(flo: Flo, trace: Trace) -> AsyncIterator[None]:
    worker = ActionWorker(flo, worker_id="anna", concurrency=CONCURRENCY)

    @worker.action(ACTION, timeout_ms=LEASE_MS, max_retries=1_000, retry_delay_ms=1)
    async def see(event: int | list[int]) -> None:
        trace.see(event)

    async with asyncio.TaskGroup() as group:
        group.create_task(worker.serve())
        yield
        worker.stop()


async def append_all(flo: Flo, trace: Trace) -> None:
    while trace.appended < trace.events:
        await trace.reaches(trace.appended - AHEAD_MAX)
        end = min(trace.appended + trace.rng.randint(1, APPEND_MAX), trace.events)
        try:
            await flo.streams.append_many(STREAM, range(trace.appended, end))
        except Unavailable as error:
            if error.code != "connection_lost":
                raise
            trace.lost += 1
            if await _count_in_stream(flo) == trace.appended:
                continue
            trace.found += 1
        trace.appended = end


async def _count_in_stream(flo: Flo) -> int:
    try:
        newest = (await flo.streams.read(STREAM, last=1)).items
    except NotFound:
        return 0
    return int(newest[-1].payload) + 1


async def kill_again_and_again(server: ServerProcess, trace: Trace, kills: int) -> None:
    for kill in range(kills):
        share = (kill + trace.rng.random()) / kills
        await trace.reaches(int(trace.events * share))
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)


class End(NamedTuple):
    """The stream and the runs, when everything has come to rest."""

    stream: list[int]
    runs: list[WorkflowRunView]

    def problems(self, events: int) -> list[str]:
        """What speaks against it that each of these events was in exactly one run."""
        held = Counter(self.stream)
        started = Counter(event for run in self.runs for event in _events_of(run))
        problems = {
            "the stream is not the numbers in their order": self.stream != list(range(events)),
            "events in no run": (held - started).total(),
            "events in more than one run": (started - held).total(),
            "runs that have not completed": sum(run.status != "completed" for run in self.runs),
        }
        return [f"{what}: {count}" for what, count in problems.items() if count]


def _events_of(run: WorkflowRunView) -> list[int]:
    event = json.loads(run.input)
    return event if isinstance(event, list) else [event]


async def the_end(flo: Flo) -> End:
    """Wait until every event is settled and every run has ended, and look at all of them."""
    group = flo.streams.group(STREAM, GROUP)
    while True:
        view = await group.info()
        live = (await flo.workflows.get(WORKFLOW)).live_runs
        if not (view.lag or view.pending or view.waiting or live):
            return End([int(record.payload) for record in await _records(flo)], await _runs(flo))


async def _records(flo: Flo) -> list[StreamRecord]:
    found: list[StreamRecord] = []
    after = "0-0"
    while True:
        page = await flo.streams.read(STREAM, after=after, limit=RECORDS_PER_READ_MAX)
        if not page.items:
            return found
        found += page.items
        after = page.last


async def _runs(flo: Flo) -> list[WorkflowRunView]:
    """All of them, live and ended, each with its input, which a list does not show."""
    found: list[WorkflowRunView] = []
    cursor = None
    while True:
        page = await flo.workflows.runs(workflow=WORKFLOW, limit=LIST_LIMIT_MAX, cursor=cursor)
        found += await asyncio.gather(*[flo.workflows.status(item.run_id) for item in page.items])
        cursor = page.cursor
        if cursor is None:
            return found


class TriggerByHand:
    """A trigger as a client would write it: to start runs and to settle their events is two calls.

    It dies once between the two, and the server with it; another one goes on in its place.
    """

    def __init__(self, server: ServerProcess, flo: Flo, trace: Trace, acks_first: bool) -> None:
        self._server = server
        self._flo = flo
        self._group = flo.streams.group(STREAM, GROUP)
        self._acks_first = acks_first
        self._dies_at = trace.rng.randrange(trace.events // 2)
        self._started = 0

    async def start_all(self) -> None:
        if not await self._start_some("hand-1"):
            await asyncio.to_thread(self._server.kill)
            await asyncio.to_thread(self._server.start)
            await self._group.leave("hand-1")
            await self._start_some("hand-2")

    async def _start_some(self, name: str) -> bool:
        """Whether it has come to the end without dying."""
        while True:
            page = await self._group.read(name, limit=50)
            if not page.items:
                return True
            if not await self._take(page.items):
                return False

    async def _take(self, records: list[StreamRecord]) -> bool:
        parts = [self._start, self._group.ack]
        first, second = reversed(parts) if self._acks_first else parts
        await first(records)
        if self._dies_at is not None and self._started >= self._dies_at:
            self._dies_at = None
            return False
        await second(records)
        return True

    async def _start(self, records: list[StreamRecord]) -> None:
        numbers = [int(record.payload) for record in records]
        await asyncio.gather(*[self._flo.workflows.start(WORKFLOW, number) for number in numbers])
        self._started += len(records)


async def trigger_by_hand(server: ServerProcess, trace: Trace, acks_first: bool) -> End:
    async with Flo(server.address) as flo, working(flo, trace):
        await flo.workflows.create(TEXT)
        await flo.streams.append_many(STREAM, range(trace.events))
        await TriggerByHand(server, flo, trace, acks_first).start_all()
        return await the_end(flo)


@pytest.fixture
def server(tmp_path):
    with ServerProcess(tmp_path, http_port=-1) as server:
        yield server


async def test_every_event_starts_exactly_one_run_although_the_server_is_killed(server):
    trace = Trace(seed=1, events=1_000)
    end = await trigger_through_kills(server, trace, kills=3)

    assert end.problems(trace.events) == []
    assert len(end.runs) == 1_000
    assert {run.triggered_by for run in end.runs} == {"trigger"}


async def test_every_event_is_in_exactly_one_batch_although_the_server_is_killed(server):
    trace = Trace(seed=2, events=1_000)
    end = await trigger_through_kills(server, trace, kills=3, batch_size=10)

    assert end.problems(trace.events) == []
    sizes = Counter(len(_events_of(run)) for run in end.runs)
    assert max(sizes) == 10
    assert sizes[10] > 50


@pytest.mark.parametrize(
    ("acks_first", "problem"),
    [(True, "events in no run: 50"), (False, "events in more than one run: 50")],
)
async def test_a_trigger_in_two_commits_is_found_out(server, acks_first, problem):
    trace = Trace(seed=3, events=300)
    end = await trigger_by_hand(server, trace, acks_first)

    assert end.problems(trace.events) == [problem]


async def _main(events: int, kills: int, batch_size: int, seed: int) -> int:
    trace = Trace(seed, events)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="flo-trigger-") as folder,
        ServerProcess(Path(folder), http_port=-1) as server,
    ):
        end = await trigger_through_kills(server, trace, kills, batch_size)
    took_s = time.monotonic() - began
    problems = end.problems(events)
    print(f"{kills} kills, seed {seed}, batches of {batch_size}, {took_s:.0f} s")
    print(f"{len(end.stream)} events, {len(end.runs)} runs")
    print(f"{trace.lost} appends whose answer was lost; {trace.found} of them had been made")
    print(f"{len(problems)} problems", *problems, sep="\n")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    logging.disable()  # a worker tells of every task that the dead server took with it
    return asyncio.run(_main(chosen.events, chosen.kills, chosen.batch_size, chosen.seed))


if __name__ == "__main__":
    sys.exit(main())
