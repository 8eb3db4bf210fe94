"""Reads the entries of a log from its SQLite file, each checked against the chain.

Any process may read, also while a server writes.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from sys import getsizeof
from typing import Any, TypeAlias

from flo.log.base import Codec, LogEntry, StoredEntry
from flo.log.checksums import Link, link_after
from flo.log.sqlite.file import (
    Connect,
    Meta,
    SqliteConnection,
    damage_named,
    default_connect,
    open_to_read,
    read_meta,
)
from flo.model.base import Event
from flo.model.errors import Corrupt, NotFound

READ_BYTES_MAX = 4 * 1024 * 1024
ROW_TYPES = (int, int, int, int, bytes, bytes)
"""First index, number of events, time, checksum, digest, events."""

Row: TypeAlias = tuple[Any, ...]


def read_log(
    path: Path, codec: Codec, position: int, *, connect: Connect = default_connect
) -> Iterator[LogEntry]:
    """What `SqliteLog.read` gives."""
    for row, _, _ in _checked_rows(path, position, connect):
        first, count, at_ms, _, _, body = row
        yield LogEntry(first, at_ms, _events_of(path, first, count, body, codec))


def read_entries(
    path: Path, position: int, *, connect: Connect = default_connect
) -> Iterator[StoredEntry]:
    """The same entries, their events as bytes."""
    for row, previous, link in _checked_rows(path, position, connect):
        first, count, at_ms, _, _, body = row
        yield StoredEntry(first, count, at_ms, body, previous, link)


def verify_log(path: Path, *, connect: Connect = default_connect) -> Link:
    """Check every entry; return what the next one will be chained to.

    Who rewrites the whole chain makes another one that is whole in itself: compare the digest with
    one that was written down before. What is wrong is Corrupt, and named.
    """
    meta = _meta_of(path, connect)
    end, link = meta.start, meta.start_link
    for entry in read_entries(path, meta.start, connect=connect):
        end, link = entry.end, entry.link
        if end == meta.position and link != meta.position_link:
            raise Corrupt(
                f"{path}: expected the entry that ends at index {end} to have SHA-256 "
                f"{meta.position_link.digest.hex()}, got {link.digest.hex()}"
            )
    return link


def log_start(path: Path, *, connect: Connect = default_connect) -> int:
    """The index of the first event that the file still holds."""
    return _meta_of(path, connect).start


def decoded(stored: StoredEntry, codec: Codec, path: Path) -> LogEntry:
    """The events of an entry; bytes that are not what they should be are Corrupt."""
    first, count, at_ms, body, _, _ = stored
    return LogEntry(first, at_ms, _events_of(path, first, count, body, codec))


def _events_of(path: Path, first: int, count: int, body: bytes, codec: Codec) -> list[Event]:
    try:
        events = codec.decode(body)
    except Corrupt as error:
        raise Corrupt(f"{path}: the entry at index {first}: {error}") from error
    if len(events) != count:
        raise Corrupt(
            f"{path}: the entry at index {first}: expected {count} events, got {len(events)}"
        )
    return events


def _meta_of(path: Path, connect: Connect) -> Meta:
    connection = open_to_read(path, connect)
    try:
        with damage_named(path):
            return read_meta(connection, path)
    finally:
        connection.close()


def _checked_rows(path: Path, position: int, connect: Connect) -> Iterator[tuple[Row, Link, Link]]:
    """The rows from an index on, each with what it and the next are chained to."""
    connection = open_to_read(path, connect)
    try:
        with damage_named(path):
            first, previous = _link_before(connection, path, position)
            while rows := _rows_from(connection, path, first):
                for row in rows:
                    link = _check(path, row, first, previous)
                    yield row, previous, link
                    first, previous = first + row[1], link
    finally:
        connection.close()


def _link_before(connection: SqliteConnection, path: Path, position: int) -> tuple[int, Link]:
    """Where the entry that holds `position` begins, and what it is chained to."""
    connection.execute("BEGIN")
    meta = read_meta(connection, path)
    before = connection.execute(
        "SELECT first + count, checksum, digest FROM log"
        " WHERE first < (SELECT max(first) FROM log WHERE first <= ?)"
        " ORDER BY first DESC LIMIT 1",
        (position,),
    ).fetchone()
    connection.execute("COMMIT")
    if position < meta.start:
        raise _trimmed(path, position, meta.start)
    if position > meta.position:
        raise Corrupt(
            f"{path}: expected a log that reaches index {position}, it ends at {meta.position}"
        )
    if position == meta.position:
        return meta.position, meta.position_link
    if before is None:
        return meta.start, meta.start_link
    if [int, int, bytes] != [type(value) for value in before]:
        raise Corrupt(f"{path}: the entry before the one that holds index {position} is damaged")
    first, checksum, digest = before
    return first, Link(checksum, digest)


def _trimmed(path: Path, position: int, start: int) -> NotFound:
    return NotFound(
        f"{path}: index {position} has been trimmed; the log begins at {start}", code="trimmed"
    )


def _rows_from(connection: SqliteConnection, path: Path, first: int) -> list[Row]:
    """Some rows at a time: no transaction stays open while the caller thinks."""
    connection.execute("BEGIN")
    meta = read_meta(connection, path)
    cursor = connection.execute(
        "SELECT first, count, at_ms, checksum, digest, body FROM log"
        " WHERE first >= ? ORDER BY first",
        (first,),
    )
    rows, size = [], 0
    for row in cursor:
        rows.append(row)
        size += getsizeof(row[-1])
        if size > READ_BYTES_MAX:
            break
    cursor.close()
    connection.execute("COMMIT")
    if first < meta.start:
        raise _trimmed(path, first, meta.start)
    if not rows and first < meta.position:
        raise Corrupt(f"{path}: expected an entry at index {first}, it is missing")
    return rows


def _check(path: Path, row: Row, expected: int, previous: Link) -> Link:
    """What the next entry is chained to, if this row is the one that was written there."""
    first, count, at_ms, checksum, digest, body = row
    if first != expected:
        raise Corrupt(f"{path}: expected an entry at index {expected}, the next is at {first}")
    try:
        link = link_after(previous, first, count, at_ms, body)
    except (TypeError, struct.error) as error:
        raise _damaged(path, row) from error
    if checksum != link.checksum or digest != link.digest:
        raise _damaged(path, row, link)
    return link


def _damaged(path: Path, row: Row, link: Link | None = None) -> Corrupt:
    first, _, _, checksum, digest, _ = row
    where = f"{path}: the entry at index {first}"
    if link is None or (*map(type, row),) != ROW_TYPES:
        return Corrupt(f"{where} is damaged: its values are not of the types that were written")
    if checksum != link.checksum:
        return Corrupt(f"{where} is damaged: expected checksum {checksum}, got {link.checksum}")
    return Corrupt(
        f"{where} is not the one that was written: its checksum is right, but its SHA-256 is "
        f"{link.digest.hex()}, expected {digest.hex()}"
    )


def trim_events(connection: SqliteConnection, below: int, rows_max: int) -> int | None:
    """Delete entries that end at or before `below`; return where the log starts then."""
    last = connection.execute(
        "SELECT first + count, checksum, digest"
        " FROM (SELECT first, count, checksum, digest FROM log ORDER BY first LIMIT ?)"
        " WHERE first + count <= ? ORDER BY first DESC LIMIT 1",
        (rows_max, below),
    ).fetchone()
    if last is None:
        return None
    start, *link = last
    connection.execute("DELETE FROM log WHERE first < ?", (start,))
    connection.execute(
        "UPDATE meta SET start = ?, start_checksum = ?, start_digest = ?", (start, *link)
    )
    return int(start)
