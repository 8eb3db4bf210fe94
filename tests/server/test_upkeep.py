"""What upkeep does with the trimmed log: kept in segments, for so long and so many bytes."""

from contextlib import asynccontextmanager

from flo.engine.codec import EVENT_CODEC
from flo.log.segments import SegmentFolder
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.log import SqliteLog
from flo.model.kv import PutKey
from flo.server.config import ServerConfig
from flo.server.upkeep import Upkeep
from flo.shard.loop import Shard
from flo.shard.past import Past
from flo.shard.replay import recover
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER, SNAPSHOT_FOLDER
from flo.testing.clock import ManualClock

HOURS_MS = 3_600_000


class House:
    """A shard on a real folder, and its upkeep."""

    def __init__(self, folder, **settings):
        self.clock = ManualClock()
        self.segments = SegmentFolder(folder / SEGMENT_FOLDER)
        self.log = SqliteLog(folder / LOG_FILE, EVENT_CODEC, segments=self.segments)
        snapshots = SnapshotFolder(folder / SNAPSHOT_FOLDER)
        recovered = recover(self.log.read, snapshots, self.segments)
        self.shard = Shard(recovered.state, self.log, self.clock)
        config = ServerConfig(data_dir=folder, **settings)
        self.upkeep = Upkeep(self.shard, self.log, snapshots, self.segments, self.clock, config)

    async def snapshots(self, count):
        """So many, with some work before each, and the log trimmed after it."""
        for _ in range(count):
            await self.shard.ask(PutKey(key="k", value=b"v"))
            await self.upkeep.take_snapshot()
            await self.upkeep.trim()


@asynccontextmanager
async def housed(folder, **settings):
    house = House(folder, **settings)
    await house.shard.start()
    try:
        yield house
    finally:
        await house.shard.stop()
        await house.log.close()


async def test_what_is_trimmed_is_in_segments(tmp_path):
    async with housed(tmp_path) as house:
        await house.snapshots(3)

        assert house.log.start > 0
        assert house.segments.segments()[0].first == 0
        assert house.segments.end() == house.log.position
        assert Past(tmp_path).state_at(1).position == 1


async def test_where_segments_begin_later_the_log_begins_no_later_than_they_do(tmp_path):
    async with housed(tmp_path, segment_retention_hours=0) as house:
        await house.snapshots(2)
    async with housed(tmp_path) as house:
        start = house.log.start
        await house.upkeep.trim()
        assert house.log.start == start  # there is no segment yet

        await house.snapshots(1)

        (segment,) = house.segments.segments()
        assert start < house.log.start <= segment.first


async def test_segments_grow_old(tmp_path):
    async with housed(tmp_path, segment_retention_hours=72) as house:
        await house.snapshots(1)
        house.clock.advance(71 * HOURS_MS)
        await house.snapshots(1)
        house.upkeep.retire_segments()
        assert len(house.segments.segments()) == 2

        house.clock.advance(2 * HOURS_MS)
        house.upkeep.retire_segments()

        assert [one.first for one in house.segments.segments()] > [0]


async def test_segments_take_no_more_than_they_may(tmp_path):
    async with housed(tmp_path, segment_retention_bytes=1) as house:
        await house.snapshots(3)
        house.upkeep.retire_segments()

        assert house.segments.segments() == []
        assert house.log.start > 0


async def test_without_segments_the_log_is_trimmed_and_old_segments_go(tmp_path):
    async with housed(tmp_path) as house:
        await house.snapshots(2)
        assert house.segments.segments()
    async with housed(tmp_path, segment_retention_hours=0) as house:
        await house.snapshots(2)
        house.upkeep.retire_segments()

        assert house.segments.segments() == []
        assert house.log.start > 0
