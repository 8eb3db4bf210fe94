"""The codec, and the bytes that every log written so far is made of."""

import importlib
import pkgutil

import msgspec
import pytest
from msgspec.structs import replace

import flo.engine
from flo.engine.actions.events import ActionDeleted, ActionDisabled, ActionEnabled, ActionRegistered
from flo.engine.actions.records import Action
from flo.engine.callers import CallerNoted
from flo.engine.codec import EVENT_CODEC
from flo.engine.groups.events import (
    ConsumerChosen,
    ConsumerJoined,
    ConsumerLeft,
    DeadRecordPurged,
    DeadRecordRevived,
    GroupCreated,
    GroupDeleted,
    RecordDied,
    RecordsAcked,
    RecordsDelivered,
    RecordsReleased,
    RecordsReturned,
    RecordsTouched,
)
from flo.engine.groups.records import DeadRecord
from flo.engine.kv.events import KeyDeleted, KeyExpired, KeyKept, KeyPut
from flo.engine.losses.events import LossAccepted
from flo.engine.machine import EVENTS
from flo.engine.namespaces.events import NamespaceCreated, NamespaceDeleted
from flo.engine.plans.events import BreakerTurned
from flo.engine.requests.events import KeyedRequestDone, RequestsDone, RequestsForgotten
from flo.engine.runs.events import (
    LateReportNoted,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunGivenBack,
    RunPurged,
    RunQueued,
    RunReleased,
    RunRequeued,
    RunRevived,
    RunsRekeyed,
    RunTimedOut,
    RunTouched,
)
from flo.engine.runs.records import Attempt, LateReport, Run, Timing
from flo.engine.streams.events import (
    RecordsAppended,
    StreamAltered,
    StreamCreated,
    StreamDeleted,
    StreamTrimmed,
)
from flo.engine.workers.events import (
    WorkerBack,
    WorkerDeregistered,
    WorkerDrained,
    WorkerLost,
    WorkerRegistered,
)
from flo.engine.workers.records import Worker
from flo.log.checksums import LINK_FIRST, Link, archived_checksum, link_after
from flo.model.base import Event
from flo.model.errors import Conflict, Corrupt
from flo.model.groups import GroupMode, GroupSettings
from flo.model.runs import RunStatus
from flo.model.storage.caller import Caller, Source
from flo.model.storage.envelope import Envelope, packed
from flo.model.storage.payloads import StoredPayload
from flo.model.storage.records import StreamRecord
from flo.model.streams import Retention
from flo.model.views.attempts import AttemptEnd
from flo.workflow.plan.breaker import BreakerPhase
from log.examples import NOON_MS, action_registered, finished, run_completed, run_queued

from .block_bytes import OF_BLOCKS
from .pipeline_bytes import OF_PIPELINES
from .safety_bytes import OF_SAFETY
from .workflow_bytes import OF_WORKFLOWS, ONCE_OF_WORKFLOWS

ATTEMPT = Attempt(number=1, worker_id="w", started_at_ms=1, ended_at_ms=2, error="e")
RUN = Run(
    run_id="a-1",
    action="a",
    number=1,
    input=b"i",
    priority=10,
    created_at_ms=1,
    ready_at_ms=2,
    idempotency_key="k",
    labels={"l": 1.5},
    attempts=(ATTEMPT,),
)
WORKER = Worker(
    worker_id="w",
    actions=("a",),
    registered_at_ms=2,
    labels={"l": "x"},
    metadata={"m": 1},
    incarnation="i",
    connection_bound=True,
    consumer="c",
    lost_at_ms=5,
    began_at_ms=6,
)
RETENTION = Retention(max_age_ms=1, max_length=2, max_bytes=3)
SETTINGS = GroupSettings(
    mode=GroupMode.KEY_SHARED,
    ack_timeout_ms=1,
    max_deliveries=2,
    redelivery_delay_ms=3,
    slots=4,
    max_standbys=5,
    no_ack=True,
)
RECORD = StreamRecord(sequence=2, at_ms=1, payload=b"p", headers={"h": "x"}, key="k", partition=3)
OF_STREAM = {"namespace": "n", "stream": "s"}
OF_GROUP = {"namespace": "n", "stream": "s", "group": "g"}

# A released row never changes. When an event gets a new field (at its end, with a default),
# add a row for it and move the old one to READABLE: old logs must stay readable.
WRITTEN = [
    (
        ActionRegistered(
            namespace="n",
            action=Action(name="a", description="d", created_at_ms=5, input_schema="{}"),
        ),
        b"\x91\x93\xb0ActionRegistered\xa1n\xdc\x00\x10\xa1a\xcdu0\x03\xcd\x03\xe8\xa1d\x01\xc3\x05\x00\xa2{}\xc0\xc0\xc0\xc0\xc0\x90",
    ),
    (
        ActionDeleted(namespace="n", name="a", at_ms=7),
        b"\x91\x94\xadActionDeleted\xa1n\xa1a\x07",
    ),
    (
        ActionEnabled(namespace="n", name="a", at_ms=7),
        b"\x91\x94\xadActionEnabled\xa1n\xa1a\x07",
    ),
    (
        ActionDisabled(namespace="n", name="a", at_ms=7),
        b"\x91\x94\xaeActionDisabled\xa1n\xa1a\x07",
    ),
    (
        NamespaceCreated(name="n", at_ms=7),
        b"\x91\x93\xb0NamespaceCreated\xa1n\x07",
    ),
    (
        NamespaceDeleted(name="n", at_ms=7),
        b"\x91\x93\xb0NamespaceDeleted\xa1n\x07",
    ),
    (
        RunQueued(namespace="n", run=RUN),
        b'\x91\x93\xa9RunQueued\xa1n\xdc\x00"\xa3a-1\xa1a\x01\xc4\x01i\n\x01\x02\xa7pending\x00\xc0\xc0\xc0\xa1k\x81\xa1l\xcb?\xf8\x00\x00\x00\x00\x00\x00\x91\x9a\x01\xa1w\x01\x02\xa1e\xc0\xc3\xa8reported\xc0\xc0\xc0\xc0\xc0\xc0\xc2\xc2\x00\xc0\xc0\xc0\x00\x00\xc0\xc0\xc0\x00\xc0\xc0\xc0',
    ),
    (
        RunQueued(
            namespace="n", run=replace(RUN, input=StoredPayload(length=65_537, digest=b"sha"))
        ),
        b'\x91\x93\xa9RunQueued\xa1n\xdc\x00"\xa3a-1\xa1a\x01\x92\xce\x00\x01\x00\x01\xc4\x03sha\n\x01\x02\xa7pending\x00\xc0\xc0\xc0\xa1k\x81\xa1l\xcb?\xf8\x00\x00\x00\x00\x00\x00\x91\x9a\x01\xa1w\x01\x02\xa1e\xc0\xc3\xa8reported\xc0\xc0\xc0\xc0\xc0\xc0\xc2\xc2\x00\xc0\xc0\xc0\x00\x00\xc0\xc0\xc0\x00\xc0\xc0\xc0',
    ),
    (
        BreakerTurned(
            namespace="n",
            workflow="w",
            version="v",
            plan="p",
            executor="e",
            phase=BreakerPhase.OPEN,
            at_ms=4,
        ),
        b"\x91\x98\xadBreakerTurned\xa1n\xa1w\xa1v\xa1p\xa1e\xa4open\x04",
    ),
    (
        LossAccepted(at_ms=2, code="c", problem="p", expected_position=7, position=3),
        b"\x91\x96\xacLossAccepted\x02\xa1c\xa1p\x07\x03",
    ),
    (
        CallerNoted(
            at_ms=2,
            caller=Caller(source=Source.RPC, address="a", reason="r"),
            operations=(20, 3, "Tick", 1),
            events=4,
        ),
        b"\x91\x95\xa2By\x02\x94\xa3rpc\xa1a\xc0\xa1r\x94\x14\x03\xa4Tick\x01\x04",
    ),
    (
        CallerNoted(at_ms=2, caller=7, operations=(20, 3), events=3),
        b"\x91\x95\xa2By\x02\x07\x92\x14\x03\x03",
    ),
    (
        RequestsDone(session=300, unheard=4, numbers=(0, 2), replies=(b"a", b"b")),
        b"\x91\x95\xacRequestsDone\xcd\x01,\x04\x92\x00\x02\x92\xc4\x01a\xc4\x01b",
    ),
    (
        KeyedRequestDone(namespace="n", key="k", digest=b"d", reply=b"r"),
        b"\x91\x95\xb0KeyedRequestDone\xa1n\xa1k\xc4\x01d\xc4\x01r",
    ),
    (RequestsForgotten(at_ms=5), b"\x91\x92\xb1RequestsForgotten\x05"),
    (
        RunsRekeyed(namespace="n", action="a", keys=((1, "k"), (2, None))),
        b"\x91\x94\xabRunsRekeyed\xa1n\xa1a\x92\x92\x01\xa1k\x92\x02\xc0",
    ),
    (
        RunReleased(namespace="n", run_id="a-1"),
        b"\x91\x93\xabRunReleased\xa1n\xa3a-1",
    ),
    (
        RunClaimed(
            namespace="n", run_id="a-1", worker_id="w", attempt=1, at_ms=2, lease_expires_at_ms=None
        ),
        b"\x91\x97\xaaRunClaimed\xa1n\xa3a-1\xa1w\x01\x02\xc0",
    ),
    (
        RunTouched(namespace="n", run_id="a-1", lease_expires_at_ms=3, at_ms=2),
        b"\x91\x95\xaaRunTouched\xa1n\xa3a-1\x03\x02",
    ),
    (
        RunCompleted(
            namespace="n",
            run_id="a-1",
            at_ms=4,
            output=b"o",
            outcome="success",
            timing=Timing(took_ms=2, held_ms=1),
        ),
        b"\x91\x97\xacRunCompleted\xa1n\xa3a-1\x04\xc4\x01o\xa7success\x92\x02\x01",
    ),
    (
        RunRequeued(
            namespace="n",
            run_id="a-1",
            at_ms=4,
            error="e",
            ready_at_ms=5,
            error_code="c",
            end=AttemptEnd.WORKER_LEFT,
        ),
        b"\x91\x99\xabRunRequeued\xa1n\xa3a-1\x04\xa1e\x05\xa1c\xabworker_left\xc0",
    ),
    (
        RunGivenBack(namespace="n", run_id="a-1", at_ms=4),
        b"\x91\x94\xacRunGivenBack\xa1n\xa3a-1\x04",
    ),
    (
        RunFailed(
            namespace="n",
            run_id="a-1",
            at_ms=4,
            error="e",
            dead_lettered=False,
            error_code="c",
            retryable=False,
            end=AttemptEnd.REPORTED,
        ),
        b"\x91\x9a\xa9RunFailed\xa1n\xa3a-1\x04\xa1e\xc2\xa1c\xc2\xa8reported\xc0",
    ),
    (
        RunTimedOut(
            namespace="n",
            run_id="a-1",
            at_ms=4,
            error="e",
            error_code="c",
            end=AttemptEnd.LEASE_EXPIRED,
        ),
        b"\x91\x98\xabRunTimedOut\xa1n\xa3a-1\x04\xa1e\xa1c\xadlease_expired\xc0",
    ),
    (
        RunCancelled(namespace="n", run_id="a-1", at_ms=4, reason="r", worker_id="w"),
        b"\x91\x96\xacRunCancelled\xa1n\xa3a-1\x04\xa1r\xa1w",
    ),
    (
        RunRevived(namespace="n", run=RUN, was=RunStatus.TIMED_OUT),
        b'\x91\x94\xaaRunRevived\xa1n\xdc\x00"\xa3a-1\xa1a\x01\xc4\x01i\n\x01\x02\xa7pending\x00\xc0\xc0\xc0\xa1k\x81\xa1l\xcb?\xf8\x00\x00\x00\x00\x00\x00\x91\x9a\x01\xa1w\x01\x02\xa1e\xc0\xc3\xa8reported\xc0\xc0\xc0\xc0\xc0\xc0\xc2\xc2\x00\xc0\xc0\xc0\x00\x00\xc0\xc0\xc0\x00\xc0\xc0\xc0\xa9timed_out',
    ),
    (
        LateReportNoted(
            namespace="n",
            run_id="a-1",
            attempt=1,
            report=LateReport(worker_id="w", at_ms=2, outcome="o", output=b"x"),
        ),
        b"\x91\x96\xafLateReportNoted\xa1n\xa3a-1\x01\x99\xa1w\x02\xa1o\xc4\x01x\xc0\xc0\xc0\xc0\x00\xc0",
    ),
    (
        RunPurged(namespace="n", action="a", number=1, was=RunStatus.FAILED, key="k"),
        b"\x91\x96\xa9RunPurged\xa1n\xa1a\x01\xa6failed\xa1k",
    ),
    (
        WorkerRegistered(namespace="n", worker=WORKER),
        b"\x91\x93\xb0WorkerRegistered\xa1n\xdc\x00\x12\xa1w\x91\xa1a\x02\n\xc0\x81\xa1l\xa1x\xc2\xa6action\x81\xa1m\x01\xa1i\xc3\xa1c\x05\x06\xc0\x90\xc0\xc0",
    ),
    (
        WorkerLost(namespace="n", worker_id="w", at_ms=4, since_ms=1),
        b"\x91\x95\xaaWorkerLost\xa1n\xa1w\x04\x01",
    ),
    (
        WorkerBack(namespace="n", worker_id="w", at_ms=4, held=(("a-1", 2),)),
        b"\x91\x95\xaaWorkerBack\xa1n\xa1w\x04\x91\x92\xa3a-1\x02",
    ),
    (
        WorkerDrained(namespace="n", worker_id="w"),
        b"\x91\x93\xadWorkerDrained\xa1n\xa1w",
    ),
    (
        WorkerDeregistered(namespace="n", worker_id="w", at_ms=4),
        b"\x91\x94\xb2WorkerDeregistered\xa1n\xa1w\x04",
    ),
    (
        StreamCreated(**OF_STREAM, number=1, at_ms=7, partitions=2, retention=RETENTION),
        b"\x91\x97\xadStreamCreated\xa1n\xa1s\x01\x07\x02\x93\x01\x02\x03",
    ),
    (
        StreamAltered(**OF_STREAM, retention=RETENTION),
        b"\x91\x94\xadStreamAltered\xa1n\xa1s\x93\x01\x02\x03",
    ),
    (
        StreamDeleted(**OF_STREAM),
        b"\x91\x93\xadStreamDeleted\xa1n\xa1s",
    ),
    (
        RecordsAppended(**OF_STREAM, count=2, at_ms=7, length=9),
        b"\x91\x96\xafRecordsAppended\xa1n\xa1s\x02\x07\t",
    ),
    (
        StreamTrimmed(**OF_STREAM, first=3, offset=9, at_ms=7),
        b"\x91\x96\xadStreamTrimmed\xa1n\xa1s\x03\t\x07",
    ),
    (
        GroupCreated(**OF_GROUP, number=1, settings=SETTINGS, next=4, at_ms=7),
        b"\x91\x98\xacGroupCreated\xa1n\xa1s\xa1g\x01\x97\xaakey_shared\x01\x02\x03\x04\x05\xc3\x04\x07",
    ),
    (
        GroupDeleted(**OF_GROUP),
        b"\x91\x94\xacGroupDeleted\xa1n\xa1s\xa1g",
    ),
    (
        ConsumerJoined(**OF_GROUP, consumer="c", at_ms=7),
        b"\x91\x96\xaeConsumerJoined\xa1n\xa1s\xa1g\xa1c\x07",
    ),
    (
        ConsumerLeft(**OF_GROUP, consumer="c"),
        b"\x91\x95\xacConsumerLeft\xa1n\xa1s\xa1g\xa1c",
    ),
    (
        ConsumerChosen(**OF_GROUP, consumer="c"),
        b"\x91\x95\xaeConsumerChosen\xa1n\xa1s\xa1g\xa1c",
    ),
    (
        RecordsDelivered(
            **OF_GROUP,
            consumer="c",
            sequences=((1, 2),),
            at_ms=7,
            until_ms=8,
            next=4,
            slots=(5, 6),
            skipped=((3, 3),),
            skipped_slots=(9,),
        ),
        b"\x91\x9c\xb0RecordsDelivered\xa1n\xa1s\xa1g\xa1c\x91\x92\x01\x02\x07\x08\x04\x92\x05\x06\x91\x92\x03\x03\x91\t",
    ),
    (
        RecordsAcked(**OF_GROUP, sequences=((1, 2), (4, 4)), at_ms=7, worker_id="w"),
        b"\x91\x97\xacRecordsAcked\xa1n\xa1s\xa1g\x92\x92\x01\x02\x92\x04\x04\x07\xa1w",
    ),
    (
        RecordsReturned(**OF_GROUP, sequences=((1, 2),), at_ms=7, ready_at_ms=8, worker_id="w"),
        b"\x91\x98\xafRecordsReturned\xa1n\xa1s\xa1g\x91\x92\x01\x02\x07\x08\xa1w",
    ),
    (
        RecordsReleased(**OF_GROUP, sequences=((1, 2),)),
        b"\x91\x95\xafRecordsReleased\xa1n\xa1s\xa1g\x91\x92\x01\x02",
    ),
    (
        RecordsTouched(**OF_GROUP, sequences=((1, 2),), until_ms=8, at_ms=7),
        b"\x91\x97\xaeRecordsTouched\xa1n\xa1s\xa1g\x91\x92\x01\x02\x08\x07",
    ),
    (
        RecordDied(
            **OF_GROUP, dead_record=DeadRecord(record=RECORD, deliveries=4, at_ms=7), slot=5
        ),
        b"\x91\x96\xaaRecordDied\xa1n\xa1s\xa1g\x93\x96\x02\x01\xc4\x01p\x81\xa1h\xa1x\xa1k\x03\x04\x07\x05",
    ),
    (
        DeadRecordRevived(**OF_GROUP, sequence=2, slot=5),
        b"\x91\x96\xb1DeadRecordRevived\xa1n\xa1s\xa1g\x02\x05",
    ),
    (
        DeadRecordPurged(**OF_GROUP, sequence=2),
        b"\x91\x95\xb0DeadRecordPurged\xa1n\xa1s\xa1g\x02",
    ),
    (
        KeyPut(namespace="n", key="k", value=b"v", version=3, at_ms=7, expires_at_ms=8),
        b"\x91\x97\xa6KeyPut\xa1n\xa1k\xc4\x01v\x03\x07\x08",
    ),
    (
        KeyDeleted(namespace="n", key="k", version=3, at_ms=7),
        b"\x91\x95\xaaKeyDeleted\xa1n\xa1k\x03\x07",
    ),
    (
        KeyExpired(namespace="n", key="k", version=3, at_ms=7),
        b"\x91\x95\xaaKeyExpired\xa1n\xa1k\x03\x07",
    ),
    (
        KeyKept(namespace="n", key="k", expires_at_ms=8, at_ms=7),
        b"\x91\x95\xa7KeyKept\xa1n\xa1k\x08\x07",
    ),
]
READABLE: list[tuple[Event, bytes]] = [
    (
        RunQueued(namespace="n", run=RUN),
        b"\x91\x93\xa9RunQueued\xa1n\xdc\x00\x17\xa3a-1\xa1a\x01\xc4\x01i\n\x01\x02\xa7pending\x00\xc0\xc0\xc0\xa1k\x81\xa1l\xcb?\xf8\x00\x00\x00\x00\x00\x00\x91\x95\x01\xa1w\x01\x02\xa1e\xc0\xc0\xc0\xc0\xc2\xc2\x00\xc0",
    ),
    (
        RunQueued(namespace="n", run=RUN),
        b"\x91\x93\xa9RunQueued\xa1n\xdc\x00!\xa3a-1\xa1a\x01\xc4\x01i\n\x01\x02\xa7pending\x00\xc0\xc0\xc0\xa1k\x81\xa1l\xcb?\xf8\x00\x00\x00\x00\x00\x00\x91\x9a\x01\xa1w\x01\x02\xa1e\xc0\xc3\xa8reported\xc0\xc0\xc0\xc0\xc0\xc0\xc2\xc2\x00\xc0\xc0\xc0\x00\x00\xc0\xc0\xc0\x00\xc0\xc0",
    ),
    (
        RunRequeued(namespace="n", run_id="a-1", at_ms=4, error="e", ready_at_ms=5),
        b"\x91\x96\xabRunRequeued\xa1n\xa3a-1\x04\xa1e\x05",
    ),
    (
        RunFailed(namespace="n", run_id="a-1", at_ms=4, error="e", dead_lettered=True),
        b"\x91\x96\xa9RunFailed\xa1n\xa3a-1\x04\xa1e\xc3",
    ),
    (
        RunTimedOut(namespace="n", run_id="a-1", at_ms=4, error="e"),
        b"\x91\x95\xabRunTimedOut\xa1n\xa3a-1\x04\xa1e",
    ),
    (
        RunRevived(namespace="n", run=RUN, was=RunStatus.TIMED_OUT),
        b"\x91\x94\xaaRunRevived\xa1n\xdc\x00\x17\xa3a-1\xa1a\x01\xc4\x01i\n\x01\x02\xa7pending\x00\xc0\xc0\xc0\xa1k\x81\xa1l\xcb?\xf8\x00\x00\x00\x00\x00\x00\x91\x95\x01\xa1w\x01\x02\xa1e\xc0\xc0\xc0\xc0\xc2\xc2\x00\xc0\xa9timed_out",
    ),
    (
        RunTouched(namespace="n", run_id="a-1", lease_expires_at_ms=3),
        b"\x91\x94\xaaRunTouched\xa1n\xa3a-1\x03",
    ),
    (
        RecordsTouched(**OF_GROUP, sequences=((1, 2),), until_ms=8),
        b"\x91\x96\xaeRecordsTouched\xa1n\xa1s\xa1g\x91\x92\x01\x02\x08",
    ),
    (
        KeyKept(namespace="n", key="k", expires_at_ms=8),
        b"\x91\x94\xa7KeyKept\xa1n\xa1k\x08",
    ),
    (
        ActionRegistered(
            namespace="n",
            action=Action(name="a", description="d", created_at_ms=5, input_schema="{}"),
        ),
        b"\x91\x93\xb0ActionRegistered\xa1n\x9b\xa1a\xcdu0\x03\xcd\x03\xe8\xa1d\x01\xc3\x05\x00\xa2{}\xc0",
    ),
    (
        RunQueued(namespace="n", run=RUN),
        b"\x91\x93\xa9RunQueued\xa1n\xdc\x00\x16\xa3a-1\xa1a\x01\xc4\x01i\n\x01\x02\xa7pending\x00\xc0\xc0\xc0\xa1k\x81\xa1l\xcb?\xf8\x00\x00\x00\x00\x00\x00\x91\x95\x01\xa1w\x01\x02\xa1e\xc0\xc0\xc0\xc0\xc2\xc2\x00",
    ),
    (
        ActionRegistered(
            namespace="n",
            action=Action(name="a", description="d", created_at_ms=5, input_schema="{}"),
        ),
        b"\x91\x93\xb0ActionRegistered\xa1n\x9f\xa1a\xcdu0\x03\xcd\x03\xe8\xa1d\x01\xc3\x05\x00\xa2{}\xc0\xc0\xc0\xc0\xc0",
    ),
    (
        ActionRegistered(namespace="n", action=Action(name="a", description="d", created_at_ms=5)),
        b"\x91\x93\xb0ActionRegistered\xa1n\x99\xa1a\xcdu0\x03\xcd\x03\xe8\xa1d\x01\xc3\x05\x00",
    ),
    (
        RunQueued(namespace="n", run=RUN),
        b"\x91\x93\xa9RunQueued\xa1n\xdc\x00\x15\xa3a-1\xa1a\x01\xc4\x01i\n\x01\x02\xa7pending\x00\xc0\xc0\xc0\xa1k\x81\xa1l\xcb?\xf8\x00\x00\x00\x00\x00\x00\x91\x95\x01\xa1w\x01\x02\xa1e\xc0\xc0\xc0\xc0\xc2\xc2",
    ),
    (
        WorkerRegistered(
            namespace="n",
            worker=Worker(worker_id="w", actions=("a",), registered_at_ms=2, labels={"l": "x"}),
        ),
        b"\x91\x93\xb0WorkerRegistered\xa1n\x97\xa1w\x91\xa1a\x02\n\xc0\x81\xa1l\xa1x\xc2",
    ),
]


@pytest.mark.parametrize(("event", "body"), WRITTEN)
def test_an_event_is_written_as_it_always_was(event, body):
    assert EVENT_CODEC.encode([event]) == body


@pytest.mark.parametrize(("event", "body"), WRITTEN + READABLE + ONCE_OF_WORKFLOWS)
def test_what_was_ever_written_can_be_read(event, body):
    assert EVENT_CODEC.decode(body) == [event]


def test_every_event_has_golden_bytes():
    assert {
        type(event) for event, _ in WRITTEN + OF_WORKFLOWS + OF_PIPELINES + OF_BLOCKS + OF_SAFETY
    } == set(EVENTS)


def test_the_checksums_are_those_that_are_in_every_log():
    body = EVENT_CODEC.encode([RunReleased(namespace="n", run_id="a-1")])

    link = link_after(LINK_FIRST, 0, 1, NOON_MS, body)
    assert link.checksum == 4249172658
    assert link.digest.hex() == ("062d77bf9e136a7dadd7ea755f3881c1d74a80b7bc841a97d56f28a26e6cb951")
    assert archived_checksum(finished(7, key="k", body=b"b")) == 254465254


def test_every_event_of_the_model_can_be_read_back():
    for module in pkgutil.walk_packages(flo.engine.__path__, "flo.engine."):
        importlib.import_module(module.name)

    declared = {one for one in Event.__subclasses__() if one.__module__.startswith("flo.engine.")}

    assert declared == set(EVENTS)


def test_a_batch_comes_back_in_order():
    events = [action_registered(), run_queued(), run_completed(), run_queued()]

    assert EVENT_CODEC.decode(EVENT_CODEC.encode(events)) == events


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "got 0 bytes"),
        (b"\xc1", "got 1 bytes"),
        (EVENT_CODEC.encode([run_completed()])[:-1], "truncated"),
        (EVENT_CODEC.encode([run_completed()]) + b"\x00", "trailing"),
        (msgspec.msgpack.encode([["RunVanished", "default"]]), "'RunVanished'"),
        (msgspec.msgpack.encode([["RunReleased", "default", 7]]), "Expected `str`"),
        (b"\x91\x93\xabRunReleased\xa1n\xa1\xff", "utf"),
    ],
)
def test_bytes_that_are_no_events_are_corrupt(body, complaint):
    with pytest.raises(Corrupt, match=complaint):
        EVENT_CODEC.decode(body)


def test_every_part_of_an_entry_is_in_its_checksum():
    entry = (11, 7, 1, NOON_MS, b"body")
    changed = [
        (12, 7, 1, NOON_MS, b"body"),
        (11, 8, 1, NOON_MS, b"body"),
        (11, 7, 2, NOON_MS, b"body"),
        (11, 7, 1, NOON_MS + 1, b"body"),
        (11, 7, 1, NOON_MS, b"bodY"),
    ]

    link, *others = (link_after(Link(one, bytes([one])), *rest) for one, *rest in (entry, *changed))
    assert link.checksum not in [other.checksum for other in others]
    assert link.digest not in [other.digest for other in others]


def test_a_sealed_payload_is_refused_by_the_name_of_its_key():
    body = with_payload(packed(Envelope(key_id="customer-7", sealed=b"?")))

    with pytest.raises(Conflict, match="sealed with key 'customer-7'") as refusal:
        EVENT_CODEC.decode(body)

    assert refusal.value.code == "payload_sealed"
    assert refusal.value.details == {"key_id": "customer-7"}


def test_an_extension_that_is_no_envelope_is_corrupt():
    with pytest.raises(Corrupt, match="got `ext`"):
        EVENT_CODEC.decode(with_payload(msgspec.msgpack.Ext(2, b"?")))


def with_payload(payload):
    """A run that has completed, with this in the place of its output."""
    (completed,) = msgspec.msgpack.decode(EVENT_CODEC.encode([run_completed(b"output")]))
    completed[completed.index(b"output")] = payload
    return msgspec.msgpack.encode([completed])


def test_every_part_of_a_finished_run_is_in_its_checksum():
    run = finished(7, key="k", body=b"body")
    changed = {
        "kind": "workflow",
        "namespace": "other",
        "name": "other",
        "number": 8,
        "status": "failed",
        "finished_at_ms": 1,
        "key": None,
        "body": b"bodY",
        "dead": True,
        "sequence": 9,
        "tags": ("a",),
    }
    others = [msgspec.structs.replace(run, **{field: value}) for field, value in changed.items()]

    assert set(changed) == set(run.__struct_fields__)
    assert archived_checksum(run) not in [archived_checksum(other) for other in others]


@pytest.mark.parametrize(("event", "body"), OF_WORKFLOWS + OF_PIPELINES + OF_BLOCKS + OF_SAFETY)
def test_an_event_of_workflows_is_written_as_it_always_was_and_can_be_read(event, body):
    assert EVENT_CODEC.encode([event]) == body
    assert EVENT_CODEC.decode(body) == [event]
