"""Closed, open, half-open: whether an executor that keeps failing is called.

    closed ──(failure_threshold failures in a row)──▸ open ──(cooldown_ms)──▸ half-open
      ▲                                                ▲                         │
      │                                                └──────(probe fails)──────┤
      └──────────────────────────(probe succeeds)────────────────────────────────┘

A BreakerState is a value: whatever happens to it makes another one. Half-open is open with the
cooldown over, so it needs no timer. A result counts if its call began in the present phase; one
that began before tells of a time that is over. The first probe to end decides.

A probe holds one of `half_open_max_calls` places until it ends. One that is never heard of again
gives its place back after the cooldown, or after PLACE_MS_MIN if that is longer; should its result
come after all, it counts.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from flo.workflow.plan.plan import Breaker

PLACE_MS_MIN: Final = 1_000


class BreakerPhase(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerState(NamedTuple):
    settings: Breaker
    since_ms: int
    """When it was opened or closed, or came to be."""
    is_open: bool = False
    failures: int = 0
    """In a row."""
    probes: tuple[int, ...] = ()
    """When each probe began that holds a place."""

    def phase(self, now_ms: int) -> BreakerPhase:
        if not self.is_open:
            return BreakerPhase.CLOSED
        return BreakerPhase.OPEN if now_ms < self.half_open_at_ms else BreakerPhase.HALF_OPEN

    @property
    def half_open_at_ms(self) -> int:
        """When probes are let through, if it is open."""
        return self.since_ms + self.settings.cooldown_ms

    def may_call(self, now_ms: int) -> bool:
        match self.phase(now_ms):
            case BreakerPhase.CLOSED:
                return True
            case BreakerPhase.OPEN:
                return False
            case BreakerPhase.HALF_OPEN:
                return len(self._places(now_ms)) < self.settings.half_open_max_calls

    def next_at_ms(self, now_ms: int) -> int:
        """The first time from now on at which a call is let through, if nothing else happens."""
        if self.may_call(now_ms):
            return now_ms
        if self.phase(now_ms) is BreakerPhase.OPEN:
            return self.half_open_at_ms
        return min(self._places(now_ms)) + self._place_ms

    def called(self, now_ms: int) -> "BreakerState":
        if self.phase(now_ms) is not BreakerPhase.HALF_OPEN:
            return self
        return self._replace(probes=(*self._places(now_ms), now_ms))

    def succeeded(self, began_ms: int, now_ms: int) -> "BreakerState":
        """A call that began then has ended well."""
        if not self._counts(began_ms, now_ms):
            return self
        if self.is_open:
            return self._turned(now_ms, is_open=False)
        return self._replace(failures=0)

    def failed(self, began_ms: int, now_ms: int) -> "BreakerState":
        """A call that began then has failed."""
        if not self._counts(began_ms, now_ms):
            return self
        failures = self.failures + 1
        if self.is_open or failures >= self.settings.failure_threshold:
            return self._turned(now_ms, is_open=True)
        return self._replace(failures=failures)

    def abandoned(self, began_ms: int) -> "BreakerState":
        """A call that began then has ended, and nothing is known of how it went."""
        if began_ms not in self.probes:
            return self
        place = self.probes.index(began_ms)
        return self._replace(probes=self.probes[:place] + self.probes[place + 1 :])

    def _turned(self, now_ms: int, is_open: bool) -> "BreakerState":
        return self._replace(since_ms=now_ms, is_open=is_open, failures=0, probes=())

    def _counts(self, began_ms: int, now_ms: int) -> bool:
        match self.phase(now_ms):
            case BreakerPhase.CLOSED:
                return began_ms >= self.since_ms
            case BreakerPhase.OPEN:
                return False
            case BreakerPhase.HALF_OPEN:
                return began_ms >= self.half_open_at_ms

    def _places(self, now_ms: int) -> tuple[int, ...]:
        return tuple(at_ms for at_ms in self.probes if now_ms - at_ms < self._place_ms)

    @property
    def _place_ms(self) -> int:
        return max(self.settings.cooldown_ms, PLACE_MS_MIN)
