"""Large payloads in the SQLite file of a log, read in a thread of its own.

A payload is there from the append that makes its run, for as long as the run is live or the archive
has its row.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import msgspec

from flo.log.jobs import JobThread
from flo.log.sqlite.file import Connect, SqliteConnection, damage_named, open_to_read
from flo.model.errors import Corrupt
from flo.model.storage.archive import ArchiveAddress
from flo.model.storage.payloads import LargePayload

Statement: TypeAlias = tuple[str, Sequence[Any]]

PAYLOADS_PER_TRIM = 4
"""A trim lets go of so many at a time: commits wait while their pages are freed."""

_ADDRESS = "kind = ? AND namespace = ? AND name = ? AND number = ?"
_INSERT = (
    "INSERT INTO payloads (kind, namespace, name, number, checksum, body) VALUES (?, ?, ?, ?, ?, ?)"
)
_DELETE = f"DELETE FROM payloads WHERE {_ADDRESS}"
_encode = msgspec.msgpack.Encoder().encode


class SqlitePayloads:
    """Read over a connection that writes nothing."""

    def __init__(self, path: Path, connect: Connect) -> None:
        self._path = path
        self._connection = open_to_read(path, connect)
        self._reader = JobThread(f"the payloads of {path}")

    async def find(self, address: ArchiveAddress) -> bytes | None:
        return await self._reader.do(self._find, address)

    async def count(self) -> int:
        return await self._reader.do(self._count)

    async def close(self) -> None:
        await self._reader.stop()
        self._connection.close()

    def _find(self, address: ArchiveAddress) -> bytes | None:
        with damage_named(self._path):
            row = self._connection.execute(
                f"SELECT checksum, body FROM payloads WHERE {_ADDRESS}", address
            ).fetchone()
        if row is None:
            return None
        return _checked(self._path, address, row)

    def _count(self) -> int:
        with damage_named(self._path):
            (count,) = self._connection.execute("SELECT count(*) FROM payloads").fetchone()
        return int(count)


def read_payloads(connection: SqliteConnection, path: Path) -> Iterator[ArchiveAddress]:
    """The runs that have a payload of their own, each of these checked."""
    with damage_named(path):
        rows = connection.execute(
            "SELECT kind, namespace, name, number, checksum, body FROM payloads"
        )
        for *address, checksum, body in rows:
            _checked(path, ArchiveAddress(*address), (checksum, body))
            yield ArchiveAddress(*address)


def payload_inserts(payloads: Sequence[LargePayload]) -> Iterator[Statement]:
    """What writes these payloads; their checksums are taken as each is asked for."""
    for address, body in payloads:
        yield _INSERT, (*address, _checksum(address, body), body)


def payload_removals(addresses: Sequence[ArchiveAddress]) -> Iterator[Statement]:
    """What removes the payloads of these runs, if they have one."""
    for address in addresses:
        yield _DELETE, address


def trim_payloads(connection: SqliteConnection, rows: Sequence[int]) -> list[int]:
    """Delete the payloads of these rows of the archive, some at a time; the rows that are done."""
    found = connection.execute(
        "SELECT archive.row, payloads.row FROM archive CROSS JOIN payloads"
        " USING (kind, namespace, name, number)"
        " WHERE archive.row IN (SELECT value FROM json_each(?))"
        f" ORDER BY archive.row LIMIT {PAYLOADS_PER_TRIM}",
        (row_list(rows),),
    ).fetchall()
    for _, payload in found:
        connection.execute("DELETE FROM payloads WHERE row = ?", (payload,))
    if len(found) < PAYLOADS_PER_TRIM:
        return list(rows)
    return [row for row in rows if row <= found[-1][0]]


def row_list(rows: Sequence[int]) -> str:
    """Row numbers as a statement is given them."""
    return msgspec.json.encode(rows).decode()


def _checksum(address: ArchiveAddress, body: bytes) -> int:
    return crc32(body, crc32(_encode(address)))


def _checked(path: Path, address: ArchiveAddress, row: tuple[Any, Any]) -> bytes:
    checksum, body = row
    where = f"{path}: the payload of {address.kind} {address.name}-{address.number}"
    if [int, bytes] != [type(value) for value in row]:
        raise Corrupt(f"{where} is damaged: its values are not of the types that were written")
    if checksum != (actual := _checksum(address, body)):
        raise Corrupt(f"{where} is damaged: expected checksum {checksum}, got {actual}")
    return bytes(body)
