"""Says before a log is opened whether its store is the one that was left, and whole.

    flo.mark ──▸ which store, how many commits, where its log ended
    flo.db   ──▸ the same store? as many commits, or more? the same end?

Whatever is wrong, no file is changed. What is damaged is refused; what is missing is refused too,
unless its loss is accepted.
"""

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

from flo.log.checksums import Link
from flo.log.folder import COPY_ADVICE
from flo.log.mark import HighWaterMark, MarkFile, OpenSynced, SystemFile, read_mark
from flo.log.sqlite.file import (
    BUSY_TIMEOUT_MS,
    Meta,
    SqliteConnection,
    StoreMeta,
    check_format,
    damage_named,
    is_empty,
    read_meta,
    read_store,
    schema,
)
from flo.model.errors import Corrupt

WHOLE_BYTES_MAX = 64 * 1024 * 1024
"""A larger file is checked while it is used: a start does not wait for it."""
PROBLEMS_MAX = 5
ROWS_NAMED_MAX = 10
HOW_TO_GO_ON = (
    f"put the files back as the server left them, or restore a backup ({COPY_ADVICE}); to go on "
    "without what is missing, start the server once with --accept-loss, and the log will say so"
)


class Loss(NamedTuple):
    """What is missing of a store, or may be."""

    code: str
    problem: str
    expected_position: int
    position: int

    def refusal(self) -> Corrupt:
        return Corrupt(
            f"{self.problem}; {HOW_TO_GO_ON}",
            code=self.code,
            details={"expected_position": self.expected_position, "position": self.position},
        )


class ArchiveLoss(NamedTuple):
    """Rows that the archive must have, and has not."""

    path: Path
    rows: list[int]

    @property
    def problem(self) -> str:
        named = ", ".join(map(str, self.rows[:ROWS_NAMED_MAX]))
        more = len(self.rows) - ROWS_NAMED_MAX
        which = f"{named} and {more} more" if more > 0 else named
        are = "archive row {} is" if len(self.rows) == 1 else "archive rows {} are"
        return f"{self.path}: {are.format(which)} missing"

    def refusal(self) -> Corrupt:
        return Corrupt(
            f"{self.problem}, and what is asked for may have been there; {HOW_TO_GO_ON}",
            code="archive_incomplete",
            details={"rows": self.rows[:ROWS_NAMED_MAX]},
        )


class _Database(NamedTuple):
    """What a database says of itself."""

    meta: Meta
    store: StoreMeta | None
    link_at_mark: Link | None
    """Of the entry that ends where the mark says; None if it is not kept."""
    missing_rows: list[int]


class StoreCheck(NamedTuple):
    """What is missing of the log, as far as its mark tells, and of the archive."""

    loss: Loss | None
    archive_loss: ArchiveLoss | None


def mark_path(path: Path) -> Path:
    """Where the mark of the log at `path` is."""
    return path.with_suffix(".mark")


def begin_mark(
    connection: SqliteConnection, path: Path, open_synced: OpenSynced = SystemFile
) -> tuple[MarkFile, HighWaterMark]:
    """The mark of a log that is as it should be, from now on."""
    meta, store = read_meta(connection, path), read_store(connection, path)
    assert store is not None
    now = HighWaterMark(store.store_id, store.commits, meta.position, meta.position_link)
    file = MarkFile(mark_path(path), open_synced)
    file.begin(now)
    return file, now


def check_store(path: Path) -> StoreCheck:
    """What is missing; damage is Corrupt, and named."""
    mark, problem = None, f"{mark_path(path)} is missing: how far the log must reach is not known"
    code = "mark_missing"
    try:
        mark = read_mark(mark_path(path))
    except Corrupt as damaged:
        problem, code = damaged.message, damaged.code
    found = _look_at(path, mark)
    loss = _compared(path, mark, found) if mark is not None else _without_mark(found, code, problem)
    rows = found.missing_rows if found is not None else []
    return StoreCheck(loss, ArchiveLoss(path, rows) if rows else None)


def _without_mark(found: _Database | None, code: str, problem: str) -> Loss | None:
    """A store that has committed nothing since it became one has no mark yet."""
    if found is None or found.store is None or not found.store.commits:
        return None
    return Loss(code, problem, found.meta.position, found.meta.position)


def _compared(path: Path, mark: HighWaterMark, found: _Database | None) -> Loss | None:
    reached = f"{mark_path(path)} says that the log has reached index {mark.position}"
    if found is None:
        if not mark.commits and not mark.position:
            return None
        problem = f"{path} is missing or empty, but {reached}: all of it is missing"
        return Loss("store_missing", problem, mark.position, 0)
    position, store = found.meta.position, found.store
    if store is None or store.store_id != mark.store_id:
        problem = f"{path} and {mark_path(path)} belong to different stores"
        return Loss("other_store", problem, mark.position, position)
    if store.commits < mark.commits:
        missing = mark.position - position
        what = f"the last {missing} events" if missing > 0 else "the last trim"
        problem = (
            f"{path} is older than it was: it ends at index {position} after {store.commits} "
            f"commits, but {reached} after {mark.commits} commits: {what} and what was filed with "
            f"them are missing; its WAL ({path.name}-wal) may have been removed, cut off or damaged"
        )
        return Loss("store_behind", problem, mark.position, position)
    if found.link_at_mark not in (None, mark.link) or position < mark.position:
        problem = (
            f"{path} has been changed: {reached} with SHA-256 {mark.link.digest.hex()}, and it is "
            "another one there"
        )
        return Loss("store_changed", problem, mark.position, position)
    return None


def _look_at(path: Path, mark: HighWaterMark | None) -> _Database | None:
    """What the database says of itself; None if there is none, or an empty one."""
    if not path.exists() or not path.stat().st_size:
        return None
    with damage_named(path), closing(_open_unchanged(path)) as connection:
        if is_empty(connection):
            return None
        check_format(connection, path)
        store = read_store(connection, path)
        rows: list[int] = []
        if is_small(path):
            check_whole(connection, path, is_store=store is not None)
            rows = _missing_rows(connection, path, store) if store is not None else []
        meta = read_meta(connection, path)
        return _Database(meta, store, _link_at(connection, meta, mark), rows)


def is_small(path: Path) -> bool:
    """Whether it is checked as a whole before it is used."""
    return path.stat().st_size <= WHOLE_BYTES_MAX


def check_while_used(path: Path) -> ArchiveLoss | None:
    """Which rows of the archive are missing; other damage is Corrupt, and named."""
    with damage_named(path), closing(_open_unchanged(path)) as connection:
        connection.execute("BEGIN")
        check_whole(connection, path, is_store=True)
        store = read_store(connection, path)
        assert store is not None
        rows = _missing_rows(connection, path, store)
        connection.execute("COMMIT")
    return ArchiveLoss(path, rows) if rows else None


def accept_missing(connection: SqliteConnection, loss: ArchiveLoss) -> None:
    """From now on these rows are gaps."""
    connection.execute("BEGIN IMMEDIATE")
    for row in loss.rows:
        connection.execute("INSERT INTO archive_gaps VALUES (?)", (row,))
    connection.execute("COMMIT")


def check_whole(connection: SqliteConnection, path: Path, *, is_store: bool) -> None:
    """Look for damage that no checksum of ours covers: in the pages, the indexes, the tables."""
    if is_store and (found := _objects(connection)) != _objects_expected():
        changed = sorted(dict(found ^ _objects_expected()))
        raise Corrupt(f"{path} is damaged: {', '.join(changed)} is not as it was made")
    problems = [row[0] for row in connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})")]
    if problems != ["ok"]:
        raise Corrupt(f"{path} is damaged: {'; '.join(map(str, problems))}; restore a backup")
    (strays,) = connection.execute(_STRAY_TAGS).fetchone()
    if strays:
        raise Corrupt(f"{path} is damaged: {strays} rows of archive_tags are wrong or missing")


_OF_ROWS = (
    "SELECT kind, namespace, value, sequence, row FROM archive, json_each(tags)"
    " WHERE tags IS NOT NULL AND sequence > 0"
)
_OF_TAGS = "SELECT kind, namespace, tag, sequence, row FROM archive_tags"
_STRAY_TAGS = (
    f"SELECT (SELECT count(*) FROM ({_OF_ROWS} EXCEPT {_OF_TAGS}))"
    f" + (SELECT count(*) FROM ({_OF_TAGS} EXCEPT {_OF_ROWS}))"
)


def _missing_rows(connection: SqliteConnection, path: Path, store: StoreMeta) -> list[int]:
    """The rows that the archive must have, and has not."""
    bounds = (store.archive_first, store.archive_next)
    known, gaps = (
        connection.execute(
            f"SELECT count(*) FROM {table} WHERE row >= ? AND row < ?", bounds
        ).fetchone()[0]
        for table in ("archive", "archive_gaps")
    )
    (beyond,) = connection.execute(
        "SELECT count(*) FROM archive WHERE row >= ?", (store.archive_next,)
    ).fetchone()
    if beyond:
        raise Corrupt(
            f"{path} is damaged: expected archive rows up to {store.archive_next}, {beyond} follow"
        )
    if known + gaps == store.archive_next - store.archive_first:
        return []
    there = connection.execute(
        "SELECT row FROM archive WHERE row >= ? UNION SELECT row FROM archive_gaps WHERE row >= ?",
        (store.archive_first, store.archive_first),
    )
    return sorted(set(range(*bounds)).difference(row for (row,) in there))


def _link_at(connection: SqliteConnection, meta: Meta, mark: HighWaterMark | None) -> Link | None:
    """What the entry after the mark's position is chained to, if that is kept."""
    if mark is None or not meta.start <= mark.position <= meta.position:
        return None
    if mark.position == meta.position:
        return meta.position_link
    row = connection.execute(
        "SELECT first + count, checksum, digest FROM log WHERE first < ?"
        " ORDER BY first DESC LIMIT 1",
        (mark.position,),
    ).fetchone() or (meta.start, *meta.start_link)
    return Link(*row[1:]) if row[0] == mark.position else Link(0, b"")


def _open_unchanged(path: Path) -> SqliteConnection:
    """A connection that changes no file, not even when it is closed.

    What was cut off while the tables were made is taken back first.
    """
    if path.with_name(f"{path.name}-journal").exists():
        connection = sqlite3.connect(path, isolation_level=None)
    else:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}").fetchall()
    return connection


def _objects(connection: SqliteConnection) -> frozenset[tuple[str, str]]:
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return frozenset((str(name), str(sql)) for name, sql in rows)


@cache
def _objects_expected() -> frozenset[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in schema():
            connection.execute(statement)
        return _objects(connection)
