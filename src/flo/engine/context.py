"""Context: time, randomness, volatile state and what was looked up, as handed to one decision."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from flo.engine.lookup import NOTHING_FOUND, Found
from flo.engine.state import State
from flo.engine.volatile import VolatileState
from flo.model.base import Event
from flo.model.storage.payloads import SPILL_BYTES
from flo.model.storage.records import StreamRecord


class RecordReader(Protocol):
    """The records of streams that are in memory, for this decision at least."""

    def record(self, stream: int, sequence: int) -> StreamRecord | None: ...


class NoRecords:
    def record(self, stream: int, sequence: int) -> StreamRecord | None:
        return None


NO_RECORDS = NoRecords()


class Context(msgspec.Struct, frozen=True):
    now_ms: int
    rng: Callable[[], float]
    """A number from 0 up to 1, another one at every call."""
    volatile: VolatileState
    found: Found = NOTHING_FOUND
    records: RecordReader = NO_RECORDS
    spill_bytes: int = SPILL_BYTES
    """A payload that is longer goes to the store, and not into the events."""
    begins: Event | None = None
    """What is to come before the first event: who caused it, unless that was said already."""

    def position_in(self, state: State) -> int:
        """The index that the first event of this decision will have."""
        return state.position + (self.begins is not None)
