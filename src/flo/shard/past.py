"""The state as it was at any position that is kept: the nearest snapshot before it, and replay."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from flo.engine.codec import EVENT_CODEC
from flo.engine.state import State
from flo.log.segments import SegmentFolder, snapshot_of
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.entries import log_start
from flo.log.sqlite.history import read_history, read_kept
from flo.model.errors import Corrupt, NotFound
from flo.shard.replay import collection_paused, replay, state_from
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER, SNAPSHOT_FOLDER


class PastState(NamedTuple):
    state: State
    position: int
    at_ms: int
    """The time of the last entry in it; 0 if there is none."""
    snapshot_position: int
    """How far the snapshot reached that it was built on."""


class _Beginning(NamedTuple):
    """A snapshot that replay can begin with."""

    position: int
    chunks: Callable[[], Iterator[bytes]]


class Past:
    """What a data folder tells of the past; a server may be writing to it."""

    def __init__(self, data_dir: Path) -> None:
        self._log = data_dir / LOG_FILE
        self._segments = SegmentFolder(data_dir / SEGMENT_FOLDER)
        self._snapshots = SnapshotFolder(data_dir / SNAPSHOT_FOLDER)

    def state_at(self, position: int) -> PastState:
        """The state as it was before the event at `position`.

        A position before all that is kept is NotFound (`trimmed`), one that the log has not
        reached is NotFound (`not_reached`).
        """
        with collection_paused():
            state, begin = self._nearest(position)
            entries = read_history(self._log, self._segments, EVENT_CODEC, begin)
            reached = replay(state, entries, begin, position)
        if reached.position < position:
            raise NotFound(
                f"expected a position up to {reached.position}, where the log ends, got {position}",
                code="not_reached",
            )
        return PastState(state, reached.position, reached.at_ms, begin)

    def position_after(self, at_ms: int) -> int:
        """Where the log stood when this time was over: after every entry of it or before.

        A time before all that is kept is NotFound (`trimmed`).
        """
        segments = self._segments.segments()
        holds = (one.first for one in segments if one.last_at_ms > at_ms)
        newest = max(self._segments.end(), log_start(self._log))
        position = begin = next(holds, newest)
        for entry in read_kept(self._log, self._segments, begin):
            if entry.at_ms > at_ms:
                if position == begin > 0 and (not segments or begin == segments[0].first):
                    raise NotFound(
                        f"expected a time from {entry.at_ms} on, where what is kept begins, "
                        f"got {at_ms}",
                        code="trimmed",
                    )
                break
            position = entry.end
        return position

    def _nearest(self, position: int) -> tuple[State, int]:
        """The state to begin with; one that is damaged gives way to the one before it."""
        problems = []
        for beginning in sorted(self._beginnings(position), reverse=True, key=lambda one: one[0]):
            try:
                return state_from(beginning.position, beginning.chunks()), beginning.position
            except (Corrupt, FileNotFoundError) as error:
                problems.append(str(error))
        if problems:
            raise Corrupt(f"no snapshot at or before index {position} is whole: {problems[0]}")
        return State(), 0

    def _beginnings(self, position: int) -> Iterator[_Beginning]:
        for segment in self._segments.segments():
            if segment.first <= position:
                yield _Beginning(segment.first, partial(snapshot_of, segment))
        for at in self._snapshots.positions():
            if at <= position:
                yield _Beginning(at, partial(self._snapshots.chunks, at))
