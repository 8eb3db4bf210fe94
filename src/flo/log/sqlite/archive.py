"""The archive in the SQLite file of a log, read in a thread of its own: no list delays a commit."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from flo.log.checksums import archived_checksum
from flo.log.jobs import JobThread
from flo.log.sqlite.file import Connect, damage_named, open_to_read
from flo.model.errors import Corrupt
from flo.model.ids import Namespace
from flo.model.storage.archive import ArchiveAddress, Archived, ArchiveKey

Statement: TypeAlias = tuple[str, Sequence[Any]]

ROWS_PER_STATEMENT = (256, 64, 16, 4, 1)
"""A few fixed sizes, so that every statement stays prepared and each is a single step."""
NUMBER_MAX = 2**63 - 1

_COLUMNS = "kind, namespace, name, number, status, finished_at_ms, key, dead, checksum, body"
_ADDRESS = "kind = ? AND namespace = ? AND name = ?"


class SqliteArchive:
    """Finished runs, read over a connection that writes nothing."""

    def __init__(self, path: Path, connect: Connect) -> None:
        self._path = path
        self._connection = open_to_read(path, connect)
        self._reader = JobThread(f"the archive of {path}")

    async def find(
        self, kind: str, namespace: Namespace, name: str, number: int
    ) -> Archived | None:
        found = await self._select(f"{_ADDRESS} AND number = ?", (kind, namespace, name, number))
        return found[0] if found else None

    async def find_keys(self, kind: str, keys: Sequence[ArchiveKey]) -> dict[ArchiveKey, int]:
        return await self._reader.do(self._find_keys, kind, keys)

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
        return await self._select(
            f"{_ADDRESS} AND number < ? AND status = ifnull(?, status)"
            f"{' AND dead = 1' if is_dead else ''}"
            " ORDER BY number DESC LIMIT ?",
            (kind, namespace, name, NUMBER_MAX if below is None else below, status, limit),
        )

    async def count(self) -> int:
        return await self._reader.do(self._count)

    async def close(self) -> None:
        await self._reader.stop()
        self._connection.close()

    async def _select(self, which: str, parameters: Sequence[Any]) -> list[Archived]:
        return await self._reader.do(self._rows, which, parameters)

    def _rows(self, which: str, parameters: Sequence[Any]) -> list[Archived]:
        with damage_named(self._path):
            rows = self._connection.execute(
                f"SELECT row, {_COLUMNS} FROM archive WHERE {which}", parameters
            ).fetchall()
        return [self._checked(row) for row in rows]

    def _checked(self, row: tuple[Any, ...]) -> Archived:
        place, kind, namespace, name, number, status, finished_at_ms, key, dead, checksum, body = (
            row
        )
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
        )
        if checksum != (actual := archived_checksum(archived)):
            raise Corrupt(
                f"{self._path}: archive row {place} ({kind} {name}-{number} in {namespace!r}) is "
                f"damaged: expected checksum {checksum}, got {actual}"
            )
        return archived

    def _find_keys(self, kind: str, keys: Sequence[ArchiveKey]) -> dict[ArchiveKey, int]:
        found: dict[ArchiveKey, int] = {}
        with damage_named(self._path):
            for some in _portions(keys):
                rows = self._connection.execute(
                    _select_keys(len(some)), (*(part for key in some for part in key), kind)
                )
                found.update(
                    ((namespace, name, key), number) for namespace, name, key, number in rows
                )
        return found

    def _count(self) -> int:
        with damage_named(self._path):
            (count,) = self._connection.execute("SELECT count(*) FROM archive").fetchone()
        return int(count)


def statements_of(archived: Sequence[Archived]) -> Iterator[Statement]:
    """What writes these rows; a row with the same address gives way."""
    for some in _portions(archived):
        parameters: list[Any] = []
        for row in some:
            parameters += (
                row.kind,
                row.namespace,
                row.name,
                row.number,
                row.status,
                row.finished_at_ms,
                row.key,
                row.dead,
                archived_checksum(row),
                row.body,
            )
        yield _insert(len(some)), parameters


def removals_of(addresses: Sequence[ArchiveAddress]) -> Iterator[Statement]:
    """What removes the rows at these addresses."""
    for address in addresses:
        yield f"DELETE FROM archive WHERE {_ADDRESS} AND number = ?", address


@cache
def _insert(count: int) -> str:
    values = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"] * count)
    return f"INSERT OR REPLACE INTO archive ({_COLUMNS}) VALUES {values}"


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
    for size in ROWS_PER_STATEMENT:
        while len(items) - begin >= size:
            yield items[begin : begin + size]
            begin += size
