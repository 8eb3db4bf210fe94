"""Acks and nacks of a stream worker: those of the same turn of the loop go as one call.

    handler returns ──▸ ack ──────┐
    handler fails ────▸ nack ─────┼── once a turn ──▸ one call each
    not to be tried ──▸ give_back ┘

What cannot be said is said again for as long as the record may be ours; after that it comes again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from flo.aio.flush import Flush
from flo.model.errors import FloError, Unavailable
from flo.model.ids import StreamId
from flo.worker.streams.held import HeldRecord
from flo.worker.streams.membership import Membership

SETTLE_AGAIN_S = 1.0

Say: TypeAlias = Callable[[Sequence[StreamId]], Awaitable[int]]

_logger = logging.getLogger("flo.worker")


class Settler:
    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._waiting: dict[str, list[HeldRecord]] = {"nack": [], "give back": [], "ack": []}
        self._flush = Flush(self._say_all)
        self._unanswered: dict[StreamId, None] = {}
        self._saying: set[asyncio.Task[None]] = set()

    def ack(self, held: HeldRecord) -> None:
        self._put("ack", [held])

    def nack(self, some: Iterable[HeldRecord]) -> None:
        """What has failed, and with it the later ones of its key: they come again together."""
        self._put("nack", some)

    def give_back(self, some: Iterable[HeldRecord]) -> None:
        """What was not tried."""
        self._put("give back", some)

    def is_unanswered(self, stream_id: StreamId) -> bool:
        """Whether the group may not have heard yet what became of this record."""
        return stream_id in self._unanswered

    def unanswered(self) -> set[StreamId]:
        return set(self._unanswered)

    async def all_answered(self) -> None:
        self._flush.now()
        while self._saying:
            await asyncio.wait(self._saying)

    def stop(self) -> None:
        for saying in self._saying:
            saying.cancel()

    def _put(self, what: str, some: Iterable[HeldRecord]) -> None:
        if self._membership.settings.no_ack:  # they count as settled, whatever became of them
            return
        for held in some:
            self._waiting[what].append(held)
            self._unanswered[held.task_id] = None
        self._flush.soon()

    def _say_all(self) -> None:
        for what, batch in self._waiting.items():
            if batch:
                self._waiting[what] = []
                saying = asyncio.create_task(self._say(what, batch))
                self._saying.add(saying)
                saying.add_done_callback(self._saying.discard)

    async def _say(self, what: str, batch: list[HeldRecord]) -> None:
        try:
            await self._say_in_time(what, batch)
        finally:
            for held in batch:
                self._unanswered.pop(held.task_id, None)

    async def _say_in_time(self, what: str, batch: list[HeldRecord]) -> None:
        say, ids = self._way_to(what), [held.task_id for held in batch]
        loop = asyncio.get_running_loop()
        give_up_at_s = loop.time() + self._membership.ack_timeout_s
        while True:
            try:
                await say(ids)
            except Unavailable as error:
                _logger.warning("no %s of %d records: %s", what, len(ids), error)
            except FloError as refusal:
                _logger.warning("the %s of %d records was refused: %s", what, len(ids), refusal)
                return
            else:
                return
            if loop.time() >= give_up_at_s:
                return
            await asyncio.sleep(SETTLE_AGAIN_S)

    def _way_to(self, what: str) -> Say:
        ways = {
            "ack": self._membership.ack,
            "nack": self._membership.nack,
            "give back": self._membership.give_back,
        }
        return ways[what]
