"""What messages about workflow runs need from the archive: ended runs, keys, pages, history."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from flo.engine.context import Context
from flo.engine.feature import LookupRule
from flo.engine.idempotency import KeyLookup
from flo.engine.lists.paging import parse_number
from flo.engine.lists.portion import Portion
from flo.engine.lookup import Lookup, RowLookup
from flo.engine.state import Space, State
from flo.engine.workflows import definitions
from flo.engine.workflows.calls import late
from flo.engine.workflows.execution import HISTORY_PART_LENGTH as PART_LENGTH
from flo.engine.workflows.folds import (
    CALLS_KIND,
    HISTORY_KIND,
    ID_KIND,
    RUN_KIND,
    workflow_key,
)
from flo.engine.workflows.lists.live import status_of
from flo.engine.workflows.lists.pages import NOTHING_LIVE, WorkflowPageLookup, page_lookup
from flo.engine.workflows.records import CallParts, HistoryEntry, WorkflowRecord, WorkflowSummary
from flo.model.base import Message
from flo.model.executions.definitions import GetDefinition
from flo.model.executions.history import GetHistory
from flo.model.executions.steps import GetSteps
from flo.model.ids import RunId, is_run_id, parse_run_id
from flo.model.storage.archive import ArchiveAddress
from flo.model.storage.store import Store
from flo.model.workflows import (
    CHOSEN,
    HISTORY_LIMIT_MAX,
    RUN_PREFIX,
    CancelWorkflow,
    ExplainWorkflow,
    GetWorkflow,
    GetWorkflowRun,
    ListWorkflowRuns,
    PauseWorkflow,
    RerunWorkflow,
    ResumeWorkflow,
    SignalWorkflow,
    StartWorkflow,
    WaitForWorkflow,
    WorkflowName,
    WorkflowStatus,
)

CALLS_PER_PART_MAX = 1_000_000
"""No part has more calls; a cursor counts so many for each."""

OfWorkflowRun: TypeAlias = (
    GetWorkflowRun
    | WaitForWorkflow
    | GetHistory
    | ExplainWorkflow
    | SignalWorkflow
    | CancelWorkflow
    | PauseWorkflow
    | ResumeWorkflow
    | RerunWorkflow
)

_decode_record = msgspec.msgpack.Decoder(WorkflowRecord).decode
_decode_calls = msgspec.msgpack.Decoder(CallParts).decode
_decode_history = msgspec.msgpack.Decoder(tuple[HistoryEntry, ...]).decode


class WorkflowLookup(RowLookup[WorkflowRecord], frozen=True):
    """The workflow run with this number, which has ended if it ever was."""

    archive_name: str
    number: int

    def address(self) -> ArchiveAddress:
        return ArchiveAddress(RUN_KIND, self.archive_name, RUN_PREFIX, self.number)

    def decode(self, body: bytes) -> WorkflowRecord:
        return _decode_record(body)


class WorkflowKeyLookup(KeyLookup, frozen=True):
    """Which workflow run was started with this idempotency key? Its id may have been chosen."""

    KIND = RUN_KIND

    async def run_id(self, number: int, store: Store) -> RunId | None:
        record = await WorkflowLookup(self.archive_name, number).fetch(store)
        return record.run.run_id if record is not None else None


class ChosenIdLookup(KeyLookup, frozen=True):
    """Which number has the workflow run whose id was chosen so?"""

    KIND = ID_KIND


class CallsLookup(RowLookup[CallParts], frozen=True):
    """The calls of a part of a long history."""

    archive_name: str
    run_id: RunId
    part: int

    def address(self) -> ArchiveAddress:
        return ArchiveAddress(CALLS_KIND, self.archive_name, self.run_id, self.part)

    def decode(self, body: bytes) -> CallParts:
        return _decode_calls(body)


class HistoryLookup(RowLookup[tuple[HistoryEntry, ...]], frozen=True):
    """A part of a long history."""

    archive_name: str
    run_id: RunId
    part: int

    def address(self) -> ArchiveAddress:
        return ArchiveAddress(HISTORY_KIND, self.archive_name, self.run_id, self.part)

    def decode(self, body: bytes) -> tuple[HistoryEntry, ...]:
        return _decode_history(body)


def ended_workflow(space: Space, run_id: RunId, context: Context) -> WorkflowRecord | None:
    """The workflow run that is no longer live; None if there never was such a run."""
    for lookup in _lookups_of(space, run_id, context):
        if isinstance(lookup, WorkflowLookup):
            return context.found.get(lookup)
    return None


def workflow_with_key(
    space: Space, workflow: WorkflowName, key: str, context: Context
) -> RunId | None:
    """The run that was started with this key, live or ended."""
    return space.workflow_keys.run_ids.get((workflow, key)) or context.found.get(
        _key_lookup(space, workflow, key)
    )


def known_status(space: Space, run_id: RunId, context: Context) -> WorkflowStatus | None:
    """How a run is, live or ended; None if the archive does not keep it any more."""
    execution = space.executions.get(run_id)
    if execution is not None:
        return status_of(execution)
    record = ended_workflow(space, run_id, context)
    return record.status if record is not None else None


def found_summaries(space: Space, context: Context) -> Portion[WorkflowSummary]:
    """The workflow runs that were looked up for a page."""
    return context.found.get(WorkflowPageLookup(space.archive_name)) or NOTHING_LIVE


def history_part(
    space: Space, run_id: RunId, part: int, context: Context
) -> tuple[HistoryEntry, ...]:
    return context.found.get(HistoryLookup(space.archive_name, run_id, part)) or ()


def calls_part(space: Space, run_id: RunId, part: int, context: Context) -> CallParts:
    return context.found.get(CallsLookup(space.archive_name, run_id, part)) or CallParts()


def page_start(query: GetSteps) -> tuple[int, int]:
    """In which part of the calls a page begins, and how many it leaves out there."""
    number = parse_number(query.cursor, digits_max=12) if query.cursor is not None else 0
    return divmod(number, CALLS_PER_PART_MAX)


def parts_wanted(parts: int, query: GetHistory) -> range:
    """The parts of a history that a page of it lies in."""
    first = first_part(query)
    last = (history_start(query) + min(query.limit, HISTORY_LIMIT_MAX)) // PART_LENGTH
    return range(min(first, parts), min(last + 1, parts))


def history_start(query: GetHistory) -> int:
    """Where in its history a page begins."""
    return parse_number(query.cursor, digits_max=12) if query.cursor is not None else 0


def first_part(query: GetHistory) -> int:
    return history_start(query) // PART_LENGTH


def _for_run(state: State, message: OfWorkflowRun, context: Context) -> Sequence[Lookup[Any]]:
    space = state.space(message.namespace)
    if message.run_id in space.executions:
        return ()
    return _lookups_of(space, message.run_id, context)


def _for_start(state: State, command: StartWorkflow, context: Context) -> Sequence[Lookup[Any]]:
    """Whether there was a run with the same idempotency key, or with the id that was chosen.

    Of one that had the same key and has ended, it is asked how.
    """
    space, key = state.space(command.namespace), command.idempotency_key
    known = workflow_with_key(space, command.name, key, context) if key is not None else None
    if known is not None:
        return () if known in space.executions else _lookups_of(space, known, context)
    return [
        _key_lookup(space, workflow, key)
        for workflow, key in (
            (command.name, command.idempotency_key),
            (CHOSEN, command.run_id),
        )
        if key is not None and (workflow, key) not in space.workflow_keys.run_ids
    ]


def _for_list(
    state: State, query: ListWorkflowRuns, context: Context
) -> Sequence[WorkflowPageLookup]:
    return (page_lookup(state.space(query.namespace), query),)


def _for_history(state: State, query: GetHistory, context: Context) -> Sequence[Lookup[Any]]:
    """First the run, if it has ended; then the parts of its history."""
    space = state.space(query.namespace)
    if query.run_id not in space.executions:
        record = ended_workflow(space, query.run_id, context)
        if record is None:
            return _lookups_of(space, query.run_id, context)
        parts, reports = (
            parts_wanted(record.history_parts, query),
            late.lookups_of(space, query.run_id),
        )
    else:
        parts, reports = parts_wanted(space.executions[query.run_id].history_parts, query), ()
    return [*(HistoryLookup(space.archive_name, query.run_id, part) for part in parts), *reports]


def _for_steps(state: State, query: GetSteps, context: Context) -> Sequence[Lookup[Any]]:
    """First the run, if it has ended; then the part of its calls, if it is filed."""
    space = state.space(query.namespace)
    if query.run_id not in space.executions:
        record = ended_workflow(space, query.run_id, context)
        if record is None:
            return _lookups_of(space, query.run_id, context)
        parts = record.history_parts
    else:
        parts = space.executions[query.run_id].history_parts
    part, _ = page_start(query)
    return [CallsLookup(space.archive_name, query.run_id, part)] if part < parts else []


def _lookups_of(space: Space, run_id: RunId, context: Context) -> Sequence[Lookup[Any]]:
    """Where to look for a run that is not live; nowhere if there never was such a run.

    Of an id that was chosen, the number of its run has to be known first.
    """
    given = run_id
    if not run_id.startswith(f"{RUN_PREFIX}-"):
        found = workflow_with_key(space, CHOSEN, run_id, context)
        if found is None:
            named = _key_lookup(space, CHOSEN, run_id)
            return (named,) if is_run_id(run_id) else ()
        given = found
    address = parse_run_id(given)
    if address is None or address[0] != RUN_PREFIX or address[1] > space.workflow_number:
        return ()
    return (WorkflowLookup(space.archive_name, address[1]),)


def _key_lookup(space: Space, workflow: WorkflowName, key: str) -> KeyLookup:
    """Where to look for a key that memory does not know; with CHOSEN for an id that was chosen."""
    lookup = ChosenIdLookup if workflow == CHOSEN else WorkflowKeyLookup
    return lookup(space.archive_name, RUN_PREFIX, workflow_key(workflow, key))


LOOKUPS: Mapping[type[Message], LookupRule] = {
    GetWorkflow: definitions.lookups_for_workflow,
    GetDefinition: definitions.lookups_for_digest,
    StartWorkflow: _for_start,
    SignalWorkflow: _for_run,
    CancelWorkflow: _for_run,
    PauseWorkflow: _for_run,
    ResumeWorkflow: _for_run,
    RerunWorkflow: _for_run,
    GetWorkflowRun: _for_run,
    WaitForWorkflow: _for_run,
    ExplainWorkflow: _for_run,
    GetHistory: _for_history,
    GetSteps: _for_steps,
    ListWorkflowRuns: _for_list,
}
