"""Many pending runs: claims, start-up, memory, and the pause while a snapshot is taken."""

import asyncio
import shutil
import time
from pathlib import Path

from bench.data import make_pending
from bench.figure import Figure, quantile
from bench.system import ACTION, memory_bytes, server
from flo import Flo
from flo.log.snapshots import SnapshotFolder
from flo.shard.snapshotter import SNAPSHOT_FOLDER, take_snapshot

FEW = 1_000
SOME = 100_000
MANY = 1_000_000
CLAIMS = 20_000
TASKS_PER_CLAIM = 100
PAUSE_PINGS_EVERY_S = 0.002


async def run(folder: Path) -> list[Figure]:
    few, some, many = folder / "few", folder / "some", folder / "many"
    for place, count in ((few, FEW + CLAIMS), (some, SOME), (many, MANY)):
        place.mkdir()
        await make_pending(place, count)
    _, empty = _start_up(folder / "empty")
    with server(few) as process:
        rate_few = await _claim_rate(process.address)
    start_some, _ = _start_up(some)
    start_many, memory = _start_up(many)
    with server(many, snapshot_events=10**9) as process:
        rate_many = await _claim_rate(process.address)
    pauses = await _pauses_during_snapshot(many)
    shutil.rmtree(many / SNAPSHOT_FOLDER, ignore_errors=True)
    take_snapshot(many)
    start_snapshot, _ = _start_up(many)
    return [
        Figure(name="claim + complete, 1,000,000 pending", value=rate_many, unit="tasks/s",
               goal=0.8 * rate_few, floor=rate_few, floor_name="tasks/s with 1,000 pending"),
        Figure(name="ready after start, 100,000 pending", value=start_some, unit="s"),
        Figure(name="ready after start, 1,000,000 pending, no snapshot", value=start_many,
               unit="s", goal=10, more_is_better=False),
        Figure(name="ready after start, 1,000,000 pending, snapshot", value=start_snapshot,
               unit="s", goal=10, more_is_better=False),
        Figure(name="server memory per pending run of 100 B", value=(memory - empty) / MANY,
               unit="B", goal=1_200, more_is_better=False),
        Figure(name="longest pause during a snapshot of 1,000,000", value=max(pauses) * 1e3,
               unit="ms", goal=50, more_is_better=False, floor=quantile(pauses, 0.5) * 1e3,
               floor_name="ms, ping p50 meanwhile"),
    ]  # fmt: skip


def _start_up(folder: Path) -> tuple[float, int]:
    began = time.perf_counter()
    with server(folder) as process:
        return time.perf_counter() - began, memory_bytes(process.pid)


async def _claim_rate(address: str) -> float:
    """Claims and completes by one worker that does nothing in between."""
    async with Flo(address) as flo:
        await flo.workers.register("bench", [ACTION], max_concurrency=TASKS_PER_CLAIM)
        began = time.perf_counter()
        done = 0
        while done < CLAIMS:
            assigned = await flo.workers.claim("bench", [ACTION], max_tasks=TASKS_PER_CLAIM)
            await asyncio.gather(
                *(flo.workers.complete(task.task_id, "bench", attempt=task.attempt)
                  for task in assigned.tasks)
            )  # fmt: skip
            done += len(assigned.tasks)
        return done / (time.perf_counter() - began)


async def _pauses_during_snapshot(folder: Path) -> list[float]:
    """How long a ping takes while the server has a snapshot taken."""
    shutil.rmtree(folder / SNAPSHOT_FOLDER, ignore_errors=True)
    taken: list[float] = []
    with server(folder) as process:
        async with Flo(process.address) as flo:
            while not SnapshotFolder(folder / SNAPSHOT_FOLDER).positions():
                began = time.perf_counter()
                await flo.ping()
                taken.append(time.perf_counter() - began)
                await asyncio.sleep(PAUSE_PINGS_EVERY_S)
    return taken
