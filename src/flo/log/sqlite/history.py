"""Reads a log from any position that is kept: from segments first, then from its SQLite file."""

from collections.abc import Iterator
from pathlib import Path

from flo.log.base import Codec, LogEntry, StoredEntry
from flo.log.checksums import Link
from flo.log.segments import SegmentFolder, entries_of
from flo.log.sqlite.entries import decoded, log_start, read_entries, verify_log
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


def verify_history(
    path: Path, segments: SegmentFolder, *, connect: Connect = default_connect
) -> Link:
    """Check every entry of every segment and of the file, and that one follows the other; return
    what the next entry will be chained to. What is wrong is Corrupt, and named."""
    known: dict[int, Link] = {}
    for segment in segments.segments():
        for entry in entries_of(segment):
            if known.setdefault(entry.first, entry.previous) != entry.previous:
                raise Corrupt(
                    f"{segment.path}: the entry at index {entry.first} does not follow the one "
                    "before it"
                )
            known[entry.end] = entry.link
    start, link = log_start(path, connect=connect), verify_log(path, connect=connect)
    for entry in read_entries(path, start, connect=connect):
        if known.get(entry.first, entry.previous) != entry.previous:
            raise Corrupt(
                f"{path}: the entry at index {entry.first} does not follow the one before it, "
                "which is in a segment"
            )
    return link


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
