"""Keys and values: puts and gets."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.figure import Figure
from bench.floors import echo_p50, grouped_rate
from bench.system import cpu_seconds, server
from flo import Flo

OPERATIONS = 10_000
IN_FLIGHT = 64
KEYS = 1_000
VALUE = b"x" * 100


async def run(folder: Path) -> list[Figure]:
    with server(folder / "data") as process:
        async with Flo(process.address) as flo:
            used = cpu_seconds(process.pid)
            puts = await _rate(lambda n: flo.kv.put(f"key:{n % KEYS}", VALUE))
            cpu_put = (cpu_seconds(process.pid) - used) / OPERATIONS * 1e6
            gets = await _rate(lambda n: flo.kv.get(f"key:{n % KEYS}"))
    return [
        Figure(name="kv put, 64 in flight", value=puts, unit="puts/s",
               floor=grouped_rate(folder, IN_FLIGHT), floor_name="entries/s, bare commits of 64"),
        Figure(name="server CPU per put", value=cpu_put, unit="µs"),
        Figure(name="kv get, 64 in flight", value=gets, unit="gets/s",
               floor=1 / await echo_p50(), floor_name="echoes/s, one after the other"),
    ]  # fmt: skip


async def _rate(operation: Callable[[int], Awaitable[object]]) -> float:
    left = iter(range(OPERATIONS))

    async def caller() -> None:
        for number in left:
            await operation(number)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
    return OPERATIONS / (time.perf_counter() - began)
