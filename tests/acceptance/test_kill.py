"""The server is killed with SIGKILL under load, again and again; nothing acknowledged is lost.

python tests/acceptance/test_kill.py --kills 1000
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.fork_server import ForkServer, fork_server
from flo import Flo, FloError, NotFound, Rejected, Unavailable
from flo.engine.codec import EVENT_CODEC
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.entries import read_log
from flo.model.runs import RunStatus
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from flo.shard.snapshotter import LOG_FILE, SNAPSHOT_FOLDER
from flo.testing.process import ServerProcess

KILLS = 50
CLIENTS = 4
WORKERS = 2
ACTION = "charge"


class Trace:
    """What the server has acknowledged, noted by those it acknowledged it to."""

    def __init__(self) -> None:
        self.invoked: set[str] = set()
        self.by_key: dict[str, set[str]] = {}
        self.completed: dict[str, set[str]] = {}
        self.registrations = 0
        self.acknowledgements = 0
        self.is_over = False
        self._heard = asyncio.Event()

    def acknowledge(self) -> None:
        self.acknowledgements += 1
        self._heard.set()

    async def hear_more(self, count: int) -> None:
        until = self.acknowledgements + count
        while self.acknowledgements < until:
            self._heard.clear()
            await self._heard.wait()


async def register(flo: Flo, trace: Trace) -> None:
    await flo.actions.register(ACTION, timeout_ms=1_000, max_retries=100, retry_delay_ms=1)
    trace.registrations += 1


async def invoke_all_along(flo: Flo, trace: Trace, name: str) -> None:
    """Invoke with keys, each key twice, and without; remember what was acknowledged."""
    number = 0
    while not trace.is_over:
        number += 1
        key = f"{name}-{number // 2}" if number % 3 else None
        try:
            invocation = await flo.actions.invoke(ACTION, {"n": number}, idempotency_key=key)
        except NotFound:  # the server has forgotten the action
            await register(flo, trace)
            continue
        except Unavailable:
            continue  # it was not acknowledged
        trace.invoked.add(invocation.run_id)
        if key is not None:
            trace.by_key.setdefault(key, set()).add(invocation.run_id)
        trace.acknowledge()


async def work_all_along(flo: Flo, trace: Trace, name: str) -> None:
    """Claim and complete; remember which completions were acknowledged, and with what."""
    execution = 0
    while True:
        try:
            assigned = await flo.workers.claim(name, [ACTION], max_tasks=8, block_ms=500)
            for task in assigned.tasks:
                execution += 1
                output = f"{name}/{execution}"
                await flo.workers.complete(
                    task.task_id, name, output.encode(), attempt=task.attempt
                )
                trace.completed.setdefault(task.task_id, set()).add(output)
                trace.acknowledge()
        except (Unavailable, Rejected):
            continue  # the lease was lost, or the claim was: the run comes again


async def kill_again_and_again(
    server: ServerProcess, trace: Trace, seed: int, kills: int, snapshots: SnapshotFolder | None
) -> None:
    """Not all of them before there is a snapshot, where snapshots are taken."""
    rng = random.Random(seed)
    for number in range(kills):
        while number == kills // 2 and snapshots is not None and not snapshots.positions():
            await trace.hear_more(10)
        await trace.hear_more(rng.randint(1, 120))
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)


async def live_through(
    server: ServerProcess, seed: int, kills: int, snapshots: SnapshotFolder | None = None
) -> tuple[Trace, list[str]]:
    """The whole trace, and what is wrong with its end."""
    trace = Trace()
    async with Flo(server.address) as flo:
        await register(flo, trace)
        async with asyncio.TaskGroup() as workers:
            working = [
                workers.create_task(work_all_along(flo, trace, f"worker-{number}"))
                for number in range(WORKERS)
            ]
            async with asyncio.TaskGroup() as clients:
                for number in range(CLIENTS):
                    clients.create_task(invoke_all_along(flo, trace, f"client-{number}"))
                await kill_again_and_again(server, trace, seed, kills, snapshots)
                trace.is_over = True
            problems = await look_back(flo, trace)
            for task in working:
                task.cancel()
    return trace, problems


async def look_back(flo: Flo, trace: Trace) -> list[str]:
    problems = [f"{key}: {ids}" for key, ids in trace.by_key.items() if len(ids) > 1]
    for run_id in sorted(trace.invoked | set(trace.completed)):
        try:
            run = await flo.actions.wait(run_id, timeout=60)
        except FloError as error:
            problems.append(f"{run_id}: {error}")
            continue
        outputs = trace.completed.get(run_id, set())
        if run.status is not RunStatus.COMPLETED:
            problems.append(f"{run_id} has ended {run.status}: {run.error}")
        elif len(outputs) > 1:
            problems.append(f"{run_id} was completed twice: {outputs}")
        elif outputs and outputs != {(run.output or b"").decode()}:
            problems.append(f"{run_id}: acknowledged {outputs}, found {run.output!r}")
    return problems


async def test_nothing_acknowledged_is_lost_in_fifty_kills(tmp_path: Path) -> None:
    with fork_server() as servers, kept_log(servers, tmp_path) as server:
        snapshots = SnapshotFolder(tmp_path / SNAPSHOT_FOLDER)
        trace, problems = await live_through(server, seed=1, kills=KILLS, snapshots=snapshots)

    assert problems == []
    assert trace.registrations == 1
    assert len(trace.invoked) > KILLS
    assert len(trace.completed) > KILLS
    read = partial(read_log, tmp_path / LOG_FILE, EVENT_CODEC)
    assert snapshots.positions()
    assert fingerprint(recover(read, snapshots).state) == fingerprint(recover(read).state)


async def test_a_server_that_keeps_nothing_is_found_out(tmp_path: Path) -> None:
    with (
        fork_server() as servers,
        servers.server(tmp_path, http_port=-1, durability="ephemeral") as server,
    ):
        trace, problems = await live_through(server, seed=1, kills=3)

    assert problems != []
    assert trace.registrations > 1


def kept_log(servers: ForkServer, folder: Path) -> ServerProcess:
    """A server that takes many snapshots and keeps its whole log all the same."""
    return servers.server(
        folder, http_port=-1, snapshot_events=500, log_retention_events=1_000_000_000
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a server under load; look what is lost.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=1_000)
    chosen = parser.parse_args()
    logging.disable()  # a client tells of every connection that it loses
    with (
        tempfile.TemporaryDirectory(prefix="flo-kill-") as folder,
        fork_server() as servers,
        kept_log(servers, Path(folder)) as server,
    ):
        trace, problems = asyncio.run(live_through(server, chosen.seed, chosen.kills))
    print(f"{chosen.kills} kills, {len(trace.invoked)} runs acknowledged,", end=" ")
    print(f"{len(trace.completed)} results acknowledged, {len(problems)} problems", *problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
