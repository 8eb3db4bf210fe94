"""A real door on a free port, before a real shard whose clock is in the test's hand.

To open a door takes longer than most tests, so the tests of a module share one; the shard behind
it is new for each of them.
"""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest
import pytest_asyncio

from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.server.http.doors import Bounds, HttpDoor, ServerInfo
from flo.server.metrics import Metrics
from flo.shard.loop import Shard
from flo.testing.clock import NOON_MS, ManualClock


class HttpWorld:
    """A door, the shard behind it, and a client before it."""

    def __init__(self, bounds, engine, budget=None):
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.shard = None
        self.problem = None
        info = ServerInfo(
            version="1.2.3",
            started_at_ms=NOON_MS,
            store="memory",
            durability="sync",
            address="127.0.0.1:9000",
            data_dir=None,
            now_ms=lambda: self.clock.now_ms(),
            problem=lambda: self.problem,
            counters=lambda: {"pending_runs": 4},
        )
        engine = engine or ShardOf(self)
        self.door = HttpDoor(engine, info, self.metrics, "127.0.0.1", 0, bounds, budget=budget)

    @asynccontextmanager
    async def with_new_shard(self):
        self.clock = ManualClock()
        self.shard = Shard(State(), MemoryLog(), self.clock, watcher=self.metrics)
        self.problem = None
        await self.shard.start()
        yield self
        await self.shard.stop()

    async def ask(self, method, path, **options):
        """The status and the body of the answer."""
        answer = await self.client.request(method, f"/api/v1{path}", **options)
        return answer.status_code, answer.json() if answer.content else None

    async def get(self, path, /, **params):
        return await self.ask("GET", path, params=params)

    async def post(self, path, body=None, /, **params):
        return await self.ask("POST", path, json=body, params=params)

    async def put(self, path, body=None, /, **params):
        return await self.ask("PUT", path, json=body, params=params)

    async def delete(self, path, /, **params):
        return await self.ask("DELETE", path, params=params)

    async def until(self, condition):
        """Let the loop turn until this holds."""
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 (nobody would set the event)
                await asyncio.sleep(0)

    async def until_waiting(self, count):
        """Until so many long polls are parked."""
        await self.until(lambda: len(self.shard._polls.everyone()) == count)

    async def send_raw(self, data):
        """All that comes back for these bytes, until the door hangs up."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.door.port)
        writer.write(data)
        answer = await reader.read()
        writer.close()
        return answer


class ShardOf:
    """The engine that is the world's shard of the moment."""

    def __init__(self, world):
        self.world = world

    async def ask(self, message, caller=None, keys=None):
        return await self.world.shard.ask(message)


@asynccontextmanager
async def open_door(bounds=None, engine=None, budget=None):
    world = HttpWorld(bounds or Bounds(), engine, budget)
    await world.door.start()
    base_url = f"http://127.0.0.1:{world.door.port}"
    async with httpx.AsyncClient(base_url=base_url, verify=False) as world.client:
        yield world
    await world.door.stop()


@asynccontextmanager
async def open_world(bounds=None, engine=None, budget=None):
    async with open_door(bounds, engine, budget) as world, world.with_new_shard():
        yield world


@pytest.fixture
def open_http():
    """For a test that wants a door for itself, another engine, or other bounds."""
    return open_world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_door():
    async with open_door() as world:
        yield world


@pytest_asyncio.fixture(loop_scope="module")
async def http(shared_door):
    async with shared_door.with_new_shard():
        yield shared_door


@pytest_asyncio.fixture(loop_scope="module")
async def mail(http):
    """The world, with an action that sends mail."""
    await http.post("/actions", {"name": "send-mail"})
    return http
