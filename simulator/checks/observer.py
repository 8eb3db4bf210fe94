"""What everybody needs who reads the log along: the checks, what was asked, how far the log is."""

import asyncio
from typing import NamedTuple

from simulator.checks.invariants import Checks, Invariant
from simulator.faults.server_time import ServerTime
from simulator.ledgers.requests import Requests

WORKER_GRACE_MS = 500
"""How long a worker whose connection broke may take to come back: less than in life."""
LATE_S_MAX = 1.0
"""How late a timer may be while the server is up."""


class TimerProbe(NamedTuple):
    """Something that is to happen at a time of the server."""

    at_ms: int
    at_s: float
    """The same on the loop's time."""
    excused_s: float
    """What excuses there had been for being late when it was set."""


class Observer:
    def __init__(self, checks: Checks, requests: Requests, time: ServerTime) -> None:
        self.hold = checks.hold
        self.requests = requests
        self.time = time
        self.position = 0
        """How many appends there have been."""
        self.at_ms = 0
        """The time of the append that is being read."""
        self._loop = asyncio.get_running_loop()

    def now_s(self) -> float:
        return self._loop.time()

    def timer(self, at_ms: int) -> TimerProbe:
        delay_s = max(0, at_ms - self.time.now_ms()) / 1_000
        return TimerProbe(at_ms, self._loop.time() + delay_s, self.time.excuses_s())

    def goes_off(self, timer: TimerProbe, *evidence: object) -> None:
        """It happens now: not too early and not too late."""
        early = self.at_ms < timer.at_ms
        self.hold(Invariant.TIMERS_NOT_EARLY, not early, self.at_ms, timer, *evidence)
        self.is_in_time(timer, *evidence)

    def is_in_time(self, timer: TimerProbe, *evidence: object) -> None:
        """It is not overdue, but for the time for which the server or the clock is excused."""
        excused_s = self.time.excuses_s() - timer.excused_s
        late_s = self._loop.time() - timer.at_s - excused_s
        self.hold(Invariant.TIMERS_NOT_LATE, late_s <= LATE_S_MAX, f"{late_s:.3f} s;", *evidence)
