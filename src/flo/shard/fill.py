"""Fills replies with the large payloads that they lack, and tells them.

    Unfilled ──▸ payloads stored lately, in memory ──▸ else the store ──▸ told

Replies are filled one after the other, so that no more payloads are in memory than one reply has.
A claim is durable by then: a run whose payload cannot be read is reported as failed.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence

import structlog

from flo.engine.decision import Unfilled
from flo.log.base import Log
from flo.model.base import Message
from flo.model.errors import Corrupt, FloError, Unexpected
from flo.model.storage.archive import ArchiveAddress
from flo.model.storage.payloads import LargePayload
from flo.shard.submission import Submission

RECENT_MAX = 64
"""So many of the smallest that are stored may be in memory as well, or fewer larger ones."""

ASKED_MAX = 5
"""So often a query is asked again of which something is missing; then it is missing for good."""

_logger = structlog.get_logger("flo.shard")


class RecentPayloads:
    """Those that were stored last: a worker that waits for a run need not wait for the disk."""

    def __init__(self, length_max: int) -> None:
        self._length_max = length_max
        self._bodies: OrderedDict[ArchiveAddress, bytes] = OrderedDict()
        self._length = 0

    def add_all(self, payloads: Sequence[LargePayload]) -> None:
        for payload in payloads:
            self._bodies[payload.address] = payload.body
            self._length += len(payload.body)
        while self._length > self._length_max:
            _, oldest = self._bodies.popitem(last=False)
            self._length -= len(oldest)

    def get(self, address: ArchiveAddress) -> bytes | None:
        return self._bodies.get(address)


class Filler:
    def __init__(
        self,
        log: Log,
        submit: Callable[[Sequence[Message]], None],
        put_back: Callable[[Submission], None],
        written: Callable[[], Awaitable[None]],
        spill_bytes: int,
    ) -> None:
        self.recent = RecentPayloads(RECENT_MAX * spill_bytes)
        self._log = log
        self._submit = submit
        self._put_back = put_back
        self._written = written
        self._waiting: deque[tuple[Submission, Unfilled]] = deque()
        self._filling: asyncio.Task[None] | None = None

    def fill(self, submission: Submission, reply: Unfilled) -> None:
        """Tell the reply once it is whole."""
        self._waiting.append((submission, reply))
        if self._filling is None:
            self._filling = asyncio.create_task(self._fill_all(), name="fill")

    async def finish(self) -> None:
        """Wait until all replies have been told."""
        while self._filling is not None:
            await self._filling

    async def _fill_all(self) -> None:
        while self._waiting:
            submission, reply = self._waiting.popleft()
            if not submission.is_open:
                continue
            try:
                await self._fill(submission, reply)
            except Exception as error:  # our mistake; it concerns nobody else
                _logger.exception("fill_failed")
                submission.refuse(Unexpected(f"a reply could not be filled: {error!r}"))
        self._filling = None

    async def _fill(self, submission: Submission, reply: Unfilled) -> None:
        found: dict[ArchiveAddress, bytes] = {}
        lost: dict[ArchiveAddress, FloError] = {}
        for address in reply.wants:
            try:
                found[address] = await self._read(address)
            except FloError as error:
                lost[address] = error
        if not lost:
            submission.answer([reply.fill(found)])
        elif reply.amends is not None:
            for address, why in lost.items():
                run = f"{address.name}-{address.number}"
                _logger.error("payload_lost", run=run, error=str(why))
            self._submit(reply.amends(list(lost)))
            submission.answer([reply.fill(found)])
        elif submission.asked_count < ASKED_MAX:  # it may have been let go of since it was asked
            submission.asked_count += 1
            submission.fetched = {}
            self._put_back(submission)
        else:
            submission.refuse(next(iter(lost.values())))

    async def _read(self, address: ArchiveAddress) -> bytes:
        body = self.recent.get(address) or await self._log.payloads.find(address)
        if body is None:
            await self._written()
            body = await self._log.payloads.find(address)
        if body is None:
            raise Corrupt(
                f"the payload of {address.kind} {address.name}-{address.number} is missing in the "
                "store"
            )
        return body
