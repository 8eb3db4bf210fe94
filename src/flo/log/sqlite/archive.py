"""The archive in the SQLite file of a log, read in threads of its own: no list delays a commit.

lookups    one thread, one connection: a row by its address, numbers by idempotency keys
lists      one thread, one connection: pages, however long they take
"""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import count, takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from flo.log.checksums import archived_checksum
from flo.log.jobs import JobThread
from flo.log.sqlite.file import Connect, SqliteConnection, damage_named, open_to_read
from flo.log.sqlite.payloads import trim_payloads
from flo.model.errors import Corrupt
from flo.model.ids import Namespace
from flo.model.storage.archive import ArchiveAddress, Archived, ArchiveKey, address_of

Statement: TypeAlias = tuple[str, Sequence[Any]]

ROWS_PER_STATEMENT = (256, 64, 16, 4, 1)
"""A few fixed sizes, so that every statement stays prepared and each is a single step."""
NUMBER_MAX = 2**63 - 1

_COLUMNS = (
    "row, kind, namespace, name, number, status, finished_at_ms, key, dead, sequence, tags,"
    " checksum, body"
)
_COLUMN_COUNT = 13
_INSERT = "INSERT INTO archive"
_ADDRESS = "kind = ? AND namespace = ? AND name = ?"
_ADDRESS_OF_ONE = f"{_ADDRESS} AND number = ?"
_WITH_STATUS = (
    "SELECT row, sequence FROM archive WHERE kind = ? AND namespace = ? AND status = ?"
    " AND sequence < ? AND sequence > 0 ORDER BY sequence DESC LIMIT ?"
)
_TAGGED = (
    "SELECT row, sequence FROM archive_tags WHERE kind = ? AND namespace = ? AND tag = ?"
    " AND sequence < ? ORDER BY sequence DESC LIMIT ?"
)

_TAG = (
    "INSERT OR REPLACE INTO archive_tags SELECT kind, namespace, value, sequence, row"
    f" FROM archive, json_each(tags) WHERE {_ADDRESS_OF_ONE}"
)

_decode_tags = msgspec.json.Decoder(tuple[str, ...]).decode


class _ArchiveReader:
    """A connection that writes nothing, and the thread that uses it."""

    def __init__(self, path: Path, connect: Connect, what: str) -> None:
        self.connection = open_to_read(path, connect)
        self.thread = JobThread(f"{what} of {path}")

    async def close(self) -> None:
        await self.thread.stop()
        self.connection.close()


class SqliteArchive:
    """Finished runs; whoever looks one up never waits for a list."""

    def __init__(self, path: Path, connect: Connect) -> None:
        self._path = path
        self._problem: Corrupt | None = None
        self._lookups = _ArchiveReader(path, connect, "lookups in the archive")
        self._lists = _ArchiveReader(path, connect, "lists of the archive")

    async def find(
        self, kind: str, namespace: Namespace, name: str, number: int
    ) -> Archived | None:
        which = f"WHERE {_ADDRESS_OF_ONE}"
        found = await self._select(self._lookups, which, (kind, namespace, name, number))
        if not found:
            self._check_complete()
        return found[0] if found else None

    async def find_keys(self, kind: str, keys: Sequence[ArchiveKey]) -> dict[ArchiveKey, int]:
        found = await self._lookups.thread.do(self._find_keys, kind, keys)
        if len(found) < len(keys):
            self._check_complete()
        return found

    async def page(
        self,
        kind: str,
        namespace: Namespace,
        name: str,
        *,
        below: int | None,
        limit: int,
        status: str | None = None,
        is_dead: bool = False,
    ) -> list[Archived]:
        which = f"WHERE {_ADDRESS} AND number < ?"
        parameters: list[Any] = [kind, namespace, name, NUMBER_MAX if below is None else below]
        if status is not None:
            which += " AND status = ? AND sequence > 0"
            parameters.append(status)
        if is_dead:
            which += " AND dead = 1"
        which += " ORDER BY number DESC LIMIT ?"
        self._check_complete()
        return await self._select(self._lists, which, (*parameters, limit))

    async def newest(
        self,
        kind: str,
        namespace: Namespace,
        *,
        below: int | None,
        limit: int,
        statuses: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> list[Archived]:
        self._check_complete()
        under = NUMBER_MAX if below is None else below
        parts = [(_WITH_STATUS, status) for status in statuses] + [(_TAGGED, tag) for tag in tags]
        which = f"WHERE row IN ({_union(tuple(part for part, _ in parts))}) ORDER BY sequence DESC"
        parameters = [one for _, value in parts for one in (kind, namespace, value, under, limit)]
        return await self._select(self._lists, which, (*parameters, limit))

    async def count(self) -> int:
        return await self._lists.thread.do(self._count)

    def distrust(self, problem: Corrupt) -> None:
        """Something is missing: what is not found, and every list, is answered with that."""
        self._problem = problem

    async def close(self) -> None:
        await self._lookups.close()
        await self._lists.close()

    def _check_complete(self) -> None:
        if self._problem is not None:
            raise self._problem

    async def _select(
        self, reader: _ArchiveReader, which: str, parameters: Sequence[Any]
    ) -> list[Archived]:
        return await reader.thread.do(self._rows, reader.connection, which, parameters)

    def _rows(
        self, connection: SqliteConnection, which: str, parameters: Sequence[Any]
    ) -> list[Archived]:
        with damage_named(self._path):
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM archive {which}", parameters
            ).fetchall()
        return [checked_row(self._path, row) for row in rows]

    def _find_keys(self, kind: str, keys: Sequence[ArchiveKey]) -> dict[ArchiveKey, int]:
        found: dict[ArchiveKey, int] = {}
        with damage_named(self._path):
            for some in _portions(keys):
                rows = self._lookups.connection.execute(
                    _select_keys(len(some)), (*(part for key in some for part in key), kind)
                )
                found.update(
                    ((namespace, name, key), number) for namespace, name, key, number in rows
                )
        return found

    def _count(self) -> int:
        with damage_named(self._path):
            (count,) = self._lists.connection.execute("SELECT count(*) FROM archive").fetchone()
        return int(count)


def statements_of(archived: Sequence[Archived], first: int) -> Iterator[Statement]:
    """What writes these rows, numbered from `first` on, if no address is taken."""
    place = count(first)
    for some in _portions(archived):
        parameters: list[Any] = []
        for row in some:
            parameters += (
                next(place),
                row.kind,
                row.namespace,
                row.name,
                row.number,
                row.status,
                row.finished_at_ms,
                row.key,
                row.dead,
                row.sequence,
                _encode_tags(row.tags) if row.tags else None,
                archived_checksum(row),
                row.body,
            )
        yield _insert(len(some)), parameters
    for row in archived:
        if row.tags and row.sequence:
            yield _TAG, address_of(row)
    if archived:
        yield "UPDATE meta SET archive_next = ?", (next(place),)


def replacing(statement: Statement) -> Iterator[Statement]:
    """The same rows as one of `statements_of` writes; those whose addresses they take give way."""
    sql, parameters = statement
    assert sql.startswith(_INSERT), sql
    for begin in range(0, len(parameters), _COLUMN_COUNT):
        row = parameters[begin : begin + _COLUMN_COUNT]
        yield from removals_of([ArchiveAddress(*row[1:5])])
        yield _insert(1), row


def removals_of(addresses: Sequence[ArchiveAddress]) -> Iterator[Statement]:
    """What removes the rows at these addresses."""
    for address in addresses:
        yield f"INSERT INTO archive_gaps SELECT row FROM archive WHERE {_ADDRESS_OF_ONE}", address
        yield f"DELETE FROM archive WHERE {_ADDRESS_OF_ONE}", address


def read_archive(connection: SqliteConnection, path: Path) -> Iterator[Archived]:
    """Every row, in the order in which they were filed, each checked."""
    with damage_named(path):
        for row in connection.execute(f"SELECT {_COLUMNS} FROM archive ORDER BY row"):
            yield checked_row(path, row)


def trim_archive(
    connection: SqliteConnection, before_ms: int, rows_kept_max: int | None, rows_max: int
) -> int:
    """Delete the oldest rows, with their payloads. Rows are counted by their numbers, not one by
    one: a row that was replaced is counted at both places until the older one would be trimmed."""
    oldest = connection.execute(
        "SELECT row, finished_at_ms < ? OR row <= (SELECT max(row) FROM archive) - ?"
        " FROM archive ORDER BY row LIMIT ?",
        (before_ms, NUMBER_MAX if rows_kept_max is None else rows_kept_max, rows_max),
    ).fetchall()
    doomed = [row for row, _ in takewhile(itemgetter(1), oldest)]
    if not doomed:
        return 0
    rows = trim_payloads(connection, doomed)
    first = rows[-1] + 1
    connection.execute("DELETE FROM archive WHERE row < ?", (first,))
    connection.execute("DELETE FROM archive_gaps WHERE row < ?", (first,))
    connection.execute("UPDATE meta SET archive_first = max(archive_first, ?)", (first,))
    return len(rows)


def checked_row(path: Path, row: tuple[Any, ...]) -> Archived:
    """The row with these columns; one that is not as it was written is Corrupt."""
    place, kind, namespace, name, number, status, finished_at_ms, key, dead, *rest = row
    sequence, tags, checksum, body = rest
    archived = Archived(
        kind=kind,
        namespace=namespace,
        name=name,
        number=number,
        status=status,
        finished_at_ms=finished_at_ms,
        key=key,
        body=body,
        dead=bool(dead),
        sequence=sequence,
        tags=_tags(path, place, tags),
    )
    if checksum != (actual := archived_checksum(archived)):
        raise Corrupt(
            f"{path}: archive row {place} ({kind} {name}-{number} in {namespace!r}) is "
            f"damaged: expected checksum {checksum}, got {actual}"
        )
    return archived


def _tags(path: Path, place: int, tags: Any) -> tuple[str, ...]:
    try:
        return _decode_tags(tags) if tags is not None else ()
    except (msgspec.DecodeError, TypeError) as error:
        raise Corrupt(f"{path}: archive row {place} is damaged: {error}") from error


@cache
def _insert(count: int) -> str:
    values = ", ".join([f"({', '.join('?' * _COLUMN_COUNT)})"] * count)
    return f"{_INSERT} ({_COLUMNS}) VALUES {values}"


@cache
def _union(parts: tuple[str, ...]) -> str:
    """The rows that are newest of what all these parts find, a few of each."""
    together = " UNION ".join(f"SELECT row, sequence FROM ({part})" for part in parts)
    return f"SELECT row FROM ({together}) ORDER BY sequence DESC LIMIT ?"


def _encode_tags(tags: tuple[str, ...]) -> str:
    return msgspec.json.encode(tags).decode()


@cache
def _select_keys(count: int) -> str:
    wanted = ", ".join(["(?, ?, ?)"] * count)
    return (
        f"WITH wanted (namespace, name, key) AS (VALUES {wanted})"
        " SELECT wanted.namespace, wanted.name, wanted.key, number"
        " FROM wanted CROSS JOIN archive USING (namespace, name, key)"
        " WHERE kind = ? ORDER BY row"
    )


def _portions(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    begin = 0
    for size in _sizes(len(items)):
        yield items[begin : begin + size]
        begin += size


@lru_cache
def _sizes(count: int) -> list[int]:
    """Sizes of statements for so many rows."""
    sizes: list[int] = []
    for size in ROWS_PER_STATEMENT:
        sizes += [size] * (count // size)
        count %= size
    return sizes
