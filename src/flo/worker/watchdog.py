"""Notices a handler that blocks the event loop, and names it in the log.

watchdog ──ping──▸ loop ──pong──▸ all is well
    │
    └── no pong for too long ──▸ who runs, and the stack of the loop's thread
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

LOOKS_PER_LIMIT = 4
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
def watching(running: Callable[[], Running], limit_s: float) -> Iterator[None]:
    """Watch the running loop; a limit of 0 is none."""
    if not limit_s:
        yield
        return
    watchdog = Watchdog(running, limit_s)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class BlockedLoop:
    """How long the loop has not answered, without the time in which the whole process slept.

    A look that comes much too late, and hardly any processor time spent meanwhile: the machine was
    asleep, or the process was stopped. Whoever holds the interpreter for himself spends time.
    """

    def __init__(self, look_s: float) -> None:
        self._look_s = look_s
        self.still_s = 0.0

    def add(self, elapsed_s: float, busy_s: float) -> None:
        slept = elapsed_s > 2 * self._look_s and busy_s < elapsed_s * BUSY_SHARE_MIN
        self.still_s = 0.0 if slept else self.still_s + elapsed_s


class Watchdog:
    def __init__(self, running: Callable[[], Running], limit_s: float) -> None:
        self._running = running
        self._limit_s = limit_s
        self._look_s = limit_s / LOOKS_PER_LIMIT
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
        stillness = BlockedLoop(self._look_s)
        blocked_s = 0.0
        looked_at_s, busy_s = time.monotonic(), time.process_time()
        while not self._stopping.wait(self._look_s):
            before_s, busy_before_s = looked_at_s, busy_s
            looked_at_s, busy_s = time.monotonic(), time.process_time()
            answered = self._answered
            if answered:  # at the latest when this look began: what came before is over
                stillness = BlockedLoop(self._look_s)
            stillness.add(looked_at_s - before_s, busy_s - busy_before_s)
            if stillness.still_s >= self._limit_s:
                if not blocked_s:
                    self._bark(stillness.still_s)
                blocked_s = stillness.still_s
            elif blocked_s and answered:
                _logger.warning("the event loop moves again, after %.1f s", blocked_s)
                blocked_s = 0.0
            if answered:
                stillness = BlockedLoop(self._look_s)
                if not self._ping():
                    return

    def _ping(self) -> bool:
        self._answered = False
        try:
            self._loop.call_soon_threadsafe(self._pong)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def _pong(self) -> None:
        self._answered = True

    def _bark(self, still_s: float) -> None:
        runner = asyncio.current_task(self._loop)
        frame = sys._current_frames().get(self._loop_thread_id)
        stack = "".join(traceback.format_stack(frame, FRAMES_MAX)) if frame else "unknown\n"
        _logger.warning(
            "%s the event loop for %.1f s: nothing else moves, heartbeats and leases neither. "
            "Make it a plain `def`, which runs in a thread, or await. It is here:\n%s",
            _who(self._running(), runner),
            still_s,
            stack.rstrip(),
        )


def _who(running: Running, runner: asyncio.Task[None] | None) -> str:
    for task, its_runner in running:
        if its_runner is runner is not None:
            return f"the handler of {task.task_type!r} (task {task.task_id}) blocks"
    names = ", ".join(task.task_id for task, _ in running) or "no task"
    return f"something beside the handlers (running: {names}) blocks"
