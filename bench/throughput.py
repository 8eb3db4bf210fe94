"""End to end: a client invokes, a worker executes, the client has the result."""

import asyncio
import time
from pathlib import Path

from bench.figure import Figure, quantile
from bench.floors import commit_p50, echo_p50, grouped_rate
from bench.system import ACTION, INPUT, cpu_seconds, server, worker
from flo import Flo

ACTIONS = 20_000
WARM_UP = 500
IN_FLIGHT = 64
BATCH = 100
BATCHES_IN_FLIGHT = 4
ALONE = 500


async def run(folder: Path) -> list[Figure]:
    with server(folder) as process, worker(process.address):
        async with Flo(process.address) as flo:
            await flo.actions.register(ACTION)
            await _one_by_one(flo, WARM_UP)
            began, used = time.perf_counter(), cpu_seconds(process.pid)
            await _one_by_one(flo, ACTIONS)
            one_by_one = ACTIONS / (time.perf_counter() - began)
            cpu_one = (cpu_seconds(process.pid) - used) / ACTIONS * 1e6
            began, used = time.perf_counter(), cpu_seconds(process.pid)
            await _in_batches(flo, ACTIONS)
            batched = ACTIONS / (time.perf_counter() - began)
            cpu_batch = (cpu_seconds(process.pid) - used) / ACTIONS * 1e6
            alone = await _latencies(flo, ALONE, 1)
            loaded = await _latencies(flo, ALONE * 4, 32)
    commit = commit_p50(folder)
    echo = await echo_p50()
    floor_rate = grouped_rate(folder, IN_FLIGHT)
    return [
        Figure(name="end to end, one by one, 64 in flight", value=one_by_one, unit="actions/s",
               goal=8_000, floor=floor_rate, floor_name="entries/s, bare commits of 64"),
        Figure(name="end to end, in batches of 100", value=batched, unit="actions/s",
               goal=15_000, floor=grouped_rate(folder, BATCH),
               floor_name="entries/s, bare commits of 100"),
        Figure(name="server CPU per action, one by one", value=cpu_one, unit="µs",
               goal=70, more_is_better=False),
        Figure(name="server CPU per action, in batches", value=cpu_batch, unit="µs",
               goal=70, more_is_better=False),
        Figure(name="one action at a time, p50", value=quantile(alone, 0.5) * 1e3, unit="ms",
               goal=4 * commit * 1e3 + 0.8, more_is_better=False, floor=commit * 1e3,
               floor_name="ms, bare commit p50"),
        Figure(name="one action at a time, p99", value=quantile(alone, 0.99) * 1e3, unit="ms",
               floor=echo * 1e3, floor_name="ms, bare echo p50"),
        Figure(name="32 at a time, p50", value=quantile(loaded, 0.5) * 1e3, unit="ms"),
        Figure(name="32 at a time, p99", value=quantile(loaded, 0.99) * 1e3, unit="ms"),
    ]  # fmt: skip


async def _one_by_one(flo: Flo, count: int) -> None:
    left = iter(range(count))

    async def caller() -> None:
        for _ in left:
            invocation = await flo.actions.invoke(ACTION, INPUT)
            await invocation.wait()

    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))


async def _in_batches(flo: Flo, count: int) -> None:
    left = iter(range(count // BATCH))

    async def caller() -> None:
        for _ in left:
            invocations = await flo.actions.invoke_many(ACTION, [INPUT] * BATCH)
            await asyncio.gather(*(invocation.wait() for invocation in invocations))

    await asyncio.gather(*(caller() for _ in range(BATCHES_IN_FLIGHT)))


async def _latencies(flo: Flo, count: int, at_a_time: int) -> list[float]:
    left = iter(range(count))
    taken: list[float] = []

    async def caller() -> None:
        for _ in left:
            began = time.perf_counter()
            invocation = await flo.actions.invoke(ACTION, INPUT)
            await invocation.wait()
            taken.append(time.perf_counter() - began)

    await asyncio.gather(*(caller() for _ in range(at_a_time)))
    return taken
