"""Reads the entries of a log from its SQLite file, each checked against the chain.

Any process may read, also while a server writes.
"""

from collections.abc import Iterator
from pathlib import Path
from sys import getsizeof
from typing import Any

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
from flo.model.errors import Corrupt, NotFound

READ_BYTES_MAX = 4 * 1024 * 1024


def read_log(
    path: Path, codec: Codec, position: int, *, connect: Connect = default_connect
) -> Iterator[LogEntry]:
    """What `SqliteLog.read` gives."""
    for stored in read_entries(path, position, connect=connect):
        yield decoded(stored, codec, path)


def read_entries(
    path: Path, position: int, *, connect: Connect = default_connect
) -> Iterator[StoredEntry]:
    """The same entries, their events as bytes."""
    connection = open_to_read(path, connect)
    try:
        with damage_named(path):
            first, link = _link_before(connection, path, position)
            while rows := _rows_from(connection, path, first):
                for row in rows:
                    entry = _checked(path, row, first, link)
                    first, link = entry.end, entry.link
                    yield entry
    finally:
        connection.close()


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
    where = f"{path}: the entry at index {stored.first}"
    try:
        events = codec.decode(stored.body)
    except Corrupt as error:
        raise Corrupt(f"{where}: {error}") from error
    if len(events) != stored.event_count:
        raise Corrupt(f"{where}: expected {stored.event_count} events, got {len(events)}")
    return LogEntry(stored.first, stored.at_ms, events)


def _meta_of(path: Path, connect: Connect) -> Meta:
    connection = open_to_read(path, connect)
    try:
        with damage_named(path):
            return read_meta(connection, path)
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
    first, *link = before
    return first, Link(*link)


def _trimmed(path: Path, position: int, start: int) -> NotFound:
    return NotFound(
        f"{path}: index {position} has been trimmed; the log begins at {start}", code="trimmed"
    )


def _rows_from(connection: SqliteConnection, path: Path, first: int) -> list[tuple[Any, ...]]:
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


def _checked(path: Path, row: tuple[Any, ...], expected: int, previous: Link) -> StoredEntry:
    """The entry in this row, if it is the one that was written there."""
    first, count, at_ms, checksum, digest, body = row
    if first != expected:
        raise Corrupt(f"{path}: expected an entry at index {expected}, the next is at {first}")
    where = f"{path}: the entry at index {first}"
    if [int, int, int, bytes, bytes] != [type(value) for value in row[1:]]:
        raise Corrupt(f"{where} is damaged: its values are not of the types that were written")
    link = link_after(previous, first, count, at_ms, body)
    if checksum != link.checksum:
        raise Corrupt(f"{where} is damaged: expected checksum {checksum}, got {link.checksum}")
    if digest != link.digest:
        raise Corrupt(
            f"{where} is not the one that was written: its checksum is right, but its SHA-256 is "
            f"{link.digest.hex()}, expected {digest.hex()}"
        )
    return StoredEntry(first, count, at_ms, body, previous, link)
