"""Threads for handlers that block.

They are daemons, unlike those of a ThreadPoolExecutor: a handler that never returns must not keep
the process from ending.
"""

import asyncio
import contextvars
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Job: TypeAlias = Callable[[], None]


class Threads:
    """As many threads as there are calls at a time; an idle one takes the next call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads_count = 0
        self._busy_count = 0

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Call the function, which must not raise, in a thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            value = context.run(function)
            loop.call_soon_threadsafe(self._finish, future, value)

        self._busy_count += 1
        if self._busy_count > self._threads_count:
            self._threads_count += 1
            name = f"{self._name}-{self._threads_count}"
            Thread(target=self._work, name=name, daemon=True).start()
        self._jobs.put(job)
        return future

    def stop(self) -> None:
        """Let idle threads end; a busy one ends after its call."""
        for _ in range(self._threads_count):
            self._jobs.put(None)
        self._threads_count = 0

    def _finish(self, future: asyncio.Future[Any], value: Any) -> None:
        self._busy_count -= 1
        if not future.done():
            future.set_result(value)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except RuntimeError:  # the loop is closed: nobody wants the result
                return
