import math

import msgspec
import pytest

from flo.model.actions import DisableAction, RegisterAction
from flo.model.declare.dead_letters import DeadLettersChanged
from flo.model.errors import Conflict, Corrupt, Invalid, NotFound, TooLarge, Unexpected
from flo.model.groups import (
    Ack,
    ClaimedRecords,
    ClaimRecords,
    CreateGroup,
    DeadRecordPage,
    DeadRecordView,
    GroupMode,
    GroupPage,
    GroupRecords,
    GroupSettings,
    GroupView,
    Joined,
    Nack,
    PendingPage,
    PendingView,
    ReadGroup,
    RequeueDeadRecords,
)
from flo.model.kv import (
    Check,
    Committed,
    Delete,
    GetKeys,
    Increment,
    Incremented,
    KeyPage,
    KeyView,
    Put,
    PutKey,
    ScanKeys,
    SetJson,
    Transact,
    Value,
    Values,
    Versioned,
)
from flo.model.namespaces import DeleteNamespace, NamespacePage, NamespaceView
from flo.model.runs import (
    Assigned,
    Cancel,
    Claim,
    Complete,
    DeadRunsChanged,
    Ended,
    Invoke,
    Invoked,
    PurgeDeadRuns,
    RequeueDeadRuns,
    RunResult,
    RunStatus,
    Task,
)
from flo.model.storage.records import StreamRecord
from flo.model.streams import (
    AlterStream,
    Append,
    Appended,
    CreateStream,
    NewRecord,
    ReadStream,
    RecordPage,
    Retention,
    StreamPage,
    StreamView,
    Trimmed,
    TrimStream,
)
from flo.model.workers import (
    AwaitNotifications,
    Notifications,
    RegisterWorker,
    WorkerKnown,
    WorkerStatus,
    WorkerType,
)
from flo.wire.codec import (
    decode_answers,
    decode_reply,
    decode_request,
    encode_refusal,
    encode_reply,
    encode_request,
    request_id_in,
)
from flo.wire.frame import BEGINNING_LENGTH, FrameReader
from flo.wire.opcodes import BY_NAME, HELLO, PROTOCOL_VERSION, Hello

INVOKE, INVOKE_MANY = BY_NAME["invoke"], BY_NAME["invoke_many"]
pack = msgspec.msgpack.encode


def body_of(frame):
    reader = FrameReader()
    reader.receive(frame)
    return reader.next_frame()


def arrives(name, *messages):
    """The request as the other end reads it."""
    return decode_request(body_of(encode_request(7, BY_NAME[name], messages)))


def answered(name, *answers):
    """The answers as the other end reads them."""
    operation = BY_NAME[name]
    reply = decode_reply(body_of(encode_reply(7, operation, answers)))
    assert reply.request_id == 7
    return (
        [reply.body] if isinstance(reply.body, Exception) else decode_answers(operation, reply.body)
    )


def refused(opcode, body):
    """Why a request with this body is refused."""
    request = decode_request(pack([7, opcode, body]))
    assert request.request_id == 7
    assert isinstance(request.messages, Invalid)
    return request.messages


# Golden bytes: docs/reference/protocol.md shows these.


def test_a_hello_on_the_wire():
    frame = encode_request(1, HELLO, [Hello(protocol=PROTOCOL_VERSION, client="flo-py/0.1.0")])

    assert frame == (
        bytes.fromhex("00000031 8563305f")  # length 49, crc32
        + bytes.fromhex("93 01 01")  # [request id 1, opcode 1 (hello), body]
        + bytes.fromhex("83")  # a map of three
        + b"\xa8protocol\x01"
        + b"\xa6client\xacflo-py/0.1.0"
        + b"\xaddead_after_ms\x00"
    )


def test_an_invoke_on_the_wire():
    invoke = Invoke(action="send-email", input=b'{"to":"alice"}')

    frame = encode_request(2, INVOKE, [invoke])

    assert frame == (
        bytes.fromhex("0000007b 685806b9")  # length 123, crc32
        + bytes.fromhex("93 02 14")  # [request id 2, opcode 20 (invoke), body]
        + bytes.fromhex("89")  # a map of nine
        + b"\xa6action\xaasend-email"
        + b'\xa5input\xc4\x0e{"to":"alice"}'
        + b"\xa9namespace\xa7default"
        + b"\xa8priority\x0a"
        + b"\xa8delay_ms\x00"
        + b"\xafidempotency_key\xc0"
        + b"\xa6labels\xc0"
        + b"\xa7subject\xc0"
        + b"\xa5trace\xc0"
    )


def test_a_hand_written_request_may_leave_out_what_has_a_default():
    request = decode_request(b"\x93\x02\x14\x81\xa6action\xaasend-email")

    assert request.messages == [Invoke(action="send-email")]


def test_an_accepted_reply_on_the_wire():
    assert body_of(encode_reply(2, INVOKE, [Invoked(run_id="send-email-1")])) == (
        b"\x93\x02\x00\x83\xa6run_id\xacsend-email-1\xa9duplicate\xc2\xa6inline\xc2"
    )


def test_a_refused_reply_on_the_wire():
    refusal = encode_refusal(2, NotFound("no such action", code="action_not_found"))

    assert body_of(refusal) == (
        b"\x93\x02\x01\x84"
        b"\xa4kind\xa9not_found\xa4code\xb0action_not_found"
        b"\xa7message\xaeno such action\xa7details\x80"
    )


# Arrays and tags


def test_records_on_the_wire_are_arrays():
    record = StreamRecord(sequence=7, at_ms=5, payload=b"hi", headers={"a": "b"}, partition=3)

    frame = encode_reply(2, BY_NAME["read_stream"], [RecordPage(items=[record], last="5-7")])

    assert body_of(frame) == (
        b"\x93\x02\x00\x82"
        b"\xa5items\x91"
        b"\x96\x07\x05\xc4\x02hi\x81\xa1a\xa1b\xc0\x03"  # sequence, time, payload, …
        b"\xa4last\xa35-7"
    )


def test_the_changes_of_a_transaction_say_what_they_are_on_the_wire():
    frame = encode_request(2, BY_NAME["transact"], [Transact(changes=[Delete(key="a")])])

    assert body_of(frame) == (
        b"\x93\x02\x70\x83"
        b"\xa9namespace\xa7default\xa6checks\x90"
        b"\xa7changes\x91\x82\xa4type\xa6delete\xa3key\xa1a"
    )


# Both ways


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("invoke", [Invoke(action="send", labels={"gpu": True, "n": 1, "x": 1.5, "r": "eu"})]),
        ("invoke_many", [Invoke(action="send"), Invoke(action="print", input=b"\x00\xff")]),
        ("invoke_many", []),
        ("claim", [Claim(worker_id="anna", actions=["send"], max_tasks=5, block_ms=1)]),
        ("complete_many", [Complete(run_id="send-1", worker_id="anna")] * 1_000),
        ("register_action", [RegisterAction(name="größe")]),
        ("register_worker", [RegisterWorker(worker_id="anna", processes=[])]),
        ("register_action", [RegisterAction(name="buy", input_schema={"enum": [None, 1, {}]})]),
        ("disable_action", [DisableAction(name="buy", namespace="prod")]),
        (
            "register_worker",
            [
                RegisterWorker(
                    worker_id="anna",
                    processes=["events/processors"],
                    metadata={"gpu": True, "disks": ["sda", {"gb": 0.5}]},
                    worker_type=WorkerType.STREAM,
                    incarnation="a1",
                )
            ],
        ),
        ("cancel", [Cancel(run_id="send-1", reason="größe")]),
        ("requeue_dead_runs", [RequeueDeadRuns(action="send", ids=["send-1"])]),
        ("purge_dead_runs", [PurgeDeadRuns(action="send", limit=7)]),
        ("await_notifications", [AwaitNotifications(worker_id="anna", after=2**62, block_ms=0)]),
        ("delete_namespace", [DeleteNamespace(name="prod", force=True)]),
        ("create_stream", [CreateStream(stream="events", partitions=8)]),
        ("alter_stream", [AlterStream(stream="events", retention=Retention(max_bytes=2**53))]),
        (
            "append",
            [Append(stream="events", records=[NewRecord(payload=b"\xff", headers={"ö": ""})])],
        ),
        ("append_many", [Append(stream="events", records=[NewRecord(payload=b"", key="k")])] * 3),
        ("read_stream", [ReadStream(stream="events", after="$", block_ms=1, partition=3)]),
        ("trim_stream", [TrimStream(stream="events", before="5-7", dry_run=True)]),
        (
            "create_group",
            [
                CreateGroup(
                    stream="events",
                    group="g",
                    settings=GroupSettings(mode=GroupMode.KEY_SHARED, no_ack=True),
                    start="$",
                )
            ],
        ),
        ("read_group", [ReadGroup(stream="events", group="g", consumer="anna", worker_id="w")]),
        ("ack", [Ack(stream="events", group="g", ids=["5-7"] * 1_000)]),
        ("nack", [Nack(stream="events", group="g", ids=[], delay_ms=0)]),
        ("claim_records", [ClaimRecords(stream="events", group="g", consumer="a", after="5-7")]),
        ("requeue_dead_records", [RequeueDeadRecords(stream="events", group="g", ids=["5-7"])]),
        ("put_key", [PutKey(key="größe", value=b"\x00\xff", ttl_ms=5, if_version=0)]),
        ("put_key_many", [PutKey(key="a", value=b""), PutKey(key="b", value=b"", if_absent=True)]),
        ("get_keys", [GetKeys(keys=["a", "b/c", ""])]),
        ("scan_keys", [ScanKeys(prefix="a/", cursor="a/7", with_values=True)]),
        ("set_json", [SetJson(key="a", document=b"{}", path='$["odd name"]')]),
        (
            "transact",
            [
                Transact(
                    checks=[Check(key="a", version=2**62)],
                    changes=[
                        Put(key="a", value=b"1", ttl_ms=5),
                        Delete(key="b"),
                        Increment(key="c", delta=-(2**62)),
                    ],
                )
            ],
        ),
    ],
)
def test_a_request_arrives_as_it_was_sent(name, messages):
    request = arrives(name, *messages)

    assert (request.request_id, request.form) == (7, BY_NAME[name])
    assert request.messages == messages


TASK = Task(task_id="send-1", task_type="send", payload=b"hi", created_at_ms=1, attempt=1)
RECORD = StreamRecord(sequence=7, at_ms=5, payload=b"\xff", headers={"a": "b"}, key="k")
RESULT = RunResult(run_id="send-1", status=RunStatus.FAILED, attempt=2, error="no")


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("invoke", [Invoked(run_id="send-1")]),
        ("invoke_many", [Invoked(run_id="send-1"), Invoked(run_id="send-2", duplicate=True)]),
        ("claim", [Assigned(tasks=[TASK])]),
        ("wait_for_runs", [Ended(results=[RESULT], unknown=["what"])]),
        ("heartbeat", [WorkerKnown(worker_id="anna", status=WorkerStatus.DRAINING)]),
        ("requeue_dead_runs", [DeadRunsChanged(ids=["send-2", "send-1"], more=True)]),
        ("await_notifications", [Notifications(last=2**62, cancelled=["send-1"], draining=True)]),
        (
            "list_namespaces",
            [
                NamespacePage(
                    items=[
                        NamespaceView(
                            name="prod",
                            created_at_ms=None,
                            actions=1,
                            workers=0,
                            runs={"failed": 2},
                        )
                    ]
                )
            ],
        ),
        ("append_many", [Appended(stream_id="5-1", last_id="5-3", count=3)] * 2),
        ("read_stream", [RecordPage(items=[RECORD, RECORD], last="5-7")]),
        ("trim_stream", [Trimmed(removed=3, first_id=None)]),
        (
            "list_streams",
            [
                StreamPage(
                    items=[
                        StreamView(
                            name="events",
                            namespace="default",
                            created_at_ms=1,
                            partitions=1,
                            retention=Retention(max_length=9),
                            count=0,
                            bytes=0,
                            first_id=None,
                            last_id=None,
                            groups=["g"],
                        )
                    ],
                    cursor="events",
                )
            ],
        ),
        ("join_group", [Joined(settings=GroupSettings(mode=GroupMode.EXCLUSIVE))]),
        ("read_group", [GroupRecords(items=[RECORD], deliveries=[3], draining=True)]),
        ("claim_records", [ClaimedRecords(items=[RECORD], deliveries=[1], next="5-7")]),
        (
            "list_pending",
            [
                PendingPage(
                    items=[
                        PendingView(
                            stream_id="5-7",
                            consumer="anna",
                            deliveries=1,
                            delivered_at_ms=5,
                            until_ms=9,
                        )
                    ]
                )
            ],
        ),
        (
            "list_groups",
            [
                GroupPage(
                    items=[
                        GroupView(
                            name="g",
                            stream="events",
                            namespace="default",
                            settings=GroupSettings(),
                            created_at_ms=1,
                            lag=1,
                            pending=2,
                            waiting=3,
                            dead=4,
                            consumers=[],
                        )
                    ]
                )
            ],
        ),
        (
            "list_dead_records",
            [DeadRecordPage(items=[DeadRecordView(record=RECORD, deliveries=10, died_at_ms=9)])],
        ),
        ("purge_dead_records", [DeadLettersChanged(ids=["5-7"], more=True)]),
        ("get_key", [Value(value=None)]),
        ("get_keys", [Values(items=[Value(), Value(value=b"", version=7, expires_at_ms=9)])]),
        ("put_key_many", [Versioned(version=2**62), Versioned(version=None)]),
        ("increment_key", [Incremented(version=7, value=-(2**62))]),
        (
            "scan_keys",
            [KeyPage(items=[KeyView(key="a", version=1, at_ms=5, expires_at_ms=None, value=b"")])],
        ),
        ("transact", [Committed(version=7, changes=2, values={"hits": 5})]),
    ],
)
def test_an_answer_arrives_as_it_was_given(name, answers):
    assert answered(name, *answers) == answers


def test_a_refusal_arrives_as_the_error_it_was():
    (error,) = answered("invoke", Conflict("gone", code="lease_lost", details={"by": ["anna"]}))

    assert type(error) is Conflict
    assert (error.code, error.message, error.details) == ("lease_lost", "gone", {"by": ["anna"]})


def test_a_refusal_brings_every_problem_of_a_payload_along():
    problems = [{"path": "/id", "problem": '7 is not of type "string"'}]

    (error,) = answered(
        "invoke", Invalid("no", code="input_invalid", details={"problems": problems})
    )

    assert (type(error), error.code, error.details) == (
        Invalid,
        "input_invalid",
        {"problems": problems},
    )


def test_in_a_batch_each_is_accepted_or_refused_on_its_own():
    accepted, refusal, accepted_too = answered(
        "invoke_many", Invoked(run_id="send-1"), NotFound("no"), Invoked(run_id="send-2")
    )

    assert (accepted.run_id, accepted_too.run_id) == ("send-1", "send-2")
    assert isinstance(refusal, NotFound)


def test_a_refusal_of_a_later_release_is_unexpected():
    reply = decode_reply(pack([7, 1, {"kind": "quota", "code": "q", "message": "m"}]))

    assert type(reply.body) is Unexpected


# What cannot be


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "`action`"),
        ([], "`array`"),
        (None, "`None`"),
        ({"action": 5}, "$.action"),
        ({"action": None}, "$.action"),
        ({"action": b"send"}, "$.action"),
        ({"action": "send", "input": 5}, "$.input"),
        ({"action": "send", "priority": "10"}, "$.priority"),
        ({"action": "send", "priority": 1.5}, "$.priority"),
        ({"action": "send", "priority": math.nan}, "$.priority"),
        ({"action": "send", "priority": True}, "$.priority"),
        ({"action": "send", "labels": {"gpu": None}}, "$.labels"),
        ({"action": "send", "labels": {1: 1}}, "$.labels"),
        ({"action": "send", "prio": 1}, "`prio`"),
    ],
)
def test_a_request_of_another_shape_is_refused_with_what_is_wrong(body, named):
    error = refused(INVOKE.opcode, body)

    assert error.code == "invalid_request"
    assert error.message.startswith("invoke: ")
    assert named in error.message


@pytest.mark.parametrize(
    ("name", "body", "named"),
    [
        ("register_action", {"name": "send", "input_schema": "{}"}, "$.input_schema"),
        ("register_action", {"name": "send", "input_schema": {1: {}}}, "$.input_schema"),
        ("register_worker", {"worker_id": "w", "processes": [], "metadata": []}, "$.metadata"),
        (
            "register_worker",
            {"worker_id": "w", "processes": [], "worker_type": "x"},
            "$.worker_type",
        ),
        ("requeue_dead_runs", {"action": "send", "ids": "send-1"}, "$.ids"),
        ("requeue_dead_runs", {"action": "send", "limit": 1.5}, "$.limit"),
        ("await_notifications", {"worker_id": "w", "after": "0"}, "$.after"),
        ("delete_namespace", {"name": "prod", "force": 1}, "$.force"),
        ("create_namespace", {"name": "prod", "namespace": "prod"}, "`namespace`"),
        ("cancel", {}, "`run_id`"),
        ("append", {"stream": "s"}, "`records`"),
        ("append", {"stream": "s", "records": [{"payload": "text"}]}, "$.records[0].payload"),
        (
            "append",
            {"stream": "s", "records": [{"payload": b"", "headers": {"a": 1}}]},
            "$.records",
        ),
        ("read_stream", {"stream": "s", "after": 7}, "$.after"),
        ("alter_stream", {"stream": "s", "retention": {"max_length": 7}}, "$.retention"),
        ("create_group", {"stream": "s", "group": "g", "settings": ["fair"]}, "$.settings"),
        ("ack", {"stream": "s", "group": "g", "ids": [7]}, "$.ids[0]"),
        ("put_key", {"key": "k", "value": "text"}, "$.value"),
        ("put_key", {"key": "k", "value": b"", "ttl_ms": 1.5}, "$.ttl_ms"),
        ("transact", {"changes": [{"key": "k"}]}, "`type`"),
        ("transact", {"changes": [{"type": "rename", "key": "k"}]}, "'rename'"),
        ("transact", {"checks": [{"key": "k"}]}, "`version`"),
    ],
)
def test_every_operation_says_what_it_cannot_read(name, body, named):
    error = refused(BY_NAME[name].opcode, body)

    assert error.code == "invalid_request"
    assert named in error.message


@pytest.mark.parametrize("body", [{}, [{}], [{"action": "send"}, 5], "text"])
def test_a_batch_with_one_request_of_another_shape_is_refused_as_a_whole(body):
    assert refused(INVOKE_MANY.opcode, body).code == "invalid_request"


@pytest.mark.parametrize("opcode", [0, 3, 255, -1, 2**63])
def test_an_opcode_nobody_knows_is_refused_and_the_conversation_goes_on(opcode):
    error = refused(opcode, {})

    assert error.code == "unknown_opcode"
    assert str(opcode) in error.message


def test_a_batch_is_bounded():
    assert refused(INVOKE_MANY.opcode, [{"action": "send"}] * 1_001).code == "batch_too_large"


NOT_A_REQUEST = {
    "nothing": b"",
    "no msgpack": b"\xc1",
    "text": b"GET / HTTP/1.1\r\n",
    "a number": pack(5),
    "a map": pack({"id": 1}),
    "too short": pack([1, 20]),
    "an id that is text": pack(["1", 20, {}]),
    "an id that is nothing": pack([None, 20, {}]),
    "an opcode that is a fraction": pack([1, 20.5, {}]),
    "a body cut off": pack([1, 20, {"action": "send"}])[:-2],
    "something after the end": pack([1, 20, {"action": "send"}]) + b"\x00",
    "a length beyond the end": b"\x93\x01\x14\x81\xa6action\xdb\xff\xff\xff\xff",
    "four thousand million requests": b"\x93\x01\x15\xdd\xff\xff\xff\xff",
    "four thousand million fields": b"\x93\x01\x14\xdf\xff\xff\xff\xff",
    "text that is not text": b"\x93\x01\x14\x81\xa6action\xa2\xff\xfe",
    "half of a pair of surrogates": b"\x93\x01\x14\x81\xa6action\xa3\xed\xa0\x80",
    "a field name that is not text": b"\x93\x01\x14\x81\xa6acti\xffn\xa2ab",
    "lists in lists": b"\x93\x01\x14" + b"\x91" * 1_000_000 + b"\xc0",
    "maps in maps": b"\x93\x01\x14" + b"\x81\xa1a" * 1_000_000 + b"\xc0",
    "labels in labels": b"\x93\x01\x14\x81\xa6labels" + b"\x81\xa1a" * 100_000 + b"\xc0",
}


@pytest.mark.parametrize("frame", NOT_A_REQUEST.values(), ids=NOT_A_REQUEST.keys())
def test_bytes_that_are_no_request_are_corrupt(frame):
    with pytest.raises(Corrupt) as error:
        decode_request(frame)

    assert error.value.code == "frame_damaged"


NOT_A_REPLY = {
    "not the reply": pack([7, 0, {"what": 1}]),
    "a number": pack([7, 0, 5]),
    "text that is not text": b"\x93\x07\x00\x81\xa6run_id\xa2\xff\xfe",
    "a refusal without a kind": pack([7, 1, {"code": "x"}]),
    "a refusal that is not text": b"\x93\x07\x01\x81\xa4kind\xa2\xff\xfe",
}


@pytest.mark.parametrize("frame", NOT_A_REPLY.values(), ids=NOT_A_REPLY.keys())
def test_bytes_that_are_no_reply_are_corrupt(frame):
    with pytest.raises(Corrupt) as error:
        decode_answers(INVOKE, decode_reply(frame).body)

    assert error.value.code == "reply_damaged"


@pytest.mark.parametrize("answers", [5, [5], [[0]], [[0, {}]], [[1, {}]]])
def test_answers_to_a_batch_that_make_no_sense_are_corrupt(answers):
    with pytest.raises(Corrupt):
        decode_answers(INVOKE_MANY, decode_reply(pack([7, 0, answers])).body)


def test_an_answer_that_is_too_large_for_a_frame_is_refused_by_the_sender():
    huge = Assigned(tasks=[msgspec.structs.replace(TASK, payload=bytes(16 * 2**20))] * 3)

    with pytest.raises(TooLarge):
        encode_reply(7, BY_NAME["claim"], [huge])


@pytest.mark.parametrize("number", [0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**32, 2**64 - 1])
def test_whose_a_request_is_is_known_from_its_beginning(number):
    frame = encode_request(number, BY_NAME["invoke"], [Invoke(action="send", input=bytes(100))])

    assert request_id_in(frame[8 : 8 + BEGINNING_LENGTH]) == number


@pytest.mark.parametrize(
    "beginning",
    [b"", b"\x93", b"\x92" + bytes(20), b"\x93\xd0" + bytes(20), b"\x93\xa3" + b"a" * 20],
)
def test_of_a_beginning_that_is_none_nobody_is_known(beginning):
    assert request_id_in(beginning) is None
