"""Workers are killed or stopped in mid-task; others take over, and every run is completed once."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from flo import Conflict, Flo, Invocation, RunStatus, RunView
from flo.testing.process import ServerProcess

SCRIPT = Path(__file__).with_name("gated_worker.py")
ACTION = "ship"
LATE_MS_MAX = 1_000


class Crew:
    """Worker processes by their ids."""

    def __init__(self, server: ServerProcess, *worker_ids: str) -> None:
        self.processes = {
            worker_id: subprocess.Popen(
                [sys.executable, SCRIPT, server.address, worker_id], stderr=subprocess.PIPE
            )
            for worker_id in worker_ids
        }

    def kill(self, worker_id: str) -> None:
        self.processes[worker_id].kill()
        self.processes[worker_id].wait()

    def signal(self, worker_id: str, number: signal.Signals) -> None:
        self.processes[worker_id].send_signal(number)

    def drain(self, worker_id: str) -> bytes:
        """Let it end in order; what it had to say."""
        self.processes[worker_id].terminate()
        _, log = self.processes[worker_id].communicate()
        assert self.processes[worker_id].returncode == 0
        return log

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, http_port=-1) as server:
        yield server


@contextmanager
def crew_of(server: ServerProcess, *worker_ids: str) -> Iterator[Crew]:
    crew = Crew(server, *worker_ids)
    with ExitStack() as stack:
        stack.callback(crew.end)
        yield crew


async def close_gate(flo: Flo) -> None:
    await flo.actions.register("gate", timeout_ms=0)
    await flo.actions.invoke("gate")
    await flo.workers.claim("keeper", ["gate"])


async def open_gate(flo: Flo) -> None:
    await flo.workers.complete("gate-1", "keeper", attempt=1)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        pass


async def all_at_work(flo: Flo, crew: Crew, runs_count: int) -> list[Invocation]:
    """As many runs as the crew can hold, all of them in mid-task."""

    async def is_registered() -> bool:
        return len((await flo.workers.list()).items) == len(crew.processes)

    async def is_running() -> bool:
        return (await flo.actions.get(ACTION)).runs["running"] == runs_count

    await until(is_registered)
    invocations = await flo.actions.invoke_many(ACTION, range(runs_count))
    await until(is_running)
    return invocations


async def test_the_tasks_of_killed_workers_are_taken_over_and_each_is_done_once(
    server: ServerProcess,
) -> None:
    dead = ["anna", "boris"]
    with crew_of(server, "anna", "boris", "clara", "dora") as crew:
        async with Flo(server.address) as flo:
            await close_gate(flo)
            invocations = await all_at_work(flo, crew, 8)
            for worker_id in dead:
                crew.kill(worker_id)
            orphans = [one for one in await views(invocations) if one.worker_id in dead]
            await open_gate(flo)
            invocations += await flo.actions.invoke_many(ACTION, range(12))
            await asyncio.gather(*(one.wait() for one in invocations))
            runs = await views(invocations)

            assert len(orphans) == 4
            for orphan in orphans:
                check_takeover(orphan, await flo.actions.status(orphan.run_id))
                await check_late_result(flo, orphan)
            check_results(runs, {"clara", "dora"})
            await check_registry(flo, runs)


def check_takeover(orphan: RunView, run: RunView) -> None:
    """By the times that the run itself has recorded."""
    assert orphan.lease_expires_at_ms is not None
    (lost,) = [attempt for attempt in run.attempts if attempt.number == orphan.attempt]
    assert lost.worker_id == orphan.worker_id
    assert "within its lease" in lost.error
    assert orphan.lease_expires_at_ms <= lost.ended_at_ms
    taken_over_at_ms = started_at_ms(run, orphan.attempt + 1)
    assert taken_over_at_ms <= orphan.lease_expires_at_ms + LATE_MS_MAX


def started_at_ms(run: RunView, number: int) -> int:
    for attempt in run.attempts:
        if attempt.number == number:
            return attempt.started_at_ms
    assert run.started_at_ms is not None
    return run.started_at_ms


async def check_late_result(flo: Flo, orphan: RunView) -> None:
    """What the dead might still have had to say is refused."""
    assert orphan.worker_id is not None
    with pytest.raises(Conflict) as raised:
        await flo.workers.complete(orphan.run_id, orphan.worker_id, b"late", attempt=orphan.attempt)
    assert raised.value.code == "lease_lost"


def check_results(runs: list[RunView], survivors: set[str]) -> None:
    for run in runs:
        assert run.status is RunStatus.COMPLETED
        assert run.worker_id in survivors
        assert run.output == b'{"by":"%s","attempt":%d}' % (run.worker_id.encode(), run.attempt)


async def check_registry(flo: Flo, runs: list[RunView]) -> None:
    """What the registry counts is what the runs tell."""
    workers = (await flo.workers.list()).items
    assert len(workers) == 4
    for worker in workers:
        completed = [run for run in runs if run.worker_id == worker.worker_id]
        failed = [
            attempt
            for run in runs
            for attempt in run.attempts
            if attempt.worker_id == worker.worker_id
        ]
        (process,) = worker.processes
        assert (worker.tasks_completed, worker.tasks_failed) == (len(completed), len(failed))
        assert (process.run_count, process.fail_count) == (len(completed), len(failed))
    assert sum(worker.tasks_completed for worker in workers) == len(runs)


async def test_a_worker_that_was_asleep_while_others_took_over_is_not_heard(
    server: ServerProcess,
) -> None:
    with crew_of(server, "anna", "boris") as crew:
        async with Flo(server.address) as flo:
            await close_gate(flo)
            invocations = await all_at_work(flo, crew, 4)
            crew.signal("anna", signal.SIGSTOP)
            asleep = [one for one in await views(invocations) if one.worker_id == "anna"]
            await open_gate(flo)
            await asyncio.gather(*(one.wait() for one in invocations))
            crew.signal("anna", signal.SIGCONT)
            log = await asyncio.to_thread(crew.drain, "anna")
            runs = await views(invocations)

    assert len(asleep) == 2
    assert {run.worker_id for run in runs} == {"boris"}
    check_results(runs, {"boris"})
    assert re.search(rb"is lost|was refused|has timed out.*the run is completed", log)


async def views(invocations: list[Invocation]) -> list[RunView]:
    return [await one.status() for one in invocations]
