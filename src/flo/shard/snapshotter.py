"""Takes a snapshot in a process of its own, from the log, while the server goes on.

    python -m flo.shard.snapshotter DATA_DIR

It does what a restart would do, and writes down where it got to; the server never pauses for it.
"""

import os
import sys
from functools import partial
from pathlib import Path

from flo.engine.codec import EVENT_CODEC
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.entries import read_log
from flo.shard.replay import recover
from flo.shard.snapshot import dump

LOG_FILE = "flo.db"
SNAPSHOT_FOLDER = "snapshots"
NICENESS = 10


def take_snapshot(data_dir: Path) -> int:
    """Write a snapshot of all that is committed now; return the position it reaches."""
    snapshots = SnapshotFolder(data_dir / SNAPSHOT_FOLDER)
    recovered = recover(partial(read_log, data_dir / LOG_FILE, EVENT_CODEC), snapshots)
    snapshots.save(recovered.position, dump(recovered.state))
    return recovered.position


def main() -> None:
    os.nice(NICENESS)
    take_snapshot(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
