"""Late reports of runs that steps have called: the history of the execution tells of them.

the execution is under way ──▸ an entry of its history
it has ended               ──▸ a row of the archive, kind "late", its run id
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from flo.engine.context import Context
from flo.engine.lookup import Lookup
from flo.engine.runs.events import LateReportNoted
from flo.engine.state import Space, State
from flo.engine.workflows.events import StepReportedLate
from flo.engine.workflows.history import entries_of
from flo.engine.workflows.records import HistoryEntry
from flo.model.base import Event
from flo.model.ids import RunId
from flo.model.storage.archive import Archived
from flo.model.storage.store import Store

LATE_KIND = "late"
REPORTS_SHOWN_MAX = 100

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[HistoryEntry, ...]).decode


class LateReportsLookup(Lookup[tuple[HistoryEntry, ...]], frozen=True):
    """What was reported of an execution's runs after it had ended, the first one first."""

    archive_name: str
    run_id: RunId

    async def fetch(self, store: Store) -> tuple[HistoryEntry, ...]:
        rows = await store.archive.page(
            LATE_KIND, self.archive_name, self.run_id, below=None, limit=REPORTS_SHOWN_MAX
        )
        return tuple(entry for row in reversed(rows) for entry in _decode(row.body))


def react_late(state: State, event: LateReportNoted, context: Context) -> Iterable[Event]:
    cause, report = event.cause, event.report
    if cause is None:
        return ()
    late = StepReportedLate(
        namespace=event.namespace,
        run_id=cause.run_id,
        branch=cause.branch,
        step=cause.step,
        attempt=cause.attempt,
        awaited=event.run_id,
        worker_id=report.worker_id,
        outcome=report.outcome,
        at_ms=report.at_ms,
        error_code=report.error_code,
    )
    return (late,)


def apply_reported_late(state: State, event: StepReportedLate) -> None:
    execution = state.spaces[event.namespace].executions.get(event.run_id)
    if execution is not None:
        execution.history += entries_of(event)


def archive_late(state: State, event: StepReportedLate) -> Iterable[Archived]:
    """The entry for the history of an execution that has ended."""
    space = state.spaces[event.namespace]
    if event.run_id in space.executions:
        return
    yield Archived(
        kind=LATE_KIND,
        namespace=space.archive_name,
        name=event.run_id,
        number=state.position,
        status="",
        finished_at_ms=event.at_ms,
        key=None,
        body=_encode(entries_of(event)),
    )


def late_entries(space: Space, run_id: RunId, context: Context) -> tuple[HistoryEntry, ...]:
    return context.found.get(LateReportsLookup(space.archive_name, run_id)) or ()


def lookups_of(space: Space, run_id: RunId) -> Sequence[Lookup[Any]]:
    """Of an execution that has ended."""
    return (LateReportsLookup(space.archive_name, run_id),)
