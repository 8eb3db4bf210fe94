"""Notices a job that blocks its lane, and names the line, in whichever phase it is.

    home loop ──ping, every 50 ms──▸ lane ──pong──▸ all is well
         │
         └── no pong for the threshold ──▸ look at its stack every 100 ms, until it runs again

A place is told once for each job. Nothing else is held up meanwhile: heartbeats go on.
"""

import asyncio
import linecache
import logging
import os
import sys
import sysconfig
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import flo
from flo.worker.blocks.lane import JobLane

PING_S = 0.05
SAMPLE_S = 0.1
THRESHOLD_S_DEFAULT = 0.5
LATE_MAX = 4
"""A check that comes so many times too late says that the whole process stood still."""

_OTHERS = tuple(
    os.path.realpath(folder) + os.sep
    for folder in {
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(flo.__file__).parent),
    }
)

_logger = logging.getLogger("flo.worker")


class BlockedPlace(NamedTuple):
    """Where a job has blocked its lane, and for how long when that was seen."""

    file: str
    line: int
    function: str
    blocked_s: float

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


class LaneWatch:
    """Watches a lane while one job runs there; `about` says which."""

    def __init__(self, lane: JobLane, about: str, threshold_s: float) -> None:
        self._lane = lane
        self._about = about
        self._threshold_s = threshold_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._answered = False
        self._pinged_at_s = self._checked_at_s = self._loop.time()
        self._interval_s = PING_S
        self._is_told = False
        self.places: list[BlockedPlace] = []

    def start(self) -> None:
        if self._threshold_s:
            self._ping()
            self._again(PING_S)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._told_end()

    def _ping(self) -> None:
        self._answered = False
        self._pinged_at_s = self._loop.time()
        self._lane.call_soon(self._pong)

    def _pong(self) -> None:
        self._answered = True

    def _again(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._timer = self._loop.call_later(interval_s, self._check)

    def _check(self) -> None:
        now_s = self._loop.time()
        stood_still = now_s - self._checked_at_s > LATE_MAX * self._interval_s + self._threshold_s
        self._checked_at_s = now_s
        if self._answered:
            self._told_end()
            self._ping()
        elif stood_still:
            self._pinged_at_s = now_s
        elif now_s - self._pinged_at_s >= self._threshold_s:
            self._sample(now_s - self._pinged_at_s)
            self._again(SAMPLE_S)
            return
        self._again(PING_S)

    def _sample(self, blocked_s: float) -> None:
        frame = sys._current_frames().get(self._lane.thread_id)
        if frame is None:
            return
        place = _place_of(frame, blocked_s)
        if any((one.file, one.line) == (place.file, place.line) for one in self.places):
            return
        self.places.append(place)
        _logger.warning(
            "%s blocks its lane for %.1f s, at %s: %s. No other job runs there meanwhile, and it "
            "cannot be cancelled: await, or use run_in_thread",
            self._about,
            blocked_s,
            place,
            linecache.getline(place.file, place.line).strip() or "(no source)",
        )
        self._is_told = True

    def _told_end(self) -> None:
        if self._is_told:
            self._is_told = False
            blocked_s = self._loop.time() - self._pinged_at_s
            _logger.warning("%s: its lane runs again, after %.1f s", self._about, blocked_s)


def _place_of(frame: FrameType, blocked_s: float) -> BlockedPlace:
    """The innermost line that is the user's own; else the innermost of all."""
    innermost, found = frame, frame
    walker: FrameType | None = frame
    while walker is not None:
        if not os.path.realpath(walker.f_code.co_filename).startswith(_OTHERS):
            found = walker
            break
        walker = walker.f_back
    else:
        found = innermost
    code = found.f_code
    return BlockedPlace(code.co_filename, found.f_lineno, code.co_name, blocked_s)
