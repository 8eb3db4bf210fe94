"""Workers and servers are killed while they work under limits: no slot is leaked, none is exceeded.

    python tests/acceptance/test_permit_kills.py --kills 1000

    charge    an action, two at a time for each of WHO
    pack      the step of a workflow of which one run at a time is under way for each of WHO

Workers note when they begin and when they have done a task. A task is over when it was done, or
when the server has given its worker up, whichever comes first. So many tasks of a key may never
overlap as its limit allows. In the end everything that was asked for has been done, and work under
every key is served as if nothing had been.
"""

import argparse
import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.permit_worker import CHARGE, CONCURRENCY, LEASE_MS, PACK
from flo import ActionLimits, Flo, TimedOut, Unavailable
from flo.engine.codec import EVENT_CODEC
from flo.engine.runs.events import (
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunQueued,
    RunRequeued,
    RunTimedOut,
)
from flo.engine.state import State
from flo.engine.workflows.events import WorkflowAdmitted, WorkflowFinished, WorkflowStarted
from flo.log.sqlite.entries import read_log
from flo.model.base import Event
from flo.shard.replay import recover
from flo.shard.snapshotter import LOG_FILE
from flo.testing.process import ServerProcess

HERE = Path(__file__).parent
WHO = ("ann", "bob", "cat", "dan")
LIMITS = {CHARGE: 2, PACK: 1}
WORKERS = 5
CLIENTS = 24
SERVER_SHARE = 0.08
"""Of the kills."""
DONE_BETWEEN_KILLS_MAX = 12
PATIENCE_S = 120.0
"""So long may anything take that was asked for, however much is killed meanwhile."""

SHIP = f"""
kind: Workflow
name: ship
version: "1"
idempotency: optional
concurrency: {{key: "{{input.who}}", max: {LIMITS[PACK]}}}
start:
  run: "@actions/{PACK}"
  transitions: {{success: flo.Completed, failure: flo.Failed}}
"""

ENDS = (RunCompleted, RunRequeued, RunFailed, RunTimedOut, RunCancelled)


class Crew:
    """The processes of workers, each with a name that the next one takes over."""

    PROGRAM = "permit_worker.py"

    def __init__(self, address: str, notes: Path) -> None:
        command = [sys.executable, str(HERE / self.PROGRAM), address, str(notes)]
        self._maker = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.pids = {name: self._make(name) for name in map(str, range(WORKERS))}

    def kill(self, name: str) -> None:
        """And make another of this name."""
        os.kill(self.pids[name], signal.SIGKILL)
        self.pids[name] = self._make(name)

    def end(self) -> None:
        assert self._maker.stdin is not None
        self._maker.stdin.close()
        self._maker.wait()
        assert self._maker.stdout is not None
        self._maker.stdout.close()

    def _make(self, name: str) -> int:
        assert self._maker.stdin is not None
        assert self._maker.stdout is not None
        print(name, file=self._maker.stdin, flush=True)
        return int(self._maker.stdout.readline())


class Ordeal:
    """Everybody who takes part, and what has come of it."""

    def __init__(
        self, folder: Path, seed: int, kills: int, *, bug: str = "", patience_s: float = PATIENCE_S
    ) -> None:
        self.kills: Counter[str] = Counter()
        self.done = 0
        self.problems: list[str] = []
        self.data = folder / "data"
        self.notes = folder / "notes"
        self._kills_max = kills
        self._patience_s = patience_s
        self._rng = random.Random(seed)
        self._heard = asyncio.Event()
        self._is_over = False
        program = [str(HERE / "broken_server.py"), bug] if bug else None
        settings = {"snapshot_events": 3_000, "log_retention_events": 1_000_000_000}
        self._server = ServerProcess(self.data, program=program, http_port=-1, **settings)

    async def live_through(self) -> list[str]:
        """What is wrong after all of it."""
        with self._server as server:
            async with Flo(server.address) as flo:
                await _register(flo)
                crew = Crew(server.address, self.notes)
                try:
                    await self._work_and_kill(flo, crew)
                    if not self.problems:
                        await self._find_leaks(flo)
                finally:
                    await asyncio.to_thread(crew.end)
        events = list(_events_in(self.data))
        self.problems += overlaps(tasks_in(self.notes, events))
        self.problems += crowds_in(events)
        if not self.problems:
            self.problems += leftovers(
                recover(lambda first: read_log(_log(self.data), EVENT_CODEC, first)).state
            )
        return self.problems

    async def _work_and_kill(self, flo: Flo, crew: Crew) -> None:
        clients = [asyncio.create_task(self._ask_all_along(flo, n)) for n in range(CLIENTS)]
        for _ in range(self._kills_max):
            if not await self._progress(self._rng.randint(1, DONE_BETWEEN_KILLS_MAX)):
                break
            await asyncio.to_thread(self._kill_one, crew)
        self._is_over = True
        await asyncio.wait(clients)
        for client in clients:
            client.result()

    def _kill_one(self, crew: Crew) -> None:
        if self._rng.random() < SERVER_SHARE:
            self.kills["server"] += 1
            self._server.kill()
            self._server.start()
        else:
            self.kills["worker"] += 1
            crew.kill(self._rng.choice(list(crew.pids)))

    async def _ask_all_along(self, flo: Flo, number: int) -> None:
        """One after the other, every key in turn: half of them the action, half the workflow."""
        count = 0
        while not self._is_over and not self.problems:
            who = WHO[(number // 2 + count) % len(WHO)]
            count += 1
            await self._ask(flo, PACK if number % 2 else CHARGE, who, f"{number}-{count}")

    async def _ask(self, flo: Flo, what: str, who: str, key: str) -> None:
        """Ask until it is done; what was asked before is not asked twice."""
        until_s = time.monotonic() + self._patience_s
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                if what == CHARGE:
                    run = await flo.actions.invoke(CHARGE, {"who": who}, idempotency_key=key)
                    await run.wait(timeout=left_s)
                else:
                    ship = await flo.workflows.start("ship", {"who": who}, idempotency_key=key)
                    await ship.result(timeout=left_s)
            except TimedOut:
                break
            except Unavailable:
                continue
            self.done += 1
            self._heard.set()
            return
        self.problems.append(f"{what} {key} of {who} is not done after {self._patience_s:g} s")
        self._heard.set()

    async def _progress(self, count: int) -> bool:
        """So many are done; False if something is found not to be."""
        until = self.done + count
        while self.done < until and not self.problems:
            self._heard.clear()
            await self._heard.wait()
        return not self.problems

    async def _find_leaks(self, flo: Flo) -> None:
        """Every slot of every key is used at once, and several times over."""
        fresh = [
            self._ask(flo, what, who, f"fresh-{what}-{who}-{n}")
            for what, most in LIMITS.items()
            for who in WHO
            for n in range(3 * most)
        ]
        await asyncio.gather(*fresh)


class Task(NamedTuple):
    """One attempt at a run, for as long as it went on, in milliseconds."""

    key: str
    name: str
    begun_ms: int
    over_ms: int


def tasks_in(notes: Path, events: Iterable[Event]) -> list[Task]:
    """What the workers have noted; and for those that were killed, what the log says."""
    claimed, over_ms = attempts_in(events)
    begun: dict[tuple[str, int], tuple[int, str]] = {}
    for line in notes.read_text().splitlines():
        at_ms, what, key, run_id, attempt, worker = line.split()
        one = run_id, int(attempt)
        assert claimed[one] == worker, f"{line!r}, but the log has {claimed[one]!r}"
        if what == "begun":
            begun[one] = int(at_ms), key
        else:
            over_ms[one] = min(over_ms.get(one, int(at_ms)), int(at_ms))
    return [
        Task(key, f"{run_id}/{attempt}", at_ms, max(at_ms, over_ms[run_id, attempt]))
        for (run_id, attempt), (at_ms, key) in begun.items()
    ]


def attempts_in(
    events: Iterable[Event],
) -> tuple[dict[tuple[str, int], str], dict[tuple[str, int], int]]:
    """Who claimed each attempt, and when the server took it to be over."""
    claimed: dict[tuple[str, int], str] = {}
    over_ms: dict[tuple[str, int], int] = {}
    attempts: dict[str, int] = {}
    for event in events:
        if isinstance(event, RunClaimed):
            attempts[event.run_id] = event.attempt
            claimed[event.run_id, event.attempt] = event.worker_id
        elif isinstance(event, ENDS):
            over_ms[event.run_id, attempts[event.run_id]] = event.at_ms
    return claimed, over_ms


def overlaps(tasks: list[Task]) -> list[str]:
    """The tasks that went on while as many as may of their key did."""
    by_key: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        by_key[task.key].append(task)
    return [
        f"{task.name} of {key} began while {', '.join(one.name for one in others)} went on"
        for key, some in by_key.items()
        for task, others in _company(some)
        if len(others) >= LIMITS[key.partition("/")[0]]
    ]


def _company(tasks: list[Task]) -> Iterator[tuple[Task, list[Task]]]:
    """Each task, with those that went on when it began."""
    under_way: list[Task] = []
    for task in sorted(tasks, key=lambda task: task.begun_ms):
        under_way = [one for one in under_way if one.over_ms > task.begun_ms]
        yield task, under_way
        under_way = [*under_way, task]


def most_at_once(tasks: list[Task]) -> Counter[str]:
    """How many tasks of an action went on under one key, at most."""
    most: Counter[str] = Counter()
    for key in {task.key for task in tasks}:
        action = key.partition("/")[0]
        for _, others in _company([task for task in tasks if task.key == key]):
            most[action] = max(most[action], 1 + len(others))
    return most


def crowds_in(events: Iterable[Event]) -> list[str]:
    """Where the log itself has more under way of a key than its limit."""
    key_of: dict[str, tuple[str, str]] = {}
    under_way: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    problems = []
    for event in events:
        match event:
            case RunQueued(run=run) if run.limit_key is not None:
                key_of[run.run_id] = run.action, run.limit_key
            case WorkflowStarted(run=run) if run.limit_key is not None:
                key_of[run.run_id] = PACK, run.limit_key
            case RunClaimed(run_id=run_id) | WorkflowAdmitted(run_id=run_id) if run_id in key_of:
                crowd = under_way[key_of[run_id]]
                crowd.add(run_id)
                if len(crowd) > LIMITS[key_of[run_id][0]]:
                    problems.append(f"the log has under way of {key_of[run_id]}: {sorted(crowd)}")
            case _ if isinstance(event, (*ENDS, WorkflowFinished)) and event.run_id in key_of:
                under_way[key_of[event.run_id]].discard(event.run_id)
            case _:
                pass
    return problems


def leftovers(state: State) -> list[str]:
    """Slots that somebody has although everything is done."""
    space = state.space("default")
    live = [f"{run_id} is not done" for run_id in (*space.runs, *space.executions)]
    permits = {**space.action_permits, **space.workflow_permits}
    return live + [f"{key} is held by {list(one.holders)}" for key, one in permits.items()]


async def _register(flo: Flo) -> None:
    limits = ActionLimits(concurrency_max=LIMITS[CHARGE], concurrency_key="{input.who}")
    settings = {"timeout_ms": LEASE_MS, "max_retries": 1_000, "retry_delay_ms": 1}
    await flo.actions.register(CHARGE, limits=limits, **settings)
    await flo.actions.register(PACK, **settings)
    await flo.workflows.create(SHIP)


def _log(data: Path) -> Path:
    return data / LOG_FILE


def _events_in(data: Path) -> Iterator[Event]:
    for entry in read_log(_log(data), EVENT_CODEC, 0):
        yield from entry.events


async def test_no_slot_is_leaked_and_no_limit_exceeded_when_workers_and_servers_are_killed(
    tmp_path: Path,
) -> None:
    ordeal = Ordeal(tmp_path, seed=4, kills=40)

    assert await ordeal.live_through() == []
    assert ordeal.kills == {"server": 3, "worker": 37}
    assert most_at_once(tasks_in(ordeal.notes, _events_in(ordeal.data))) == LIMITS


async def test_a_server_that_leaks_slots_is_found_out(tmp_path: Path) -> None:
    ordeal = Ordeal(tmp_path, seed=2, kills=60, bug="leaky", patience_s=3.0)

    problems = await ordeal.live_through()

    assert any(f"{CHARGE} " in problem and "not done" in problem for problem in problems)


async def test_a_server_that_lets_everybody_in_is_found_out(tmp_path: Path) -> None:
    ordeal = Ordeal(tmp_path, seed=3, kills=5, bug="careless")

    problems = await ordeal.live_through()

    assert any(f"of {CHARGE}/" in problem and "went on" in problem for problem in problems)
    assert any(f"of {PACK}/" in problem and "went on" in problem for problem in problems)
    assert any("the log has under way" in problem for problem in problems)


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([(0, 10), (0, 10), (10, 12)], []),
        ([(0, 10), (0, 10), (9, 12)], ["charge-2/1"]),
        ([(0, 10), (5, 20), (10, 12), (19, 25)], []),
        ([(5, 9), (0, 20), (6, 7), (20, 21)], ["charge-2/1"]),
    ],
)
def test_overlaps_are_counted(times: list[tuple[int, int]], found: list[str]) -> None:
    tasks = [Task("charge/ann", f"charge-{n}/1", *time) for n, time in enumerate(times)]

    assert [problem.split()[0] for problem in overlaps(tasks)] == found


async def _main(kills: int, seed: int) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="flo-slots-") as folder:
        ordeal = Ordeal(Path(folder), seed, kills)
        problems = await ordeal.live_through()
        events = list(_events_in(ordeal.data))
        tasks = tasks_in(ordeal.notes, events)
    given_up = sum(isinstance(event, RunRequeued) for event in events)
    print(f"{sum(ordeal.kills.values())} kills, seed {seed}: {dict(ordeal.kills)}")
    print(f"{WORKERS} workers of {CONCURRENCY} tasks, {CLIENTS} clients, {ordeal.done} done")
    print(f"{len(tasks)} attempts, {given_up} of them given up by the server; {len(events)} events")
    print(f"most at once for a key: {dict(most_at_once(tasks))}, allowed: {LIMITS}")
    print(f"{time.monotonic() - began:.0f} s")
    print(f"{len(problems)} problems", *problems, sep="\n")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    logging.disable()  # a client tells of every connection that it loses
    return asyncio.run(_main(chosen.kills, chosen.seed))


if __name__ == "__main__":
    sys.exit(main())
