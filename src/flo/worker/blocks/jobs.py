"""The work of a block worker: take jobs while lanes are free, run each on one, report.

A job is a task like any other: it is claimed, kept and reported as those of actions are. What
differs is where it runs, and that a worker which leaves hands back what it could not finish.
"""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial

from flo.model.blocks.jobs import JobInput, JobResult
from flo.model.blocks.names import JobType, job_action, job_id_of
from flo.model.ids import ActionName
from flo.worker.actions.claims import Claims
from flo.worker.actions.context import ActionContext
from flo.worker.actions.runner import TaskRunner
from flo.worker.blocks.block import DeclaredBlock
from flo.worker.blocks.context import BlockContext
from flo.worker.blocks.lane import JobLane
from flo.worker.blocks.phases import JobEnd, perform
from flo.worker.blocks.watch import BlockedPlace, LaneWatch
from flo.worker.handler import BoundHandler
from flo.worker.outcome import ActionError

BLOCKED_CODE = "blocked_lane"

_logger = logging.getLogger("flo.worker")


class JobLanes:
    """Runs jobs, each on a lane of its own; a job that blocks is failed if this is `strict`."""

    def __init__(self, count: int, threshold_s: float, *, strict: bool = False) -> None:
        self._lanes = [JobLane(number) for number in range(1, count + 1)]
        self._free = list(reversed(self._lanes))
        self._threshold_s = threshold_s
        self._strict = strict

    def handlers(self, blocks: Iterable[DeclaredBlock]) -> dict[ActionName, BoundHandler]:
        """What is called for each action of these blocks."""
        return {
            job_action(declared.id, job): BoundHandler(partial(self._handle, declared), True)
            for declared in blocks
            for job in JobType
        }

    def abandon(self) -> None:
        for lane in self._lanes:
            lane.abandon()

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()

    async def _handle(self, declared: DeclaredBlock, task: ActionContext) -> JobResult:
        job = task.into(JobInput)
        context = BlockContext(
            job,
            task.attempt,
            is_cancelled=lambda: task.cancelled,
            extend=_extender(task),
        )
        lane = self._free.pop()
        about = f"job {job_id_of(task.task_id, task.attempt)} ({job.job} of {declared.id})"
        watch = LaneWatch(lane, about, self._threshold_s)
        watch.start()
        try:
            end = await lane.run(partial(perform, declared, job, context))
        finally:
            watch.stop()
            self._free.append(lane)
        if self._strict and watch.places:
            end = JobEnd(_blocked(watch.places[0], end.result))
        if end.again:
            raise ActionError(end.result.message, code=end.result.code)
        if not end.result.success:
            _logger.warning("%s has failed: %s", about, end.result.message)
        return end.result


class JobRunner(TaskRunner):
    def stop_all(self) -> None:
        """Stop whatever runs; nothing is reported, and so it is handed back."""
        for call in tuple(self._running):
            if not call.is_stopped:
                self._stop(call)


class BlockJobs(Claims):
    """`left` is how many jobs a worker that was told to stop could not finish in time."""

    left = 0
    runner: JobRunner
    lanes: JobLanes

    async def finish(self) -> None:
        """Wait for the jobs that run; cancel them shortly before the time is over."""
        slots, limit_s = self._slots, self._policy.drain_timeout_s
        grace_s = min(self._policy.cancel_grace_s, limit_s / 2)
        await slots.all_ended(limit_s - grace_s)
        self.left = slots.runners_count
        if self.left:
            _logger.error(
                "worker %s: %d jobs have not ended within SHUTDOWN_TIMEOUT (%g s), and are handed "
                "back",
                self._worker_id,
                self.left,
                limit_s,
            )
            self.runner.stop_all()
            await slots.all_ended(grace_s)

    def abandon(self) -> None:
        self.left = max(self.left, self._slots.runners_count)
        self.lanes.abandon()
        super().abandon()

    def close(self) -> None:
        super().close()
        self.lanes.close()


def _extender(task: ActionContext) -> "_Extend":
    return _Extend(task, asyncio.get_running_loop())


class _Extend:
    """Extends the lease of a job from its lane."""

    def __init__(self, task: ActionContext, home: asyncio.AbstractEventLoop) -> None:
        self._task = task
        self._home = home

    async def __call__(self, extend_ms: int) -> None:
        await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._touch(extend_ms), self._home)
        )

    async def _touch(self, extend_ms: int) -> None:
        await self._task.touch(extend_ms)


def _blocked(place: BlockedPlace, result: JobResult) -> JobResult:
    return JobResult(
        success=False,
        message=f"the job has blocked its lane for {place.blocked_s:.1f} s at {place}",
        code=BLOCKED_CODE,
        data=result.data,
    )
