"""Converts the SQLite file of a log to the newest format, while no server uses it.

    flo.db  ──copy, check──▸  flo.db.upgrading
    flo.db  ──link──▸  flo.db.format-1           the old file stays, under this name
    flo.db.upgrading  ──rename──▸  flo.db        at once: before and after, flo.db is whole

Whatever interrupts it, `flo.db` is the old file or the new one; running it again finishes it.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from flo.log.checksums import FORMAT_VERSION, LINK_FIRST, Link, link_after
from flo.log.folder import sync_folder
from flo.log.sqlite.checks import begin_mark, check_store, mark_path
from flo.log.sqlite.entries import verify_log
from flo.log.sqlite.file import (
    SqliteConnection,
    check_is_log,
    check_known,
    create_tables,
    damage_named,
    default_connect,
    open_to_write,
)
from flo.model.errors import Conflict, Corrupt, NotFound

COPIED_AS_THEY_ARE = ("archive", "records")
"""Tables whose rows have checksums of their own, which stay right."""


class LogUpgraded(NamedTuple):
    """What was converted, and where the old file is; without it there was nothing to do."""

    format_before: int
    format: int
    entries: int
    archived: int
    records: int
    kept: Path | None


def upgrade_log(path: Path, reached: Callable[[str], None] = lambda step: None) -> LogUpgraded:
    """Convert a log that no server uses. `reached` is told each step before it is taken."""
    if not path.exists():
        raise NotFound(f"{path} does not exist", code="log_not_found")
    with damage_named(path), closing(default_connect(path)) as old:
        version = check_is_log(old, path)
        _check_version(version, path)
        if version == FORMAT_VERSION:
            _check_mark(path)
            return LogUpgraded(version, version, 0, 0, 0, None)
        old.execute("PRAGMA journal_mode = DELETE").fetchall()  # all of it in one file
    new = path.with_name(f"{path.name}.upgrading")
    new.unlink(missing_ok=True)
    reached("copy")
    entries, archived, records = _copy(path, new)
    reached("verify")
    verify_log(new)
    kept = path.with_name(f"{path.name}.format-{version}")
    reached("keep")
    _keep(path, kept)
    reached("swap")
    new.replace(path)
    sync_folder(path.parent)
    _write_mark(path)
    return LogUpgraded(version, FORMAT_VERSION, entries, archived, records, kept)


def _check_mark(path: Path) -> None:
    """Make the high-water mark, where there is none yet; one that is missing is a refusal."""
    loss = check_store(path).loss
    if loss is not None:
        raise loss.refusal()
    if not mark_path(path).exists():
        _write_mark(path)


def _write_mark(path: Path) -> None:
    with closing(open_to_write(path, default_connect)) as connection:
        mark, _ = begin_mark(connection, path)
    mark.close()


def _check_version(version: int, path: Path) -> None:
    check_known(version, path)
    if version > FORMAT_VERSION:
        raise Conflict(
            f"{path} has format {version}, this Flo knows formats up to {FORMAT_VERSION}; "
            f"start the newer Flo that wrote it",
            code="format_too_new",
        )


def _copy(path: Path, new: Path) -> tuple[int, ...]:
    """How many entries and rows there are; a copy that has fewer is Corrupt."""
    with damage_named(path), closing(default_connect(new)) as connection:
        connection.execute("PRAGMA synchronous = FULL").fetchall()
        create_tables(connection)
        connection.execute("ATTACH ? AS old", (str(path),))
        connection.execute("BEGIN")
        _copy_entries(connection, path)
        for table in COPIED_AS_THEY_ARE:
            columns = ", ".join(_columns(connection, table))
            connection.execute(
                f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM old.{table}"
                " ORDER BY row"
            )
        connection.execute(
            "UPDATE main.meta SET commits = 0, (archive_first, archive_next) ="
            " (SELECT 1 + coalesce(max(row), 0), 1 + coalesce(max(row), 0) FROM main.archive)"
        )
        connection.execute("COMMIT")
        counts = []
        for table in ("log", *COPIED_AS_THEY_ARE):
            before, after = (
                connection.execute(f"SELECT count(*) FROM {where}.{table}").fetchone()[0]
                for where in ("old", "main")
            )
            if before != after:
                raise Corrupt(f"{path}: expected to copy {before} rows of {table}, got {after}")
            counts.append(after)
    sync_folder(new.parent)
    return tuple(counts)


def _columns(connection: SqliteConnection, table: str) -> list[str]:
    """The columns that a table has in both files."""
    before, after = (
        [name for _, name, *_ in connection.execute(f"PRAGMA {where}.table_info({table})")]
        for where in ("old", "main")
    )
    return [name for name in after if name in before]


def _copy_entries(connection: SqliteConnection, path: Path) -> None:
    """Every entry of format 1, with the digest that it did not have.

    The chain of digests begins at the first entry kept: nothing is known of those before.
    """
    ((start, start_checksum, position, position_checksum),) = connection.execute(
        "SELECT start, start_checksum, position, position_checksum FROM old.meta"
    ).fetchall()
    connection.execute(
        "UPDATE main.meta SET start = ?, start_checksum = ?, position = ?, position_checksum = ?",
        (start, start_checksum, start, start_checksum),
    )
    end, link = start, Link(start_checksum, LINK_FIRST.digest)
    for row in _rows(connection):
        end, link = _copy_entry(connection, path, row, end, link)
    if (end, link.checksum) != (position, position_checksum):
        raise Corrupt(
            f"{path}: expected the last entry to end at index {position} with checksum "
            f"{position_checksum}, it ends at {end} with {link.checksum}"
        )


def _rows(connection: SqliteConnection) -> Iterator[tuple[int, int, int, int, bytes]]:
    rows = connection.execute(
        "SELECT first, count, at_ms, checksum, body FROM old.log ORDER BY first"
    )
    yield from rows


def _copy_entry(
    connection: SqliteConnection,
    path: Path,
    row: tuple[int, int, int, int, bytes],
    expected: int,
    previous: Link,
) -> tuple[int, Link]:
    first, count, at_ms, checksum, body = row
    where = f"{path}: the entry at index {first}"
    if first != expected:
        raise Corrupt(f"{path}: expected an entry at index {expected}, the next is at {first}")
    if [int, int, int, bytes] != [type(value) for value in row[1:]]:
        raise Corrupt(f"{where} is damaged: its values are not of the types that were written")
    link = link_after(previous, first, count, at_ms, body)
    if checksum != link.checksum:
        raise Corrupt(f"{where} is damaged: expected checksum {checksum}, got {link.checksum}")
    connection.execute(
        "INSERT INTO main.log (first, count, at_ms, checksum, digest, body)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (first, count, at_ms, *link, body),
    )
    return first + count, link


def _keep(path: Path, kept: Path) -> None:
    """Give the old file a second name."""
    if kept.exists():
        if kept.samefile(path):
            return  # an earlier upgrade came so far
        raise Conflict(
            f"{kept} exists already, and is another file; move it away, then upgrade again",
            code="old_log_in_the_way",
        )
    os.link(path, kept)
    sync_folder(path.parent)
