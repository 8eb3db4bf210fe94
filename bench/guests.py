"""WebAssembly actions beside a bare call of the same module."""

import asyncio
import time
from pathlib import Path

import wasmtime

from bench.figure import Figure
from bench.system import server
from flo import Flo
from flo.wasm.engine import Engine
from flo.wasm.execution import Call, Executor
from flo.wasm.module import Modules

CALLS = 3_000
BARE = 1_000
IN_FLIGHT = 64
ECHO = """
(module
  (memory (export "memory") 2)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "dealloc") (param i32 i32))
  (func (export "handle") (param i32 i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32))
            (i64.extend_i32_u (local.get 1)))))
"""


class _NoKeys:
    def read(self, key: str) -> None:
        return None


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
    """Calls per second of the same guest with nothing around it, one after the other."""
    engine = Engine()
    engine.start()
    modules = Modules(engine)
    executor, compiled = Executor(engine, modules), modules.check(module)
    call = Call(module=compiled, input=b"{}")
    began = time.perf_counter()
    for _ in range(BARE):
        executor.execute(call, _NoKeys())
    rate = BARE / (time.perf_counter() - began)
    engine.stop()
    return rate


async def _invoke(flo: Flo, count: int) -> None:
    left = iter(range(count))

    async def caller() -> None:
        for _ in left:
            invocation = await flo.actions.invoke("echo", b"{}")
            await invocation.wait()

    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
