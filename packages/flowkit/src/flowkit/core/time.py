"""Clocks: the time of the machine, and one that moves when told."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int: ...

    def now_dt(self) -> datetime: ...

    def mono_ms(self) -> int: ...

    async def sleep_ms(self, ms: float) -> None: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_dt(self) -> datetime:
        return datetime.now(UTC)

    def mono_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    async def sleep_ms(self, ms: float) -> None:
        await asyncio.sleep(max(0.0, ms) / 1_000)


class ManualClock:
    """Shows the same time until it is advanced; to sleep is to advance it."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        return self._now_ms

    def now_dt(self) -> datetime:
        return datetime.fromtimestamp(self._now_ms / 1_000, UTC)

    def mono_ms(self) -> int:
        return self._now_ms

    def advance_ms(self, ms: int) -> None:
        self._now_ms += int(ms)

    async def sleep_ms(self, ms: float) -> None:
        self._now_ms += int(ms)
        await asyncio.sleep(0)
