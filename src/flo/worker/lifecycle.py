"""Register, heartbeat, hear news, drain, deregister: shared by every kind of worker.

announce ──▸ take work ──▸ finish it ──▸ leave
                 │   ▲            ▲
                 └───┘            └── drain: a signal, the server, or stop()

What the work is, each kind says for itself: actions/claims.py and streams/reads.py.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import NamedTuple, Protocol

from flo.client.workers import Workers
from flo.model.errors import FloError, NotFound, Unavailable
from flo.model.ids import RunId, WorkerId
from flo.model.workers import WorkerStatus
from flo.worker.watchdog import Running

AGAIN_S = 1.0
"""The pause after a call that failed although the session had tried for long."""
NOTIFICATIONS_BLOCK_MS = 30_000
LEAVE_S_MAX = 2.0
"""How long a leaving worker waits for any one answer."""

_logger = logging.getLogger("flo.worker")


class LifecyclePolicy(NamedTuple):
    """How a worker behaves."""

    concurrency: int
    block_ms: int
    heartbeat_interval_s: float
    drain_timeout_s: float
    cancel_grace_s: float


class Work(Protocol):
    """What one kind of worker does; the lifecycle says when."""

    @property
    def load(self) -> int:
        """How many handlers run."""

    def running(self) -> Running:
        """What they work on; may be asked from any thread."""

    async def announce(self) -> None:
        """Register the worker."""

    async def take(self) -> None:
        """Take work and do it, until told to drain, here or by the server."""

    def drain(self) -> None:
        """Take no more."""

    def cancel(self, run_id: RunId) -> None:
        """Stop the task of a run that was cancelled."""

    async def finish(self) -> None:
        """Wait for what is at hand, for as long as the worker may, and end the rest."""

    def abandon(self) -> None:
        """Leave as it is whatever still runs."""

    async def leave(self) -> None:
        """Say goodbye to whom only this kind knows."""

    def close(self) -> None:
        """Let go of threads and timers."""


class Lifecycle:
    def __init__(
        self, workers: Workers, worker_id: WorkerId, manners: LifecyclePolicy, work: Work
    ) -> None:
        self._workers = workers
        self._worker_id = worker_id
        self._manners = manners
        self._work = work
        self._draining = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._stopped_at_once = False

    async def run(self) -> None:
        """From the registration to the departure; returns when the worker has drained."""
        self._running = asyncio.current_task()
        try:
            if await self._arrive():
                await self._stay()
        except asyncio.CancelledError:
            if not self._stopped_at_once:
                raise
            assert self._running is not None
            self._running.uncancel()

    def drain(self) -> None:
        """Take no more work, finish what is at hand, leave."""
        self._draining.set()
        self._work.drain()

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
                await self._work.announce()
            except Unavailable as error:
                _logger.warning("worker %s cannot register yet: %s", self._worker_id, error)
                await asyncio.sleep(AGAIN_S)
            else:
                _logger.info("worker %s is registered", self._worker_id)
                return

    async def _stay(self) -> None:
        heart, ear = asyncio.create_task(self._beat()), asyncio.create_task(self._listen())
        try:
            await self._take()
            await self._work.finish()
        finally:
            heart.cancel()
            ear.cancel()
            self._work.abandon()
            await self._try(self._work.leave())
            await self._try(self._workers.deregister(self._worker_id))
            _logger.info("worker %s has left", self._worker_id)

    async def _take(self) -> None:
        taking = asyncio.create_task(self._work.take())
        try:
            await self._until_draining(taking)
            if self._draining.is_set():  # the server shows it, and answers who is parked there
                await self._try(self._workers.drain(self._worker_id))
                await asyncio.wait({taking}, timeout=LEAVE_S_MAX)
            self.drain()
        finally:
            taking.cancel()
        await _ended_well(taking)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._manners.heartbeat_interval_s)
            try:
                known = await self._workers.heartbeat(self._worker_id, self._work.load)
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
                notifications = await self._workers.await_notifications(
                    self._worker_id, after=last, block_ms=NOTIFICATIONS_BLOCK_MS
                )
            except NotFound:
                await self._announce_again()
                await asyncio.sleep(AGAIN_S)
            except FloError as error:
                _logger.warning("worker %s: no news: %s", self._worker_id, error)
                await asyncio.sleep(AGAIN_S)
            else:
                last = notifications.last
                for run_id in notifications.cancelled:
                    self._work.cancel(run_id)
                if notifications.draining:
                    self.drain()

    async def _announce_again(self) -> None:
        """The server has forgotten us."""
        if not self._draining.is_set():
            await self._try(self._work.announce())

    async def _until_draining(self, task: asyncio.Task[None]) -> None:
        draining = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait({task, draining}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            draining.cancel()

    async def _try(self, doing: Awaitable[object]) -> None:
        await try_soon(self._worker_id, doing)


async def try_soon(worker_id: WorkerId, doing: Awaitable[object]) -> None:
    """Do it if it can be done soon; a worker that leaves does not insist."""
    try:
        async with asyncio.timeout(LEAVE_S_MAX):
            await doing
    except TimeoutError:
        _logger.warning("worker %s: no answer within %g s", worker_id, LEAVE_S_MAX)
    except FloError as error:
        _logger.warning("worker %s: %s", worker_id, error)


async def _ended_well(task: asyncio.Task[None]) -> bool:
    """Whether the task came to its own end, and was not cancelled. Its error is ours."""
    await asyncio.wait({task})
    if task.cancelled():
        return False
    task.result()
    return True
