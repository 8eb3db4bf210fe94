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

from flo.workflow.definition import RateLimit

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

    def used(self, now_ms: int) -> int:
        return sum(slot.calls for slot in self._standing(now_ms))

    def next_at_ms(self, now_ms: int) -> int:
        """The first time from now on at which a call is within the limit, if no other is made."""
        standing = self._standing(now_ms)
        too_many = sum(slot.calls for slot in standing) - self.limit + 1
        at_ms = now_ms
        for slot in standing:
            if too_many <= 0:
                break
            too_many -= slot.calls
            at_ms = slot.ends_ms + self.length_ms
        return at_ms

    def called(self, now_ms: int) -> "Window":
        standing = self._standing(now_ms)
        ends_ms = now_ms // self._slot_ms * self._slot_ms + self._slot_ms - 1
        if standing and standing[-1].ends_ms >= ends_ms:
            last = standing[-1]
            return self._replace(slots=(*standing[:-1], last._replace(calls=last.calls + 1)))
        return self._replace(slots=(*standing, Slot(ends_ms, 1)))

    def _standing(self, now_ms: int) -> tuple[Slot, ...]:
        if not self.slots or now_ms - self.slots[0].ends_ms < self.length_ms:
            return self.slots
        return tuple(slot for slot in self.slots if now_ms - slot.ends_ms < self.length_ms)

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
