"""Function blocks: how long it takes from one job to the next, and from a start to the first."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import uvloop

from bench.figure import Figure, quantile
from bench.system import server
from flo import BlockWorker, Flo, Params, Result, block
from flo.model.blocks.blocks import GetBlock
from flo.model.errors import NotFound

RUNS = 200

WORKFLOW = """
kind: Workflow
name: two-blocks
version: "1"
start:
  run: "@blocks/bench/clock:1"
  transitions: {success: second, failure: flo.Failed}
steps:
  second:
    run: "@blocks/bench/clock:1"
    transitions: {success: flo.Completed, failure: flo.Failed}
"""


class Nothing(Params):
    pass


class Clock(Result):
    at_ns: int


@block(package="bench", pure=True)
async def clock(params: Nothing) -> Clock:
    return Clock(at_ns=time.time_ns())


async def run(folder: Path) -> list[Figure]:
    with server(folder / "data") as process, _worker(process.address):
        async with Flo(process.address) as flo:
            await _until_registered(flo)
            await flo.workflows.create(WORKFLOW)
            await _times(flo, 20)
            times = await _times(flo, RUNS)
    firsts, nexts = [one for one, _ in times], [one for _, one in times]
    return [
        Figure(name="from one job of a block to the next, p50", value=quantile(nexts, 0.5),
               unit="ms", goal=10, more_is_better=False),
        Figure(name="from one job of a block to the next, p99", value=quantile(nexts, 0.99),
               unit="ms"),
        Figure(name="from a start over two ACQUIRE jobs to EXECUTE, p50",
               value=quantile(firsts, 0.5), unit="ms"),
    ]  # fmt: skip


async def _times(flo: Flo, runs: int) -> list[tuple[float, float]]:
    """In milliseconds: from the start to the first EXECUTE, and from that to the second."""
    taken = []
    for _ in range(runs):
        began_ns = time.time_ns()
        run = await flo.workflows.start("two-blocks", {})
        await run.result()
        view = await run.status()
        first, second = (msgspec.json.decode(step.output, type=Clock).at_ns for step in view.steps)
        taken.append(((first - began_ns) / 1e6, (second - first) / 1e6))
    return taken


async def _until_registered(flo: Flo) -> None:
    while True:
        try:
            if (await flo.call(GetBlock(block="bench/clock:1"))).workers:
                return
        except NotFound:
            pass
        await asyncio.sleep(0.05)


@contextmanager
def _worker(address: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", "bench.blocks", address])
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    uvloop.install()
    BlockWorker(sys.argv[1], blocks=[clock], log_level="warning").run()
