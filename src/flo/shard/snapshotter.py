"""Takes a snapshot in a process of its own, from the log, while the server goes on.

    python -P -m flo.shard.snapshotter DATA_DIR [--segment]

It does what a restart would do, and writes down where it got to; the server never pauses for it.
With --segment it also keeps what it has read, together with the snapshot that it began with, as a
segment: first that, then the new snapshot. So whatever lies behind a snapshot is in a segment.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flo.engine.codec import EVENT_CODEC
from flo.log.base import LogEntry
from flo.log.segments import SegmentFolder, SegmentWriter
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.entries import decoded, read_entries
from flo.shard.replay import recover
from flo.shard.snapshot import dump

LOG_FILE = "flo.db"
SNAPSHOT_FOLDER = "snapshots"
SEGMENT_FOLDER = "segments"
SEGMENT_FLAG = "--segment"
NICENESS = 10


def take_snapshot(data_dir: Path, *, with_segment: bool = False) -> int:
    """Write a snapshot of all that is committed now; return the position it reaches."""
    snapshots = SnapshotFolder(data_dir / SNAPSHOT_FOLDER)
    segments = SegmentFolder(data_dir / SEGMENT_FOLDER) if with_segment else None
    with _LogReader(data_dir / LOG_FILE, snapshots, segments).opened() as reader:
        recovered = recover(reader.read, snapshots)
        reader.finish()
    snapshots.save(recovered.position, dump(recovered.state))
    return recovered.position


class _LogReader:
    """Reads the log, and keeps a copy of what it reads as a segment, if there are to be any."""

    def __init__(
        self, path: Path, snapshots: SnapshotFolder, segments: SegmentFolder | None
    ) -> None:
        self._path = path
        self._snapshots = snapshots
        self._segments = segments
        self._writer: SegmentWriter | None = None

    @contextmanager
    def opened(self) -> Iterator["_LogReader"]:
        try:
            yield self
        except BaseException:
            if self._writer is not None:
                self._writer.abandon()
            raise

    def read(self, position: int) -> Iterator[LogEntry]:
        if self._segments is not None:
            before = self._snapshots.chunks(position) if position else ()
            self._writer = self._segments.begin(position, before)
        for entry in read_entries(self._path, position):
            if self._writer is not None:
                self._writer.add(entry)
            yield decoded(entry, EVENT_CODEC, self._path)

    def finish(self) -> None:
        """The segment is durable from now on."""
        if self._writer is not None:
            self._writer.finish()
            self._writer = None


def main() -> None:
    os.nice(NICENESS)
    take_snapshot(Path(sys.argv[1]), with_segment=SEGMENT_FLAG in sys.argv[2:])


if __name__ == "__main__":
    main()
