"""Notices a handler that blocks the event loop, and names it in the log.

watchdog ──ping──▸ loop ──pong──▸ all is well
    │
    └── no pong for too long ──▸ log which handler runs, and the stack of the loop's thread;
                                 give signs of life in its place
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeAlias

CHECKS_PER_LIMIT = 4
BEAT_S = 5.0
"""While the loop is blocked, there is a sign of life so often."""
BUSY_SHARE_MIN = 0.1
FRAMES_MAX = 20

_logger = logging.getLogger("flo.worker")


class Subject(Protocol):
    """What a handler works on: a task of an action, or a record of a stream."""

    @property
    def task_id(self) -> str: ...

    @property
    def task_type(self) -> str: ...


Running: TypeAlias = Sequence[tuple[Subject, asyncio.Task[None] | None]]
"""What the handlers work on, each with the asyncio task that runs it."""


@contextmanager
def watching(
    running: Callable[[], Running], limit_s: float, beat: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Watch the running loop; a limit of 0 is none. `beat` gives a sign of life, in a thread."""
    if not limit_s:
        yield
        return
    watchdog = Watchdog(running, limit_s, beat)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class BlockedLoop:
    """How long the loop has not answered, without the time in which the whole process slept.

    A check that comes much too late, with hardly any processor time spent meanwhile, means that the
    machine was asleep or the process stopped: a handler that blocks the interpreter spends time.
    """

    def __init__(self, check_s: float) -> None:
        self._check_s = check_s
        self.blocked_s = 0.0

    def add(self, elapsed_s: float, busy_s: float) -> None:
        slept = elapsed_s > 2 * self._check_s and busy_s < elapsed_s * BUSY_SHARE_MIN
        self.blocked_s = 0.0 if slept else self.blocked_s + elapsed_s


class Watchdog:
    def __init__(
        self,
        running: Callable[[], Running],
        limit_s: float,
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        self._running = running
        self._beat = beat
        self._beat_at_s = 0.0
        self._limit_s = limit_s
        self._check_s = limit_s / CHECKS_PER_LIMIT
        self._loop = asyncio.get_running_loop()
        self._loop_thread_id = threading.get_ident()
        self._answered = True
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="flo-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        blocked = BlockedLoop(self._check_s)
        warned_s = 0.0
        checked_at_s, busy_s = time.monotonic(), time.process_time()
        while not self._stopping.wait(self._check_s):
            before_s, busy_before_s = checked_at_s, busy_s
            checked_at_s, busy_s = time.monotonic(), time.process_time()
            answered = self._answered
            if answered:  # at the latest when this check began: what came before is over
                blocked = BlockedLoop(self._check_s)
            blocked.add(checked_at_s - before_s, busy_s - busy_before_s)
            if blocked.blocked_s >= self._limit_s:
                if not warned_s:
                    self._warn(blocked.blocked_s)
                warned_s = blocked.blocked_s
                self._beat_in_time(checked_at_s)
            elif warned_s and answered:
                _logger.warning("the event loop runs again, after %.1f s", warned_s)
                warned_s = 0.0
            if answered:
                blocked = BlockedLoop(self._check_s)
                if not self._ping():
                    return

    def _beat_in_time(self, now_s: float) -> None:
        if now_s >= self._beat_at_s:
            self._beat_at_s = now_s + BEAT_S
            self._beat()

    def _ping(self) -> bool:
        self._answered = False
        try:
            self._loop.call_soon_threadsafe(self._pong)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def _pong(self) -> None:
        self._answered = True

    def _warn(self, blocked_s: float) -> None:
        runner = asyncio.current_task(self._loop)
        frame = sys._current_frames().get(self._loop_thread_id)
        stack = "".join(traceback.format_stack(frame, FRAMES_MAX)) if frame else "unknown\n"
        _logger.warning(
            "%s the event loop for %.1f s: nothing else runs, not even heartbeats and leases. "
            "Make it a plain `def`, which runs in a thread, or await. It is here:\n%s",
            _who(self._running(), runner),
            blocked_s,
            stack.rstrip(),
        )


def _who(running: Running, runner: asyncio.Task[None] | None) -> str:
    for task, its_runner in running:
        if its_runner is runner is not None:
            return f"the handler of {task.task_type!r} (task {task.task_id}) blocks"
    names = ", ".join(task.task_id for task, _ in running) or "no task"
    return f"something beside the handlers (running: {names}) blocks"
