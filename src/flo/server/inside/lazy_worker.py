"""The WASM worker, started once there is something for it to do.

Its engine takes time and memory to load; a server without WebAssembly actions is spared both.
"""

from typing import TYPE_CHECKING

from flo.model.actions import RegisterAction
from flo.model.errors import needs_extra
from flo.model.ids import Namespace
from flo.shard.clock import Clock
from flo.shard.loop import Shard

if TYPE_CHECKING:
    from flo.server.inside.wasm_worker import WasmWorker


class LazyWasmWorker:
    def __init__(self, shard: Shard, clock: Clock, concurrency: int) -> None:
        self._shard = shard
        self._clock = clock
        self._concurrency = concurrency
        self._worker: WasmWorker | None = None

    async def start(self) -> None:
        if self._shard.state.modules:
            await self._started()

    async def stop(self) -> None:
        if self._worker is not None:
            await self._worker.stop()
            self._worker = None

    async def checked(self, command: RegisterAction) -> RegisterAction:
        worker = await self._started()
        return await worker.checked(command)

    def serve(self, namespace: Namespace) -> None:
        if self._worker is not None:
            self._worker.serve(namespace)

    async def _started(self) -> "WasmWorker":
        if self._worker is None:
            with needs_extra("wasm", "a WebAssembly action"):
                from flo.server.inside.wasm_worker import WasmWorker

            self._worker = WasmWorker(self._shard, self._clock, self._concurrency)
            await self._worker.start()
        return self._worker
