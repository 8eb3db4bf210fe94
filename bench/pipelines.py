"""Pipelines: batches through three nodes, the start of a consumer, memory for what is stored."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from bench.figure import Figure, quantile
from bench.floors import grouped_rate
from bench.system import cpu_seconds, memory_bytes, server
from flo import Batch, BatchResult, Flo, PipelineWorker, RoleHandler, RunContext

BATCHES = 20_000
IN_FLIGHT = 64
STARTS = 100
WAITING = 1_000
MEGABYTE = 1024 * 1024


def _pull(name: str, role: str, source: str) -> dict[str, Any]:
    return {
        "node_id": name,
        "type": role,
        "depends_on": [source],
        "io": {
            "start_when": "first_batch",
            "input_inline": {
                "input_adapter": "pull.from_artifacts",
                "input_args": {"from_nodes": [source]},
            },
        },
    }


def _three(batches: int) -> dict[str, Any]:
    source = {"node_id": "u", "type": "make", "io": {"input_inline": {"batches": batches}}}
    return {"nodes": [source, _pull("v", "pass", "u"), _pull("w", "pass", "v")]}


class Make(RoleHandler):
    role = "make"

    async def iter_batches(self, loaded: Any) -> AsyncIterator[Batch]:
        for number in range(loaded["input_inline"]["batches"]):
            yield Batch(batch_uid=f"b{number}", payload={"n": number})

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        return BatchResult(success=True, metrics={"count": 1})


class Pass(RoleHandler):
    role = "pass"

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        return BatchResult(success=True, metrics={"count": 1})


async def run(folder: Path) -> list[Figure]:
    with server(folder / "data") as process:
        with _worker(process.address, concurrency=3):
            async with Flo(process.address) as flo:
                await _through(flo, 500)
                memory, used = memory_bytes(process.pid), cpu_seconds(process.pid)
                rate = await _through(flo, BATCHES)
                cpu = (cpu_seconds(process.pid) - used) / (3 * BATCHES) * 1e6
                grown = (memory_bytes(process.pid) - memory) / (3 * BATCHES)
                starts = await _starts(flo)
        async with Flo(process.address) as flo:
            memory = memory_bytes(process.pid)
            for _ in range(WAITING):
                await flo.pipelines.submit(_three(0))
            waiting = (memory_bytes(process.pid) - memory) / WAITING / 1024
    return [
        Figure(name="batches through three nodes, two processes", value=rate, unit="batches/s",
               goal=3_000, floor=grouped_rate(folder, IN_FLIGHT) / 3,
               floor_name="batches/s, if results were bare commits of 64"),
        Figure(name="results recorded of them", value=rate * 3, unit="results/s",
               floor=grouped_rate(folder, IN_FLIGHT), floor_name="entries/s, bare commits of 64"),
        Figure(name="server CPU per result of a batch", value=cpu, unit="µs"),
        Figure(name="memory grown per stored batch, with all caches", value=grown, unit="bytes",
               goal=1_500, more_is_better=False),
        Figure(name="start of a consumer from the first batch, p50", unit="ms",
               value=quantile(starts, 0.5) * 1e3, goal=50, more_is_better=False),
        Figure(name="memory of a pipeline of three nodes that waits", value=waiting, unit="KB",
               goal=32, more_is_better=False),
    ]  # fmt: skip


async def _through(flo: Flo, batches: int) -> float:
    began = time.perf_counter()
    run = await flo.pipelines.submit(_three(batches))
    ended = await run.wait()
    assert all(node.batches == batches for node in ended.nodes)
    return batches / (time.perf_counter() - began)


async def _starts(flo: Flo) -> list[float]:
    """From the report of a first batch to the start of the node that waits for it."""
    taken = []
    for number in range(STARTS):
        graph = {"nodes": [{"node_id": "u", "type": "first"}, _pull("v", "second", "u")]}
        run = await flo.pipelines.submit(graph)
        (producer,) = await flo.workers.await_nodes("producer", ["first"], block_ms=5_000)
        waiting = asyncio.ensure_future(
            flo.workers.await_nodes("consumer", ["second"], block_ms=5_000)
        )
        await asyncio.sleep(0.005)
        began = time.perf_counter()
        await producer.report(f"b{number}", {}, None, None)
        await waiting
        taken.append(time.perf_counter() - began)
        await run.cancel("measured")
    return taken


@contextmanager
def _worker(address: str, concurrency: int) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.pipelines", address, str(concurrency)]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    uvloop.install()
    PipelineWorker(
        sys.argv[1], handlers=[Make(), Pass()], concurrency=int(sys.argv[2]), log_level="warning"
    ).run()
