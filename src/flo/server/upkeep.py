"""Keeps the data folder small and restarts short: snapshots and retention.

A snapshot is taken by a process of its own. The log is trimmed behind the older of the two
snapshots that are kept, so that a damaged one can be done without; what is trimmed stays in
segments for a while. Streams are trimmed by their
retention; what has been trimmed of them, or deleted, leaves the store a little at a time.
"""

import asyncio
import sys
from contextlib import suppress

import structlog

from flo.engine.streams.positions import trim_bounds
from flo.log.base import Log
from flo.log.segments import SegmentFolder
from flo.log.snapshots import SnapshotFolder
from flo.model.errors import FloError, NotFound, Unavailable
from flo.model.streams import KEEP_ALL, TrimStream
from flo.server.config import ServerConfig
from flo.shard.clock import Clock, ScheduledCall
from flo.shard.loop import Shard
from flo.shard.snapshotter import SEGMENT_FLAG

ROUND_MS = 1_000
HOUR_MS = 3_600_000
RETIRE_MS = 60_000
"""Segments grow old slowly: so often is enough, and after each new one."""
SEQUENCE_MAX = 2**40 - 1
STORE_FAILURES = frozenset({"log_failed", "disk_full", "data_folder_gone"})
RUNS_IN_MEMORY_MAX = 100_000
"""Finished runs kept without a store."""

_logger = structlog.get_logger("flo.upkeep")


class Upkeep:
    def __init__(
        self,
        shard: Shard,
        log: Log,
        snapshots: SnapshotFolder | None,
        segments: SegmentFolder | None,
        clock: Clock,
        config: ServerConfig,
    ) -> None:
        self._shard = shard
        self._log = log
        self._clock = clock
        self._config = config
        self._snapshots = snapshots
        self._segments = segments
        self._segment_end = segments.end() if segments is not None else 0
        """How far segments reach."""
        self._retire_at_ms = 0
        self._snapshot_position = max(self._positions(), default=0)
        self._process: asyncio.subprocess.Process | None = None
        self._alarm: ScheduledCall | None = None
        self._round: asyncio.Task[None] | None = None
        self._kept: dict[int, int] | None = None
        """The streams of which the store has something, and where each begins there."""

    @property
    def snapshot_position(self) -> int:
        return self._snapshot_position

    async def start(self) -> None:
        self._alarm = self._clock.call_at(self._clock.now_ms() + ROUND_MS, self._begin_round)

    async def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self._round is not None:
            self._round.cancel()
            with suppress(asyncio.CancelledError):
                await self._round
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _begin_round(self) -> None:
        self._round = asyncio.create_task(self._go_round(), name="upkeep")

    async def _go_round(self) -> None:
        try:
            if self._is_snapshot_due():
                await self.take_snapshot()
            await self.retain_streams()
            await self.trim()
            if self._clock.now_ms() >= self._retire_at_ms:
                self.retire_segments()
            await self.trim_records()
        except (FloError, OSError) as error:
            _logger.warning("upkeep_failed", error=str(error))
            if isinstance(error, Unavailable) and error.code in STORE_FAILURES:
                self._give_up(error)
        if self._shard.closed is None:
            await self.start()

    def _give_up(self, error: Unavailable) -> None:
        """The store has failed, though no append has met that yet."""
        if self._shard.closed is None:
            self._shard.fail(error)

    def _is_snapshot_due(self) -> bool:
        if self._snapshots is None:
            return False
        new = self._log.position - self._snapshot_position
        spaces = self._shard.state.spaces.values()
        live = sum(len(space.runs) + len(space.kv) for space in spaces)
        return new >= max(self._config.snapshot_events, live // 2)

    async def take_snapshot(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "flo.shard.snapshotter",
            str(self._config.data_dir),
            *((SEGMENT_FLAG,) if self._config.keeps_segments else ()),
            stderr=asyncio.subprocess.PIPE,
        )
        _, complaints = await self._process.communicate()
        if self._process.returncode:
            last = complaints.decode(errors="replace").strip().rpartition("\n")[-1]
            _logger.error("snapshot_failed", exit_code=self._process.returncode, error=last)
            return
        self._snapshot_position = max(self._positions(), default=0)
        if self._segments is not None:
            self._segment_end, self._retire_at_ms = self._segments.end(), 0
        _logger.info("snapshot_taken", position=self._snapshot_position)

    async def trim(self) -> None:
        """Forget what retention allows, a little at a time."""
        events_below = await self._events_below()
        hours = self._config.archive_retention_hours
        before_ms = self._clock.now_ms() - int(hours * HOUR_MS) if hours else 0
        while True:
            trimmed = await self._log.trim(
                events_below=events_below,
                archived_before_ms=before_ms,
                archived_max=self._archived_max(),
            )
            if not any(trimmed):
                return

    def retire_segments(self) -> None:
        """Let go of the oldest segments."""
        self._retire_at_ms = self._clock.now_ms() + RETIRE_MS
        if self._segments is None:
            return
        hours = self._config.segment_retention_hours
        retired = self._segments.retire(
            before_ms=self._clock.now_ms() - int(hours * HOUR_MS),
            bytes_max=self._config.segment_retention_bytes if self._config.keeps_segments else 0,
        )
        if retired:
            _logger.info("segments_retired", count=retired)

    async def retain_streams(self) -> None:
        """Trim the streams that have outgrown their retention."""
        now_ms = self._clock.now_ms()
        outgrown = [
            command
            for namespace, space in self._shard.state.spaces.items()
            for name, stream in space.streams.items()
            if stream.retention is not KEEP_ALL
            and trim_bounds(stream, command := TrimStream(stream=name, namespace=namespace), now_ms)
        ]
        for command in outgrown:
            with suppress(NotFound):  # it was deleted meanwhile
                await self._shard.ask(command)

    async def trim_records(self) -> None:
        """Let the store go of what streams have been trimmed of, and of deleted streams."""
        if self._kept is None:
            self._kept = await self._log.records.streams()
        spaces = self._shard.state.spaces.values()
        now = {stream.number: stream.first for space in spaces for stream in space.streams.values()}
        now |= dict.fromkeys(self._shard.state.journals, 1)
        below = {number: SEQUENCE_MAX for number in self._kept if number not in now}
        below |= {
            number: first for number, first in now.items() if first > self._kept.get(number, 1)
        }
        await self._shard.written()  # what has not been trimmed for good must not be gone
        while below and (await self._log.trim(records_below=below)).records:
            pass
        self._kept = now

    def _archived_max(self) -> int | None:
        kept = self._config.archive_retention_runs
        if self._snapshots is None:
            return min(kept or RUNS_IN_MEMORY_MAX, RUNS_IN_MEMORY_MAX)
        return kept or None

    def _positions(self) -> list[int]:
        return self._snapshots.positions() if self._snapshots is not None else []

    async def _events_below(self) -> int:
        """What neither of the two snapshots needs, less what is to be kept all the same.

        What is to be in a segment, and is in none yet, is kept.
        """
        if self._snapshots is None:
            return self._log.position  # nothing is ever read back from memory
        positions = sorted(self._positions())
        if len(positions) < 2:
            return 0
        hours = self._config.log_retention_hours
        young = await self._log.position_at(self._clock.now_ms() - int(hours * HOUR_MS))
        count = self._log.position - self._config.log_retention_events
        below = min(positions[-2], young if hours else positions[-2], count)
        if self._segments is not None and self._config.keeps_segments:
            return min(below, self._segment_end)
        return below
