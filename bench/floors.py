"""What the machine can do at best: a commit of the store alone, an echo over the socket alone."""

import asyncio
import sqlite3
import time
from pathlib import Path

from bench.figure import quantile

COMMITS = 500
ECHOES = 2_000
BODY_LENGTH = 100


def commit_seconds(folder: Path, rows: int = 1) -> list[float]:
    """How long bare commits of so many small rows in one blob take, on the same store."""
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS log (first INTEGER PRIMARY KEY, body BLOB)")
    body = b"x" * BODY_LENGTH * rows
    taken = []
    for _ in range(COMMITS):
        began = time.perf_counter()
        connection.execute("INSERT INTO log (body) VALUES (?)", (body,))
        taken.append(time.perf_counter() - began)
    connection.close()
    return taken


def commit_p50(folder: Path, rows: int = 1) -> float:
    return quantile(commit_seconds(folder, rows), 0.5)


def grouped_rate(folder: Path, group: int) -> float:
    """Entries per second if all the work were a bare commit for every `group` of them."""
    taken = commit_seconds(folder, group)
    return group * len(taken) / sum(taken)


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


async def echo_p50() -> float:
    """The round trip of a small message over loopback, with nothing behind it."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    taken = []
    for _ in range(ECHOES):
        began = time.perf_counter()
        writer.write(b"x" * BODY_LENGTH)
        await reader.readexactly(BODY_LENGTH)
        taken.append(time.perf_counter() - began)
    writer.close()
    server.close()
    return quantile(taken, 0.5)
