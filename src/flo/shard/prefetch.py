"""Finds out what decisions need from the store: from memory if it is recent, else by asking.

    submission ──missing?──▸ none: it is decided
                   │
                   └──fetch──▸ archive, records, work elsewhere ──put back──▸ missing? …

What is needed is worked out while the state is durable; whatever ends or leaves the archive while
that is being asked is recent, and what is recent goes before what the archive said.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Protocol

import structlog
from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.idempotency import KEYS_REMEMBERED_MAX
from flo.engine.lookup import Found, Lookup, RecordLookup, WorkLookup
from flo.engine.machine import lookups_for
from flo.engine.state import State
from flo.log.base import Log
from flo.model.base import Message
from flo.model.errors import Corrupt, FloError, Unexpected
from flo.model.storage.records import Chunk
from flo.shard.cache.recent import Recent
from flo.shard.cache.records import RecordCache, Within
from flo.shard.submission import Submission

FETCH_LENGTH_MAX = 1024 * 1024
"""About so many bytes of records are fetched at a time."""

_logger = structlog.get_logger("flo.shard")


class Elsewhere(Protocol):
    """Where lookups are worked out that take a while."""

    async def work_out(self, lookups: Sequence[WorkLookup[Any]]) -> list[Any]: ...


class Here:
    """Nowhere else: as good as any place for simulations and tests."""

    async def work_out(self, lookups: Sequence[WorkLookup[Any]]) -> list[Any]:
        return [lookup.work() for lookup in lookups]


HERE = Here()


class Prefetch:
    def __init__(
        self,
        state: State,
        log: Log,
        put_back: Callable[[Submission], None],
        written: Callable[[], Awaitable[None]],
        elsewhere: Elsewhere = HERE,
    ) -> None:
        self.recent = Recent()
        self.records = RecordCache()
        self._state = state
        self._log = log
        self._put_back = put_back
        self._written = written
        self._elsewhere = elsewhere
        self._fetching: dict[asyncio.Task[None], Submission] = {}

    def context_of(self, submission: Submission, context: Context) -> Context:
        """The context, with what was fetched for this submission."""
        if not (submission.fetched or submission.records):
            return context
        if self._state.keys_finished_count - submission.fetched_at >= KEYS_REMEMBERED_MAX:
            submission.fetched = {}  # what it knows of idempotency keys has aged too much
        return replace(
            context,
            found=Found(self.recent, submission.fetched),
            records=Within(self.records, submission.records),
        )

    def is_ready(self, submission: Submission, context: Context) -> bool:
        """Whether all that its messages need is known; of several, each will find it then."""
        are_several = len(submission.messages) > 1
        recent: dict[Hashable, Any] = {}
        for message in submission.messages:
            for lookup in lookups_for(self._state, message, context):
                if lookup not in context.found:
                    return False
                if are_several:  # what the first ones lead to may push it out of memory
                    recent[lookup.key()] = context.found.get(lookup)
        if recent:
            submission.fetched = {**submission.fetched, **recent}
            submission.fetched_at = self._state.keys_finished_count
        return True

    def missing(self, messages: Sequence[Message], context: Context) -> list[Lookup[Any]]:
        """What has to be fetched before these messages can be decided."""
        return [
            lookup
            for message in messages
            for lookup in lookups_for(self._state, message, context)
            if lookup not in context.found
        ]

    def fetch(self, submission: Submission, context: Context) -> None:
        """Ask the store for what is missing, then put the submission back into the inbox."""
        submission.fetched_at = self._state.keys_finished_count
        missing = self.missing(submission.messages, self.context_of(submission, context))
        task = asyncio.ensure_future(self._fetch(submission, missing))
        self._fetching[task] = submission
        task.add_done_callback(self._fetching.pop)

    def everyone(self) -> list[Submission]:
        """Those that wait for the store."""
        return list(self._fetching.values())

    async def finish(self) -> None:
        """Wait until all that was fetched has been put back."""
        await asyncio.gather(*self._fetching)

    async def _fetch(self, submission: Submission, missing: list[Lookup[Any]]) -> None:
        try:
            await self._written()
            work = [lookup for lookup in missing if isinstance(lookup, WorkLookup)]
            others = [lookup for lookup in missing if not isinstance(lookup, WorkLookup)]
            fetched = await fetch_all(self._log, others)
            answers = await self._elsewhere.work_out(work) if work else ()
            fetched |= {one.key(): answer for one, answer in zip(work, answers, strict=True)}
            chunks = await self._read_records(missing)
        except FloError as error:
            submission.refuse(error)
        except Exception as error:  # our mistake; it concerns nobody else
            _logger.exception("lookup_failed")
            submission.refuse(Unexpected(f"the archive could not be asked: {error!r}"))
        else:
            submission.fetched = {**submission.fetched, **fetched}
            self.records.fetched(chunks)
            submission.records = {
                (chunk.stream, record.sequence): record
                for chunk in chunks
                for record in chunk.records
            }
            self._put_back(submission)

    async def _read_records(self, missing: Sequence[Lookup[Any]]) -> list[Chunk]:
        """The chunks that hold the records which are missing."""
        found: list[Chunk] = []
        for lookup in missing:
            if isinstance(lookup, RecordLookup):
                stream, sequence = lookup.stream, lookup.sequence
                chunks = await self._log.records.read(
                    stream, sequence, lookup.limit, FETCH_LENGTH_MAX
                )
                if not chunks and self._state.keeps_record(stream, sequence):
                    raise Corrupt(f"record {sequence} of stream {stream} is missing in the store")
                found += chunks
        return found


async def fetch_all(log: Log, lookups: Sequence[Lookup[Any]]) -> dict[Hashable, Any]:
    """What the store says to each; every lookup gets an answer, if only "no such"."""
    kinds: dict[type[Lookup[Any]], list[Lookup[Any]]] = {}
    for lookup in lookups:
        if not isinstance(lookup, RecordLookup):
            kinds.setdefault(type(lookup), []).append(lookup)
    fetched: dict[Hashable, Any] = {}
    for kind, some in kinds.items():
        answers = await kind.fetch_all(some, log)
        fetched |= {lookup.key(): one for lookup, one in zip(some, answers, strict=True)}
    return fetched
