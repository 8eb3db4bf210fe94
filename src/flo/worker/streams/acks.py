"""Acks and nacks of a stream worker: those of one turn of the loop are sent together.

    handler returned ──▸ ack ───────┐
    handler failed ────▸ nack ──────┼── once a turn ──▸ one call each
    not tried ─────────▸ give_back ─┘

A call that fails is retried until the ack timeout ends; after that the record is redelivered.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from flo.aio.flush import Flush
from flo.model.errors import FloError, Unavailable
from flo.model.ids import StreamId
from flo.worker.lifecycle import RETRY_S
from flo.worker.logs import log_trouble
from flo.worker.streams.held import HeldRecord
from flo.worker.streams.membership import Membership

Send: TypeAlias = Callable[[Sequence[StreamId]], Awaitable[int]]

_logger = logging.getLogger("flo.worker")


class Acks:
    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._senders: dict[str, Send] = {
            "nack": membership.nack,
            "give back": membership.give_back,
            "ack": membership.ack,
        }
        self._waiting: dict[str, list[HeldRecord]] = {what: [] for what in self._senders}
        self._flush = Flush(self._send_all)
        self._unanswered: dict[StreamId, None] = {}
        self._sending: set[asyncio.Task[None]] = set()

    def ack(self, held: HeldRecord) -> None:
        self._put("ack", [held])

    def nack(self, some: Iterable[HeldRecord]) -> None:
        """What has failed, and the later ones of its key, which are redelivered after it."""
        self._put("nack", some)

    def give_back(self, some: Iterable[HeldRecord]) -> None:
        """What was not tried."""
        self._put("give back", some)

    def is_unanswered(self, stream_id: StreamId) -> bool:
        """Whether the group may not have answered yet to the ack or nack of this record."""
        return stream_id in self._unanswered

    def unanswered(self) -> set[StreamId]:
        return set(self._unanswered)

    async def all_answered(self) -> None:
        self._flush.now()
        while self._sending:
            await asyncio.wait(self._sending)

    def stop(self) -> None:
        for sending in self._sending:
            sending.cancel()

    def _put(self, what: str, some: Iterable[HeldRecord]) -> None:
        if self._membership.settings.no_ack:  # a record counts as acked when it is delivered
            return
        for held in some:
            self._waiting[what].append(held)
            self._unanswered[held.task_id] = None
        self._flush.soon()

    def _send_all(self) -> None:
        for what, batch in self._waiting.items():
            if batch:
                self._waiting[what] = []
                sending = asyncio.create_task(self._send(what, batch))
                self._sending.add(sending)
                sending.add_done_callback(self._sending.discard)

    async def _send(self, what: str, batch: list[HeldRecord]) -> None:
        try:
            await self._send_in_time(what, batch)
        finally:
            for held in batch:
                self._unanswered.pop(held.task_id, None)

    async def _send_in_time(self, what: str, batch: list[HeldRecord]) -> None:
        send, ids = self._senders[what], [held.task_id for held in batch]
        loop = asyncio.get_running_loop()
        give_up_at_s = loop.time() + self._membership.ack_timeout_s
        while True:
            try:
                await send(ids)
            except Unavailable as error:
                log_trouble(error, "no %s of %d records: %s", what, len(ids), error)
            except FloError as refusal:
                _logger.warning("the %s of %d records was refused: %s", what, len(ids), refusal)
                return
            else:
                return
            if loop.time() >= give_up_at_s:
                return
            await asyncio.sleep(RETRY_S)
