"""Snapshot plus log gives State."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from flo.engine.machine import apply_all
from flo.engine.state import State
from flo.log.base import LogEntry
from flo.log.segments import SegmentFolder, snapshot_of
from flo.log.snapshots import SnapshotFolder
from flo.model.errors import Corrupt, NotFound
from flo.shard.snapshot import load


class Recovered(NamedTuple):
    state: State
    position: int
    """How far the state reaches: the index of the next event."""
    snapshot_position: int
    """How far the snapshot reached that it was built on; 0 if there was none."""
    damaged: list[str]
    """What is wrong with newer snapshots that could not be used."""


class Reached(NamedTuple):
    """Where a replay has got to: the index of the next event, the time of the last entry."""

    position: int
    at_ms: int


def recover(
    read: Callable[[int], Iterator[LogEntry]],
    snapshots: SnapshotFolder | None = None,
    segments: SegmentFolder | None = None,
) -> Recovered:
    """The state as of the last append: the newest whole snapshot, and what came after it.

    If no snapshot is whole, those that segments begin with are tried.
    """
    with collection_paused():
        state, position, damaged = _newest(snapshots, segments)
        try:
            reached = replay(state, read(position), position)
        except NotFound as error:
            raise Corrupt(
                f"no whole snapshot reaches as far as the log begins: {error}; "
                "restore the data folder from a backup",
                code="log_incomplete",
            ) from error
    return Recovered(state, reached.position, position, damaged)


def replay(
    state: State, entries: Iterable[LogEntry], position: int, until: int | None = None
) -> Reached:
    """Fold what came after `position`, up to a position if there is one."""
    at_ms = 0
    for first, entry_at_ms, events in entries:
        if until is not None and first >= until:
            break
        if first < position:
            events = events[position - first :]
        if until is not None:
            events = events[: until - position]
        apply_all(state, events)
        position, at_ms = position + len(events), entry_at_ms
    return Reached(position, at_ms)


def state_from(position: int, chunks: Iterable[bytes]) -> State:
    """The state of a snapshot; at the beginning of all there is none, and nothing."""
    state = load(chunks) if position else State()
    state.position = position
    return state


def _newest(
    snapshots: SnapshotFolder | None, segments: SegmentFolder | None
) -> tuple[State, int, list[str]]:
    newest, damaged = snapshots.newest() if snapshots is not None else (None, [])
    if newest is not None:
        return state_from(newest.position, newest.chunks), newest.position, damaged
    for segment in reversed(segments.segments() if segments is not None else ()):
        try:
            return state_from(segment.first, snapshot_of(segment)), segment.first, damaged
        except (Corrupt, FileNotFoundError) as error:
            damaged.append(str(error))
    return State(), 0, damaged


@contextmanager
def collection_paused() -> Iterator[None]:
    """Millions of objects are made and none is thrown away: walking them would find nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
