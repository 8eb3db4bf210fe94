"""Concurrency slots: the handlers that run, and how many more may."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_logger = logging.getLogger("flo.worker")


class ConcurrencySlots:
    """A slot is taken by `start`, and free again after `release`; its task may go on to report.

    `changed` is set whenever a slot becomes free or a task ends.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.free_count = count
        self.changed = asyncio.Event()
        self._runners: set[asyncio.Task[None]] = set()

    @property
    def busy_count(self) -> int:
        return self._count - self.free_count

    @property
    def runners_count(self) -> int:
        return len(self._runners)

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.free_count -= 1
        runner = asyncio.create_task(coroutine)
        self._runners.add(runner)
        runner.add_done_callback(self._ended)

    def release(self) -> None:
        self.free_count += 1
        self.changed.set()

    async def change(self) -> None:
        """Wait until something changes."""
        self.changed.clear()
        await self.changed.wait()

    async def all_ended(self, timeout_s: float) -> None:
        """Wait until no task is left, for so long at most."""
        if self._runners:
            await asyncio.wait(self._runners, timeout=timeout_s)

    def cancel(self) -> None:
        for runner in self._runners:
            runner.cancel()

    def _ended(self, runner: asyncio.Task[None]) -> None:
        self._runners.discard(runner)
        self.changed.set()
        if not runner.cancelled() and (error := runner.exception()) is not None:
            _logger.error("a task could not be performed", exc_info=error)
