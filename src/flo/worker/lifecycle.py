"""Register, send heartbeats, await notifications, drain, deregister: for every kind of worker.

announce ──▸ take work ──▸ finish it ──▸ leave
                 │   ▲            ▲
                 └───┘            └── drain: a signal, the server, or stop()

The connection is the sign of life: on every new one, the worker first says what it holds.

What the work is, each kind says for itself: actions/claims.py and streams/reads.py.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from math import inf
from typing import NamedTuple, Protocol

from flo.client.workers import Workers
from flo.model.errors import Conflict, FloError, NotFound, Unavailable
from flo.model.ids import RunId, WorkerId
from flo.model.workers import HeldTask, Resumed, WorkerStatus
from flo.worker.logs import log_trouble
from flo.worker.stuck import STUCK_TIMEOUT_S_DEFAULT, StuckWatch
from flo.worker.watchdog import Running, Subject

RETRY_S = 1.0
"""The pause after a call that failed although the session has retried it."""
NOTIFICATIONS_BLOCK_MS = 30_000
LEAVE_S_MAX = 2.0
"""How long a leaving worker waits for any one answer."""

_logger = logging.getLogger("flo.worker")


class LifecyclePolicy(NamedTuple):
    """How many handlers run at a time, and how long a worker waits for what."""

    concurrency: int
    block_ms: int
    heartbeat_interval_s: float
    drain_timeout_s: float
    cancel_grace_s: float
    stuck_timeout_s: float = STUCK_TIMEOUT_S_DEFAULT
    exit_when_stuck: bool = True
    rejoins: bool = True
    """Whether it registers again when the server does not know it any more; else it has expired."""
    startup_timeout_s: float = inf
    """How long it tries to register when it starts."""


class WorkerExpiredError(NotFound):
    """The server does not know this worker any more: it was not heard of for too long."""

    code = "worker_expired"


class Work(Protocol):
    """What one kind of worker does; the lifecycle says when."""

    @property
    def load(self) -> int:
        """How many handlers run."""

    def running(self) -> Running:
        """What they work on; may be called from any thread."""

    def abandoned(self) -> Sequence[Subject]:
        """What those of them work on that were told to stop, and have not; part of the load."""

    def on_abandoned(self, call: Callable[[], None]) -> None:
        """Call this whenever `abandoned` has changed."""

    async def announce(self) -> None:
        """Register the worker."""

    async def take(self) -> None:
        """Take work and do it, until told to drain, here or by the server."""

    def drain(self) -> None:
        """Take no more."""

    def cancel(self, run_id: RunId) -> None:
        """Stop the task of a run that was cancelled."""

    def held(self) -> list[HeldTask]:
        """The tasks that were taken, and whose reports are not answered yet."""

    def lose(self, run_id: RunId) -> None:
        """Stop a task that the server has given to others."""

    async def finish(self) -> None:
        """Wait for the handlers that run, at most for the drain timeout, and stop the rest."""

    def abandon(self) -> None:
        """Stop waiting for whatever still runs."""

    async def leave(self) -> None:
        """Leave what only this kind of worker has joined."""

    def close(self) -> None:
        """Let go of threads and timers."""


class Lifecycle:
    def __init__(
        self,
        workers: Workers,
        worker_id: WorkerId,
        incarnation: str,
        policy: LifecyclePolicy,
        work: Work,
    ) -> None:
        self._workers = workers
        self._worker_id = worker_id
        self._incarnation = incarnation
        self._policy = policy
        self._work = work
        self._draining = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._announcing: asyncio.Future[None] | None = None
        self._stopped_at_once = False
        self._expired: WorkerExpiredError | None = None
        self._has_news = asyncio.Event()
        """Whether the next heartbeat is to be sent at once."""
        self._stuck = StuckWatch(
            worker_id, policy.concurrency, policy.stuck_timeout_s, self._is_stuck
        )
        work.on_abandoned(self._abandoned_changed)

    async def run(self) -> None:
        """Register, work, deregister; returns when the worker has drained.

        Raises WorkerStuck if the worker ends because no handler of it does, and WorkerExpiredError
        if the server has forgotten it and it may not rejoin.
        """
        self._running = asyncio.current_task()
        try:
            if await self._register():
                await self._work_and_leave()
        except asyncio.CancelledError:
            if not self._stopped_at_once:
                raise
            assert self._running is not None
            self._running.uncancel()
        finally:
            self._stuck.stop()
        if self._policy.exit_when_stuck and self._stuck.problem is not None:
            raise self._stuck.problem
        if self._expired is not None:
            raise self._expired

    def drain(self) -> None:
        """Take no more work, finish what runs, leave."""
        self._draining.set()
        self._work.drain()

    def stop_at_once(self) -> None:
        """Finish nothing; the server gives it to others."""
        self._stopped_at_once = True
        if self._running is not None:
            self._running.cancel()

    async def _register(self) -> bool:
        """Whether the worker is registered, or was told to drain before it could be."""
        registering = asyncio.create_task(self._announce_until_accepted())
        try:
            await self._until_draining(registering)
        finally:
            registering.cancel()
        return await _ended_well(registering)

    async def _announce_until_accepted(self) -> None:
        give_up_at_s = asyncio.get_running_loop().time() + self._policy.startup_timeout_s
        while True:
            try:
                await self._work.announce()
            except Unavailable as error:
                if asyncio.get_running_loop().time() >= give_up_at_s:
                    raise
                log_trouble(error, "worker %s cannot register yet: %s", self._worker_id, error)
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _work_and_leave(self) -> None:
        on_connected = self._workers._session.on_connected
        on_connected[self._resume] = None
        heartbeats = asyncio.create_task(self._send_heartbeats())
        notifications = asyncio.create_task(self._await_notifications())
        try:
            await self._take()
            await self._work.finish()
        finally:
            heartbeats.cancel()
            notifications.cancel()
            on_connected.pop(self._resume, None)
            self._work.abandon()
            await self._try(self._work.leave())
            if self._expired is None:
                await self._try(self._workers.deregister(self._worker_id))
            _logger.info("worker %s has left", self._worker_id)

    async def _take(self) -> None:
        taking = asyncio.create_task(self._work.take())
        try:
            await self._until_draining(taking)
            if self._draining.is_set():  # the server shows it, and answers the waiting claim
                await self._try(self._workers.drain(self._worker_id))
                await asyncio.wait({taking}, timeout=LEAVE_S_MAX)
            self.drain()
        finally:
            taking.cancel()
        await _ended_well(taking)

    async def _send_heartbeats(self) -> None:
        while True:
            await self._until_heartbeat()
            try:
                known = await self._workers.heartbeat(
                    self._worker_id, self._work.load, abandoned=len(self._work.abandoned())
                )
                if known.status is WorkerStatus.DRAINING:
                    self.drain()
            except NotFound:
                await self._announce_again()
            except FloError as error:
                log_trouble(error, "worker %s: no heartbeat: %s", self._worker_id, error)

    async def _until_heartbeat(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._policy.heartbeat_interval_s):
                await self._has_news.wait()
        self._has_news.clear()

    def _abandoned_changed(self) -> None:
        self._has_news.set()
        self._stuck.update(self._work.abandoned())

    def _is_stuck(self) -> None:
        if self._policy.exit_when_stuck:
            self.stop_at_once()

    async def _await_notifications(self) -> None:
        """Learn at once of runs that are cancelled, and of a drain even if no slot is free."""
        last = 0
        while True:
            try:
                notifications = await self._workers.await_notifications(
                    self._worker_id, after=last, block_ms=NOTIFICATIONS_BLOCK_MS
                )
            except NotFound:
                await self._announce_again()
                await asyncio.sleep(RETRY_S)
            except FloError as error:
                log_trouble(error, "worker %s: no notifications: %s", self._worker_id, error)
                await asyncio.sleep(RETRY_S)
            else:
                last = notifications.last
                for run_id in notifications.cancelled:
                    self._work.cancel(run_id)
                if notifications.draining:
                    self.drain()

    def _resume(self) -> None:
        """There is a new connection: before anything else, the server hears what is held."""
        answer = self._workers._resume(self._worker_id, self._incarnation, self._work.held())
        answer.add_done_callback(self._resumed)

    def _resumed(self, answer: asyncio.Future[Resumed]) -> None:
        if answer.cancelled():
            return
        problem = answer.exception()
        if isinstance(problem, NotFound | Conflict):
            self._announcing = asyncio.ensure_future(self._announce_again())
        elif problem is not None:
            _logger.debug("worker %s: not resumed: %s", self._worker_id, problem)
        else:
            resumed = answer.result()
            _logger.info("worker %s is connected again", self._worker_id)
            if self._work.abandoned():
                self._has_news.set()
            for run_id in resumed.lost:
                self._work.lose(run_id)
            if resumed.status is WorkerStatus.DRAINING:
                self.drain()

    async def _announce_again(self) -> None:
        """The server does not know this worker any more."""
        if not self._policy.rejoins:
            self._expire()
        elif not self._draining.is_set():
            await self._try(self._work.announce())
            if self._work.abandoned():
                self._has_news.set()

    def _expire(self) -> None:
        """Finish what runs, and leave; whoever supervises the worker starts it again."""
        if self._expired is None:
            self._expired = WorkerExpiredError(
                f"worker {self._worker_id} has expired: the server was without a sign of life from "
                "it for too long, and has given its work to others"
            )
            _logger.error("%s", self._expired.message)
        self.drain()

    async def _until_draining(self, task: asyncio.Task[None]) -> None:
        draining = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait({task, draining}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            draining.cancel()

    async def _try(self, doing: Awaitable[object]) -> None:
        await try_soon(self._worker_id, doing)


async def try_soon(worker_id: WorkerId, doing: Awaitable[object]) -> None:
    """Try it once, and log if it fails; a worker that leaves does not wait for long."""
    try:
        async with asyncio.timeout(LEAVE_S_MAX):
            await doing
    except TimeoutError:
        _logger.warning("worker %s: no answer within %g s", worker_id, LEAVE_S_MAX)
    except FloError as error:
        log_trouble(error, "worker %s: %s", worker_id, error)


async def _ended_well(task: asyncio.Task[None]) -> bool:
    """Whether the task ended without being cancelled; its error is raised here."""
    await asyncio.wait({task})
    if task.cancelled():
        return False
    task.result()
    return True
