"""The SQLite file of a log: its tables, its format, and how a connection to it is opened.

    meta       one row: the format; where the log starts and ends, with checksum and digest there;
               which store it is, how often it has committed, which rows the archive must have
    log        one row per append
    archive    one row per finished run, in the order in which they finished
    archive_gaps   rows that the archive has let go of, or has put another in the place of
    archive_tags   what rows of the archive are also found by
    records    one row per append to a stream
    payloads   one row per large payload of a run

The start says what the first entry kept is chained to. The end is moved by a trigger with every
entry, so that a missing tail is noticed, and positions go on after everything was trimmed.
"""

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from flo.log.checksums import FORMAT_VERSION, LINK_FIRST, Link
from flo.log.folder import make_private, sync_folder
from flo.model.errors import Conflict, Corrupt, NotFound, Unavailable

APPLICATION_ID = int.from_bytes(b"Flo!")
BUSY_TIMEOUT_MS = 10_000
FORMAT_FIRST = 1
SPACE_BYTES_MIN = 1024 * 1024
"""With less than this, a disk is full."""
STORE_ID_LENGTH = 16
_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}
_META_TYPES = [int, int, int, bytes, int, int, bytes]
_STORE_TYPES = [bytes, int, int, int]


class Rows(Protocol):
    """A cursor; what the standard library and apsw have in common."""

    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def close(self) -> None: ...


class SqliteConnection(Protocol):
    """A connection in autocommit mode; what the standard library and apsw have in common."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows: ...
    def close(self) -> None: ...


class Meta(NamedTuple):
    """The format, and where the log starts and ends."""

    format: int
    start: int
    start_link: Link
    position: int
    position_link: Link


class StoreMeta(NamedTuple):
    """Which store it is, how often it has committed, and which rows its archive must have: all
    from the first up to the next, but for the gaps."""

    store_id: bytes
    commits: int
    archive_first: int
    archive_next: int


Connect: TypeAlias = Callable[[Path], SqliteConnection]


def default_connect(path: Path) -> SqliteConnection:
    with suppress(OSError):  # SQLite will say what is wrong
        make_private(path)
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def open_to_write(path: Path, connect: Connect) -> SqliteConnection:
    """A connection whose commits are durable; the tables are made if the file is new."""
    with _opening(path, connect) as connection:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}").fetchall()
        if is_empty(connection):
            create_tables(connection)
            sync_folder(path.parent)
        check_format(connection, path)
        if read_store(connection, path) is None:
            _become_a_store(connection, path)
        _check_end(connection, path)
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL").fetchall()
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    return connection


def open_to_read(path: Path, connect: Connect) -> SqliteConnection:
    """A connection that changes nothing; the server may be writing."""
    if not path.exists():
        raise NotFound(f"{path} does not exist", code="log_not_found")
    with _opening(path, connect) as connection:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}").fetchall()
        connection.execute("PRAGMA query_only = 1").fetchall()
        check_format(connection, path)
    return connection


def is_empty(connection: SqliteConnection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def create_tables(connection: SqliteConnection) -> None:
    """Make an empty log of the newest format."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in schema():
        connection.execute(statement)
    _insert_meta(connection, Meta(FORMAT_VERSION, 0, LINK_FIRST, 0, LINK_FIRST), archive_first=1)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("COMMIT")


def schema() -> list[str]:
    """The statements that make the tables."""
    text = files("flo.log").joinpath("sql/sqlite_schema.sql").read_text()
    return [statement.strip() for statement in text.split("\n\n")]


def _become_a_store(connection: SqliteConnection, path: Path) -> None:
    """Give a log that was written before there were marks what a mark is compared with.

    What its archive must have is known from now on.
    """
    connection.execute("BEGIN IMMEDIATE")
    meta = read_meta(connection, path)
    (last,) = connection.execute("SELECT max(row) FROM archive").fetchone()
    triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
    for (name,) in triggers.fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("DROP TABLE meta")
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    for statement in schema():
        if there.isdisjoint(statement.split(maxsplit=4)[2:4]):
            connection.execute(statement)
    _insert_meta(connection, meta, archive_first=(last or 0) + 1)
    connection.execute("COMMIT")


def _insert_meta(connection: SqliteConnection, meta: Meta, archive_first: int) -> None:
    version, start, start_link, position, link = meta
    store = StoreMeta(os.urandom(STORE_ID_LENGTH), 0, archive_first, archive_first)
    connection.execute(
        "INSERT INTO meta VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (version, start, *start_link, position, *link, *store),
    )


def check_format(connection: SqliteConnection, path: Path) -> None:
    version = check_is_log(connection, path)
    check_known(version, path)
    if version < FORMAT_VERSION:
        raise Conflict(
            f"{path} has format {version}, this Flo writes format {FORMAT_VERSION}; convert it "
            f"with `flo log upgrade --data-dir {path.parent}`, which keeps the old file",
            code="format_too_old",
        )
    if version > FORMAT_VERSION:
        raise Conflict(
            f"{path} has format {version}, this Flo knows formats up to {FORMAT_VERSION}; "
            f"start the newer Flo that wrote it, or restore a backup made before the upgrade",
            code="format_too_new",
        )


def check_known(version: int, path: Path) -> None:
    """There never was a format before the first one."""
    if version < FORMAT_FIRST:
        raise Corrupt(
            f"{path} is damaged: expected a format from {FORMAT_FIRST} to {FORMAT_VERSION}, got "
            f"{version}; restore a backup"
        )


def _check_end(connection: SqliteConnection, path: Path) -> None:
    """The last entry must end where meta says that the log ends."""
    meta = read_meta(connection, path)
    last = connection.execute(
        "SELECT first + count, checksum, digest FROM log ORDER BY first DESC LIMIT 1"
    ).fetchone() or (meta.start, *meta.start_link)
    if tuple(last) != (meta.position, *meta.position_link):
        raise Corrupt(
            f"{path}: expected the last entry to end at index {meta.position} with checksum "
            f"{meta.position_link.checksum} and digest {_text(meta.position_link.digest)}, it ends "
            f"at {last[0]} with {last[1]} and {_text(last[2])}"
        )


def check_is_log(connection: SqliteConnection, path: Path) -> int:
    """The format of a log of any format; another database is refused."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != APPLICATION_ID:
        raise Conflict(
            f"{path} is a SQLite database, but not a Flo log (expected application id "
            f"{APPLICATION_ID}, got {application_id}); give Flo a data folder of its own",
            code="not_a_flo_log",
        )
    rows = connection.execute("SELECT format FROM meta").fetchall()
    if len(rows) != 1 or type(rows[0][0]) is not int:
        raise Corrupt(f"{path} is damaged: expected one row with a format in meta, got {rows}")
    return int(rows[0][0])


def read_meta(connection: SqliteConnection, path: Path) -> Meta:
    rows = connection.execute(
        "SELECT format, start, start_checksum, start_digest,"
        " position, position_checksum, position_digest FROM meta"
    ).fetchall()
    if len(rows) != 1 or [type(value) for value in rows[0]] != _META_TYPES:
        raise Corrupt(
            f"{path} is damaged: expected one row of five integers and two digests in meta, "
            f"got {rows}"
        )
    version, start, start_checksum, start_digest, position, *link = rows[0]
    return Meta(version, start, Link(start_checksum, start_digest), position, Link(*link))


def read_store(connection: SqliteConnection, path: Path) -> StoreMeta | None:
    """None of a log that was written before there were marks."""
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(meta)")]
    if "store_id" not in columns:
        return None
    rows = connection.execute(
        "SELECT store_id, commits, archive_first, archive_next FROM meta"
    ).fetchall()
    if (
        len(rows) != 1
        or [type(value) for value in rows[0]] != _STORE_TYPES
        or len(rows[0][0]) != STORE_ID_LENGTH
    ):
        raise Corrupt(f"{path} is damaged: expected an id and three numbers in meta, got {rows}")
    return StoreMeta(*rows[0])


def is_out_of_space(error: Exception, folder: Path) -> bool:
    """Whether a write has failed because the disk is full."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    code = _code_of(error)
    if code == sqlite3.SQLITE_IOERR:  # SQLite says no more when the index of the WAL cannot grow
        free = os.statvfs(folder)
        return free.f_bavail * free.f_frsize < SPACE_BYTES_MIN
    return code == sqlite3.SQLITE_FULL


def is_taken(error: Exception) -> bool:
    """Whether a row could not be inserted because there is one like it."""
    return _code_of(error) == sqlite3.SQLITE_CONSTRAINT


def _code_of(error: Exception) -> int:
    """The primary result code of SQLite, by the standard library or by apsw."""
    code: int = getattr(error, "sqlite_errorcode", 0) or getattr(error, "result", 0)
    return code & 0xFF


def _text(digest: object) -> str:
    return digest.hex() if isinstance(digest, bytes) else repr(digest)


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Say in our words what SQLite found. Its errors are damage unless they speak of the disk:
    our statements are fixed, so one that makes no sense to SQLite has met a damaged schema."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNAVAILABLE:
            raise Unavailable(f"{path} cannot be used: {error}", code="log_failed") from error
        raise Corrupt(f"{path} is damaged: {error}; restore a backup") from error


@contextmanager
def _opening(path: Path, connect: Connect) -> Iterator[SqliteConnection]:
    """A connection that is closed again if its beginning goes wrong."""
    with damage_named(path):
        connection = connect(path)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
