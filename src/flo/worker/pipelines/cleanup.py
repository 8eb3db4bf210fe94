"""What a run leaves behind, and how it is cleared away: callbacks, processes, files."""

import asyncio
import inspect
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from flo.worker.pipelines.events import EventLog

PROCESS_GRACE_S = 1.0

CleanupCallback = Callable[[], Any]


class RunCleanup:
    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._callbacks: list[CleanupCallback] = []
        self._processes: list[asyncio.subprocess.Process] = []
        self._paths: list[Path] = []

    def on_cleanup(self, callback: CleanupCallback) -> None:
        self._callbacks.append(callback)

    def register_subprocess(self, process: asyncio.subprocess.Process) -> None:
        self._processes.append(process)

    def register_temp_path(self, path: str | os.PathLike[str]) -> None:
        self._paths.append(Path(path))

    async def run(self) -> None:
        """Callbacks, the last one first; then processes; then files. An error stops nothing."""
        while self._callbacks:
            await self._call(self._callbacks.pop())
        while self._processes:
            await end_process(self._processes.pop(), PROCESS_GRACE_S)
        while self._paths:
            _delete(self._paths.pop())

    async def _call(self, callback: CleanupCallback) -> None:
        try:
            returned = callback()
            if inspect.isawaitable(returned):
                await returned
        except Exception as error:
            self._log.warning("worker.cleanup.failed", error=repr(error))


async def end_process(process: asyncio.subprocess.Process, grace_s: float) -> None:
    """SIGTERM to the process, and to its group if it has one of its own; SIGKILL after a while."""
    if process.returncode is not None:
        return
    _send(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(grace_s):
            await process.wait()
    except TimeoutError:
        _send(process, signal.SIGKILL)
        await process.wait()


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
