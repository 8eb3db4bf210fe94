"""The clock that handlers see."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class RunClock(Protocol):
    def now_ms(self) -> int: ...

    def now_dt(self) -> datetime: ...

    async def sleep_ms(self, ms: float) -> None: ...


class WallClock:
    """The time of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_dt(self) -> datetime:
        return datetime.now(UTC)

    async def sleep_ms(self, ms: float) -> None:
        await asyncio.sleep(max(0.0, ms) / 1_000)
