"""The time, the dice, the live board and what the store remembers, as handed to one decision."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from flo.engine.groups.records import Letter
from flo.engine.runs.records import Run
from flo.engine.volatile import VolatileState
from flo.engine.workflows.records import HistoryEntry, WorkflowRecord, WorkflowSummary
from flo.model.archive import ArchiveAddress, ArchiveKey
from flo.model.ids import RunId
from flo.model.streams import StreamPosition, StreamRecord


class RecordReader(Protocol):
    """The records of streams that are in memory, for this decision at least."""

    def record(self, stream: int, sequence: int) -> StreamRecord | None: ...


class NoRecords:
    def record(self, stream: int, sequence: int) -> StreamRecord | None:
        return None


NO_RECORDS = NoRecords()


class Recalled(NamedTuple):
    """What the archive was asked for this decision, and what it knew; None is "no such".

    All of it is kept by the name it is filed under: what was recalled of a namespace that has been
    deleted meanwhile is not mistaken for something of the one that came after it.
    """

    keys: Mapping[ArchiveKey, RunId | None] = {}
    runs: Mapping[tuple[str, RunId], Run | None] = {}
    pages: Mapping[str, tuple[Run, ...]] = {}
    places: Mapping[tuple[int, str], StreamPosition] = {}
    """By the number of the stream, and what was looked for."""
    letters: Mapping[ArchiveAddress, Letter | None] = {}
    letter_pages: Mapping[str, tuple[Letter, ...]] = {}
    workflows: Mapping[tuple[str, RunId], WorkflowRecord | None] = {}
    workflow_keys: Mapping[tuple[str, str, str], RunId | None] = {}
    """By what it is filed under, the workflow and the idempotency key."""
    workflow_pages: Mapping[str, tuple[WorkflowSummary, ...]] = {}
    history_parts: Mapping[tuple[str, RunId, int], tuple[HistoryEntry, ...]] = {}


NOTHING_RECALLED = Recalled()


class Context(msgspec.Struct, frozen=True):
    now_ms: int
    rng: Callable[[], float]
    """A number from 0 up to 1, another one at every call."""
    live: VolatileState
    recalled: Recalled = NOTHING_RECALLED
    records: RecordReader = NO_RECORDS
