"""A loop whose time moves when nothing else can: an hour of waiting takes no time at all."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing will ever happen again"
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, in virtual time. Threads have no place here."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


async def turns(count: int = 20) -> None:
    """Let everything happen that is about to happen; time stands still meanwhile."""
    for _ in range(count):
        await asyncio.sleep(0)
