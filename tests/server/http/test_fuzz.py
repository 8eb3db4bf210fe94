"""Whatever comes through the HTTP door that is no request of ours, the server is none the worse.

random bytes         no HTTP at all
changed requests     requests that must be refused, changed in a few bytes
hostile bodies       whole requests with bodies that cannot be right
"""

import asyncio
import logging
from random import Random

import pytest
from structlog.testing import capture_logs

import workflow_attacks
from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.groups import JoinGroup, ReadGroup
from flo.model.kv import PutKey
from flo.model.runs import Claim, Invoke
from flo.model.streams import Append, NewRecord
from flo.server.http.doors import HttpDoor, ServerInfo
from flo.server.metrics import Metrics
from flo.shard.loop import Shard
from flo.shard.snapshot import fingerprint
from flo.testing.clock import NOON_MS, ManualClock

SEEDS = range(10)
CASES_PER_SEED = 5_000
TURNS_PER_CASE = 4

REFUSED = [
    b"GET /health",
    b"GET /nowhere",
    b"GET /api/v1/namespaces?limit=0",
    b"GET /api/v1/namespaces/nowhere",
    b"POST /api/v1/namespaces",
    b"DELETE /api/v1/namespaces/nowhere?force=true",
    b"DELETE /api/v1/namespaces/default?force=true",
    b"GET /api/v1/actions?limit=0",
    b"GET /api/v1/actions/nobody",
    b"GET /api/v1/runs/nobody-7",
    b"GET /api/v1/workers/nobody?namespace=nowhere",
    b"PUT /api/v1/actions/nobody",
    b"DELETE /api/v1/actions/nobody",
    b"POST /api/v1/actions/nobody/invoke?priority=300",
    b"POST /api/v1/runs/nobody-7/cancel",
    b"GET /api/v1/actions/nobody/dlq?limit=0",
    b"POST /api/v1/actions/nobody/dlq/requeue",
    b"DELETE /api/v1/actions/nobody/dlq",
    b"POST /api/v1/actions/nobody/dlq/nobody-7/requeue",
    b"DELETE /api/v1/actions/nobody/dlq/nobody-7",
    b"GET /api/v1/workers/nobody/notifications?block_ms=300001",
    b"POST /api/v1/workers/nobody/heartbeat",
    b"POST /api/v1/workers/nobody/drain",
    b"POST /api/v1/tasks/nobody-1/complete",
    b"POST /api/v1/tasks/nobody-1/fail",
    b"POST /api/v1/tasks/nobody-1/touch",
    b"GET /api/v1/streams?limit=0",
    b"POST /api/v1/streams",
    b"GET /api/v1/streams/nobody",
    b"PUT /api/v1/streams/nobody",
    b"DELETE /api/v1/streams/nobody",
    b"GET /api/v1/streams/nobody/records?after=x&block_ms=1",
    b"POST /api/v1/streams/nobody/trim",
    *[
        b"POST /api/v1/streams/!!!!!!!!!!!!" + route
        for route in (
            b"/records",
            b"/groups/!!!!!!!!!!!!",
            b"/groups/!!!!!!!!!!!!/join",
            b"/groups/!!!!!!!!!!!!/leave",
            b"/groups/!!!!!!!!!!!!/read",
            b"/groups/!!!!!!!!!!!!/ack",
            b"/groups/!!!!!!!!!!!!/nack",
            b"/groups/!!!!!!!!!!!!/touch",
            b"/groups/!!!!!!!!!!!!/claim",
            b"/groups/!!!!!!!!!!!!/dlq/requeue",
        )
    ],
    b"GET /api/v1/streams/nobody/groups",
    b"GET /api/v1/streams/nobody/groups/nobody/pending",
    b"GET /api/v1/streams/nobody/groups/nobody/dlq",
    b"DELETE /api/v1/streams/nobody/groups/nobody/dlq",
    b"DELETE /api/v1/streams/nobody/groups/nobody",
    b"GET /api/v1/kv?limit=0",
    b"GET /api/v1/kv/nobody/%FF%2F//../%00?wait_ms=300001",
    b"GET /api/v1/kv/nobody/history?limit=0",
    b"GET /api/v1/kv/nobody/json?path=$.a",
    b"DELETE /api/v1/kv/nobody/json?path=$.a",
    b"POST /api/v1/kv/nobody/expire",
    b"PUT /api/v1/kv/" + b"k" * 5_000,
    b"PUT /api/v1/kv/" + b"k" * 5_000 + b"/json",
    b"POST /api/v1/kv/" + b"k" * 5_000 + b"/increment",
    b"POST /api/v1/kv-get",
    b"POST /api/v1/kv-transactions",
]
"""What is refused, and stays so when a few bytes are changed: names that cannot be by far."""
BODIES = [
    b"",
    b"{}",
    b"null",
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b'{"worker_id":',
    b'{"worker_id": 3}',
    b'{"worker_id":"w","unknown":1}',
    b'{"worker_id":"w","attempt":1e999}',
    b'{"worker_id":"\xff\xfe"}',
    b'{"worker_id":"\\ud800"}',
    b'{"run_ids":["nobody-7","\xff"],"limit":0}',
    b'{"run_ids":[],"limit":1e999}',
    b'{"input_schema":' + b'{"not":' * 20_000,
    b'{"reason":7}',
    b'{"consumer":"anna","ids":["\xff"]}',
    b'{"consumer":"anna","limit":0}',
    b'{"name":"!!!!!!!!!!!!"}',
    b'{"ids":[],"limit":1e999}',
    b'{"records":[{}]}',
    b'{"payload":"%","payload_encoding":"base64"}',
    b'{"ttl_ms":0}',
    b'{"keys":[]}',
    b'{"changes":[{"type":"put","key":"","value":' + b"[" * 20_000,
    b'{"checks":[{"key":"nobody","version":7}],"changes":[{"type":"delete","key":"nobody"}]}',
    b"\x00" * 300,
]

REFUSED += workflow_attacks.REFUSED_OVER_HTTP
BODIES += workflow_attacks.HTTP_BODIES


class Fuzzer:
    """Makes up what a hostile caller might send, always the same from the same seed."""

    def __init__(self, seed):
        self._rng = Random(seed)

    def case(self):
        return self._rng.choice([self.noise, self.changed, self.changed, self.hostile])()

    def noise(self):
        return self._rng.randbytes(self._rng.choice([1, 4, 16, 200]))

    def changed(self):
        """A request that is refused as it is, with a few bytes changed, cut or put in."""
        data = bytearray(self.hostile()[:2_000])
        for _ in range(self._rng.randint(1, 4)):
            place = self._rng.randrange(len(data))
            match self._rng.randrange(4):
                case 0:
                    data[place] ^= 1 << self._rng.randrange(8)
                case 1:
                    del data[place + 1 :]
                case 2:
                    del data[place : place + self._rng.randint(1, 9)]
                case 3:
                    data[place:place] = self._rng.randbytes(self._rng.randint(1, 9))
            data = data or bytearray(b"G")
        return bytes(data)

    def hostile(self):
        body = self._rng.choice(BODIES)
        length = self._rng.choice([str(len(body)), str(len(body)), "-1", "99999999999", "x"])
        return (
            self._rng.choice(REFUSED)
            + b" HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            + f"content-length: {length}\r\n\r\n".encode()
            + body
        )


class Wire(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = bytearray()
        self._is_closing = False

    def write(self, data):
        self.written += data

    def is_closing(self):
        return self._is_closing

    def close(self):
        self._is_closing = True

    abort = close

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


@pytest.fixture
async def world():
    """A door before a shard in which there is something of everything."""
    clock, metrics = ManualClock(), Metrics()
    shard = Shard(State(), MemoryLog(), clock, watcher=metrics)
    await shard.start()
    info = ServerInfo(
        version="1", started_at_ms=NOON_MS, store="memory", durability="sync", address="",
        data_dir=None, now_ms=clock.now_ms, problem=lambda: None, counters=dict,
    )  # fmt: skip
    door = HttpDoor(shard, info, metrics, "127.0.0.1", 0)
    await door.start()
    for message in (
        RegisterAction(name="send"),
        Invoke(action="send", input=b"{}"),
        Invoke(action="send", input=b"{}"),
        Claim(worker_id="anna", actions=["send"]),
        Append(stream="events", records=[NewRecord(payload=b"{}")]),
        JoinGroup(stream="events", group="mailers", consumer="anna"),
        ReadGroup(stream="events", group="mailers", consumer="anna"),
        PutKey(key="config", value=b"{}"),
    ):
        await shard.ask(message)
    for message in workflow_attacks.FILL:
        await shard.ask(message)
    yield door, shard
    await door.stop()
    await shard.stop()


async def send(door, data):
    """What the door answers to these bytes, on a connection of their own."""
    protocol, wire = door.accept(), Wire()
    protocol.connection_made(wire)
    protocol.data_received(data)
    for _ in range(TURNS_PER_CASE):
        await asyncio.sleep(0)
    protocol.connection_lost(None)
    return bytes(wire.written)


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_hostile_changes_anything_or_breaks_anything(world, seed, caplog):
    door, shard = world
    fuzzer = Fuzzer(seed)
    before = fingerprint(shard.state)

    with capture_logs() as logged, caplog.at_level(logging.WARNING):
        answers = [await send(door, fuzzer.case()) for _ in range(CASES_PER_SEED)]

    broken = [answer for answer in answers if answer.startswith(b"HTTP/1.1 5")]
    assert broken == []
    assert sum(answer.startswith(b"HTTP/1.1 4") for answer in answers) > CASES_PER_SEED / 3
    assert fingerprint(shard.state) == before
    assert [line for line in logged if line["log_level"] in ("error", "critical")] == []
    assert caplog.records == []
    assert (await send(door, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")).startswith(
        b"HTTP/1.1 200"
    )


async def test_a_request_that_does_change_something_is_noticed(world):
    door, shard = world
    before = fingerprint(shard.state)

    body = b'{"name":"print"}'
    head = (
        f"POST /api/v1/actions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    answer = b""
    protocol, wire = door.accept(), Wire()
    protocol.connection_made(wire)
    protocol.data_received(head.encode() + body)
    while not answer:
        await asyncio.sleep(0)
        answer = bytes(wire.written)
    protocol.connection_lost(None)

    assert answer.startswith(b"HTTP/1.1 201")
    assert fingerprint(shard.state) != before
