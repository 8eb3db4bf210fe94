"""Runs guests for an event loop: a bounded number at a time, without blocking the loop.

pool = Pool(engine, modules)
pool.start()
module = await pool.check(wasm)                  # once, when the action is registered
outcome = await pool.execute(GuestCall(module=module, input=b"{}"), reader, lane="rules-engine")
await pool.stop()
"""

import asyncio
from functools import partial

from flo.wasm.abi import ENTRYPOINT_DEFAULT, MEMORY_PAGES_DEFAULT
from flo.wasm.cores import leave_a_core
from flo.wasm.engine import WasmEngine
from flo.wasm.execution import GuestCall, GuestExecutor
from flo.wasm.host import Reader
from flo.wasm.module import Module, Modules
from flo.wasm.outcome import Outcome
from flo.wasm.slots import ExecutionSlots

RUNNING_MAX_DEFAULT = 4
WAITING_MAX_DEFAULT = 1_024
COMPILING_WAITING_MAX = 64


class Pool:
    """Belongs to one event loop. Pools that share an engine stop together."""

    def __init__(
        self,
        engine: WasmEngine,
        modules: Modules,
        *,
        running_max: int = RUNNING_MAX_DEFAULT,
        waiting_max: int = WAITING_MAX_DEFAULT,
    ) -> None:
        self._engine = engine
        self._modules = modules
        self._executor = GuestExecutor(engine, modules)
        self._guests = ExecutionSlots("guest", running_max, waiting_max, leave_a_core)
        self._compiler = ExecutionSlots("compiler", 1, COMPILING_WAITING_MAX)

    @property
    def running_count(self) -> int:
        return self._guests.running_count

    @property
    def waiting_count(self) -> int:
        return self._guests.waiting_count

    def start(self) -> None:
        self._engine.start()

    async def stop(self) -> None:
        """Refuse what waits, interrupt what runs, and wait for the last; may be called twice."""
        self._guests.close()
        self._compiler.close()
        await asyncio.to_thread(self._engine.stop)
        await self._guests.stop()
        await self._compiler.stop()

    def execute(self, call: GuestCall, reader: Reader, lane: str) -> asyncio.Future[Outcome]:
        """Run a guest as soon as it is its lane's turn; refused with `wasm_busy` if too many wait.

        Cancelling the future takes a call that waits out of the queue; one that runs goes on to its
        end, and nobody hears of it.
        """
        return self._guests.do(lane, partial(self._executor.execute, call, reader))

    def describe(self, module: Module, memory_pages_max: int, lane: str) -> asyncio.Future[Outcome]:
        """Ask a module what it says of itself."""
        return self._guests.do(lane, partial(self._executor.describe, module, memory_pages_max))

    def check(
        self,
        wasm: bytes,
        entrypoint: str = ENTRYPOINT_DEFAULT,
        memory_pages_max: int = MEMORY_PAGES_DEFAULT,
        *,
        lane: str = "",
    ) -> asyncio.Future[Module]:
        """Check and compile a module, in a thread of its own: it takes no guest's place."""
        return self._compiler.do(
            lane, partial(self._modules.check, wasm, entrypoint, memory_pages_max)
        )

    def compile(self, wasm: bytes, *, lane: str = "") -> asyncio.Future[Module]:
        """Compile a module that was checked before, if it is no longer cached."""
        return self._compiler.do(lane, partial(self._modules.compile, wasm))
