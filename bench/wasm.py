"""WebAssembly actions beside a bare call of the same module: the package, and nothing of Flo."""

import asyncio
import time
from pathlib import Path
from typing import Any

import wasmtime

from bench.figure import Figure
from bench.system import server
from flo import Flo
from flo.wasm.engine import engine_config

CALLS = 3_000
BARE = 1_000
IN_FLIGHT = 64
FUEL = 1_000_000_000
ECHO = """
(module
  (memory (export "memory") 2)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "dealloc") (param i32 i32))
  (func (export "handle") (param i32 i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32))
            (i64.extend_i32_u (local.get 1)))))
"""


async def run(folder: Path) -> list[Figure]:
    module = wasmtime.wat2wasm(ECHO)
    bare = _bare_rate(bytes(module))
    rates = {}
    for durability in ("sync", "ephemeral"):
        with server(folder / durability, durability=durability) as process:
            async with Flo(process.address) as flo:
                await flo.actions.register("echo", wasm=bytes(module))
                await _invoke(flo, 200)
                began = time.perf_counter()
                await _invoke(flo, CALLS)
                rates[durability] = CALLS / (time.perf_counter() - began)
    return [
        Figure(name="inline invocations, sync, 64 in flight", value=rates["sync"], unit="runs/s",
               floor=bare, floor_name="bare calls/s"),
        Figure(name="inline invocations, ephemeral, 64 in flight", value=rates["ephemeral"],
               unit="runs/s", floor=bare, floor_name="bare calls/s"),
        Figure(name="time of an ephemeral one, against a bare call",
               value=bare / rates["ephemeral"], unit="×", goal=3, more_is_better=False),
    ]  # fmt: skip


def _bare_rate(module: bytes) -> float:
    """Calls per second of the same module in the package alone, each in an instance of its own."""
    engine = wasmtime.Engine(engine_config())
    ready = wasmtime.Linker(engine).instantiate_pre(wasmtime.Module(engine, module))
    began = time.perf_counter()
    for _ in range(BARE):
        _call_bare(engine, ready, b"{}")
    return BARE / (time.perf_counter() - began)


def _call_bare(engine: wasmtime.Engine, ready: wasmtime.InstancePre, given: bytes) -> bytes:
    with wasmtime.Store(engine) as store:
        store.set_fuel(FUEL)
        store.set_epoch_deadline(1)
        exports: Any = ready.instantiate(store).exports(store)
        place = exports["alloc"](store, len(given))
        exports["memory"].write(store, given, place)
        packed = exports["handle"](store, place, len(given))
        at, length = packed >> 32, packed & 0xFFFF_FFFF
        return bytes(exports["memory"].read(store, at, at + length))


async def _invoke(flo: Flo, count: int) -> None:
    left = iter(range(count))

    async def caller() -> None:
        for _ in left:
            invocation = await flo.actions.invoke("echo", b"{}")
            await invocation.wait()

    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
