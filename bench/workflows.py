"""Workflows of three steps, beside as many actions in the same run."""

import asyncio
import time
from pathlib import Path

from bench.figure import Figure, quantile
from bench.system import ACTION, INPUT, cpu_seconds, server, worker
from flo import Flo

RUNS = 5_000
IN_FLIGHT = 32
ALONE = 300
STEP = f'run: "@actions/{ACTION}"'
DOCUMENT = f"""
kind: Workflow
name: three
version: "1"
start:
  {STEP}
  transitions: {{success: second, failure: flo.Failed}}
steps:
  second:
    {STEP}
    transitions: {{success: third, failure: flo.Failed}}
  third:
    {STEP}
    transitions: {{success: flo.Completed, failure: flo.Failed}}
"""


async def run(folder: Path) -> list[Figure]:
    with server(folder / "data") as process, worker(process.address):
        async with Flo(process.address) as flo:
            await flo.actions.register(ACTION)
            await flo.workflows.create(DOCUMENT)
            await _run_workflows(flo, 200)
            alone = await _run_workflows(flo, ALONE, 1)
            alone_action = await _run_actions(flo, ALONE, 1)
            began, used = time.perf_counter(), cpu_seconds(process.pid)
            await _run_workflows(flo, RUNS)
            rate = RUNS / (time.perf_counter() - began)
            cpu = (cpu_seconds(process.pid) - used) / RUNS * 1e6
            floor = await _action_rate(flo)
    return [
        Figure(name="workflows of 3 steps, 32 in flight", value=rate, unit="runs/s", goal=1_000,
               floor=floor / 3, floor_name="runs/s, if only their actions were run"),
        Figure(name="server CPU per workflow of 3 steps", value=cpu, unit="µs"),
        Figure(name="a lone workflow of 3 steps, p50", value=quantile(alone, 0.5) * 1e3, unit="ms",
               goal=5, more_is_better=False,
               floor=quantile(alone_action, 0.5) * 1e3, floor_name="ms, a lone action"),
    ]  # fmt: skip


async def _run_workflows(flo: Flo, count: int, in_flight: int = IN_FLIGHT) -> list[float]:
    left = iter(range(count))
    taken: list[float] = []

    async def caller() -> None:
        for _ in left:
            began = time.perf_counter()
            run = await flo.workflows.start("three", {"n": 1})
            await run.wait()
            taken.append(time.perf_counter() - began)

    await asyncio.gather(*(caller() for _ in range(in_flight)))
    return taken


async def _action_rate(flo: Flo) -> float:
    began = time.perf_counter()
    await _run_actions(flo, RUNS * 2, IN_FLIGHT)
    return RUNS * 2 / (time.perf_counter() - began)


async def _run_actions(flo: Flo, count: int, in_flight: int) -> list[float]:
    left = iter(range(count))
    taken: list[float] = []

    async def caller() -> None:
        for _ in left:
            began = time.perf_counter()
            invocation = await flo.actions.invoke(ACTION, INPUT)
            await invocation.wait()
            taken.append(time.perf_counter() - began)

    await asyncio.gather(*(caller() for _ in range(in_flight)))
    return taken
