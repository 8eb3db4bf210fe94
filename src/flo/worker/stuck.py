"""Notices a worker that can take nothing more: every place is held by a handler that does not stop.

    a handler is told to stop, and does not ──▸ it is abandoned, and keeps its place
    every place is held so ──for long enough──▸ the worker is stuck

A thread cannot be ended from outside: only another process helps, which a supervisor starts.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from flo.model.errors import Unavailable
from flo.model.ids import WorkerId
from flo.worker.watchdog import Subject

STUCK_TIMEOUT_S_DEFAULT = 60.0
TASKS_NAMED_MAX = 10

_logger = logging.getLogger("flo.worker")


class WorkerStuck(Unavailable):
    """Every place of a worker is held by a handler that was told to stop, and does not."""

    code = "worker_stuck"


class StuckWatch:
    """`on_stuck` is called once, when all of `places` have been held so for `timeout_s`."""

    def __init__(
        self, worker_id: WorkerId, places: int, timeout_s: float, on_stuck: Callable[[], None]
    ) -> None:
        self.problem: WorkerStuck | None = None
        self._worker_id = worker_id
        self._places = places
        self._timeout_s = timeout_s
        self._on_stuck = on_stuck
        self._alarm: asyncio.TimerHandle | None = None

    def update(self, abandoned: Sequence[Subject]) -> None:
        """These are the tasks whose handlers do not stop."""
        if len(abandoned) < self._places:
            self.stop()
        elif self._alarm is None:
            _logger.warning(
                "worker %s: every place is held by a handler that does not stop (%s): nothing more "
                "is taken",
                self._worker_id,
                _named(abandoned),
            )
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(self._timeout_s, self._stuck, abandoned)

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _stuck(self, abandoned: Sequence[Subject]) -> None:
        self.problem = WorkerStuck(
            f"worker {self._worker_id} is stuck: each of its {self._places} places has been held "
            f"for {self._timeout_s:g} s by a handler that was told to stop and does not "
            f"({_named(abandoned)}). Give what it waits for a timeout, or check ctx.cancelled"
        )
        _logger.error("%s", self.problem.message)
        self._on_stuck()


def _named(tasks: Sequence[Subject]) -> str:
    names = ", ".join(task.task_id for task in tasks[:TASKS_NAMED_MAX])
    rest = len(tasks) - TASKS_NAMED_MAX
    return f"{names} and {rest} more" if rest > 0 else names
