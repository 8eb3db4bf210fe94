"""How often an executor may be called: windows of a second, a minute and an hour.

    calls  │ 3 │   │ 40 │ 12 │ 7 │          max_per_minute: 100
           └───┴───┴────┴────┴───┘──▸ now
              the last minute, in slots

A window slides: in no second, minute or hour, wherever it begins, are there more calls than its
limit. Calls are counted by slot, and a slot leaves the window when its last millisecond does. With
a limit up to SLOTS_MAX a slot is a millisecond, and the window is exact; with a higher one it is a
SLOTS_MAX-th of the window, and at most that share of the limit is left unused. So what is
remembered is bounded, however high the limit.
"""

from typing import Final, NamedTuple

from flo.workflow.plan.plan import RateLimit

SLOTS_MAX: Final = 64

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000


class Slot(NamedTuple):
    ends_ms: int
    """Its last millisecond."""
    calls: int


class Window(NamedTuple):
    """At most `limit` calls in any `length_ms`."""

    length_ms: int
    limit: int
    slots: tuple[Slot, ...] = ()
    """The oldest first; none is empty."""
    used: int = 0
    """The calls in all slots."""

    def at(self, now_ms: int) -> "Window":
        """The window without the slots that have left it."""
        left = used = 0
        for slot in self.slots:
            if now_ms - slot.ends_ms < self.length_ms:
                break
            left += 1
            used += slot.calls
        return self._replace(slots=self.slots[left:], used=self.used - used) if left else self

    def next_at_ms(self, now_ms: int) -> int:
        """The first time from now on at which a call is within the limit, if no other is made."""
        window = self.at(now_ms)
        too_many = window.used - self.limit + 1
        at_ms = now_ms
        for slot in window.slots:
            if too_many <= 0:
                break
            too_many -= slot.calls
            at_ms = slot.ends_ms + self.length_ms
        return at_ms

    def called(self, now_ms: int) -> "Window":
        window = self.at(now_ms)
        slots, used = window.slots, window.used + 1
        ends_ms = now_ms // self._slot_ms * self._slot_ms + self._slot_ms - 1
        if slots and slots[-1].ends_ms >= ends_ms:
            last = Slot(slots[-1].ends_ms, slots[-1].calls + 1)
            return self._replace(slots=(*slots[:-1], last), used=used)
        return self._replace(slots=(*slots, Slot(ends_ms, 1)), used=used)

    @property
    def _slot_ms(self) -> int:
        return 1 if self.limit <= SLOTS_MAX else -(-self.length_ms // SLOTS_MAX)


class Rate(NamedTuple):
    """The windows of one executor; without a window, it may always be called."""

    windows: tuple[Window, ...] = ()

    def may_call(self, now_ms: int) -> bool:
        return self.next_at_ms(now_ms) <= now_ms

    def next_at_ms(self, now_ms: int) -> int:
        """The first time from now on at which a call is within every limit."""
        return max((window.next_at_ms(now_ms) for window in self.windows), default=now_ms)

    def called(self, now_ms: int) -> "Rate":
        return self._replace(windows=tuple(window.called(now_ms) for window in self.windows))


def rate_of(limits: RateLimit | None) -> Rate:
    if limits is None:
        return Rate()
    asked = (
        (SECOND_MS, limits.max_per_second),
        (MINUTE_MS, limits.max_per_minute),
        (HOUR_MS, limits.max_per_hour),
    )
    return Rate(tuple(Window(length, limit) for length, limit in asked if limit is not None))
