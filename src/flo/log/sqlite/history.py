"""Reads a log from any position that is kept: from segments first, then from its SQLite file."""

from collections.abc import Iterator
from pathlib import Path

from flo.log.base import Codec, LogEntry, StoredEntry
from flo.log.checksums import Link
from flo.log.segments import SegmentFolder, entries_of
from flo.log.sqlite.entries import decoded, read_entries
from flo.log.sqlite.file import Connect, default_connect
from flo.model.errors import Corrupt, NotFound


def read_history(
    path: Path,
    segments: SegmentFolder,
    codec: Codec,
    position: int,
    *,
    connect: Connect = default_connect,
) -> Iterator[LogEntry]:
    """The entries from the one that holds `position` on, wherever they are kept."""
    for stored in read_kept(path, segments, position, connect=connect):
        yield decoded(stored, codec, path)


def read_kept(
    path: Path, segments: SegmentFolder, position: int, *, connect: Connect = default_connect
) -> Iterator[StoredEntry]:
    """The same entries, their events as bytes. What a server trims meanwhile is in a segment."""
    link: Link | None = None
    for entry in _from_anywhere(path, segments, position, connect):
        if link is not None and entry.previous != link:
            raise Corrupt(
                f"{path}: the entry at index {entry.first} does not follow the one before it: one "
                "is in a segment that does not belong to this log"
            )
        link = entry.link
        yield entry


def _from_anywhere(
    path: Path, segments: SegmentFolder, position: int, connect: Connect
) -> Iterator[StoredEntry]:
    while True:
        try:
            for entry in read_entries(path, position, connect=connect):
                position = entry.end
                yield entry
        except NotFound as error:
            if error.code != "trimmed":
                raise
            for entry in _from_segment(segments, position, error):
                position = entry.end
                yield entry
        else:
            return


def _from_segment(
    segments: SegmentFolder, position: int, trimmed: NotFound
) -> Iterator[StoredEntry]:
    segment = segments.holding(position)
    if segment is None:
        begins = next((one.first for one in segments.segments()), None)
        kept = "there are no segments" if begins is None else f"segments begin at {begins}"
        raise NotFound(f"{trimmed.message}, and {kept}", code="trimmed") from trimmed
    for entry in entries_of(segment):
        if entry.end > position:
            yield entry
