"""Where snapshots are kept; the newest whole one wins."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from flo.log.chunk_file import PARTIAL, FileKind, read_chunks, write_chunks
from flo.log.folder import make_folder
from flo.model.errors import Corrupt

SNAPSHOTS_MAX = 2
SNAPSHOT_FILE = FileKind(b"FloSnap\n", 1)

_PREFIX = "snapshot-"


class Snapshot(NamedTuple):
    """The state as it was before the event at `position`."""

    position: int
    chunks: Iterator[bytes]


class SnapshotFolder:
    """Saves snapshots under their positions and keeps the newest few."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def save(self, position: int, chunks: Iterable[bytes]) -> None:
        """Make a snapshot durable; until it is, the older ones are untouched."""
        make_folder(self._path)
        write_chunks(self.path_of(position), SNAPSHOT_FILE, position, chunks)
        self._forget_old()

    def newest(self) -> tuple[Snapshot | None, list[str]]:
        """The newest whole snapshot, and what is wrong with those that are newer."""
        problems = []
        for position in reversed(self.positions()):
            try:
                for _ in self.chunks(position):
                    pass
            except (Corrupt, OSError) as error:
                problems.append(str(error))
            else:
                return Snapshot(position, self.chunks(position)), problems
        return None, problems

    def positions(self) -> list[int]:
        """The positions of all snapshots, whole or not, the newest last."""
        names = (path.name.removeprefix(_PREFIX) for path in self._path.glob(f"{_PREFIX}*"))
        return sorted(int(name) for name in names if name.isdigit())

    def chunks(self, position: int) -> Iterator[bytes]:
        """What is in the snapshot of this position."""
        return read_chunks(self.path_of(position), SNAPSHOT_FILE, position)

    def path_of(self, position: int) -> Path:
        """The file of the snapshot of this position."""
        return self._path / f"{_PREFIX}{position:020}"

    def _forget_old(self) -> None:
        for position in self.positions()[:-SNAPSHOTS_MAX]:
            self.path_of(position).unlink()
        for partial in self._path.glob(f"{_PREFIX}*{PARTIAL}"):
            partial.unlink()
