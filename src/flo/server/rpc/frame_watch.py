"""The frame that is arriving on a connection: its memory is counted, and it must arrive in time.

A frame that has begun must go on at a minimal rate, or the connection is closed. One for which
there is no memory is dropped as it comes, and its request refused.
"""

from collections.abc import Callable

from flo.server.budget import MemoryBudget, Part
from flo.shard.clock import Clock, ScheduledCall
from flo.wire.frame import FrameReader

FRAME_MS_FIRST = 10_000
"""How long a frame may take before its rate is looked at, and how often it is after that."""
RATE_MIN = 128
"""Bytes per millisecond: the largest frame may take four minutes and a half."""
SMALL_LENGTH = 16 * 1024
"""So much of a frame is kept even when the budget is used up."""


class FrameWatch:
    """`too_slow` is called when the frame is; `is_paused` says that we ourselves do not read."""

    def __init__(
        self,
        frames: FrameReader,
        budget: MemoryBudget,
        clock: Clock,
        is_paused: Callable[[], bool],
        too_slow: Callable[[], None],
    ) -> None:
        self._frames = frames
        self._budget = budget
        self._clock = clock
        self._is_paused = is_paused
        self._too_slow = too_slow
        self._counted = 0
        self._alarm: ScheduledCall | None = None
        self._since_ms = 0
        self._frame = 0
        """Which frame has been arriving since then."""

    def has_room(self) -> bool:
        """Count what has come of a frame; whether there is memory for it."""
        buffered = self._frames.buffered
        if not (buffered or self._counted):
            return True
        more = buffered - self._counted
        if more > 0 and buffered > SMALL_LENGTH and not self._budget.has_room(Part.FRAMES, more):
            return False
        self._count(buffered)
        if buffered and self._alarm is None:
            self._expect_end()
        return True

    def keep(self) -> None:
        """Count what has come; whole frames of it wait to be read."""
        self._count(self._frames.buffered)

    def dropped(self) -> None:
        """Nothing is kept of the frame."""
        self._count(0)

    def end(self) -> None:
        """The connection has ended."""
        self._count(0)
        if self._alarm is not None:
            self._alarm.cancel()

    def _count(self, length: int) -> None:
        self._budget.change(Part.FRAMES, length - self._counted)
        self._counted = length

    def _expect_end(self) -> None:
        self._since_ms, self._frame = self._clock.now_ms(), self._frames.frame_count
        self._set_alarm()

    def _set_alarm(self) -> None:
        self._alarm = self._clock.call_at(self._clock.now_ms() + FRAME_MS_FIRST, self._look)

    def _look(self) -> None:
        self._alarm = None
        arrived = self._frames.arrived
        if not arrived:
            return
        if self._frames.frame_count != self._frame or self._is_paused():
            self._expect_end()
        elif arrived < RATE_MIN * (self._clock.now_ms() - self._since_ms):
            self._too_slow()
        else:
            self._set_alarm()
