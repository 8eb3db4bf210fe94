"""The work of an action worker: claim tasks while slots are free, and run them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from flo.client.workers import Workers
from flo.model.errors import Unavailable
from flo.model.ids import ActionName, RunId, WorkerId
from flo.model.runs import TASKS_PER_CLAIM_MAX, Assigned
from flo.model.workers import HeldTask
from flo.worker.actions.runner import TaskRunner
from flo.worker.lifecycle import RETRY_S, LifecyclePolicy, try_soon
from flo.worker.logs import log_trouble
from flo.worker.slots import ConcurrencySlots
from flo.worker.watchdog import Running, Subject

_logger = logging.getLogger("flo.worker")


class Claims:
    """`announce` registers the worker and its actions."""

    def __init__(
        self,
        workers: Workers,
        worker_id: WorkerId,
        actions: list[ActionName],
        policy: LifecyclePolicy,
        announce: Callable[[], Awaitable[None]],
        runner: TaskRunner,
    ) -> None:
        self._workers = workers
        self._worker_id = worker_id
        self._actions = actions
        self._policy = policy
        self._announce = announce
        self._runner = runner
        self._slots = ConcurrencySlots(policy.concurrency)
        self._is_draining = False

    @property
    def load(self) -> int:
        return self._slots.busy_count

    def running(self) -> Running:
        return self._runner.running()

    def abandoned(self) -> Sequence[Subject]:
        return self._runner.abandoned()

    def on_abandoned(self, call: Callable[[], None]) -> None:
        self._runner.on_abandoned = call

    async def announce(self) -> None:
        await self._announce()

    async def take(self) -> None:
        self._runner.taker = asyncio.current_task()
        while not self._is_draining:
            if not self._slots.free_count:
                await self._slots.change()
                continue
            assigned = await self._claim()
            for task in assigned.tasks:
                self._slots.start(self._runner.run(task, self._slots.release))
            if assigned.draining:
                return

    def drain(self) -> None:
        self._is_draining = True
        self._slots.changed.set()

    def cancel(self, run_id: RunId) -> None:
        self._runner.cancel(run_id)

    def held(self) -> list[HeldTask]:
        return self._runner.held()

    def lose(self, run_id: RunId) -> None:
        self._runner.lose(run_id)

    async def finish(self) -> None:
        slots, policy = self._slots, self._policy
        await slots.all_ended(policy.drain_timeout_s)
        if slots.runners_count:
            _logger.warning("worker %s gives up %d tasks", self._worker_id, slots.runners_count)
            reason = (
                "the worker was shut down, and the handler took longer than its "
                f"drain_timeout of {policy.drain_timeout_s:g} s"
            )
            await try_soon(self._worker_id, self._runner.give_up_all(reason))
            await slots.all_ended(policy.cancel_grace_s)

    def abandon(self) -> None:
        self._slots.cancel()

    async def leave(self) -> None:
        pass

    def close(self) -> None:
        self._runner.stop()

    async def _claim(self) -> Assigned:
        try:
            return await self._workers.claim(
                self._worker_id,
                self._actions,
                max_tasks=min(self._slots.free_count, TASKS_PER_CLAIM_MAX),
                block_ms=self._policy.block_ms,
            )
        except Unavailable as error:
            log_trouble(error, "worker %s cannot claim: %s", self._worker_id, error)
            await asyncio.sleep(RETRY_S)
            return Assigned()
