"""Copies a data folder while a server writes to it.

    flo.db       as of one commit: read in one transaction, page by page
    flo.mark     made anew, for that commit
    snapshots    one that the log of that commit follows
    segments     all that end before it

What was copied is checked like a store that is opened, its state is replayed, and the fingerprint
of that goes into the manifest.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from flo.log.backup.file import (
    BackupWriter,
    Manifest,
    blocks_of,
    known_blocks,
    read_manifest,
)
from flo.log.folder import FOLDER_MODE, make_private
from flo.log.segments import SegmentFolder
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.checks import begin_mark
from flo.log.sqlite.file import damage_named, default_connect, open_to_read, read_meta, read_store
from flo.model.errors import Conflict
from flo.shard.backup.folder import checked_fingerprint, scratch_folder
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER, SNAPSHOT_FOLDER


class BackupTaken(NamedTuple):
    path: Path
    manifest: Manifest
    bytes_new: int
    """How many bytes of the data folder no earlier backup held."""


class _Copy(NamedTuple):
    """A folder with the database, its mark and a snapshot, all of one commit."""

    folder: Path
    store_id: bytes
    position: int
    digest: bytes
    fingerprint: str


def take_backup(
    data_dir: Path, path_for: Callable[[int], Path], taken_at_ms: int, earlier: Path | None = None
) -> BackupTaken:
    """Write a backup under the path for its position, on top of an earlier one, and read it back.

    What is wrong with the data folder, or with the earlier backup, is Corrupt, and named.
    """
    before = read_manifest(earlier) if earlier is not None else None
    with _copied(data_dir, path_for(0).absolute().parent) as copy:
        path = path_for(copy.position)
        known = {}
        if earlier is not None and before is not None and before.store_id == copy.store_id:
            known = known_blocks(earlier, before)
        writer = BackupWriter(path, known)
        try:
            _add_all(writer, copy, data_dir)
            manifest = writer.finish(
                store_id=copy.store_id,
                position=copy.position,
                digest=copy.digest,
                fingerprint=copy.fingerprint,
                taken_at_ms=taken_at_ms,
            )
        except BaseException:
            writer.abandon()
            raise
    check_backup(path)
    return BackupTaken(path, manifest, writer.bytes_new)


def check_backup(path: Path) -> Manifest:
    """Read all that a restore would read; damage is Corrupt, and named."""
    manifest = read_manifest(path)
    for _ in blocks_of(path, manifest):
        pass
    return manifest


def _add_all(writer: BackupWriter, copy: _Copy, data_dir: Path) -> None:
    """The segments are read where they are: nothing ever changes one."""
    for path in sorted(path for path in copy.folder.rglob("*") if path.is_file()):
        with path.open("rb") as content:
            writer.add(str(path.relative_to(copy.folder)), content)
    for segment in SegmentFolder(data_dir / SEGMENT_FOLDER).segments():
        if segment.end > copy.position:
            continue
        try:
            content = segment.path.open("rb")
        except FileNotFoundError:
            continue  # retention has let go of it meanwhile
        with content:
            writer.add(f"{SEGMENT_FOLDER}/{segment.path.name}", content)


@contextmanager
def _copied(data_dir: Path, target: Path) -> Iterator[_Copy]:
    source = data_dir / LOG_FILE
    with scratch_folder(target, "copy") as folder:
        path = folder / LOG_FILE
        with damage_named(source), closing(open_to_read(source, default_connect)) as reading:
            assert isinstance(reading, sqlite3.Connection)
            reading.execute("BEGIN")
            meta, store = read_meta(reading, source), read_store(reading, source)
            if store is None:
                raise Conflict(
                    f"{source} was written before there were marks; start a server on it once",
                    code="format_too_old",
                )
            _copy_snapshots(data_dir, folder, meta.position)
            make_private(path)
            with closing(sqlite3.connect(path)) as copy:
                copy.execute("PRAGMA synchronous = OFF")
                reading.backup(copy)
            reading.execute("COMMIT")
        with closing(open_to_read(path, default_connect)) as connection:
            mark, _ = begin_mark(connection, path)
        mark.close()
        digest, state = meta.position_link.digest, checked_fingerprint(folder)
        yield _Copy(folder, store.store_id, meta.position, digest, state)


def _copy_snapshots(data_dir: Path, folder: Path, position_max: int) -> None:
    """Those that the log reaches; one that is gone by now has a newer one in its place."""
    snapshots = SnapshotFolder(data_dir / SNAPSHOT_FOLDER)
    (folder / SNAPSHOT_FOLDER).mkdir(mode=FOLDER_MODE)
    for position in snapshots.positions():
        if position <= position_max:
            path = snapshots.path_of(position)
            copy = folder / SNAPSHOT_FOLDER / path.name
            make_private(copy)
            try:
                shutil.copyfile(path, copy)
            except FileNotFoundError:
                copy.unlink()
