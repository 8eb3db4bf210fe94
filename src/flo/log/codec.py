"""Events to bytes and back, and the checksums that say whether the bytes are still ours.

The checksum of an entry covers its bytes, its place and its time, and the checksum of the entry
before it: an entry that was changed, swapped, doubled or taken away breaks the chain.
"""

import struct
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any
from zlib import crc32

import msgspec

from flo.model.actions import (
    ActionDeleted,
    ActionDisabled,
    ActionEnabled,
    ActionRegistered,
    ModuleStored,
)
from flo.model.archive import Archived
from flo.model.base import Event
from flo.model.errors import Corrupt
from flo.model.groups import (
    ConsumerChosen,
    ConsumerJoined,
    ConsumerLeft,
    GroupCreated,
    GroupDeleted,
    LetterPurged,
    LetterRevived,
    RecordDied,
    RecordsAcked,
    RecordsDelivered,
    RecordsReleased,
    RecordsReturned,
    RecordsTouched,
)
from flo.model.kv import KeyDeleted, KeyExpired, KeyKept, KeyPut
from flo.model.namespaces import NamespaceCreated, NamespaceDeleted
from flo.model.runs import (
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunPurged,
    RunQueued,
    RunReleased,
    RunRequeued,
    RunRevived,
    RunsRekeyed,
    RunTimedOut,
    RunTouched,
)
from flo.model.schedules import ScheduleFired, ScheduleRemoved, ScheduleSet
from flo.model.streams import (
    RecordsAppended,
    StreamAltered,
    StreamCreated,
    StreamDeleted,
    StreamTrimmed,
)
from flo.model.workers import WorkerDeregistered, WorkerDrained, WorkerRegistered
from flo.model.workflow_facts import (
    ActionEnded,
    BranchClosed,
    BranchEnded,
    BranchOpened,
    ChildCancelled,
    HistoryFiled,
    PlanNoted,
    PollExhausted,
    RollbackBegan,
    SignalMatched,
    SignalReceived,
    SignalTimedOut,
    StepEnded,
    StepHeld,
    StepStarted,
    StepUndone,
    WorkflowAdmitted,
    WorkflowCreated,
    WorkflowDeleted,
    WorkflowDisabled,
    WorkflowEnabled,
    WorkflowFinished,
    WorkflowPaused,
    WorkflowResumed,
    WorkflowStarted,
)

FORMAT_VERSION = 1
CHECKSUM_FIRST = 0
"""What the first entry of all is chained to."""

EVENTS: tuple[type[Event], ...] = (
    ActionRegistered,
    ActionDeleted,
    ActionEnabled,
    ActionDisabled,
    NamespaceCreated,
    NamespaceDeleted,
    RunQueued,
    RunsRekeyed,
    RunReleased,
    RunClaimed,
    RunTouched,
    RunCompleted,
    RunRequeued,
    RunFailed,
    RunTimedOut,
    RunCancelled,
    RunRevived,
    RunPurged,
    WorkerRegistered,
    WorkerDrained,
    WorkerDeregistered,
    StreamCreated,
    StreamAltered,
    StreamDeleted,
    RecordsAppended,
    StreamTrimmed,
    GroupCreated,
    GroupDeleted,
    ConsumerJoined,
    ConsumerLeft,
    ConsumerChosen,
    RecordsDelivered,
    RecordsAcked,
    RecordsReturned,
    RecordsReleased,
    RecordsTouched,
    RecordDied,
    LetterRevived,
    LetterPurged,
    KeyPut,
    KeyDeleted,
    KeyExpired,
    KeyKept,
    ModuleStored,
    WorkflowCreated,
    WorkflowDeleted,
    WorkflowDisabled,
    WorkflowEnabled,
    WorkflowStarted,
    StepStarted,
    StepHeld,
    ActionEnded,
    StepEnded,
    BranchOpened,
    BranchEnded,
    BranchClosed,
    PlanNoted,
    PollExhausted,
    ChildCancelled,
    SignalReceived,
    SignalMatched,
    SignalTimedOut,
    WorkflowPaused,
    WorkflowResumed,
    RollbackBegan,
    StepUndone,
    WorkflowFinished,
    HistoryFiled,
    WorkflowAdmitted,
    ScheduleSet,
    ScheduleRemoved,
    ScheduleFired,
)

_union: Any = reduce(or_, EVENTS)
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Event]] = msgspec.msgpack.Decoder(list[_union])
_place = struct.Struct("<qqqq")


def encode_events(events: Sequence[Event]) -> bytes:
    return _encoder.encode(events)


def decode_events(body: bytes) -> list[Event]:
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(
            f"expected events of format {FORMAT_VERSION}, got {len(body)} bytes that cannot be "
            f"read as such: {error}"
        ) from error


def entry_checksum(previous: int, first: int, count: int, at_ms: int, body: bytes) -> int:
    return crc32(body, crc32(_place.pack(previous, first, count, at_ms)))


def archived_checksum(archived: Archived) -> int:
    return crc32(_encoder.encode(archived))
