"""Whatever comes through the RPC door that is not a command, the server is none the worse for it.

random bytes        before and after the hello
damaged frames      frames of every operation, changed after they were given their checksum
hostile bodies      whole frames whose bodies are hostile, and cannot be commands by construction
refused commands    commands of the right shape that the rules must refuse
hostile commands    commands about what is there, with one thing in them that nobody can take
"""

import logging
import math
from random import Random

import msgspec
import pytest
from structlog.testing import capture_logs

import workflow_attacks
from flo.core.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.errors import FloError
from flo.model.runs import Claim, GetRun, Invoke
from flo.model.workers import RegisterWorker
from flo.server.metrics import Metrics
from flo.server.tcp import Listener
from flo.shard.shard import Shard
from flo.shard.snapshot import fingerprint
from flo.testing.clock import ManualClock
from flo.wire.codec import decode_reply, encode_request
from flo.wire.frame import FrameReader, write_frame
from flo.wire.opcodes import BY_NAME, OPERATIONS, Hello
from rpc import opened_door
from settled import settled

SEEDS = range(10)
CASES_PER_SEED = 5_500
CASES_PER_SOCKET_SEED = 300
TURNS_PER_CASE = 8
"""A caller stays for so many turns of the loop, which is long enough to be answered."""

HELLO_FRAME = encode_request(1, BY_NAME["hello"], [Hello(protocol=1)])
QUESTION_FRAME = encode_request(2, BY_NAME["get_run"], [GetRun(run_id="send-1")])
pack = msgspec.msgpack.encode


class Fuzzer:
    """Makes up what a hostile caller might send, always the same from the same seed."""

    def __init__(self, seed):
        self._dice = Random(seed)
        self._kinds = [
            self.random_bytes,
            self.random_bytes_after_the_hello,
            self.damaged_frame,
            self.hostile_body,
            self.hostile_bytes,
            self.refused_command,
            self.hostile_command,
            self.hostile_word_about_workflows,
        ]

    def case(self):
        return self._dice.choice(self._kinds)()

    def pieces(self, data):
        """The bytes as they arrive: mostly in one piece."""
        if self._dice.random() < 0.8:
            return [data]
        place = self._dice.randint(0, len(data))
        return [data[:place], data[place:]]

    def random_bytes(self):
        return self._dice.randbytes(self._dice.choice([0, 1, 7, 8, 9, 40, 300]))

    def random_bytes_after_the_hello(self):
        return HELLO_FRAME + self.random_bytes()

    def damaged_frame(self):
        """A frame that the checksum, or its end that never comes, gives away."""
        operation = self._dice.choice(OPERATIONS)
        body = self._body(operation)
        frame = write_frame(pack([self._number(), operation.opcode, body]))
        return HELLO_FRAME + self._changed(frame)

    def hostile_body(self):
        """A frame without a flaw; its body has a field that nobody knows."""
        operation = self._dice.choice(OPERATIONS)
        return HELLO_FRAME + write_frame(
            pack([self._number(), operation.opcode, self._poisoned(operation)])
        )

    def hostile_bytes(self):
        """A body changed before it was given its checksum, or never made of msgpack at all."""
        operation = self._dice.choice(OPERATIONS)
        head = pack([self._number(), operation.opcode, None])[:-1]
        body = self._dice.choice(
            [
                self._changed(pack(self._poisoned(operation))),
                b"\x91" * self._dice.choice([10, 500, 100_000]) + b"\xc0",
                b"\x81\xa6labels" * self._dice.choice([10, 500, 50_000]) + b"\xc0",
                b"\xdd\xff\xff\xff\xff",
                b"\xdf\xff\xff\xff\xff",
                b"\xdb\xff\xff\xff\xff" + self.random_bytes(),
                b"\xc6\xff\xff\xff\xff",
                b"\xc9\xff\xff\xff\xff\x05",
                b"\x81\xa6action\xa3\xed\xa0\x80",
                b"\x81\xa6action\xa2\xff\xfe",
                b"\x81\xa6act\xffon\xa4send",
                b"\xc1",
                b"",
            ]
        )
        return HELLO_FRAME + write_frame(head + body)

    def refused_command(self):
        """A command for a namespace in which nothing is, or one with a name that cannot be."""
        name = self._dice.choice(list(REFUSED))
        known = {field.name for field in msgspec.structs.fields(BY_NAME[name].request)}
        fields = dict(REFUSED[name])
        if "namespace" in known:
            fields["namespace"] = self._dice.choice(["nowhere", "", "a b", "x" * 99])
        for field in self._dice.sample(list(WILD), self._dice.randint(0, 2)):
            if field in known:
                fields[field] = self._dice.choice(WILD[field])
        body = [fields] * self._dice.randint(0, 3) if BY_NAME[name].many else fields
        return HELLO_FRAME + write_frame(pack([self._number(), BY_NAME[name].opcode, body]))

    def hostile_command(self):
        name, fields = self._dice.choice(HOSTILE)
        return HELLO_FRAME + write_frame(pack([self._number(), BY_NAME[name].opcode, fields]))

    def hostile_word_about_workflows(self):
        return frames_of(*self._dice.choice(workflow_attacks.HOSTILE))

    def _body(self, operation):
        fields = {field.name: self._value(2) for field in msgspec.structs.fields(operation.request)}
        return [fields] if operation.many else fields

    def _poisoned(self, operation):
        """A body whose every map has a field that nobody knows."""
        body = self._body(operation)
        for fields in body if operation.many else [body]:
            fields["a field that no word of ours has"] = self._value(1)
        return body

    def _value(self, depth):
        if depth and self._dice.random() < 0.2:
            inner = [self._value(depth - 1) for _ in range(self._dice.randint(0, 3))]
            return self._dice.choice([inner, {str(place): one for place, one in enumerate(inner)}])
        return self._dice.choice(VALUES)

    def _changed(self, data):
        """The same bytes but for a few: never longer at the end, never as they were."""
        changed = bytearray(data)
        while changed == data:
            place = self._dice.randrange(len(data))
            match self._dice.randrange(5):
                case 0:
                    changed[place] ^= 1 << self._dice.randrange(8)
                case 1:
                    changed[place] = self._dice.randrange(256)
                case 2:
                    del changed[place:]
                case 3:
                    del changed[place : place + self._dice.randint(1, 9)]
                case 4:
                    changed[place:place] = self._dice.randbytes(self._dice.randint(1, 9))
            if not changed:
                changed = bytearray(data)
        return bytes(changed)

    def _number(self):
        return self._dice.choice([0, 1, 2, 7, -1, 2**63, 2**64 - 1, -(2**63)])


VALUES = [
    None,
    True,
    0,
    -1,
    1,
    255,
    2**31,
    2**63,
    2**64 - 1,
    -(2**63),
    0.0,
    -0.0,
    1e308,
    math.nan,
    math.inf,
    "",
    "send",
    "send-1",
    "default",
    "anna",
    "\0",
    "\U0010ffff",
    "x" * 5_000,
    b"",
    b"\xff" * 300,
    [],
    {},
    msgspec.msgpack.Ext(5, b"ext"),
]

REFUSED = {
    "register_action": {"name": "not a name"},
    "delete_action": {"name": "nobody"},
    "get_action": {"name": "nobody"},
    "list_actions": {},
    "enable_action": {"name": "nobody"},
    "disable_action": {"name": "nobody"},
    "invoke": {"action": "nobody"},
    "invoke_many": {"action": "nobody"},
    "claim": {"worker_id": "mallory", "actions": ["nobody"]},
    "complete": {"run_id": "nobody-1", "worker_id": "mallory"},
    "complete_many": {"run_id": "nobody-1", "worker_id": "mallory"},
    "fail": {"run_id": "nobody-1", "worker_id": "mallory"},
    "touch": {"run_id": "nobody-1", "worker_id": "mallory"},
    "cancel": {"run_id": "nobody-1"},
    "requeue_dead": {"action": "nobody"},
    "purge_dead": {"action": "nobody"},
    "get_run": {"run_id": "nobody-1"},
    "wait_for_runs": {"run_ids": ["nobody-1", "", "-", "x" * 999, "9" * 5_000], "block_ms": 0},
    "list_runs": {"action": "nobody"},
    "list_dead": {"action": "nobody"},
    "register_worker": {"worker_id": "not an id", "actions": ["send"]},
    "heartbeat": {"worker_id": "mallory"},
    "drain_worker": {"worker_id": "mallory"},
    "deregister_worker": {"worker_id": "mallory"},
    "get_worker": {"worker_id": "mallory"},
    "list_workers": {},
    "await_news": {"worker_id": "mallory"},
    "create_namespace": {"name": "default"},
    "delete_namespace": {"name": "nowhere", "force": True},
    "get_namespace": {"name": "nowhere"},
    "list_namespaces": {},
}
"""Words of the right shape that change nothing in a namespace where nothing is."""

NUMBERS = [-1, 0, 1, 2**31, 2**63, 2**64 - 1, -(2**63)]
WILD = {
    "cursor": ["", "x", "-1", "9" * 19, "9" * 5_000, "²", "\0"],
    "limit": NUMBERS,
    "block_ms": NUMBERS,
    "max_tasks": NUMBERS,
    "priority": NUMBERS,
    "delay_ms": NUMBERS,
    "attempt": NUMBERS,
    "extend_ms": NUMBERS,
    "timeout_ms": NUMBERS,
    "max_retries": NUMBERS,
    "current_load": NUMBERS,
    "max_concurrency": NUMBERS,
    "idempotency_key": ["", "k", "k" * 10_000, "\0"],
    "labels": [{}, {"": ""}, {"n": math.nan}, {"n": math.inf}, {"n": 2**64 - 1}, {"k" * 9_999: 1}],
    "actions": [[], ["send"] * 1_001, [""], ["x" * 9_999]],
    "error": ["", "e" * 100_000],
    "input": [b"", b"\xff" * 100_000],
    "status": ["pending", "cancelled"],
    "reason": ["", "r" * 100_000],
    "after": NUMBERS,
    "run_ids": [[], [""], ["nobody-1"] * 2_000, ["send-" + "9" * 18], ["x" * 99_999]],
    "dead_letter": [True, False],
    "force": [True, False],
    "metadata": [{}, {"gpu": True}, {"n": math.nan}],
    "incarnation": ["", "i" * 100_000],
    "worker_type": ["action", "stream"],
}


def nested(depth, key="not"):
    value = {}
    for _ in range(depth):
        value = {key: value}
    return value


METADATA = [
    {"m": "x" * 100_000},
    {"m": math.nan},
    {"m": [-math.inf]},
    {"m": b"raw"},
    {"m": {1: 2}},
    {"m": {(): 2}},
    {"m": msgspec.msgpack.Ext(5, b"ext")},
    {"m": msgspec.msgpack.Ext(-1, bytes(4))},
    nested(150),
    nested(800),
]
SCHEMAS = [
    *METADATA[1:],
    {"type": "nonsense"},
    {"type": ["object", 7]},
    {"$ref": "#/nowhere"},
    {"$ref": "http://127.0.0.1:9/schema"},
    {"$ref": "file:///etc/passwd"},
    {"$schema": "http://127.0.0.1:9/schema"},
    {"pattern": "("},
    {"pattern": "((a{100}){100}){100}"},
    {"patternProperties": {"[": {}}},
    {"required": "id"},
    {"enum": ["x" * 70_000]},
]
BAD_NUMBERS = [-(2**63), -1, 0, 1_001, 2**63, 2**64 - 1]
HOSTILE = [
    *[("register_worker", {"worker_id": "anna", "actions": [], "metadata": m}) for m in METADATA],
    ("register_worker", {"worker_id": "anna", "actions": [], "incarnation": "i" * 10_000}),
    ("register_worker", {"worker_id": "anna", "actions": ["a/b/c"], "worker_type": "stream"}),
    *[("register_action", {"name": "send", "input_schema": schema}) for schema in SCHEMAS],
    *[("register_action", {"name": "send", "output_schema": schema}) for schema in SCHEMAS],
    *[
        (name, {"action": "send", **bad})
        for name in ("requeue_dead", "purge_dead")
        for bad in (
            *[{"limit": number} for number in BAD_NUMBERS],
            {"run_ids": []},
            {"run_ids": ["send-1"]},
            {"run_ids": ["send-3"]},
            {"run_ids": ["send-1", "print-1", "", "-", "x" * 9_999]},
            {"run_ids": ["send-1"] * 5_000},
            {"run_ids": [f"send-{number}" for number in range(5_000)]},
        )
    ],
    *[("list_dead", {"action": "send", "limit": number}) for number in BAD_NUMBERS],
    ("list_dead", {"action": "send", "cursor": "9" * 5_000}),
    *[("await_news", {"worker_id": "anna", "block_ms": number}) for number in (-1, 2**63)],
    *[("await_news", {"worker_id": "anna", "block_ms": 0, "after": n}) for n in (*NUMBERS, 2**63)],
    ("await_news", {"worker_id": "anna", "block_ms": 300_000}),
    *[("cancel", {"run_id": run_id}) for run_id in ("send-9", "", "-", "send-0", "9" * 5_000)],
    ("cancel", {"run_id": "send-1", "reason": "r" * 100_000}),
    *[("create_namespace", {"name": name}) for name in ("default", "", "a~1", "a/b", "x" * 9_999)],
    *[("delete_namespace", {"name": name, "force": True}) for name in ("default", "", "a~1")],
]
"""Words about an action, a worker and runs that are there: refused, or a look and nothing more."""


class MemoryTransport:
    """A transport that goes nowhere: what the server writes is kept, and it may hang up."""

    def __init__(self):
        self.written = bytearray()
        self.closed = False

    def get_extra_info(self, name):
        return None

    def write(self, data):
        assert not self.closed
        self.written += data

    def close(self):
        self.closed = True

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class Target:
    """A door and its shard, which knows an action, a worker, and two runs."""

    def __init__(self):
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.shard = Shard(State(), self.log, self.clock)
        self.listener = Listener(self.shard, self.clock, Metrics(), "127.0.0.1", 0)

    async def start(self):
        await self.shard.start()
        for word in (
            RegisterAction(name="send"),
            RegisterWorker(worker_id="anna", actions=["send"]),
            Invoke(action="send", idempotency_key="order-7"),
            Invoke(action="send"),
            Claim(worker_id="anna", actions=["send"]),
        ):
            await self.shard.ask(word)

    async def attack(self, *pieces):
        """What the server wrote to a caller that sent these pieces, and left."""
        transport, connection = MemoryTransport(), self.listener.accept()
        connection.connection_made(transport)
        for piece in pieces:
            if not transport.closed:
                connection.data_received(piece)
        await settled(TURNS_PER_CASE)
        connection.connection_lost(None)
        return bytes(transport.written)

    async def is_healthy(self):
        await settled()
        assert self.shard.closed is None
        assert self.shard._waiters.everyone() == []
        assert not self.listener._connections
        said = replies(await self.attack(HELLO_FRAME, QUESTION_FRAME))
        return [isinstance(reply.body, FloError) for reply in said] == [False, False]


@pytest.fixture
async def target():
    target = Target()
    await target.start()
    for word in workflow_attacks.FILL:
        await target.shard.ask(word)
    yield target
    await target.shard.stop()


def replies(written):
    """What the server has said; whatever it says is whole and well-formed."""
    reader, said = FrameReader(), []
    reader.receive(written)
    while (frame := reader.next_frame()) is not None:
        said.append(decode_reply(frame))
    assert reader._start == len(written)
    return said


REFUSED |= workflow_attacks.REFUSED
WILD |= workflow_attacks.WILD


def frames_of(name, fields):
    return HELLO_FRAME + write_frame(pack([7, BY_NAME[name].opcode, fields]))


@pytest.mark.parametrize("name", sorted({name for name, _ in workflow_attacks.HOSTILE}))
async def test_a_hostile_word_about_workflows_is_refused_or_only_looks(target, name, caplog):
    before = fingerprint(target.shard.state), target.log.position
    with capture_logs() as lines, caplog.at_level(logging.WARNING):
        attacks = workflow_attacks.HOSTILE + workflow_attacks.AT_ODDS
        for fields in [fields for hostile, fields in attacks if hostile == name]:
            replies(await target.attack(frames_of(name, fields)))
            assert target.shard.closed is None, fields
            assert (fingerprint(target.shard.state), target.log.position) == before, fields
        assert await target.is_healthy()

    assert lines == []
    assert caplog.records == []


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_that_is_no_command_changes_anything(target, seed, caplog):
    fuzzer, before = Fuzzer(seed), (fingerprint(target.shard.state), target.log.position)
    with capture_logs() as lines, caplog.at_level(logging.WARNING):
        for number in range(CASES_PER_SEED):
            case = fuzzer.case()
            try:
                replies(await target.attack(*fuzzer.pieces(case)))
            except Exception as error:
                error.add_note(f"case {number} of seed {seed}: {case[:200].hex(' ')}")
                raise
        assert await target.is_healthy()

    assert (fingerprint(target.shard.state), target.log.position) == before
    assert {line["event"] for line in lines} <= {"connection_refused"}
    assert caplog.records == []


@pytest.mark.parametrize("seed", [100, 101])
async def test_nothing_that_is_no_command_changes_anything_through_a_real_socket(seed, caplog):
    fuzzer = Fuzzer(seed)
    with capture_logs() as lines, caplog.at_level(logging.WARNING):
        async with opened_door() as door:
            before = fingerprint(door.shard.state), door.log.position
            bystander = await door.call()
            for _ in range(CASES_PER_SOCKET_SEED):
                caller = await door.connect()
                caller.write(fuzzer.case())
                await caller.hang_up()
                await caller.rest()
            await bystander.ping()
            await door.open_connections(1)

            assert (fingerprint(door.shard.state), door.log.position) == before
            assert door.shard.closed is None

    assert {line["event"] for line in lines} <= {"connection_refused"}
    assert caplog.records == []


def test_more_than_fifty_thousand_cases_are_tried():
    assert len(SEEDS) * CASES_PER_SEED >= 50_000


@pytest.mark.parametrize("name", [operation.name for operation in OPERATIONS[2:]])
def test_every_operation_is_among_the_refused_commands(name):
    assert name in REFUSED


# Controls: what the fuzzer looks for, it would find.


async def test_a_command_that_does_change_something_is_noticed(target):
    before = fingerprint(target.shard.state), target.log.position
    invoke = encode_request(2, BY_NAME["invoke"], [Invoke(action="send")])

    assert len(replies(await target.attack(HELLO_FRAME + invoke))) == 2

    assert fingerprint(target.shard.state) != before[0]
    assert target.log.position == before[1] + 1


async def test_a_server_that_has_failed_is_noticed(target):
    await target.shard.stop()

    with pytest.raises(AssertionError):
        await target.is_healthy()


def test_a_reply_that_is_cut_off_is_noticed():
    with pytest.raises(AssertionError):
        replies(HELLO_FRAME[:-1])


async def test_the_cases_reach_every_way_in_which_a_caller_is_refused(target):
    fuzzer, codes = Fuzzer(7), set()
    with capture_logs():
        for _ in range(2_000):
            for reply in replies(await target.attack(*fuzzer.pieces(fuzzer.case()))):
                codes.add(reply.body.code if isinstance(reply.body, FloError) else "accepted")

    assert codes >= {
        "accepted",
        "frame_damaged",
        "frame_too_large",
        "invalid_request",
        "action_not_found",
        "worker_not_found",
        "run_not_found",
        "invalid",
        "invalid_schema",
        "too_large",
        "not_dead",
        "namespace_not_found",
        "namespace_exists",
        "namespace_is_default",
    }
