"""A folder of backups, each made on top of the one before it.

backup-POSITION-TIME     how far the log had come, and when it was taken
"""

from pathlib import Path
from typing import NamedTuple

from flo.log.backup.file import Manifest, read_manifest
from flo.log.chunk_file import PARTIAL
from flo.model.errors import NotFound

_PREFIX = "backup-"


class KeptBackup(NamedTuple):
    position: int
    taken_at_ms: int
    path: Path


class BackupFolder:
    """Finds backups, names new ones, and lets go of those that nothing needs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def backups(self) -> list[KeptBackup]:
        """All of them, the oldest first."""
        named = (_named(path) for path in self.path.glob(f"{_PREFIX}*"))
        return sorted((one for one in named if one is not None), key=lambda one: one.taken_at_ms)

    def newest(
        self, *, position_max: int | None = None, at_ms_max: int | None = None
    ) -> KeptBackup:
        """The last one, or the last that reaches no further than a position or a time."""
        fitting = [
            one
            for one in self.backups()
            if (position_max is None or one.position <= position_max)
            and (at_ms_max is None or one.taken_at_ms <= at_ms_max)
        ]
        if not fitting:
            there = len(self.backups())
            raise NotFound(
                f"{self.path} has no such backup ({there} in all)", code="backup_not_found"
            )
        return fitting[-1]

    def path_of(self, position: int, taken_at_ms: int) -> Path:
        return self.path / f"{_PREFIX}{position:020}-{taken_at_ms:014}"

    def retire(self, keep: int) -> list[Path]:
        """Remove all but the newest so many, and what those need; return what is gone."""
        kept = self.backups()[-keep:]
        needed = {one.path.name for one in kept}
        for one in kept:
            needed |= set(read_manifest(one.path).holders)
        doomed = [one.path for one in self.backups() if one.path.name not in needed]
        for path in doomed:
            path.unlink()
        return doomed


def files_of(path: Path, manifest: Manifest) -> list[Path]:
    """The files that a backup is restored from."""
    return [path.with_name(holder) if holder else path for holder in manifest.holders]


def _named(path: Path) -> KeptBackup | None:
    parts = path.name.removeprefix(_PREFIX).split("-")
    if path.suffix == PARTIAL or len(parts) != 2 or not all(part.isdigit() for part in parts):
        return None
    position, taken_at_ms = map(int, parts)
    return KeptBackup(position, taken_at_ms, path)
