"""What there is to count in a running server."""

import pytest

from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.groups import Ack, CreateGroup, GroupSettings, JoinGroup, Nack, ReadGroup
from flo.model.kv import DeleteKey, PutKey
from flo.model.runs import Claim, Invoke
from flo.model.streams import Append, CreateStream, DeleteStream, NewRecord, TrimStream
from flo.server.config import ServerConfig
from flo.server.counts import Counts
from flo.server.metrics import Metrics
from flo.server.upkeep import Upkeep
from flo.shard.loop import Shard
from flo.testing.clock import NOON_MS, ManualClock


class World:
    """A shard, and what is counted of it."""

    def __init__(self):
        clock, log, self.metrics = ManualClock(), MemoryLog(), Metrics()
        self.shard = Shard(State(), log, clock)
        upkeep = Upkeep(self.shard, log, None, None, clock, ServerConfig())
        self.counts = Counts(self.shard, log, upkeep)
        self.counts.show_in(self.metrics)

    async def ask(self, *messages):
        for message in messages:
            await self.shard.ask(message)

    def shown(self, *names):
        """What is shown under these names, in their order."""
        lines = dict(
            line.rsplit(" ", 1) for line in self.metrics.exposition().decode().splitlines()
        )
        return [float(lines[name]) for name in names]


@pytest.fixture
async def world():
    world = World()
    await world.shard.start()
    yield world
    await world.shard.stop()


STREAMS = ("flo_streams", "flo_stream_records", "flo_stream_records_appended")
GROUPS = ("flo_group_lag", "flo_group_pending", "flo_group_waiting", "flo_group_dead")
RECORDS = [NewRecord(payload=b"{}")] * 5


def of_group(message, **fields):
    return message(stream="events", group="mailers", **fields)


async def test_where_nothing_is_nothing_is_counted(world):
    assert world.shown(*STREAMS, *GROUPS, "flo_keys") == [0] * 8


async def test_records_are_counted_as_they_come_and_go(world):
    await world.ask(
        Append(stream="events", records=RECORDS),
        Append(stream="events", records=RECORDS, namespace="prod"),
        CreateStream(stream="empty"),
    )
    assert world.shown(*STREAMS) == [3, 10, 10]
    await world.ask(TrimStream(stream="events", max_length=2))
    assert world.shown(*STREAMS) == [3, 7, 10]
    await world.ask(DeleteStream(stream="events"))
    assert world.shown(*STREAMS) == [2, 5, 5]


async def test_what_is_on_its_way_through_groups_is_counted(world):
    await world.ask(
        Append(stream="events", records=RECORDS),
        of_group(CreateGroup, settings=GroupSettings(max_deliveries=1)),
        CreateGroup(stream="events", group="others"),
        of_group(JoinGroup, consumer="anna"),
        of_group(ReadGroup, consumer="anna", limit=4),
    )
    assert world.shown(*GROUPS) == [1 + 5, 4, 0, 0]
    await world.ask(
        of_group(Ack, ids=[f"{NOON_MS}-1"]),
        of_group(Nack, ids=[f"{NOON_MS}-2", f"{NOON_MS}-3"], delay_ms=1_000),
        of_group(Nack, ids=[f"{NOON_MS}-4"]),
    )
    assert world.shown(*GROUPS) == [6, 0, 3, 0]
    await world.ask(of_group(ReadGroup, consumer="anna"))
    assert world.shown(*GROUPS) == [5, 1, 2, 1]


async def test_keys_are_counted_in_all_namespaces(world):
    await world.ask(
        PutKey(key="a", value=b""),
        PutKey(key="b", value=b""),
        PutKey(key="a", value=b"", namespace="prod"),
        DeleteKey(key="b"),
    )
    assert world.shown("flo_keys") == [2]


async def test_the_server_tells_how_much_there_is(world):
    await world.ask(
        RegisterAction(name="send"),
        Invoke(action="send"),
        Invoke(action="send"),
        Claim(worker_id="anna", actions=["send"]),
        CreateStream(stream="events"),
        PutKey(key="a", value=b""),
    )
    assert world.counts.all() == {
        "pending_runs": 1,
        "running_runs": 1,
        "workers": 0,
        "streams": 1,
        "keys": 1,
        "log_position": 12,
        "snapshot_position": 0,
    }
