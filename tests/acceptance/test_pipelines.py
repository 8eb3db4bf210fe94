"""Workers and servers are killed while a pipeline runs: every batch has its result exactly once.

    python tests/acceptance/test_pipelines.py --batches 10000 --server-kills 20

    make ──▸ left    each batch of ITEMS numbers in parts of SIZE
      └────▸ right   the same
    left, right ──▸ sums of what their parts have counted

A worker is killed every second, the server now and then. In the end every part of every batch has
one result of each consumer, and the sums are exact. The control, in which batches count as done
when they are handed out, must lose some.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.adding_worker import ITEMS, SIZE, items_of
from flo import (
    Batch,
    BatchResult,
    Flo,
    PipelineStatus,
    PipelineView,
    PipelineWorker,
    RoleHandler,
    RunContext,
    TimedOut,
    Unavailable,
)
from flo.core.stable_hash import stable_hash
from flo.testing.process import ServerProcess

HERE = Path(__file__).parent
CONSUMERS = ("left", "right")
WORKERS = 5
END_TIMEOUT_S = 1_200
CANCELS = 30


def graph_of(count: int) -> dict[str, Any]:
    pull = {
        "input_adapter": "pull.from_artifacts.rechunk:size",
        "input_args": {"from_nodes": ["make"], "size": SIZE, "meta_list_key": "items"},
    }
    make = {"node_id": "make", "type": "maker", "io": {"input_inline": {"count": count}}}
    consumers = [
        {
            "node_id": name,
            "type": name,
            "depends_on": ["make"],
            "io": {"start_when": "first_batch", "input_inline": pull},
        }
        for name in CONSUMERS
    ]
    sums = [
        {
            "node_id": f"sum-{name}",
            "type": "coordinator_fn",
            "depends_on": [name],
            "io": {"fn": "metrics.aggregate", "fn_args": {"node_id": name}},
        }
        for name in CONSUMERS
    ]
    return {"nodes": [make, *consumers, *sums]}


# ── killed workers, killed servers ────────────────────────────────────────────────────────────────


class WorkerPool:
    """Processes that work; one that is killed is followed by another."""

    def __init__(self, maker: subprocess.Popen[str]) -> None:
        self._maker = maker
        self._names = 0
        self.pids: list[int] = []

    def add(self) -> None:
        assert self._maker.stdin is not None
        assert self._maker.stdout is not None
        self._names += 1
        self._maker.stdin.write(f"worker-{self._names}\n")
        self._maker.stdin.flush()
        self.pids.append(int(self._maker.stdout.readline()))

    def kill_one(self, rng: random.Random) -> None:
        pid = self.pids.pop(rng.randrange(len(self.pids)))
        os.kill(pid, signal.SIGKILL)
        self.add()


@contextmanager
def worker_pool(address: str, mode: str) -> Iterator[WorkerPool]:
    program = [sys.executable, str(HERE / "adding_worker.py"), address, mode]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as maker:
        pool = WorkerPool(maker)
        for _ in range(WORKERS):
            pool.add()
        yield pool
        assert maker.stdin is not None
        maker.stdin.close()


class KillsDone(NamedTuple):
    pipeline: PipelineView
    workers: int
    servers: int
    took_s: float
    problems: list[str]


async def run_with_kills(
    folder: Path,
    count: int,
    server_kills: int,
    *,
    interval_s: float,
    mode: str = "sound",
    pause_ms: int = 0,
) -> KillsDone:
    rng = random.Random(count)
    began_s = time.monotonic()
    with ServerProcess(folder / "data") as server, worker_pool(server.address, mode) as pool:
        async with Flo(server.address) as flo:
            pipeline = await flo.pipelines.submit(graph_of(count), {"pause_ms": pause_ms})
            ended: PipelineView | None = None
            kills = killed_servers = 0
            while ended is None and time.monotonic() < began_s + END_TIMEOUT_S:
                with suppress(TimedOut, Unavailable):
                    ended = await flo.pipelines.wait(pipeline.id, interval_s)
                if ended is not None:
                    break
                pool.kill_one(rng)
                kills += 1
                if killed_servers < server_kills:
                    killed_servers += 1
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
            took_s = time.monotonic() - began_s
            if ended is None:
                ended = await flo.pipelines.status(pipeline.id)
            problems = await problems_in(flo, ended, count)
    return KillsDone(ended, kills, killed_servers, took_s, problems)


async def problems_in(flo: Flo, pipeline: PipelineView, count: int) -> list[str]:
    """What is not as it has to be: a missing, a repeated or a wrong result, a wrong sum."""
    problems = []
    if pipeline.status is not PipelineStatus.FINISHED:
        problems.append(f"the pipeline is {pipeline.status}")
    for name in CONSUMERS:
        found: Counter[str] = Counter()
        metas = {}
        async for artifact in flo.pipelines.each_artifact(pipeline.id, name):
            if artifact.status == "partial" and artifact.batch_uid is not None:
                found[artifact.batch_uid] += 1
                metas[artifact.batch_uid] = json.loads(artifact.meta)
        wanted = expected(count)
        missing, repeated = wanted.keys() - found.keys(), [uid for uid in found if found[uid] > 1]
        wrong = [uid for uid in wanted.keys() & metas.keys() if metas[uid] != wanted[uid]]
        for what, uids in (("missing", missing), ("repeated", repeated), ("wrong", wrong)):
            if uids:
                problems.append(f"{name}: {len(uids)} of {len(wanted)} results are {what}")
        stats = next(node.stats for node in pipeline.nodes if node.node_id == name)
        numbers = count * ITEMS
        sums = {"count": float(numbers), "total": float(numbers * (numbers - 1) // 2)}
        if stats != sums:
            problems.append(f"{name}: expected {sums}, got {stats}")
    return problems


def expected(count: int) -> dict[str, dict[str, int]]:
    """The uid of every part of every batch, and what its result says."""
    found = {}
    for number in range(count):
        items = items_of(number)
        for place, start in enumerate(range(0, ITEMS, SIZE)):
            part = items[start : start + SIZE]
            uid = stable_hash({"src": "make", "parent": f"b{number}", "idx": place})
            found[uid] = {"count": len(part), "total": sum(part)}
    return found


async def test_killed_workers_and_servers_lose_no_batch_and_repeat_none(tmp_path: Path) -> None:
    done = await run_with_kills(tmp_path, 300, 1, interval_s=0.5, pause_ms=2)

    assert done.problems == []


async def test_the_control_that_claims_first_loses_batches(tmp_path: Path) -> None:
    done = await run_with_kills(tmp_path, 300, 0, interval_s=0.3, mode="claims-first", pause_ms=3)

    assert any("missing" in problem for problem in done.problems)


# ── cancelled pipelines ───────────────────────────────────────────────────────────────────────────


class Heeds(RoleHandler):
    """Waits until it is cancelled, and notes when it has heard of it."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.heard_s: float | None = None

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        self.started.set()
        await ctx.cancel_flag.wait()
        self.heard_s = time.monotonic()
        raise asyncio.CancelledError


async def heard_after(flo: Flo) -> tuple[float, PipelineView]:
    """How many seconds a handler has to wait for a cancel; and how the pipeline ends."""
    nodes = [
        {"node_id": "runs", "type": "heeds"},
        {"node_id": "waits", "type": "heeds", "depends_on": ["runs"]},
        {"node_id": "fails", "type": "nobody", "depends_on": ["runs"], "fan_in": "any"},
    ]
    heeds = Heeds()
    worker = PipelineWorker(flo.address, handlers={"heeds": heeds})
    serving = asyncio.create_task(worker.serve())
    pipeline = await flo.pipelines.submit({"nodes": nodes})
    await heeds.started.wait()
    began_s = time.monotonic()
    await pipeline.cancel("enough")
    ended = await pipeline.wait(timeout=30)
    worker.stop()
    await serving
    assert heeds.heard_s is not None
    return heeds.heard_s - began_s, ended


async def test_a_cancelled_pipeline_ends_when_its_handlers_have_heard_of_it(flo: Flo) -> None:
    _, ended = await heard_after(flo)

    assert ended.status is PipelineStatus.CANCELLED
    assert {node.status for node in ended.nodes} == {"cancelled"}


async def show_cancels(folder: Path, count: int) -> None:
    with ServerProcess(folder) as server:
        async with Flo(server.address) as flo:
            heard_ms = sorted([(await heard_after(flo))[0] * 1_000 for _ in range(count)])
    print(
        f"a cancel is heard after {heard_ms[count // 2]:.1f} ms (p50), {heard_ms[-1]:.1f} ms (max) "
        f"of {count}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--server-kills", type=int, default=20)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between kills")
    given = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(show_cancels(Path(folder), CANCELS))
    for mode, kills in (("sound", given.server_kills), ("claims-first", 0)):
        with tempfile.TemporaryDirectory() as folder:
            done = asyncio.run(
                run_with_kills(
                    Path(folder),
                    given.batches,
                    kills,
                    interval_s=given.interval,
                    mode=mode,
                    pause_ms=1,
                )
            )
        results = given.batches * len(CONSUMERS) * -(-ITEMS // SIZE)
        print(
            f"{mode}: {given.batches} batches, {results} results of consumers, "
            f"{done.workers} workers and {done.servers} servers killed in {done.took_s:.0f} s: "
            f"{'; '.join(done.problems) or 'every result once, sums exact'}"
        )
        if bool(done.problems) is (mode == "sound"):
            problems.append(mode)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
