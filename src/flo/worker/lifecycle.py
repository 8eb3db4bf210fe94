"""Register, heartbeat, claim, hear news, drain, deregister: shared by every kind of worker.

announce ──▸ take tasks ──▸ finish tasks ──▸ leave
                 │   ▲            ▲
                 └───┘            └── drain: a signal, the server, or stop()
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, TypeAlias

from flo.client.workers import Workers
from flo.model.errors import FloError, NotFound, Unavailable
from flo.model.ids import ActionName, RunId, WorkerId
from flo.model.runs import TASKS_PER_CLAIM_MAX, Assigned, Task
from flo.model.workers import WorkerStatus

AGAIN_S = 1.0
"""The pause after a call that failed although the session had tried for long."""
NEWS_BLOCK_MS = 30_000
LEAVE_S_MAX = 2.0
"""How long a leaving worker waits for any one answer."""

Perform: TypeAlias = Callable[[Task, Callable[[], None]], Coroutine[Any, Any, None]]

_logger = logging.getLogger("flo.worker")


class Manners(NamedTuple):
    """How a worker behaves."""

    concurrency: int
    block_ms: int
    heartbeat_interval_s: float
    drain_timeout_s: float
    cancel_grace_s: float


class Lifecycle:
    """`announce` registers the worker; `perform` does one task and gives its slot back before it
    reports; `cancel` stops the task of a run that was cancelled; `give_up_all` ends what is still
    running when the time to drain is over.
    """

    def __init__(
        self,
        workers: Workers,
        worker_id: WorkerId,
        actions: list[ActionName],
        manners: Manners,
        announce: Callable[[], Awaitable[None]],
        perform: Perform,
        cancel: Callable[[RunId], None],
        give_up_all: Callable[[str], Awaitable[None]],
    ) -> None:
        self._workers = workers
        self._worker_id = worker_id
        self._actions = actions
        self._manners = manners
        self._announce = announce
        self._perform = perform
        self._cancel = cancel
        self._give_up_all = give_up_all
        self._free_count = manners.concurrency
        self._room = asyncio.Event()
        self._draining = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: asyncio.Task[None] | None = None
        self._stopped_at_once = False

    async def run(self) -> None:
        """From the registration to the departure; returns when the worker has drained."""
        self._running = asyncio.current_task()
        try:
            if await self._arrive():
                await self._work()
        except asyncio.CancelledError:
            if not self._stopped_at_once:
                raise
            assert self._running is not None
            self._running.uncancel()

    def drain(self) -> None:
        """Take no more tasks, finish those at hand, leave."""
        self._draining.set()
        self._room.set()

    def stop_at_once(self) -> None:
        """Leave everything as it is; the server gives it to others."""
        self._stopped_at_once = True
        if self._running is not None:
            self._running.cancel()

    async def _arrive(self) -> bool:
        """Whether the worker is registered, or was told to drain before it could be."""
        arriving = asyncio.create_task(self._announce_until_heard())
        try:
            await self._until_draining(arriving)
        finally:
            arriving.cancel()
        return await _ended_well(arriving)

    async def _announce_until_heard(self) -> None:
        while True:
            try:
                await self._announce()
            except Unavailable as error:
                _logger.warning("worker %s cannot register yet: %s", self._worker_id, error)
                await asyncio.sleep(AGAIN_S)
            else:
                _logger.info("worker %s is registered", self._worker_id)
                return

    async def _work(self) -> None:
        heart, ear = asyncio.create_task(self._beat()), asyncio.create_task(self._listen())
        try:
            await self._take_tasks()
            await self._finish_tasks()
        finally:
            heart.cancel()
            ear.cancel()
            for task in self._tasks:
                task.cancel()
            await self._try(self._workers.deregister(self._worker_id))
            _logger.info("worker %s has left", self._worker_id)

    async def _take_tasks(self) -> None:
        claiming = asyncio.create_task(self._claim_tasks())
        try:
            await self._until_draining(claiming)
            if self._draining.is_set():  # the server shows it, and answers the parked claim
                await self._try(self._workers.drain(self._worker_id))
                await asyncio.wait({claiming}, timeout=LEAVE_S_MAX)
        finally:
            claiming.cancel()
        await _ended_well(claiming)

    async def _claim_tasks(self) -> None:
        while not self._draining.is_set():
            if not self._free_count:
                self._room.clear()
                await self._room.wait()
                continue
            assigned = await self._claim()
            for task in assigned.tasks:
                self._start(task)
            if assigned.draining:
                self.drain()

    async def _claim(self) -> Assigned:
        try:
            return await self._workers.claim(
                self._worker_id,
                self._actions,
                max_tasks=min(self._free_count, TASKS_PER_CLAIM_MAX),
                block_ms=self._manners.block_ms,
            )
        except Unavailable as error:
            _logger.warning("worker %s cannot claim: %s", self._worker_id, error)
            await asyncio.sleep(AGAIN_S)
            return Assigned()

    def _start(self, task: Task) -> None:
        self._free_count -= 1
        runner = asyncio.create_task(self._perform(task, self._release))
        self._tasks.add(runner)
        runner.add_done_callback(self._finished)

    def _release(self) -> None:
        self._free_count += 1
        self._room.set()

    def _finished(self, runner: asyncio.Task[None]) -> None:
        self._tasks.discard(runner)
        if not runner.cancelled() and (error := runner.exception()) is not None:
            _logger.error("a task could not be performed", exc_info=error)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._manners.heartbeat_interval_s)
            load = self._manners.concurrency - self._free_count
            try:
                known = await self._workers.heartbeat(self._worker_id, load)
                if known.status is WorkerStatus.DRAINING:
                    self.drain()
            except NotFound:
                await self._announce_again()
            except FloError as error:
                _logger.warning("worker %s: no heartbeat: %s", self._worker_id, error)

    async def _listen(self) -> None:
        """Hear at once of runs that are cancelled, and of a drain although no slot is free."""
        last = 0
        while True:
            try:
                news = await self._workers.await_news(
                    self._worker_id, after=last, block_ms=NEWS_BLOCK_MS
                )
            except NotFound:
                await self._announce_again()
                await asyncio.sleep(AGAIN_S)
            except FloError as error:
                _logger.warning("worker %s: no news: %s", self._worker_id, error)
                await asyncio.sleep(AGAIN_S)
            else:
                last = news.last
                for run_id in news.cancelled:
                    self._cancel(run_id)
                if news.draining:
                    self.drain()

    async def _announce_again(self) -> None:
        """The server has forgotten us."""
        if not self._draining.is_set():
            await self._try(self._announce())

    async def _finish_tasks(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._manners.drain_timeout_s)
        if self._tasks:
            _logger.warning("worker %s gives up %d tasks", self._worker_id, len(self._tasks))
            await self._try(
                self._give_up_all(
                    "the worker was shut down, and the handler took longer than its "
                    f"drain_timeout of {self._manners.drain_timeout_s:g} s"
                )
            )
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._manners.cancel_grace_s)

    async def _until_draining(self, task: asyncio.Task[None]) -> None:
        draining = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait({task, draining}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            draining.cancel()

    async def _try(self, doing: Awaitable[object]) -> None:
        """Do it if it can be done soon; a worker that leaves does not insist."""
        try:
            async with asyncio.timeout(LEAVE_S_MAX):
                await doing
        except TimeoutError:
            _logger.warning("worker %s: no answer within %g s", self._worker_id, LEAVE_S_MAX)
        except FloError as error:
            _logger.warning("worker %s: %s", self._worker_id, error)


async def _ended_well(task: asyncio.Task[None]) -> bool:
    """Whether the task came to its own end, and was not cancelled. Its error is ours."""
    await asyncio.wait({task})
    if task.cancelled():
        return False
    task.result()
    return True
