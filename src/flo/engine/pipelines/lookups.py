"""What messages about pipelines need from the store: ended ones, keys, pages, journals."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from flo.engine.context import Context
from flo.engine.feature import LookupRule
from flo.engine.idempotency import KeyLookup
from flo.engine.lists.paging import number_below
from flo.engine.lists.portion import Portion, portion, together
from flo.engine.lookup import Lookup, RecordLookup, RowLookup
from flo.engine.pipelines.archive import (
    ID_KIND,
    KEY_KIND,
    PIPELINE_KIND,
    SUMMARY_KIND,
    summary_of,
)
from flo.engine.pipelines.folds import ID_NAME, KEY_NAME
from flo.engine.pipelines.records import PipelineRecord, PipelineState, PipelineSummaryRecord
from flo.engine.state import Space, State
from flo.model.base import Message
from flo.model.declare.fields import check_fields
from flo.model.pipelines.names import (
    PIPELINE_ENDED,
    PIPELINE_PREFIX,
    PipelineStatus,
    given_number,
)
from flo.model.pipelines.pipelines import (
    CallPipelineFunction,
    CancelPipeline,
    GetPipeline,
    ListArtifacts,
    ListPipelines,
    PatchPipeline,
    ReadPipelineEvents,
    RetryPipeline,
    SubmitPipeline,
    WaitPipeline,
)
from flo.model.pipelines.work import NextInput
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.store import Store

SCANNED_MAX = 1_000
"""So many pipelines are looked at for one page of those that fit."""
FETCHED_MAX = 256
"""So many entries of a journal are fetched at a time."""
NOTHING_LIVE: Portion[PipelineSummaryRecord] = Portion({}, 0)

OfPipelineId: TypeAlias = (
    GetPipeline
    | WaitPipeline
    | CancelPipeline
    | RetryPipeline
    | CallPipelineFunction
    | PatchPipeline
    | ListArtifacts
    | ReadPipelineEvents
)

_decode = msgspec.msgpack.Decoder(PipelineRecord).decode
_decode_summary = msgspec.msgpack.Decoder(PipelineSummaryRecord).decode


class PipelineLookup(RowLookup[PipelineRecord], frozen=True):
    """The pipeline with this number, which has ended if it ever was."""

    archive_name: str
    number: int

    def address(self) -> ArchiveAddress:
        return ArchiveAddress(PIPELINE_KIND, self.archive_name, PIPELINE_PREFIX, self.number)

    def decode(self, body: bytes) -> PipelineRecord:
        return _decode(body)


class PipelineKeyLookup(KeyLookup, frozen=True):
    """Which pipeline was submitted with this idempotency key? Its id may have been chosen."""

    KIND = KEY_KIND

    async def run_id(self, number: int, store: Store) -> str | None:
        record = await PipelineLookup(self.archive_name, number).fetch(store)
        return record.id if record is not None else None


class PipelineIdLookup(KeyLookup, frozen=True):
    """Which number has the pipeline whose id was chosen so? Answered as pipe-N."""

    KIND = ID_KIND


class PipelinePageLookup(Lookup[Portion[PipelineSummaryRecord]], frozen=True):
    """The newest ended pipelines under a number, together with those that are live now."""

    archive_name: str
    below: int = 0
    limit: int = 0
    status: PipelineStatus | None = None
    name: str | None = None
    live: Portion[PipelineSummaryRecord] = NOTHING_LIVE
    numbers_live: frozenset[int] = frozenset()

    def key(self) -> Hashable:
        return PipelinePageLookup, self.archive_name

    async def fetch(self, store: Store) -> Portion[PipelineSummaryRecord]:
        rows = await self._rows(store)
        ended = (
            (row.number, _decode_summary(row.body))
            for row in rows
            if row.number not in self.numbers_live  # it is tried again
        )
        return together(self.live, self.portion(ended))

    async def _rows(self, store: Store) -> list[Archived]:
        if self.status is not None and self.status not in PIPELINE_ENDED:
            return []
        if self.name is not None:
            return await store.archive.page(
                SUMMARY_KIND,
                self.archive_name,
                self.name,
                below=self.below,
                limit=SCANNED_MAX,
                status=self.status,
            )
        statuses = tuple(PIPELINE_ENDED) if self.status is None else (self.status,)
        return await store.archive.newest(
            SUMMARY_KIND,
            self.archive_name,
            below=self.below,
            limit=max(self.limit, SCANNED_MAX if self.numbers_live else self.limit),
            statuses=statuses,
        )

    def portion(
        self, candidates: Iterable[tuple[int, PipelineSummaryRecord]]
    ) -> Portion[PipelineSummaryRecord]:
        return portion(candidates, wanted=self.limit, looked_at_max=SCANNED_MAX, fits=self._fits)

    def _fits(self, one: PipelineSummaryRecord) -> bool:
        return self.status in (None, one.status) and self.name in (None, one.graph_name)


def page_lookup(space: Space, query: ListPipelines) -> PipelinePageLookup:
    """What a page needs from the archive, and what is live."""
    check_fields(query)
    below = number_below(query, space.pipelines.number + 1)
    live = sorted(space.pipelines.live.values(), key=lambda one: -one.number)
    lookup = PipelinePageLookup(
        space.archive_name,
        below,
        query.limit + 1,
        query.status,
        query.name,
        numbers_live=frozenset(one.number for one in live),
    )
    known = lookup.portion((one.number, summary_of(one)) for one in live if one.number < below)
    return msgspec.structs.replace(lookup, live=known)


def found_page(space: Space, context: Context) -> Portion[PipelineSummaryRecord]:
    return context.found.get(PipelinePageLookup(space.archive_name)) or NOTHING_LIVE


def ended_pipeline(space: Space, pipeline_id: str, context: Context) -> PipelineRecord | None:
    """The pipeline that is no longer live; None if there never was such a one."""
    number = _number_of(space, pipeline_id, context)
    if number is None:
        return None
    return context.found.get(PipelineLookup(space.archive_name, number))


def pipeline_with(space: Space, name: str, key: str, context: Context) -> str | None:
    """The pipeline that was submitted with this key, or under this id, live or ended."""
    if name == ID_NAME and key in space.pipelines.live:
        return key
    known = space.pipelines.keys.run_ids.get((name, key))
    return known or context.found.get(_key_lookup(space, name, key))


def _key_lookup(space: Space, name: str, key: str) -> KeyLookup:
    kind = PipelineKeyLookup if name == KEY_NAME else PipelineIdLookup
    return kind(space.archive_name, PIPELINE_PREFIX, key)


def _number_of(space: Space, pipeline_id: str, context: Context) -> int | None:
    number = given_number(pipeline_id)
    if number is not None:
        return number
    known = pipeline_with(space, ID_NAME, pipeline_id, context)
    return given_number(known) if known is not None else None


def _for_id(state: State, message: OfPipelineId, context: Context) -> Sequence[Lookup[Any]]:
    check_fields(message)
    space = state.space(message.namespace)
    if message.id in space.pipelines.live:
        return ()
    number = _number_of(space, message.id, context)
    if number is not None:
        return (PipelineLookup(space.archive_name, number),)
    lookup = _key_lookup(space, ID_NAME, message.id)
    return () if lookup in context.found else (lookup,)


def _for_submit(state: State, command: SubmitPipeline, context: Context) -> Sequence[KeyLookup]:
    check_fields(command)
    space = state.space(command.namespace)
    keys = ((KEY_NAME, command.idempotency_key), (ID_NAME, command.id))
    return [
        _key_lookup(space, name, key)
        for name, key in keys
        if key is not None and (name, key) not in space.pipelines.keys.run_ids
    ]


def _for_list(state: State, query: ListPipelines, context: Context) -> Sequence[Lookup[Any]]:
    return (page_lookup(state.space(query.namespace), query),)


def journal_of(
    state: State, message: ListArtifacts | ReadPipelineEvents, context: Context
) -> tuple[int, int] | None:
    """The number of a journal, and where its next entry would be; None if there is none."""
    space = state.space(message.namespace)
    live = space.pipelines.live.get(message.id)
    if live is not None:
        return live.journal, live.journal_next
    ended = ended_pipeline(space, message.id, context)
    return (ended.journal, ended.journal_next) if ended is not None else None


def _for_journal(
    state: State, query: ListArtifacts | ReadPipelineEvents, context: Context
) -> Sequence[Lookup[Any]]:
    rows = _for_id(state, query, context)
    missing = [one for one in rows if one not in context.found]
    if missing:
        return missing
    journal = journal_of(state, query, context)
    if journal is None:
        return ()
    number, following = journal
    first = query.after + 1
    is_kept = number in state.journals
    if not is_kept or first >= following or context.records.record(number, first) is not None:
        return rows
    return (*rows, RecordLookup(number, first, min(following - first, FETCHED_MAX)))


def wanted_inputs(pipeline: PipelineState, command: NextInput) -> Iterable[tuple[str, int, int]]:
    """What a consumer is to get next: source, number and place in the journal of each batch.

    First what is in progress and not in the hands of the worker, then what is new.
    """
    node = pipeline.nodes[command.node]
    held = set(command.holds)
    sources = [name for name in dict.fromkeys(command.from_nodes) if name in pipeline.nodes]
    for name in sources:
        taken = node.inputs.get(name)
        if taken is None:
            continue
        batches = pipeline.nodes[name].batches
        for number in sorted(taken.in_progress):
            if (name, number) not in held:
                yield name, number, batches[number]
    for name in sources:
        taken = node.inputs.get(name)
        batches = pipeline.nodes[name].batches
        for number in range(taken.next if taken is not None else 0, len(batches)):
            yield name, number, batches[number]


def _for_next(state: State, command: NextInput, context: Context) -> Sequence[RecordLookup]:
    check_fields(command)
    pipeline = state.space(command.namespace).pipelines.live[command.id]
    first = next(iter(wanted_inputs(pipeline, command)), None)
    if first is None or context.records.record(pipeline.journal, first[2]) is not None:
        return ()
    count = min(pipeline.journal_next - first[2], FETCHED_MAX)
    return (RecordLookup(pipeline.journal, first[2], count),)


LOOKUPS: Mapping[type[Message], LookupRule] = {
    SubmitPipeline: _for_submit,
    GetPipeline: _for_id,
    WaitPipeline: _for_id,
    CancelPipeline: _for_id,
    RetryPipeline: _for_id,
    CallPipelineFunction: _for_id,
    PatchPipeline: _for_id,
    ListPipelines: _for_list,
    ListArtifacts: _for_journal,
    ReadPipelineEvents: _for_journal,
    NextInput: _for_next,
}
