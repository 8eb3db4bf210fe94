"""The Log protocol: append a batch with what is stored beside it, read from a position.

    index      0   1   2 │ 3   4 │ 5  …          events are numbered from 0, without gaps
    entry      ────0──── │ ──1── │               what one append wrote: all of it or none

A position is the index of an event not yet read or written: after the first entry above it is 3.
Positions never go back, whatever is trimmed.
"""

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from flo.log.checksums import Link
from flo.model.base import Event
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.payloads import LargePayload
from flo.model.storage.records import Chunk
from flo.model.storage.store import Store


class Codec(Protocol):
    """Events to bytes and back: the log itself knows none of them."""

    def encode(self, events: Sequence[Event]) -> bytes: ...

    def decode(self, body: bytes) -> list[Event]:
        """Bytes that are no events are Corrupt."""


class LogEntry(NamedTuple):
    """What one append wrote: the index of its first event, its time, its events."""

    first: int
    at_ms: int
    events: list[Event]


class StoredEntry(NamedTuple):
    """An entry as it is stored: its events as bytes, what it and the next are chained to."""

    first: int
    event_count: int
    at_ms: int
    body: bytes
    previous: Link
    link: Link

    @property
    def end(self) -> int:
        """The index of the first event after it."""
        return self.first + self.event_count


class LogTrimmed(NamedTuple):
    """How much a trim took away."""

    events: int
    archived: int
    records: int = 0


class Log(Store, Protocol):
    """An append-only log for one writer, with an archive, records and payloads beside it."""

    @property
    def position(self) -> int:
        """The index that the next event will get."""

    @property
    def start(self) -> int:
        """The index of the first event still kept; equal to `position` when there is none."""

    @property
    def last_at_ms(self) -> int:
        """The time of the newest entry still kept; 0 when there is none.

        No append may have an earlier one: times never go back along the log.
        """

    def append(
        self,
        events: Sequence[Event],
        archived: Sequence[Archived],
        at_ms: int,
        *,
        removed: Sequence[ArchiveAddress] = (),
        chunks: Sequence[Chunk] = (),
        payloads: Sequence[LargePayload] = (),
        payloads_removed: Sequence[ArchiveAddress] = (),
        here: bool = False,
    ) -> Awaitable[int]:
        """Make all of it durable, or nothing; the position after the last event, once it is.

        With `here` it may be written before this returns, if that is likely to be soon.

        Rows are removed first; an archived row with an address that is taken replaces the old one.
        Payloads are removed last: one that is removed never comes back.

        There is at least one event. An append that raises has failed for good: the log takes no
        other one.
        """

    def read(self, position: int) -> Iterator[LogEntry]:
        """The entries from the one that holds `position` on.

        A position that has been trimmed, and that no segment holds, is NotFound, one past the end
        is Corrupt; so is damage, which is named with its index.
        """

    async def position_at(self, at_ms: int) -> int:
        """Where the entries begin that were appended at this time or later."""

    async def trim(
        self,
        *,
        events_below: int = 0,
        archived_before_ms: int = 0,
        archived_max: int | None = None,
        records_below: Mapping[int, int] | None = None,
        rows_max: int = 1_000,
    ) -> LogTrimmed:
        """Forget whole entries that lie below an index, and archive rows by age and count.

        At most `archived_max` rows are kept; the payload of a run goes with its row. Of each of
        these streams, whole chunks below a sequence go too.

        At most `rows_max` rows of each kind go at a time, so that appends never wait for long;
        a caller repeats until nothing is trimmed.
        """

    async def close(self) -> None:
        """Let go of every resource; may be called twice."""
