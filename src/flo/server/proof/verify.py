"""Proves that a data folder holds what was written: the log by its chain, the rest by the log.

    segments ─┐ each entry has the SHA-256 of the one before it
    log      ─┘        │ replay
    snapshots ◂────────┤ the state at their position has the same fingerprint
    archive   ◂────────┘ every row is what the event of its run leads to

What is older than the log is kept has a checksum only: a signed checkpoint of that time proves it.
Nothing is changed, and a server may be running.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from flo.engine.codec import EVENT_CODEC
from flo.engine.machine import ARCHIVES, REMOVALS, apply
from flo.engine.runs.events import LateReportNoted
from flo.engine.runs.records import address_in_archive
from flo.engine.state import State
from flo.log.segments import SegmentFolder, snapshot_of
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.archive import read_archive
from flo.log.sqlite.checks import check_store, check_while_used
from flo.log.sqlite.entries import log_start
from flo.log.sqlite.file import SqliteConnection, read_meta
from flo.log.sqlite.history import read_history, verify_history
from flo.log.sqlite.payloads import read_payloads
from flo.log.sqlite.records import read_records
from flo.model.base import Event
from flo.model.errors import Corrupt
from flo.model.ids import parse_run_id
from flo.model.storage.archive import ArchiveAddress, Archived, address_of
from flo.shard.replay import collection_paused, state_from
from flo.shard.snapshot import fingerprint
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER, SNAPSHOT_FOLDER

_encode = msgspec.msgpack.Encoder().encode


class Verified(NamedTuple):
    """What was looked at, and found to be whole."""

    begin: int
    """The index of the first event that is kept."""
    position: int
    digest: str
    """The SHA-256 that the next entry will be chained to."""
    segments: int
    snapshots: int
    archived: int
    archived_proved: int
    """Of the rows of the archive: those that were compared with their events."""
    records: int
    payloads: int


class Verifier:
    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / LOG_FILE
        self._segments = SegmentFolder(data_dir / SEGMENT_FOLDER)
        self._snapshots = SnapshotFolder(data_dir / SNAPSHOT_FOLDER)

    def verify(self) -> Verified:
        """Look at all of it; the first thing that is wrong is Corrupt, and named."""
        self._check_store()
        link = verify_history(self._path, self._segments)
        with closing(self._unchanging()) as connection, collection_paused():
            end = read_meta(connection, self._path).position
            filed = self._replay(end)
            archived, proved = filed.compare(read_archive(connection, self._path), self._path)
            return Verified(
                begin=self._begin(),
                position=end,
                digest=link.digest.hex(),
                segments=len(self._segments.segments()),
                snapshots=len(self._snapshots.positions()),
                archived=archived,
                archived_proved=proved,
                records=sum(len(one.records) for one in read_records(connection, self._path)),
                payloads=sum(1 for _ in read_payloads(connection, self._path)),
            )

    def _check_store(self) -> None:
        found = check_store(self._path)
        for loss in (found.loss, found.archive_loss, check_while_used(self._path)):
            if loss is not None:
                raise loss.refusal()

    def _unchanging(self) -> SqliteConnection:
        """A connection that sees one state of the file, whatever a server writes meanwhile."""
        uri = f"{self._path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        connection.execute("BEGIN")
        return connection

    def _begin(self) -> int:
        firsts = [segment.first for segment in self._segments.segments()]
        return min([*firsts, log_start(self._path)])

    def _replay(self, end: int) -> "FiledByEvents":
        """Live through all that is kept once more, past every snapshot on the way."""
        filed = FiledByEvents()
        state = self._first_state()
        known = self._snapshot_prints()
        for first, _, events in read_history(
            self._path, self._segments, EVENT_CODEC, state.position
        ):
            if first >= end:
                break
            for event in events[max(state.position - first, 0) :]:
                if state.position in known:
                    self._compare(state, known)
                filed.note(state, event)
                apply(state, event)
        self._compare(state, known)
        return filed

    def _first_state(self) -> State:
        """The oldest that replay can begin with."""
        for segment in self._segments.segments():
            return state_from(segment.first, snapshot_of(segment))
        for position in self._snapshots.positions() if log_start(self._path) else ():
            return state_from(position, self._snapshots.chunks(position))
        return State()

    def _snapshot_prints(self) -> dict[int, list[tuple[Path, str]]]:
        """What snapshots say that the state was, by their positions."""
        prints: dict[int, list[tuple[Path, str]]] = {}
        for at in self._snapshots.positions():
            state = state_from(at, self._snapshots.chunks(at))
            prints.setdefault(at, []).append((self._snapshots.path_of(at), fingerprint(state)))
        for segment in self._segments.segments():
            state = state_from(segment.first, snapshot_of(segment))
            prints.setdefault(segment.first, []).append((segment.path, fingerprint(state)))
        return prints

    def _compare(self, state: State, known: dict[int, list[tuple[Path, str]]]) -> None:
        for path, expected in known.pop(state.position, ()):
            if fingerprint(state) != expected:
                raise Corrupt(
                    f"{path}: the snapshot at index {state.position} is not what the entries "
                    "before it lead to",
                    code="snapshot_changed",
                )


class FiledByEvents:
    """The rows of the archive that events lead to, each by a digest."""

    def __init__(self) -> None:
        self._rows: dict[ArchiveAddress, bytes | None] = {}
        """None where the row was filed anew with what only the archive knew."""

    def note(self, state: State, event: Event) -> None:
        """What follows on an event, as the state is before it."""
        kind = type(event)
        if kind in ARCHIVES:
            for row in ARCHIVES[kind](state, event):
                self._file(address_of(row), sha256(_encode(row)).digest())
        elif kind in REMOVALS:
            self._rows.pop(REMOVALS[kind](state, event), None)
        elif isinstance(event, LateReportNoted):
            space = state.spaces[event.namespace]
            parsed = parse_run_id(event.run_id)
            if parsed is not None and event.run_id not in space.runs:
                self._file(address_in_archive(space.archive_name, *parsed), None)

    def _file(self, address: ArchiveAddress, digest: bytes | None) -> None:
        self._rows.pop(address, None)  # the order is that of the archive
        self._rows[address] = digest

    def compare(self, archive: Iterator[Archived], path: Path) -> tuple[int, int]:
        """How many rows there are, and how many are known by their events."""
        count = proved = 0
        there: set[ArchiveAddress] = set()
        for row in archive:
            count += 1
            address = address_of(row)
            if address not in self._rows:
                continue
            there.add(address)
            expected = self._rows[address]
            if expected is not None:
                proved += 1
                if expected != sha256(_encode(row)).digest():
                    raise _changed(path, address, "is not what its events lead to")
        self._check_complete(there, path)
        return count, proved

    def _check_complete(self, there: set[ArchiveAddress], path: Path) -> None:
        """The oldest go first: behind one that is there, none may be missing."""
        has_begun = False
        for address in self._rows:
            if address in there:
                has_begun = True
            elif has_begun:
                raise _changed(path, address, "is missing, and its events say that it was filed")


def _changed(path: Path, address: ArchiveAddress, how: str) -> Corrupt:
    return Corrupt(
        f"{path}: the archive row of {address.kind} {address.name}-{address.number} in "
        f"{address.namespace!r} {how}",
        code="archive_changed",
    )
