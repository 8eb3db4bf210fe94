"""RunContext: what a role handler is given besides its batch."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from flo.model.pipelines.work import NodeStart
from flo.worker.pipelines.artifacts import ArtifactsWriter
from flo.worker.pipelines.cancel import CancelFlag
from flo.worker.pipelines.cleanup import CleanupCallback, RunCleanup, end_process
from flo.worker.pipelines.clock import RunClock

T = TypeVar("T")


class RunContext:
    """One run of a node. `kv` is for the handler to keep what it needs between batches."""

    def __init__(
        self,
        start: NodeStart,
        worker_id: str,
        *,
        artifacts: ArtifactsWriter,
        cancel_flag: CancelFlag,
        cleanup: RunCleanup,
        clock: RunClock,
    ) -> None:
        self.task_id = self.pipeline_id = start.id
        self.node_id = start.node
        self.role = start.role
        self.attempt_epoch = start.epoch
        self.params = start.params
        """What the pipeline was submitted with."""
        self.worker_id = worker_id
        self.artifacts = artifacts
        self.cancel_flag = cancel_flag
        self.clock = clock
        self.kv: dict[str, Any] = {}
        self._cleanup = cleanup

    def cancelled(self) -> bool:
        return self.cancel_flag.is_set()

    @property
    def cancel_reason(self) -> str | None:
        return self.cancel_flag.reason

    @property
    def cancel_deadline_ts_ms(self) -> int | None:
        return self.cancel_flag.deadline_ts_ms

    def remaining_ms(self) -> float | None:
        """How long a cancelled run may still take; None without a deadline."""
        deadline_ms = self.cancel_flag.deadline_ts_ms
        return None if deadline_ms is None else max(0.0, deadline_ms - self.clock.now_ms())

    async def raise_if_cancelled(self) -> None:
        if self.cancelled():
            raise asyncio.CancelledError(self.cancel_reason)

    async def cancellable(self, coro: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine; it is cancelled, and CancelledError raised, with the run."""
        doing = asyncio.ensure_future(coro)
        cancelling = asyncio.ensure_future(self.cancel_flag.wait())
        try:
            await asyncio.wait({doing, cancelling}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
        finally:
            cancelling.cancel()
            if not doing.done():
                doing.cancel()
                await asyncio.wait({doing})
        raise asyncio.CancelledError(self.cancel_reason)

    async def run_subprocess(self, *cmd: str, grace_ms: int = 5_000) -> int:
        """Run a program in a process group of its own; return its exit code.

        When the run is cancelled the group is sent SIGTERM, and SIGKILL after `grace_ms`.
        """
        process = await asyncio.create_subprocess_exec(*cmd, start_new_session=True)
        try:
            return await self.cancellable(process.wait())
        finally:
            await end_process(process, grace_ms / 1_000)

    def register_subprocess(self, proc: asyncio.subprocess.Process) -> None:
        """End this process when the run has ended."""
        self._cleanup.register_subprocess(proc)

    def register_temp_path(self, path: str | os.PathLike[str]) -> None:
        """Delete this file or folder when the run has ended."""
        self._cleanup.register_temp_path(path)

    def on_cleanup(self, cb: CleanupCallback) -> None:
        """Call this, sync or async, when the run has ended; the last one is called first."""
        self._cleanup.on_cleanup(cb)
