"""What messages about runs need from the archive: runs that have ended, keys, pages."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from flo.engine.actions.schemas import SchemaCheck, schema_check
from flo.engine.context import Context
from flo.engine.dead_letters import DeadPageLookup, DeadRow, rows_wanted
from flo.engine.feature import LookupRule
from flo.engine.idempotency import KeyLookup
from flo.engine.lists.paging import number_below
from flo.engine.lists.portion import Portion
from flo.engine.lookup import Lookup, RowLookup
from flo.engine.runs.inputs.limit_keys import lookups_of_runs
from flo.engine.runs.lists.pages import NOTHING_LIVE, RunPageLookup, page_lookup
from flo.engine.runs.records import ARCHIVE_KIND, Run, address_in_archive
from flo.engine.state import Space, State
from flo.model.base import Message
from flo.model.declare.fields import check_fields
from flo.model.ids import ActionName, RunId, parse_run_id
from flo.model.runs import (
    RUNS_PER_WAIT_MAX,
    Cancel,
    Complete,
    ExplainRun,
    Fail,
    GetRun,
    Invoke,
    ListDeadRuns,
    ListRuns,
    PurgeDeadRuns,
    RequeueDeadRuns,
    WaitForRuns,
)
from flo.model.storage.archive import ArchiveAddress

_decode = msgspec.msgpack.Decoder(Run).decode


class RunLookup(RowLookup[Run], frozen=True):
    """The run with this number, which has ended if it ever was."""

    archive_name: str
    action: ActionName
    number: int

    def address(self) -> ArchiveAddress:
        return address_in_archive(self.archive_name, self.action, self.number)

    def decode(self, body: bytes) -> Run:
        return _decode(body)


class RunKeyLookup(KeyLookup, frozen=True):
    """Which run of an action was made with this idempotency key?"""

    KIND = ARCHIVE_KIND


class DeadRunPageLookup(DeadPageLookup[Run], frozen=True):
    """The newest dead letters of an action."""

    kind = ARCHIVE_KIND

    def decode(self, body: bytes) -> Run:
        return _decode(body)


def ended_run(space: Space, run_id: RunId, context: Context) -> Run | None:
    """The run that is no longer live; None if there never was such a run."""
    lookup = _lookup_of(space, run_id)
    return context.found.get(lookup) if lookup is not None else None


def run_with_key(space: Space, action: ActionName, key: str, context: Context) -> RunId | None:
    """The run that was made with this idempotency key, live or ended."""
    return space.run_keys.run_ids.get((action, key)) or context.found.get(
        RunKeyLookup(space.archive_name, action, key)
    )


def found_runs(space: Space, query: ListRuns, context: Context) -> Portion[Run]:
    """The runs that were looked up for a page."""
    lookup = RunPageLookup(space.archive_name, query.action, subject=query.subject)
    return context.found.get(lookup) or NOTHING_LIVE


def found_dead(space: Space, action: ActionName, context: Context) -> tuple[DeadRow[Run], ...]:
    """The page of dead letters that was looked up."""
    return context.found.get(DeadRunPageLookup(space.archive_name, action)) or ()


def numbers_below(space: Space, query: ListDeadRuns) -> int:
    """The run numbers a page looks at are under this one."""
    check_fields(query)
    return number_below(query, space.numbers.get(query.action, 0) + 1)


def _for_invoke(
    state: State, command: Invoke, context: Context
) -> Sequence[RunKeyLookup | SchemaCheck]:
    space = state.space(command.namespace)
    key = command.idempotency_key
    wanted: Sequence[RunKeyLookup | SchemaCheck] = ()
    if key is not None and (command.action, key) not in space.run_keys.run_ids:
        wanted = (RunKeyLookup(space.archive_name, command.action, key),)
    action = space.actions.get(command.action)
    if action is not None and action.input_schema is not None:
        check = schema_check(action.input_schema, command.input)
        return (*wanted, check) if check is not None else wanted
    return wanted


def _for_complete(
    state: State, command: Complete, context: Context
) -> Sequence[RunLookup | SchemaCheck]:
    space = state.space(command.namespace)
    run = space.runs.get(command.run_id)
    if run is None:
        return _for_run(state, command, context)
    schema = space.settings(run.action).output_schema
    check = schema_check(schema, command.output) if schema is not None else None
    return (check,) if check is not None else ()


def _for_run(
    state: State, message: Complete | Fail | Cancel | GetRun | ExplainRun, context: Context
) -> Sequence[RunLookup]:
    space = state.space(message.namespace)
    if message.run_id in space.runs:
        return ()
    lookup = _lookup_of(space, message.run_id)
    return (lookup,) if lookup is not None else ()


def _for_wait(state: State, query: WaitForRuns, context: Context) -> Sequence[RunLookup]:
    return _ended_among(state.space(query.namespace), query.run_ids)


def _for_list(state: State, query: ListRuns, context: Context) -> Sequence[RunPageLookup]:
    return (page_lookup(state.space(query.namespace), query),)


def _for_dead(
    state: State, message: ListDeadRuns | RequeueDeadRuns | PurgeDeadRuns, context: Context
) -> Sequence[RunLookup | DeadRunPageLookup]:
    """Dead letters: those that are named, or a page of them and one more."""
    space = state.space(message.namespace)
    if isinstance(message, ListDeadRuns):
        below = numbers_below(space, message)
    elif message.ids is not None:
        return _ended_among(space, message.ids)
    else:
        below = space.numbers.get(message.action, 0) + 1
    limit = rows_wanted(message.limit)
    return (DeadRunPageLookup(space.archive_name, message.action, below, limit),)


def _for_requeue(state: State, command: RequeueDeadRuns, context: Context) -> Sequence[Lookup[Any]]:
    """The dead letters; and once they are known, what their keys are under the limits of now."""
    space = state.space(command.namespace)
    dead = _for_dead(state, command, context)
    action = space.actions.get(command.action)
    if action is None or not all(lookup in context.found for lookup in dead):
        return dead
    page = found_dead(space, command.action, context) if command.ids is None else ()
    named = (ended_run(space, run_id, context) for run_id in command.ids or ())
    runs = (run for run in (*named, *(row.dead for row in page)) if run is not None)
    return (*dead, *lookups_of_runs(space, action.limits, runs))


def _ended_among(space: Space, run_ids: Sequence[RunId]) -> Sequence[RunLookup]:
    """Where to look for those that are not live; no more than the rules allow to be named."""
    return [
        lookup
        for run_id in dict.fromkeys(run_ids[:RUNS_PER_WAIT_MAX])
        if run_id not in space.runs and (lookup := _lookup_of(space, run_id)) is not None
    ]


def _lookup_of(space: Space, run_id: RunId) -> RunLookup | None:
    """Where to look for a run that is not live; nowhere if there never was such a run."""
    address = parse_run_id(run_id)
    if address is None:
        return None
    action, number = address
    if not 1 <= number <= space.numbers.get(action, 0):
        return None
    return RunLookup(space.archive_name, action, number)


LOOKUPS: Mapping[type[Message], LookupRule] = {
    Invoke: _for_invoke,
    Complete: _for_complete,
    Fail: _for_run,
    Cancel: _for_run,
    RequeueDeadRuns: _for_requeue,
    PurgeDeadRuns: _for_dead,
    ListDeadRuns: _for_dead,
    GetRun: _for_run,
    ExplainRun: _for_run,
    WaitForRuns: _for_wait,
    ListRuns: _for_list,
}
