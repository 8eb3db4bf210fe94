"""The work of a stream worker: read records while there is room, handle them, ack or nack them.

    read ──▸ held ──slot free──▸ handler ──▸ ack
              │                     │
              │                     └── error, timeout ──▸ nack, with the later ones of its key
              └── touched before their ack timeout ends

Reading goes on while handlers run; no more is held than `concurrency` and one batch.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import NamedTuple

from flo.model.errors import FloError, NotFound, Unavailable
from flo.model.groups import GroupRecords
from flo.model.ids import RunId, WorkerId
from flo.model.workers import HeldTask
from flo.worker.handler import BoundHandler
from flo.worker.lifecycle import RETRY_S, LifecyclePolicy, try_soon
from flo.worker.logs import first_line, log_trouble
from flo.worker.slots import ConcurrencySlots
from flo.worker.streams.acks import Acks
from flo.worker.streams.held import HeldRecord, HeldRecords
from flo.worker.streams.membership import Membership
from flo.worker.streams.runner import RecordRunner
from flo.worker.watchdog import Running, Subject

TOUCHES_PER_TIMEOUT = 3

_logger = logging.getLogger("flo.worker")


class ReadPace(NamedTuple):
    """How much a stream worker takes at a time, and how long one record may take."""

    batch_size: int
    message_timeout_s: float


class Reads:
    """`announce` registers the worker; it has joined its group by then."""

    def __init__(
        self,
        membership: Membership,
        worker_id: WorkerId,
        policy: LifecyclePolicy,
        pace: ReadPace,
        announce: Callable[[], Awaitable[None]],
        handler: BoundHandler,
    ) -> None:
        self._membership = membership
        self._worker_id = worker_id
        self._policy = policy
        self._batch_size = pace.batch_size
        self._announce = announce
        self._process = f"{membership.position.stream}/{membership.position.group}"
        self._held = HeldRecords()
        self._acks = Acks(membership)
        self._slots = ConcurrencySlots(policy.concurrency)
        self._runner = RecordRunner(
            handler,
            membership.position,
            self._ended,
            message_timeout_s=pace.message_timeout_s,
            cancel_grace_s=policy.cancel_grace_s,
        )
        self._touching: asyncio.Task[None] | None = None
        self._may_have_unknown = True
        self._is_draining = False
        self._is_closed = False

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
        await self._membership.join()
        self._held.is_keyed = self._membership.is_keyed
        await self._announce()

    async def take(self) -> None:
        self._runner.taker = asyncio.current_task()
        self._touching = asyncio.create_task(self._keep_touching())
        while not self._is_draining:
            if self._slots.busy_count + self._held.waiting_count > self._policy.concurrency:
                await self._slots.change()
                continue
            records = await self._read()
            self._receive(records)
            if records.draining:
                return

    def drain(self) -> None:
        self._is_draining = True
        self._slots.changed.set()

    def cancel(self, run_id: RunId) -> None:
        """Records are not cancelled."""

    def held(self) -> list[HeldTask]:
        """Records are no tasks: what was delivered and not heard is given back before a read."""
        return []

    def lose(self, run_id: RunId) -> None:
        """Records are no tasks."""

    async def finish(self) -> None:
        timeout_s = self._policy.drain_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                while self._slots.runners_count or self._held.waiting_count:
                    await self._slots.change()
        except TimeoutError:
            _logger.warning("worker %s gives up %d records", self._worker_id, len(self._held))
        self._is_closed = True
        self._runner.give_up_all(
            "the worker was shut down, and the handler took longer than its "
            f"drain_timeout of {timeout_s:g} s"
        )
        for held in self._held:
            if held in self._held and not held.is_begun:
                self._acks.give_back(self._held.withdraw(held))
        await try_soon(self._worker_id, self._acks.all_answered())
        await self._slots.all_ended(self._policy.cancel_grace_s)

    def abandon(self) -> None:
        self._is_closed = True
        self._slots.cancel()
        if self._touching is not None:
            self._touching.cancel()

    async def leave(self) -> None:
        await self._membership.leave()

    def close(self) -> None:
        self._runner.stop()
        self._acks.stop()

    async def _read(self) -> GroupRecords:
        try:
            if self._may_have_unknown:
                await self._give_back_unknown()
            if self._held.has_closed:
                await self._acks.all_answered()
                self._held.reopen()
            return await self._membership.read(self._batch_size, self._policy.block_ms)
        except NotFound as refusal:
            _logger.warning("worker %s joins again: %s", self._worker_id, refusal)
            await try_soon(self._worker_id, self.announce())
            await asyncio.sleep(RETRY_S)
        except Unavailable as error:
            log_trouble(error, "worker %s cannot read: %s", self._worker_id, error)
            self._may_have_unknown = True
            if error.code != "connection_lost":
                await asyncio.sleep(RETRY_S)
        return GroupRecords()

    async def _give_back_unknown(self) -> None:
        """Give back records that were delivered to us in an answer that never came."""
        known = {held.task_id for held in self._held} | self._acks.unanswered()
        count = await self._membership.give_back_unknown(known)
        if count:
            _logger.info("worker %s gives back %d records it never saw", self._worker_id, count)
        self._may_have_unknown = False

    def _receive(self, records: GroupRecords) -> None:
        now_s = asyncio.get_running_loop().time()
        membership = self._membership
        until_s = inf if membership.settings.no_ack else now_s + membership.ack_timeout_s
        for record, deliveries in zip(records.items, records.deliveries, strict=True):
            held = HeldRecord(record, deliveries, until_s, self._process)
            if self._acks.is_unanswered(held.task_id):
                continue  # its ack or nack arrives after this delivery, and counts
            if not self._held.add(held):
                self._acks.give_back([held])
        self._begin()

    def _begin(self) -> None:
        """Begin as many as there are slots; what is overdue is given back instead."""
        now_s = asyncio.get_running_loop().time()
        while not self._is_closed and self._slots.free_count:
            held = self._held.begin()
            if held is None:
                return
            if held.until_s > now_s:
                self._slots.start(self._runner.run(held, self._release))
            else:
                self._acks.give_back(self._held.withdraw(held))

    def _release(self) -> None:
        self._slots.release()
        self._begin()

    def _ended(self, held: HeldRecord, error: BaseException | None) -> None:
        if error is None:
            self._held.done(held)
            self._acks.ack(held)
            return
        self._log_failed(held, error)
        if self._is_given_up(held):
            self._held.done(held)
            self._acks.nack([held])
        else:
            self._acks.nack(self._held.withdraw(held))

    def _log_failed(self, held: HeldRecord, error: BaseException) -> None:
        settings = self._membership.settings
        is_given_up = self._is_given_up(held)
        _logger.log(
            logging.ERROR if is_given_up else logging.WARNING,
            "record %s of %s has failed, delivery %d of %d: %s; %s",
            held.task_id,
            self._process,
            held.deliveries,
            settings.max_deliveries,
            first_line(error),
            "it is redelivered"
            if not is_given_up
            else "it is not redelivered"
            if settings.no_ack
            else "it is a dead letter",
        )
        _logger.debug("record %s of %s", held.task_id, self._process, exc_info=error)

    def _is_given_up(self, held: HeldRecord) -> bool:
        """Whether it will not be redelivered, so that later ones of its key need not wait."""
        settings = self._membership.settings
        return settings.no_ack or held.deliveries >= settings.max_deliveries

    async def _keep_touching(self) -> None:
        """Touch what is held before its ack timeout ends."""
        while True:
            timeout_s = self._membership.ack_timeout_s
            await asyncio.sleep(timeout_s / TOUCHES_PER_TIMEOUT)
            soon_s = asyncio.get_running_loop().time() + timeout_s
            soon_s -= timeout_s / TOUCHES_PER_TIMEOUT
            due = [held for held in self._held if held.until_s <= soon_s]
            try:
                if due and not await self._touched(due):
                    await self._find_lost(due)
            except FloError as error:
                log_trouble(error, "%d records were not touched: %s", len(due), error)

    async def _touched(self, some: list[HeldRecord]) -> bool:
        """Whether all of them were still ours."""
        until_s = asyncio.get_running_loop().time() + self._membership.ack_timeout_s
        count = await self._membership.touch([held.task_id for held in some])
        if count < len(some):
            return False
        for held in some:
            held.until_s = until_s
        return True

    async def _find_lost(self, some: list[HeldRecord]) -> None:
        """Touch them one by one, and stop those that another consumer has."""
        for held in some:
            if held in self._held and not await self._touched([held]) and held in self._held:
                _logger.warning("record %s is lost: others may have it", held.task_id)
                self._runner.lose(held)
                _, *later = self._held.withdraw(held)
                self._acks.give_back(later)
                self._slots.changed.set()
