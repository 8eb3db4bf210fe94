"""The log in one SQLite file (WAL), the embedded default.

    writer          one thread, one connection: a transaction per append, synced before it returns
    archive         two threads, two connections: looks finished runs up, and lists them
    records         one thread, one connection: reads the records of streams
    payloads        one thread, one connection: reads large payloads
    checkpointer    one thread, one connection: copies the WAL into the database file

The WAL is copied while commits go on. Once it is past its bound, the writer copies the small rest
between two commits and begins the WAL anew, so its size stays bounded under endless load. Until
then its file grows; a sync that has to note the new size takes twice as long, so it grows by large
pieces, between two commits.

A commit is acknowledged once the high-water mark, in a file of its own, knows of it too, and only
if all files were found under their names within the last second.

An append that failed is reported as failed and nothing is ever written again; whether it is there
after a restart depends on how far it came, but it is there as a whole or not at all.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from time import monotonic

from flo.log.base import Codec, LogEntry, LogTrimmed
from flo.log.checksums import Link, link_after
from flo.log.jobs import JobThread
from flo.log.mark import HighWaterMark, OpenSynced, SystemFile
from flo.log.same_files import SameFiles
from flo.log.segments import SegmentFolder
from flo.log.sqlite.archive import (
    SqliteArchive,
    Statement,
    removals_of,
    replacing,
    statements_of,
    trim_archive,
)
from flo.log.sqlite.checks import (
    ArchiveLoss,
    Loss,
    accept_missing,
    begin_mark,
    check_store,
    check_while_used,
    is_small,
    mark_path,
)
from flo.log.sqlite.entries import read_log, trim_events
from flo.log.sqlite.file import (
    Connect,
    damage_named,
    default_connect,
    is_out_of_space,
    is_taken,
    open_to_write,
    read_meta,
    read_store,
)
from flo.log.sqlite.history import read_history
from flo.log.sqlite.payloads import (
    SqlitePayloads,
    payload_inserts,
    payload_removals,
)
from flo.log.sqlite.records import SqliteRecords, inserts_of, trim_records
from flo.model.base import Event
from flo.model.errors import Corrupt, FloError, Unavailable
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.payloads import LargePayload
from flo.model.storage.records import Chunk

WAL_BYTES_MAX = 16 * 1024 * 1024
ROOM_BYTES_MAX = 512 * 1024
QUICK_S_MAX = 0.002
"""A disk that has taken longer for the last append is not waited for by the caller."""
MARK_SYNC_S = 1.0
"""So often the mark is synced: after a loss of power it is at most about so old."""
FILES_CHECKED_S = 1.0
"""What is acknowledged is in files that were still there at most so long before."""
DISK_FULL = "disk_full"
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
        open_synced: OpenSynced = SystemFile,
        mark_sync_s: float = MARK_SYNC_S,
        files_checked_s: float = FILES_CHECKED_S,
        clock: Callable[[], float] = monotonic,
        accept_loss: bool = False,
    ) -> None:
        self.loss, archive_loss = check_store(path)
        """What was missing when it was opened, if that was accepted."""
        if self.loss is not None and not accept_loss:
            raise self.loss.refusal()
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
        self._mark, self._committed = begin_mark(self._writing, path, open_synced)
        self._mark_sync_s = mark_sync_s
        self._clock = clock
        self._mark_synced_s = clock()
        self._files = SameFiles([path, self._wal_path, mark_path(path)], files_checked_s)
        self._files.check_if_due(clock())
        self._begin_at_the_end()
        self._copying = open_to_write(path, connect)
        self._copying.execute("PRAGMA busy_timeout = 0").fetchall()
        self.archive = SqliteArchive(path, connect)
        self.is_checked = is_small(path)
        """Whether all of it has been looked at; else `check` does it."""
        if archive_loss is not None and accept_loss:
            self._accept(archive_loss)
        elif archive_loss is not None:
            self.archive.distrust(archive_loss.refusal())
        self.records = SqliteRecords(path, connect)
        self.payloads = SqlitePayloads(path, connect)
        self._writer = JobThread(f"the log {path}")
        self._checkpointer = JobThread(f"the checkpointer of {path}")

    def _accept(self, archive_loss: ArchiveLoss) -> None:
        accept_missing(self._writing, archive_loss)
        end = self._position
        self.loss = self.loss or Loss("archive_incomplete", archive_loss.problem, end, end)

    def _begin_at_the_end(self) -> None:
        meta, store = (
            read_meta(self._writing, self._path),
            read_store(self._writing, self._path),
        )
        assert store is not None
        self._start, self._position = meta.start, meta.position
        self._link = meta.position_link
        self._archive_next = store.archive_next
        self._last_at_ms = self._newest_at_ms()

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
        payloads: Sequence[LargePayload] = (),
        payloads_removed: Sequence[ArchiveAddress] = (),
        here: bool = False,
    ) -> asyncio.Future[int]:
        assert events
        self._check_usable()
        first, count, body = self._position, len(events), self._codec.encode(events)
        link = link_after(self._link, first, count, at_ms, body)
        statements: list[Statement] = [_BEGIN, (_INSERT, (first, count, at_ms, *link, body))]
        size = len(body)
        if removed:
            statements += removals_of(removed)
        if archived:
            statements += statements_of(archived, self._archive_next)
            size += sum([len(row.body) for row in archived])
        if chunks:
            records = list(inserts_of(chunks))
            statements += records
            size += sum(len(parameters[-1]) for _, parameters in records)
        stored: Iterable[Statement] = ()
        if payloads or payloads_removed:
            stored = chain(payload_inserts(payloads), payload_removals(payloads_removed))
            size += sum(len(payload.body) for payload in payloads)
        self._position, self._link = first + count, link
        self._last_at_ms = at_ms
        self._archive_next += len(archived)
        do = self._writer.do_here if here and self._is_quick else self._writer.do
        return do(self._commit, chain(statements, stored, (_COMMIT,)), size, self._position, link)

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

    async def try_again(self) -> None:
        """Take appends again, if the disk was full and is not any more; else this is Unavailable.

        Nothing of an append that failed is there: it was taken back.
        """
        await self._writer.do(self._try_again)

    async def checkpoint(self) -> None:
        """Copy the whole WAL into the database file; appends go on meanwhile."""
        await self._checkpointer.do(self._checkpoint, "PASSIVE")
        await self._writer.do(self._checkpoint, "RESTART")

    async def check(self) -> None:
        """Look for damage in all of it while it is used; what is wrong is Corrupt, and named.

        From then on, what the archive does not find is answered with that.
        """
        self.is_checked = True
        checker = JobThread(f"the check of {self._path}")
        try:
            loss = await checker.do(check_while_used, self._path)
            if loss is not None:
                raise loss.refusal()
        except Corrupt as damage:
            self.archive.distrust(damage)
            raise
        finally:
            await checker.stop()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._writer.stop()
        await self.archive.close()
        await self.records.close()
        await self.payloads.close()
        self._writing.close()
        self._mark.close()
        with suppress(Unavailable):  # nothing is lost: what was not copied stays in the WAL
            await self._checkpointer.do(self._checkpoint, "TRUNCATE")
        await self._checkpointer.stop()
        self._copying.close()

    def _commit(self, statements: Iterable[Statement], size: int, position: int, link: Link) -> int:
        self._check_usable()
        began_s = self._clock()
        try:
            self._execute(statements)
            now_s = self._clock()
            self._note_commit(position, link, now_s)
        except Exception as error:
            raise self._failed(error) from error
        self._is_quick = now_s - began_s < QUICK_S_MAX
        self._sync_mark_soon(now_s)
        self._count_written(size + _WAL_BYTES_PER_COMMIT)
        return position

    def _execute(self, statements: Iterable[Statement]) -> None:
        execute = self._writing.execute
        for statement in statements:
            try:
                execute(*statement)
            except Exception as error:
                if not is_taken(error):
                    raise
                for one in replacing(statement):
                    execute(*one)

    def _note_commit(self, position: int, link: Link, now_s: float) -> None:
        """Before it is acknowledged: the files are still there, and the mark knows of it."""
        self._files.check_if_due(now_s)
        store_id, commits, *_ = self._committed
        self._committed = HighWaterMark(store_id, commits + 1, position, link)
        self._mark.write(self._committed)

    def _sync_mark_soon(self, now_s: float) -> None:
        if now_s - self._mark_synced_s >= self._mark_sync_s:
            self._mark_synced_s = now_s
            self._checkpointer.post(self._sync_mark)

    def _sync_mark(self) -> None:
        try:
            self._mark.sync()
        except Exception as error:
            self._failed(error)

    def _try_again(self) -> None:
        if self._failure is None:
            return
        if not is_out_of_space(self._failure, self._path.parent):
            raise self._failed(self._failure) from self._failure
        with suppress(Exception):  # it may have been taken back already
            self._writing.execute("ROLLBACK")
        try:
            self._grow_wal()
            self._begin_at_the_end()
            store = read_store(self._writing, self._path)
            assert store is not None
            self._committed = HighWaterMark(
                store.store_id, store.commits, self._position, self._link
            )
            self._mark.write(self._committed)
        except Exception as error:
            raise self._failed(error) from error
        self._failure = None

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
            self._files.check()
            self._writing.execute(*_BEGIN)
            start = trim_events(self._writing, events_below, rows_max) or start_before
            archived = trim_archive(self._writing, archived_before_ms, archived_max, rows_max)
            records = trim_records(self._writing, records_below, rows_max)
            if has_changed := start > start_before or archived + records > 0:
                self._writing.execute("UPDATE meta SET commits = commits + 1")
            self._writing.execute(*_COMMIT)
            if has_changed:
                self._note_commit(self._committed.position, self._committed.link, self._clock())
        except Exception as error:
            raise self._failed(error) from error
        self._start = start
        self._sync_mark_soon(self._clock())
        self._count_written(_WAL_BYTES_PER_COMMIT)
        return LogTrimmed(events=start - start_before, archived=archived, records=records)

    def _make_room(self) -> None:
        """Let the WAL file grow by a transaction that is taken back: too large for the cache, it
        is written as it goes."""
        with suppress(Unavailable):  # the next append says so
            self._check_usable()
            try:
                self._grow_wal()
            except Exception as error:
                raise self._failed(error) from error
        self._making_room = False

    def _grow_wal(self) -> None:
        for sql, parameters in (
            ("PRAGMA cache_size = 1", ()),
            _BEGIN,
            (_INSERT, (ROW_MAX, 1, 0, 0, b"", bytes(self._room_bytes))),
            ("ROLLBACK", ()),
            (f"PRAGMA cache_size = {_PAGES_CACHED}", ()),
        ):
            self._writing.execute(sql, parameters).fetchall()
        with suppress(FileNotFoundError):  # the next append says so
            self._wal_bytes_made = self._wal_path.stat().st_size

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
        if isinstance(cause, FloError):
            return Unavailable(cause.message, code=cause.code)
        if is_out_of_space(cause, self._path.parent):
            return Unavailable(
                f"{self._path} takes no more writes, because the disk is full ({cause}); make "
                "room, and they are taken again",
                code=DISK_FULL,
            )
        return Unavailable(
            f"{self._path} takes no more writes, because one has failed: {cause}; "
            f"see to the disk, then restart the server",
            code="log_failed",
        )
