"""What messages about runs need from the archive: runs that have ended, keys, pages."""

from collections.abc import Hashable, Iterator, Mapping, Sequence

import msgspec

from flo.engine.context import Context
from flo.engine.dead_letters import DeadPageLookup, DeadRow, rows_wanted
from flo.engine.feature import LookupRule
from flo.engine.idempotency import KeyLookup
from flo.engine.lookup import Lookup, RowLookup
from flo.engine.paging import number_below
from flo.engine.runs.records import ARCHIVE_KIND, Run
from flo.engine.state import Space, State
from flo.model.base import Message
from flo.model.declare.fields import check_fields
from flo.model.ids import ActionName, RunId, parse_run_id, run_id_of
from flo.model.runs import (
    RUNS_PER_WAIT_MAX,
    Cancel,
    Complete,
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
from flo.model.storage.store import Store

NUMBERS_PER_PAGE_MAX = 10_000
"""A page of runs looks at no more run numbers than this; an empty page may have a cursor."""

_decode = msgspec.msgpack.Decoder(Run).decode


class RunLookup(RowLookup[Run], frozen=True):
    """The run with this number, which has ended if it ever was."""

    archive_name: str
    action: ActionName
    number: int

    def address(self) -> ArchiveAddress:
        return ArchiveAddress(ARCHIVE_KIND, self.archive_name, self.action, self.number)

    def decode(self, body: bytes) -> Run:
        return _decode(body)


class RunKeyLookup(KeyLookup, frozen=True):
    """Which run of an action was made with this idempotency key?"""

    KIND = ARCHIVE_KIND


class RunPageLookup(Lookup[tuple[Run, ...]], frozen=True):
    """The newest ended runs under a number, together with those that are live now."""

    archive_name: str
    action: ActionName
    below: int = 0
    limit: int = 0
    status: str | None = None
    live: tuple[Run, ...] = ()

    def key(self) -> Hashable:
        return RunPageLookup, self.archive_name, self.action

    async def fetch(self, store: Store) -> tuple[Run, ...]:
        rows = await store.archive.page(
            ARCHIVE_KIND,
            self.archive_name,
            self.action,
            below=self.below,
            limit=self.limit,
            status=self.status,
        )
        found = {row.number: _decode(row.body) for row in rows}
        found |= {run.number: run for run in self.live}
        return tuple(found.values())


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


def found_runs(space: Space, action: ActionName, context: Context) -> tuple[Run, ...]:
    """The page of runs that was looked up."""
    return context.found.get(RunPageLookup(space.archive_name, action)) or ()


def found_dead(space: Space, action: ActionName, context: Context) -> tuple[DeadRow[Run], ...]:
    """The page of dead letters that was looked up."""
    return context.found.get(DeadRunPageLookup(space.archive_name, action)) or ()


def numbers_below(space: Space, query: ListRuns | ListDeadRuns) -> int:
    """The run numbers a page looks at are under this one."""
    check_fields(query)
    return number_below(query, space.numbers.get(query.action, 0) + 1)


def lowest_number(below: int) -> int:
    """The lowest run number that a page looks at."""
    return max(1, below - NUMBERS_PER_PAGE_MAX)


def _live_runs(space: Space, query: ListRuns, below: int) -> Iterator[Run]:
    """The live runs that may be on a page, the newest first."""
    found = 0
    for number in range(below - 1, lowest_number(below) - 1, -1):
        run = space.runs.get(run_id_of(query.action, number))
        if run is not None and query.status in (None, run.status):
            yield run
            found += 1
            if found == query.limit:
                return


def _for_invoke(state: State, command: Invoke, context: Context) -> Sequence[RunKeyLookup]:
    key = command.idempotency_key
    if key is None:
        return ()
    space = state.space(command.namespace)
    if (command.action, key) in space.run_keys.run_ids:
        return ()
    return (RunKeyLookup(space.archive_name, command.action, key),)


def _for_run(
    state: State, message: Complete | Fail | Cancel | GetRun, context: Context
) -> Sequence[RunLookup]:
    space = state.space(message.namespace)
    if message.run_id in space.runs:
        return ()
    lookup = _lookup_of(space, message.run_id)
    return (lookup,) if lookup is not None else ()


def _for_wait(state: State, query: WaitForRuns, context: Context) -> Sequence[RunLookup]:
    return _ended_among(state.space(query.namespace), query.run_ids)


def _for_list(state: State, query: ListRuns, context: Context) -> Sequence[RunPageLookup]:
    space = state.space(query.namespace)
    below = numbers_below(space, query)
    page = RunPageLookup(
        space.archive_name,
        query.action,
        below,
        query.limit,
        query.status,
        live=tuple(_live_runs(space, query, below)),
    )
    return (page,)


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
    Complete: _for_run,
    Fail: _for_run,
    Cancel: _for_run,
    RequeueDeadRuns: _for_dead,
    PurgeDeadRuns: _for_dead,
    ListDeadRuns: _for_dead,
    GetRun: _for_run,
    WaitForRuns: _for_wait,
    ListRuns: _for_list,
}
