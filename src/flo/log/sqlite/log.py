"""The log in one SQLite file (WAL), the embedded default.

    writer          one thread, one connection: a transaction per append, synced before it returns
    archive         two threads, two connections: looks finished runs up, and lists them
    records         one thread, one connection: reads the records of streams
    checkpointer    one thread, one connection: copies the WAL into the database file

The WAL is copied while commits go on. Once it is past its bound, the writer copies the small rest
between two commits and begins the WAL anew, so its size stays bounded under endless load. Until
then its file grows; a sync that has to note the new size takes twice as long, so it grows by large
pieces, between two commits.

An append that failed is reported as failed and nothing is ever written again; whether it is there
after a restart depends on how far it came, but it is there as a whole or not at all.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from flo.log.base import Codec, LogEntry, LogTrimmed
from flo.log.checksums import link_after
from flo.log.jobs import JobThread
from flo.log.segments import SegmentFolder
from flo.log.sqlite.archive import SqliteArchive, Statement, removals_of, statements_of
from flo.log.sqlite.entries import read_log
from flo.log.sqlite.file import (
    Connect,
    SqliteConnection,
    damage_named,
    default_connect,
    open_to_write,
    read_meta,
)
from flo.log.sqlite.history import read_history
from flo.log.sqlite.records import SqliteRecords, inserts_of, trim_records
from flo.model.base import Event
from flo.model.errors import Unavailable
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.records import Chunk

WAL_BYTES_MAX = 16 * 1024 * 1024
ROOM_BYTES_MAX = 512 * 1024
QUICK_S_MAX = 0.002
"""A disk that has taken longer for the last append is not waited for by the caller."""
ROW_MAX = 2**63 - 1

_CHECKPOINTS_PER_WAL = 4
_ROOMS_PER_WAL = 32
_WAL_BYTES_PER_COMMIT = 16 * 1024
"""About what a commit adds to the WAL beside its bodies: pages of tables and indexes."""

_BYTES_SMALL = 3 * _WAL_BYTES_PER_COMMIT
"""An append of more has so much to write that the size of the file makes no difference."""
_PAGES_CACHED = 500

_BEGIN: Statement = ("BEGIN IMMEDIATE", ())
_COMMIT: Statement = ("COMMIT", ())
_INSERT = "INSERT INTO log (first, count, at_ms, checksum, digest, body) VALUES (?, ?, ?, ?, ?, ?)"


class SqliteLog:
    """One log in one file, for one writing process."""

    def __init__(
        self,
        path: Path,
        codec: Codec,
        *,
        connect: Connect = default_connect,
        wal_bytes_max: int = WAL_BYTES_MAX,
        segments: SegmentFolder | None = None,
    ) -> None:
        self._path = path
        self._segments = segments
        self._codec = codec
        self._connect = connect
        self._wal_path = path.with_name(f"{path.name}-wal")
        self._wal_bytes_max = wal_bytes_max
        self._wal_bytes_new = 0
        self._wal_bytes_made = 0
        self._room_bytes = min(ROOM_BYTES_MAX, wal_bytes_max // _ROOMS_PER_WAL)
        self._checkpointing = False
        self._making_room = False
        self._is_quick = False
        self._failure: Exception | None = None
        self._closed = False
        self._writing = open_to_write(path, connect)
        meta = read_meta(self._writing, path)
        self._start, self._position = meta.start, meta.position
        self._link = meta.position_link
        self._last_at_ms = self._newest_at_ms()
        self._copying = open_to_write(path, connect)
        self._copying.execute("PRAGMA busy_timeout = 0").fetchall()
        self.archive = SqliteArchive(path, connect)
        self.records = SqliteRecords(path, connect)
        self._writer = JobThread(f"the log {path}")
        self._checkpointer = JobThread(f"the checkpointer of {path}")

    @property
    def position(self) -> int:
        return self._position

    @property
    def start(self) -> int:
        return self._start

    @property
    def last_at_ms(self) -> int:
        return self._last_at_ms if self._start < self._position else 0

    def append(
        self,
        events: Sequence[Event],
        archived: Sequence[Archived],
        at_ms: int,
        *,
        removed: Sequence[ArchiveAddress] = (),
        chunks: Sequence[Chunk] = (),
        here: bool = False,
    ) -> asyncio.Future[int]:
        assert events
        self._check_usable()
        first, count, body = self._position, len(events), self._codec.encode(events)
        link = link_after(self._link, first, count, at_ms, body)
        insert = (_INSERT, (first, count, at_ms, *link, body))
        records = list(inserts_of(chunks))
        statements = [
            _BEGIN,
            insert,
            *removals_of(removed),
            *statements_of(archived),
            *records,
            _COMMIT,
        ]
        size = len(body) + sum(len(row.body) for row in archived)
        size += sum(len(parameters[-1]) for _, parameters in records)
        self._position, self._link = first + count, link
        self._last_at_ms = at_ms
        do = self._writer.do_here if here and self._is_quick else self._writer.do
        return do(self._commit, statements, size, self._position)

    def read(self, position: int) -> Iterator[LogEntry]:
        if self._segments is None:
            return read_log(self._path, self._codec, position, connect=self._connect)
        return read_history(
            self._path, self._segments, self._codec, position, connect=self._connect
        )

    async def position_at(self, at_ms: int) -> int:
        return await self._writer.do(self._position_at, at_ms)

    async def trim(
        self,
        *,
        events_below: int = 0,
        archived_before_ms: int = 0,
        archived_max: int | None = None,
        records_below: Mapping[int, int] | None = None,
        rows_max: int = 1_000,
    ) -> LogTrimmed:
        return await self._writer.do(
            self._trim,
            events_below,
            archived_before_ms,
            archived_max,
            records_below or {},
            rows_max,
        )

    async def checkpoint(self) -> None:
        """Copy the whole WAL into the database file; appends go on meanwhile."""
        await self._checkpointer.do(self._checkpoint, "PASSIVE")
        await self._writer.do(self._checkpoint, "RESTART")

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._writer.stop()
        await self.archive.close()
        await self.records.close()
        self._writing.close()
        with suppress(Unavailable):  # nothing is lost: what was not copied stays in the WAL
            await self._checkpointer.do(self._checkpoint, "TRUNCATE")
        await self._checkpointer.stop()
        self._copying.close()

    def _commit(self, statements: Sequence[Statement], size: int, position: int) -> int:
        self._check_usable()
        began_s = monotonic()
        try:
            for sql, parameters in statements:
                self._writing.execute(sql, parameters)
        except Exception as error:
            raise self._failed(error) from error
        self._is_quick = monotonic() - began_s < QUICK_S_MAX
        self._count_written(size + _WAL_BYTES_PER_COMMIT)
        return position

    def _position_at(self, at_ms: int) -> int:
        """By halving: times never go back along the log, and there is no index on them."""
        with damage_named(self._path):
            meta = read_meta(self._writing, self._path)  # `_position` may be ahead of it
            below, above = meta.start, meta.position
            while below < above:
                first, count, entry_at_ms = self._writing.execute(
                    "SELECT first, count, at_ms FROM log WHERE first <= ?"
                    " ORDER BY first DESC LIMIT 1",
                    ((below + above) // 2,),
                ).fetchone()
                if entry_at_ms >= at_ms:
                    above = first
                else:
                    below = first + count
        return above

    def _newest_at_ms(self) -> int:
        """The time of the last entry, if it is whole; clocks are put by it."""
        if self._start == self._position:
            return 0
        return next(self.read(self._position - 1)).at_ms

    def _trim(
        self,
        events_below: int,
        archived_before_ms: int,
        archived_max: int | None,
        records_below: Mapping[int, int],
        rows_max: int,
    ) -> LogTrimmed:
        self._check_usable()
        start_before = self._start
        try:
            self._writing.execute(*_BEGIN)
            start = _trim_events(self._writing, events_below, rows_max) or start_before
            archived = _trim_archive(self._writing, archived_before_ms, archived_max, rows_max)
            records = trim_records(self._writing, records_below, rows_max)
            self._writing.execute(*_COMMIT)
        except Exception as error:
            raise self._failed(error) from error
        self._start = start
        self._count_written(_WAL_BYTES_PER_COMMIT)
        return LogTrimmed(events=start - start_before, archived=archived, records=records)

    def _make_room(self) -> None:
        """Let the WAL file grow by a transaction that is taken back: too large for the cache, it
        is written as it goes."""
        with suppress(Unavailable):  # the next append says so
            self._check_usable()
            try:
                for sql, parameters in (
                    ("PRAGMA cache_size = 1", ()),
                    _BEGIN,
                    (_INSERT, (ROW_MAX, 1, 0, 0, b"", bytes(self._room_bytes))),
                    ("ROLLBACK", ()),
                    (f"PRAGMA cache_size = {_PAGES_CACHED}", ()),
                ):
                    self._writing.execute(sql, parameters).fetchall()
            except Exception as error:
                raise self._failed(error) from error
            self._wal_bytes_made = self._wal_path.stat().st_size
        self._making_room = False

    def _wants_room(self, size: int) -> bool:
        """Whether an append of this size has made the WAL file grow."""
        if self._making_room or size > _BYTES_SMALL:
            return False
        try:
            return self._wal_path.stat().st_size > self._wal_bytes_made
        except OSError:
            return False  # it is only about speed; what is wrong, the next append finds out

    def _count_written(self, size: int) -> None:
        if self._wants_room(size):
            self._making_room = True
            self._writer.post(self._make_room)
        self._wal_bytes_new += size
        due = self._wal_bytes_new * _CHECKPOINTS_PER_WAL >= self._wal_bytes_max
        if due and not self._checkpointing:
            self._wal_bytes_new = 0
            self._checkpointing = True
            self._checkpointer.post(self._keep_wal_bounded)

    def _keep_wal_bounded(self) -> None:
        with suppress(Unavailable):  # the next append says so
            if self._checkpoint("PASSIVE") > self._wal_bytes_max:
                self._checkpoint("PASSIVE")  # what came in meanwhile
                self._writer.post(self._begin_wal_anew)
                return
        self._checkpointing = False

    def _begin_wal_anew(self) -> None:
        """Copy the small rest between two commits, so that the next one overwrites the WAL.

        A reader that still needs the WAL is not waited for: the next time will do.
        """
        with suppress(Unavailable):
            self._checkpoint("RESTART")
        self._checkpointing = False

    def _checkpoint(self, mode: str) -> int:
        """Copy what the WAL holds into the database file; return the WAL's size before that."""
        self._check_usable()
        try:
            _, pages, _ = self._copying.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            (page_size,) = self._copying.execute("PRAGMA page_size").fetchone()
        except Exception as error:
            raise self._failed(error) from error
        return int(pages * page_size)

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise self._failed(self._failure) from self._failure

    def _failed(self, cause: Exception) -> Unavailable:
        """From now on nothing is written: a sync that failed is never tried again."""
        self._failure = cause
        return Unavailable(
            f"{self._path} takes no more writes, because one has failed: {cause}; "
            f"see to the disk, then restart the server",
            code="log_failed",
        )


def _trim_events(connection: SqliteConnection, below: int, rows_max: int) -> int | None:
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


def _trim_archive(
    connection: SqliteConnection, before_ms: int, rows_kept_max: int | None, rows_max: int
) -> int:
    """Delete the oldest rows. Rows are counted by their numbers, not one by one: a row that was
    replaced is counted at both places until the older one would be trimmed."""
    connection.execute(
        "DELETE FROM archive WHERE row IN ("
        " SELECT row FROM (SELECT row, finished_at_ms FROM archive ORDER BY row LIMIT ?)"
        " WHERE finished_at_ms < ? OR row <= (SELECT max(row) FROM archive) - ?)",
        (rows_max, before_ms, ROW_MAX if rows_kept_max is None else rows_kept_max),
    )
    (count,) = connection.execute("SELECT changes()").fetchone()
    return int(count)
