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
from typing import get_origin

import msgspec
import pytest
from structlog.testing import capture_logs

import workflow_attacks
from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.declare.fields import plain_types
from flo.model.errors import FloError, Unexpected
from flo.model.groups import JoinGroup, ReadGroup
from flo.model.kv import IncrementKey, PutKey
from flo.model.runs import Claim, GetRun, Invoke
from flo.model.streams import Append, NewRecord
from flo.model.workers import RegisterWorker
from flo.server.metrics import Metrics
from flo.server.rpc.listener import Listener
from flo.shard.loop import Shard
from flo.shard.snapshot import fingerprint
from flo.testing.clock import ManualClock
from flo.wire.codec import decode_reply, encode_refusal, encode_request
from flo.wire.frame import FrameReader, write_frame
from flo.wire.opcodes import BY_NAME, FORMS, Hello
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
        self._rng = Random(seed)
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
        return self._rng.choice(self._kinds)()

    def pieces(self, data):
        """The bytes as they arrive: mostly in one piece."""
        if self._rng.random() < 0.8:
            return [data]
        place = self._rng.randint(0, len(data))
        return [data[:place], data[place:]]

    def random_bytes(self):
        return self._rng.randbytes(self._rng.choice([0, 1, 7, 8, 9, 40, 300]))

    def random_bytes_after_the_hello(self):
        return HELLO_FRAME + self.random_bytes()

    def damaged_frame(self):
        """A frame that the checksum, or its end that never comes, gives away."""
        operation = self._rng.choice(FORMS)
        body = self._body(operation)
        frame = write_frame(pack([self._number(), operation.opcode, body]))
        return HELLO_FRAME + self._changed(frame)

    def hostile_body(self):
        """A frame without a flaw; its body has a field that nobody knows."""
        operation = self._rng.choice(FORMS)
        return HELLO_FRAME + write_frame(
            pack([self._number(), operation.opcode, self._poisoned(operation)])
        )

    def hostile_bytes(self):
        """A body changed before it was given its checksum, or never made of msgpack at all."""
        operation = self._rng.choice(FORMS)
        head = pack([self._number(), operation.opcode, None])[:-1]
        body = self._rng.choice(
            [
                self._changed(pack(self._poisoned(operation))),
                b"\x91" * self._rng.choice([10, 500, 100_000]) + b"\xc0",
                b"\x81\xa6labels" * self._rng.choice([10, 500, 50_000]) + b"\xc0",
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
        name = self._rng.choice(list(REFUSED))
        known = {field.name for field in msgspec.structs.fields(BY_NAME[name].request)}
        fields = dict(REFUSED[name])
        if "namespace" in known:
            fields["namespace"] = self._rng.choice(["nowhere", "", "a b", "x" * 99])
        for field in self._rng.sample(list(WILD), self._rng.randint(0, 2)):
            if field in known:
                fields[field] = self._rng.choice(WILD[field])
        body = [fields] * self._rng.randint(0, 3) if BY_NAME[name].many else fields
        return HELLO_FRAME + write_frame(pack([self._number(), BY_NAME[name].opcode, body]))

    def hostile_command(self):
        return command_frames(*self._rng.choice(HOSTILE))

    def hostile_word_about_workflows(self):
        return frames_of(*self._rng.choice(workflow_attacks.HOSTILE))

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
        if depth and self._rng.random() < 0.2:
            inner = [self._value(depth - 1) for _ in range(self._rng.randint(0, 3))]
            return self._rng.choice([inner, {str(place): one for place, one in enumerate(inner)}])
        return self._rng.choice(VALUES)

    def _changed(self, data):
        """The same bytes but for a few: never longer at the end, never as they were."""
        changed = bytearray(data)
        while changed == data:
            place = self._rng.randrange(len(data))
            match self._rng.randrange(5):
                case 0:
                    changed[place] ^= 1 << self._rng.randrange(8)
                case 1:
                    changed[place] = self._rng.randrange(256)
                case 2:
                    del changed[place:]
                case 3:
                    del changed[place : place + self._rng.randint(1, 9)]
                case 4:
                    changed[place:place] = self._rng.randbytes(self._rng.randint(1, 9))
            if not changed:
                changed = bytearray(data)
        return bytes(changed)

    def _number(self):
        return self._rng.choice([0, 1, 2, 7, -1, 2**63, 2**64 - 1, -(2**63)])


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

NOBODY = {str: "nobody", bytes: b"", int: 0, list: ["nobody"]}


def nobody(request):
    """A message of the right shape about nothing that is there, from its declaration."""
    fields = [field for field in msgspec.structs.fields(request) if field.required]
    kinds = [plain_types(field.type)[0] for field in fields]
    return {
        field.name: NOBODY.get(get_origin(kind) or kind)
        for field, kind in zip(fields, kinds, strict=True)
    }


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
    "requeue_dead_runs": {"action": "nobody"},
    "purge_dead_runs": {"action": "nobody"},
    "get_run": {"run_id": "nobody-1"},
    "wait_for_runs": {"run_ids": ["nobody-1", "", "-", "x" * 999, "9" * 5_000], "block_ms": 0},
    "list_runs": {"action": "nobody"},
    "list_dead_runs": {"action": "nobody"},
    "register_worker": {"worker_id": "not an id", "processes": ["send"]},
    "heartbeat": {"worker_id": "mallory"},
    "drain_worker": {"worker_id": "mallory"},
    "deregister_worker": {"worker_id": "mallory"},
    "get_worker": {"worker_id": "mallory"},
    "list_workers": {},
    "await_notifications": {"worker_id": "mallory"},
    "create_namespace": {"name": "default"},
    "delete_namespace": {"name": "nowhere", "force": True},
    "get_namespace": {"name": "nowhere"},
    "list_namespaces": {},
    "create_stream": {"stream": "not a name"},
    "alter_stream": {"stream": "nobody", "retention": [None, 1, None]},
    "delete_stream": {"stream": "nobody"},
    "append": {"stream": "not a name", "records": [{"payload": b""}]},
    "append_many": {"stream": "not a name", "records": [{"payload": b""}]},
    "read_stream": {"stream": "nobody"},
    "trim_stream": {"stream": "nobody"},
    "get_stream": {"stream": "nobody"},
    "list_streams": {},
    "create_group": {"stream": "not a name", "group": "not a name"},
    "delete_group": {"stream": "nobody", "group": "nobody"},
    "join_group": {"stream": "not a name", "group": "not a name", "consumer": "mallory"},
    "leave_group": {"stream": "nobody", "group": "nobody", "consumer": "mallory"},
    "read_group": {"stream": "nobody", "group": "nobody", "consumer": "mallory", "join": False},
    "ack": {"stream": "nobody", "group": "nobody", "ids": ["1-1"]},
    "nack": {"stream": "nobody", "group": "nobody", "ids": ["1-1"]},
    "touch_records": {
        "stream": "nobody",
        "group": "nobody",
        "consumer": "mallory",
        "ids": ["1-1"],
    },
    "claim_records": {"stream": "nobody", "group": "nobody", "consumer": "mallory", "join": False},
    "list_pending": {"stream": "nobody", "group": "nobody"},
    "get_group": {"stream": "nobody", "group": "nobody"},
    "list_groups": {"stream": "nobody"},
    "list_dead_records": {"stream": "nobody", "group": "nobody"},
    "requeue_dead_records": {"stream": "nobody", "group": "nobody"},
    "purge_dead_records": {"stream": "nobody", "group": "nobody"},
    "get_key": {"key": "nobody"},
    "put_key": {"key": "", "value": b""},
    "put_key_many": {"key": "", "value": b""},
    "delete_key": {"key": "nobody"},
    "get_keys": {"keys": ["nobody", "", "x" * 9_999]},
    "scan_keys": {},
    "get_key_history": {"key": "nobody"},
    "increment_key": {"key": ""},
    "expire_key": {"key": "nobody"},
    "get_json": {"key": "nobody"},
    "set_json": {"key": "", "document": b"{}"},
    "delete_json": {"key": "nobody"},
    "transact": {
        "checks": [{"key": "nobody", "version": 7}],
        "changes": [{"type": "put", "key": "nobody", "value": b""}],
    },
    "begin_transaction": {},
    "commit_transaction": {"transaction": 0},
    "rollback_transaction": {"transaction": 0},
    "read_in_transaction": {"key": "nobody", "transaction": 0},
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
    "processes": [["x" * 9_999], ["send"] * 1_001, [""]],
    "error": ["", "e" * 100_000],
    "input": [b"", b"\xff" * 100_000],
    "status": ["pending", "cancelled"],
    "reason": ["", "r" * 100_000],
    "after": [*NUMBERS, "", "x", "$", "0-0", "9" * 18 + "-" + "9" * 18, "-", "9" * 5_000],
    "until": ["", "$", "0-0", "9" * 5_000, "\0"],
    "before": ["", "$", "0-0", "9" * 5_000, "1-1"],
    "start": ["", "x", "$", "0-0", "1-1", "9" * 5_000],
    "last": NUMBERS,
    "partition": NUMBERS,
    "partitions": NUMBERS,
    "max_length": NUMBERS,
    "max_age_ms": NUMBERS,
    "max_bytes": NUMBERS,
    "min_idle_ms": NUMBERS,
    "newer_than": NUMBERS,
    "if_version": [number for number in NUMBERS if number],
    "ttl_ms": NUMBERS,
    "delta": NUMBERS,
    "prefix": ["", "\0", "x" * 9_999, "\U0010ffff"],
    "path": ["", "$", "$.a", "$..a", "$[" + "9" * 999 + "]", '$["' + "\\" * 99 + '"]', "$" * 9_999],
    "ids": [
        [],
        [""],
        ["x"],
        ["send-" + "9" * 18],
        ["1-1"] * 2_000,
        ["9" * 18 + "-" + "9" * 18],
        ["9" * 99_999],
    ],
    "consumer": ["", "a b", "x" * 9_999, "\0"],
    "settings": [[], ["fair"], ["shared", 0], ["key_shared", 1, 1, 0, 2**63]],
    "retention": [[], [0, 0, 0], [2**63, -1, 1]],
    "records": [[], [{"payload": b"\xff" * 100_000}] * 3, [{"payload": b"", "partition": -1}]],
    "document": [b"", b"{", b"\xff", b"[" * 10_000, b"1" * 300_000],
    "keys": [[], ["k"] * 9_999],
    "checks": [[{"key": "", "version": 0}], [{"key": "nobody", "version": 2**63}] * 300],
    "with_values": [True, False],
    "dry_run": [True, False],
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


def nested_json(depth):
    return b"[" * depth + b"]" * depth


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
BAD_IDS = ["", "x", "-", "1", "1-", "-1-1", "1-1-1", "²-1", "9" * 19 + "-1", "9" * 99_999]
HOSTILE_TO_A_STREAM = [
    ("create_stream", {}),
    ("create_stream", {"partitions": 4}),
    *[("alter_stream", {"retention": [number, None, None]}) for number in (-1, 0, 2**63)],
    *[("alter_stream", {"retention": [None, None, number]}) for number in (-1, 0, 2**63)],
    ("append", {"records": []}),
    ("append", {"records": [{"payload": b""}] * 1_001}),
    ("append", {"records": [{"payload": b""}, {"payload": b"", "partition": 1}]}),
    ("append", {"records": [{"payload": b"", "partition": -1}]}),
    ("append", {"records": [{"payload": b"", "key": "k" * 9_999}]}),
    ("append", {"records": [{"payload": b"", "headers": {"h": "x" * 99_999}}]}),
    ("append", {"records": [{"payload": b"", "headers": {str(n): "" for n in range(99)}}]}),
    *[("read_stream", {"after": bad}) for bad in BAD_IDS],
    *[("read_stream", {"until": bad}) for bad in [*BAD_IDS, "$"]],
    *[("read_stream", {"limit": number}) for number in BAD_NUMBERS],
    *[("read_stream", {"last": number}) for number in (-1, 1_001, 2**63)],
    *[("read_stream", {"partition": number}) for number in (-1, 1, 2**63)],
    ("read_stream", {"after": "9" * 18 + "-" + "9" * 18, "block_ms": 300_000}),
    ("read_stream", {"after": "0-" + "9" * 18}),
    ("read_stream", {"after": "9" * 18 + "-0", "until": "0-0"}),
    ("read_stream", {"after": "$", "key": "k" * 99_999}),
    *[("trim_stream", {field: -1}) for field in ("max_length", "max_age_ms", "max_bytes")],
    *[("trim_stream", {"before": bad}) for bad in [*BAD_IDS, "$"]],
    ("trim_stream", {}),
    ("trim_stream", {"max_length": 0, "dry_run": True}),
    ("trim_stream", {"max_length": 2**63, "max_age_ms": 2**63, "max_bytes": 2**63}),
    ("list_groups", {"cursor": "\0"}),
]
HOSTILE_TO_A_GROUP = [
    ("create_group", {}),
    *[("create_group", {"group": bad}) for bad in ("", "a b", "x" * 9_999)],
    *[
        ("create_group", {"group": "other", "settings": settings})
        for settings in (
            ["shared", 0],
            ["shared", 2**63],
            ["exclusive", 1, 0],
            ["exclusive", 1, 1, -1],
            ["key_shared", 1, 1, 0, 0],
            ["key_shared", 1, 1, 0, 2**63],
            ["key_shared", 1, 1, 0, 1, -1],
        )
    ],
    *[("create_group", {"group": "other", "start": bad}) for bad in BAD_IDS],
    *[("create_group", {"stream": "other", "start": bad}) for bad in BAD_IDS],
    ("join_group", {"consumer": "anna"}),
    *[("join_group", {"consumer": bad}) for bad in ("", "a b", "x" * 9_999)],
    ("leave_group", {"consumer": "mallory"}),
    ("read_group", {"consumer": "mallory", "join": False}),
    *[("read_group", {"consumer": bad}) for bad in ("", "a b", "x" * 9_999)],
    *[("read_group", {"consumer": "anna", "limit": number}) for number in BAD_NUMBERS],
    *[("read_group", {"consumer": "anna", "block_ms": number}) for number in (-1, 2**63)],
    ("read_group", {"consumer": "anna"}),
    ("read_group", {"consumer": "anna", "block_ms": 300_000, "worker_id": "\0" * 999}),
    *[(name, {"ids": [bad]}) for name in ("ack", "nack") for bad in BAD_IDS],
    *[
        (name, {"ids": []})
        for name in ("ack", "nack", "requeue_dead_records", "purge_dead_records")
    ],
    *[(name, {"ids": ["1-1"] * 1_001}) for name in ("ack", "nack", "requeue_dead_records")],
    *[(name, {"ids": ["1-" + "9" * 18]}) for name in ("ack", "nack", "purge_dead_records")],
    *[("nack", {"ids": ["1-1"], "delay_ms": number}) for number in (-1, 2**63)],
    ("nack", {"ids": ["1-1"], "consumer": "mallory"}),
    ("touch_records", {"ids": ["1-1"], "consumer": "mallory"}),
    *[
        ("touch_records", {"ids": ["1-1"], "consumer": "anna", "extend_ms": number})
        for number in (-1, 0, 2**63)
    ],
    ("claim_records", {"consumer": "mallory", "join": False}),
    ("claim_records", {"consumer": "anna", "min_idle_ms": 60_000}),
    *[("claim_records", {"consumer": "anna", "min_idle_ms": n}) for n in (-1, 2**63)],
    *[("claim_records", {"consumer": "anna", "limit": number}) for number in BAD_NUMBERS],
    *[("claim_records", {"consumer": "anna", "after": bad}) for bad in [*BAD_IDS, "$"]],
    *[("list_pending", {"cursor": bad}) for bad in BAD_IDS],
    *[("list_pending", {"limit": number}) for number in BAD_NUMBERS],
    ("list_pending", {"consumer": "\0"}),
    *[("list_dead_records", {"cursor": bad}) for bad in ("", "x", "-1", "9" * 99_999)],
    *[
        (name, {"limit": number})
        for name in ("list_dead_records", "requeue_dead_records", "purge_dead_records")
        for number in BAD_NUMBERS
    ],
    *[
        (name, {"ids": [bad]})
        for name in ("requeue_dead_records", "purge_dead_records")
        for bad in [*BAD_IDS, "1-1"]
    ],
    ("requeue_dead_records", {}),
    ("purge_dead_records", {}),
    ("get_group", {"group": "nobody"}),
]
HOSTILE_TO_A_KEY = [
    ("put_key", {"value": bytes(256 * 1024 + 1)}),
    *[("put_key", {"value": b"", "ttl_ms": number}) for number in (-1, 0, 2**63)],
    *[("put_key", {"value": b"", "if_version": number}) for number in (-1, 0, 2**63)],
    ("put_key", {"value": b"", "if_absent": True}),
    ("put_key", {"value": b"", "if_absent": True, "if_present": True}),
    ("put_key", {"value": b"", "transaction": -1}),
    *[("put_key", {"key": bad, "value": b""}) for bad in ("", "k" * 4_097, "ö" * 2_049)],
    *[("delete_key", {"if_version": number}) for number in (-1, 0, 2**63)],
    ("delete_key", {"key": "nobody"}),
    ("delete_key", {"transaction": 2**63}),
    ("increment_key", {}),
    *[("increment_key", {"key": "hits", "delta": number}) for number in (2**63 - 1, 2**63)],
    ("increment_key", {"key": "hits", "delta": -(2**63)}),
    *[("expire_key", {"ttl_ms": number}) for number in (-1, 0, 2**63)],
    ("expire_key", {"ttl_ms": None, "if_version": 7}),
    *[("get_key", {"block_ms": number}) for number in (-1, 2**63)],
    ("get_key", {"block_ms": 300_000, "newer_than": 1}),
    ("get_key", {"key": "nobody", "block_ms": 300_000, "newer_than": 2**63}),
    *[("get_key_history", {"limit": number}) for number in BAD_NUMBERS],
    *[("get_json", {"path": bad}) for bad in ("", "a", "$.", "$..a", "$[", "$.a" * 999, "$[9]")],
    *[
        ("set_json", {"document": bad})
        for bad in (b"", b"{", b"\xff", b"[" * 99_999, nested_json(150), b"1" * 300_000)
    ],
    *[("set_json", {"document": b"1", "path": bad}) for bad in ("", "$.a.b", "$.list[7]", "$[0]")],
    ("set_json", {"document": b"1", "path": '$["\\ud800"]'}),
    ("set_json", {"document": b"1", "path": "$.a", "if_version": 7}),
    *[("delete_json", {"path": bad}) for bad in ("", "$.nobody", "$.list[7]")],
    ("delete_json", {"if_version": 7}),
    ("read_in_transaction", {"transaction": 2**63}),
]
HOSTILE_TRANSACTIONS = [
    {},
    {"checks": [{"key": "config", "version": 7}]},
    {"checks": [{"key": "config", "version": 0}], "changes": [{"type": "delete", "key": "config"}]},
    {"checks": [{"key": "", "version": 0}], "changes": [{"type": "delete", "key": "config"}]},
    {"changes": [{"type": "delete", "key": "config"}, {"type": "delete", "key": ""}]},
    {"changes": [{"type": "delete", "key": "nobody"}]},
    {"changes": [{"type": "delete", "key": "config"}] * 257},
    {"changes": [{"type": "put", "key": str(n), "value": bytes(250_000)} for n in range(5)]},
    {"changes": [{"type": "put", "key": "a", "value": bytes(256 * 1024 + 1)}]},
    {"changes": [{"type": "put", "key": "a", "value": b"", "ttl_ms": 0}]},
    {
        "changes": [
            {"type": "put", "key": "a", "value": b"1"},
            {"type": "increment", "key": "config"},
        ]
    },
    {"changes": [{"type": "increment", "key": "hits", "delta": 2**63 - 1}]},
]
HOSTILE = [
    *[("register_worker", {"worker_id": "anna", "processes": [], "metadata": m}) for m in METADATA],
    ("register_worker", {"worker_id": "anna", "processes": [], "incarnation": "i" * 10_000}),
    ("register_worker", {"worker_id": "anna", "processes": ["a/b/c"], "worker_type": "stream"}),
    *[("register_action", {"name": "send", "input_schema": schema}) for schema in SCHEMAS],
    *[("register_action", {"name": "send", "output_schema": schema}) for schema in SCHEMAS],
    *[
        (name, {"action": "send", **bad})
        for name in ("requeue_dead_runs", "purge_dead_runs")
        for bad in (
            *[{"limit": number} for number in BAD_NUMBERS],
            {"ids": []},
            {"ids": ["send-1"]},
            {"ids": ["send-3"]},
            {"ids": ["send-1", "print-1", "", "-", "x" * 9_999]},
            {"ids": ["send-1"] * 5_000},
            {"ids": [f"send-{number}" for number in range(5_000)]},
        )
    ],
    *[("list_dead_runs", {"action": "send", "limit": number}) for number in BAD_NUMBERS],
    ("list_dead_runs", {"action": "send", "cursor": "9" * 5_000}),
    *[("await_notifications", {"worker_id": "anna", "block_ms": number}) for number in (-1, 2**63)],
    *[
        ("await_notifications", {"worker_id": "anna", "block_ms": 0, "after": n})
        for n in (*NUMBERS, 2**63)
    ],
    ("await_notifications", {"worker_id": "anna", "block_ms": 300_000}),
    *[("cancel", {"run_id": run_id}) for run_id in ("send-9", "", "-", "send-0", "9" * 5_000)],
    ("cancel", {"run_id": "send-1", "reason": "r" * 100_000}),
    *[("create_namespace", {"name": name}) for name in ("default", "", "a~1", "a/b", "x" * 9_999)],
    *[("delete_namespace", {"name": name, "force": True}) for name in ("default", "", "a~1")],
    *[(name, {"stream": "events", **bad}) for name, bad in HOSTILE_TO_A_STREAM],
    *[(name, {"stream": "events", "group": "mailers", **bad}) for name, bad in HOSTILE_TO_A_GROUP],
    *[(name, {"key": "config", **bad}) for name, bad in HOSTILE_TO_A_KEY],
    *[("transact", bad) for bad in HOSTILE_TRANSACTIONS],
    ("get_keys", {"keys": ["config"] * 257}),
    ("get_keys", {"keys": []}),
    *[("scan_keys", {"limit": number}) for number in BAD_NUMBERS],
    ("scan_keys", {"prefix": "\U0010ffff" * 9_999, "cursor": "", "with_values": True}),
]
"""Words about what `fill` puts there: refused, or a look and nothing more."""


def command_frames(name, fields):
    return HELLO_FRAME + write_frame(pack([7, BY_NAME[name].opcode, fields]))


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


async def fill(shard):
    for message in (
        RegisterAction(name="send"),
        RegisterWorker(worker_id="anna", processes=["send"]),
        Invoke(action="send", idempotency_key="order-7"),
        Invoke(action="send"),
        Claim(worker_id="anna", actions=["send"]),
        Append(stream="events", records=[NewRecord(payload=b"{}", key="k")]),
        JoinGroup(stream="events", group="mailers", consumer="anna"),
        ReadGroup(stream="events", group="mailers", consumer="anna"),
        PutKey(key="config", value=b'{"a": 1, "list": []}'),
        IncrementKey(key="hits"),
    ):
        await shard.ask(message)


class Target:
    """A door and its shard, which knows an action, a worker, two runs, a group and some keys."""

    def __init__(self):
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.shard = Shard(State(), self.log, self.clock)
        self.listener = Listener(self.shard, self.clock, Metrics(), "127.0.0.1", 0)

    async def start(self):
        await self.shard.start()
        await fill(self.shard)

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
        assert self.shard._polls.everyone() == []
        assert not self.listener._connections
        said = replies(await self.attack(HELLO_FRAME, QUESTION_FRAME))
        return [isinstance(reply.body, FloError) for reply in said] == [False, False]


@pytest.fixture
async def target():
    target = Target()
    await target.start()
    for message in workflow_attacks.FILL:
        await target.shard.ask(message)
    yield target
    await target.shard.stop()


def replies(written):
    """What the server has said: it is whole and well-formed, and confesses no mistake of ours."""
    reader, said = FrameReader(), []
    reader.receive(written)
    while (frame := reader.next_frame()) is not None:
        said.append(decode_reply(frame))
        assert not isinstance(said[-1].body, Unexpected), said[-1].body
    assert not reader.buffered
    return said


REFUSED = {form.name: nobody(form.request) for form in FORMS[2:]} | REFUSED
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
            await fill(door.shard)
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


@pytest.mark.parametrize("name", sorted({name for name, _ in HOSTILE}))
async def test_a_hostile_command_is_refused_or_only_looks(target, name, caplog):
    before = fingerprint(target.shard.state), target.log.position
    with capture_logs() as lines, caplog.at_level(logging.WARNING):
        for fields in [fields for hostile, fields in HOSTILE if hostile == name]:
            replies(await target.attack(command_frames(name, fields)))
            assert target.shard.closed is None, fields
        assert await target.is_healthy()

    assert (fingerprint(target.shard.state), target.log.position) == before
    assert lines == []
    assert caplog.records == []


def test_more_than_fifty_thousand_cases_are_tried():
    assert len(SEEDS) * CASES_PER_SEED >= 50_000


# Controls: what the fuzzer looks for, it would find.


async def test_a_command_that_does_change_something_is_noticed(target):
    before = fingerprint(target.shard.state), target.log.position
    invoke = encode_request(2, BY_NAME["invoke"], [Invoke(action="send")])

    assert len(replies(await target.attack(HELLO_FRAME + invoke))) == 2

    assert fingerprint(target.shard.state) != before[0]
    assert target.log.position == before[1] + 2


async def test_a_server_that_has_failed_is_noticed(target):
    await target.shard.stop()

    with pytest.raises(AssertionError):
        await target.is_healthy()


def test_a_mistake_of_ours_is_noticed():
    with pytest.raises(AssertionError, match="oh no"):
        replies(encode_refusal(7, Unexpected("oh no")))


def test_a_reply_that_is_cut_off_is_noticed():
    with pytest.raises(AssertionError):
        replies(HELLO_FRAME[:-1])


async def test_the_cases_reach_every_way_in_which_a_caller_is_refused(target):
    fuzzer, codes = Fuzzer(7), set()
    cases = [fuzzer.case() for _ in range(2_000)]
    cases += [command_frames(name, fields) for name, fields in HOSTILE]
    with capture_logs():
        for case in cases:
            for reply in replies(await target.attack(*fuzzer.pieces(case))):
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
        "stream_not_found",
        "stream_exists",
        "invalid_stream_id",
        "group_not_found",
        "group_exists",
        "consumer_not_joined",
        "dead_letter_not_found",
        "key_not_found",
        "version_mismatch",
        "condition_failed",
        "wrong_type",
        "out_of_range",
        "invalid_path",
        "transaction_not_found",
        "transaction_too_large",
    }
