"""A running loop in a thread of its own, for programs that have none."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, TypeVar

from flo.model.errors import Unavailable

T = TypeVar("T")


class LoopThread:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="flo", daemon=True)
        self._thread.start()

    @property
    def is_stopped(self) -> bool:
        return self._loop.is_closed()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self.is_stopped:
            coroutine.close()
            raise Unavailable("the client is closed", code="closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:  # an interrupt of the caller must not leave the call behind
            future.cancel()
            raise

    def each(self, generator: AsyncGenerator[T, None]) -> Iterator[T]:
        """What an async generator yields, one by one, until it ends or nobody listens any more."""
        try:
            while (found := self.run(_next_of(generator))) is not None:
                yield found[0]
        finally:
            if not self.is_stopped:
                self.run(_close(generator))

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _next_of(generator: AsyncGenerator[T, None]) -> tuple[T] | None:
    """The next one; None at the end."""
    async for one in generator:
        return (one,)
    return None


async def _close(generator: AsyncGenerator[Any, None]) -> None:
    await generator.aclose()
