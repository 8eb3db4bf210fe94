"""A data folder as a killed server leaves it: a log, segments, snapshots, an archive, records."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from flo.engine.codec import EVENT_CODEC
from flo.log.segments import SegmentFolder
from flo.log.sqlite.log import SqliteLog
from flo.model.actions import RegisterAction
from flo.model.kv import PutKey
from flo.model.runs import Cancel, Invoke
from flo.model.streams import Append, NewRecord
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER, take_snapshot

TABLES = {
    "log": "first",
    "archive": "row",
    "records": "row",
    "payloads": "row",
    "meta": "format",
}


async def make_folder(folder: Path, rounds: int = 12, *, with_segments: bool = True) -> None:
    """Live through a little of everything, with snapshots and segments on the way."""
    segments = SegmentFolder(folder / SEGMENT_FOLDER)
    log = SqliteLog(folder / LOG_FILE, EVENT_CODEC, segments=segments)
    shard = Shard(recover(log.read).state, log)
    await shard.start()
    await shard.ask(RegisterAction(name="ship"))
    for number in range(rounds):
        await shard.ask(PutKey(key=f"k{number}", value=bytes([65 + number]) * 30))
        size = 70_000 if number == 1 else 30
        invoked = await shard.ask(Invoke(action="ship", input=bytes([66]) * size))
        await shard.ask(Append(stream="orders", records=[NewRecord(payload=b"order" * 5)]))
        if number % 2 == 0:
            await shard.ask(Cancel(run_id=invoked.run_id))
        if with_segments and number in (rounds // 3, rounds // 2):
            take_snapshot(folder, with_segment=True)
    await log.checkpoint()
    if with_segments:
        await log.trim(events_below=8)
    await shard.stop()
    await log.close()


def edited(folder: Path, sql: str, *rows: tuple[Any, ...]) -> None:
    """Change what is in the database, once for each of these parameters; nobody pulls the plug."""
    with closing(sqlite3.connect(folder / LOG_FILE, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.executemany(sql, rows or [()])


def rows_of(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / LOG_FILE, isolation_level=None)) as connection:
        return connection.execute(sql).fetchall()


def content_of(folder: Path) -> str:
    """A digest of all that the database holds, as it is read; what is in no row does not count."""
    digest = sha256()
    with closing(sqlite3.connect(folder / LOG_FILE, isolation_level=None)) as connection:
        for line in connection.iterdump():
            digest.update(line.encode())
    return digest.hexdigest()


def changes_of(value: Any, choose: Callable[[int], int]) -> Iterator[Any]:
    """The same value with one bit of it changed."""
    if isinstance(value, bytes) and value:
        at = choose(len(value))
        yield value[:at] + bytes([value[at] ^ 1 << choose(8)]) + value[at + 1 :]
    elif isinstance(value, int):
        yield value ^ 1 << choose(20)
    elif isinstance(value, str) and value:
        at = choose(len(value))
        yield value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
