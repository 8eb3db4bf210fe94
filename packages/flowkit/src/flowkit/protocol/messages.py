"""Enums and messages of FlowKit's protocol, for programs that read or make envelopes."""

import json
import time
import uuid
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any, Self


class RunState(str, Enum):
    queued = "queued"
    running = "running"
    deferred = "deferred"
    cancelling = "cancelling"
    finished = "finished"
    failed = "failed"


class MsgType(str, Enum):
    cmd = "cmd"
    event = "event"
    heartbeat = "heartbeat"
    query = "query"
    reply = "reply"


class Role(str, Enum):
    coordinator = "coordinator"
    worker = "worker"


class CommandKind(str, Enum):
    TASK_START = "TASK_START"
    TASK_CANCEL = "TASK_CANCEL"
    TASK_PAUSE = "TASK_PAUSE"
    TASK_RESUME = "TASK_RESUME"


class EventKind(str, Enum):
    WORKER_ONLINE = "WORKER_ONLINE"
    WORKER_OFFLINE = "WORKER_OFFLINE"
    TASK_ACCEPTED = "TASK_ACCEPTED"
    TASK_HEARTBEAT = "TASK_HEARTBEAT"
    TASK_RESUMED = "TASK_RESUMED"
    BATCH_OK = "BATCH_OK"
    BATCH_FAILED = "BATCH_FAILED"
    TASK_DONE = "TASK_DONE"
    TASK_FAILED = "TASK_FAILED"
    CANCELLED = "CANCELLED"


class QueryKind(str, Enum):
    TASK_DISCOVER = "TASK_DISCOVER"


class ReplyKind(str, Enum):
    TASK_SNAPSHOT = "TASK_SNAPSHOT"


class SigKind(str, Enum):
    CANCEL = "CANCEL"


class _Model:
    """What FlowKit's models offer besides their fields."""

    def model_dump(self, *, mode: str = "python", **_: Any) -> dict[str, Any]:
        """The fields; with mode="json", enums as their values."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return _values(values) if mode == "json" else values

    def model_dump_json(self, **_: Any) -> str:
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def model_validate(cls, values: Any) -> Self:
        """From a mapping; unknown fields are passed over, missing ones are an error."""
        if isinstance(values, cls):
            return values
        known = {one.name for one in fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: value for name, value in dict(values).items() if name in known})


def _values(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _values(one) for key, one in value.items()}
    return [_values(one) for one in value] if isinstance(value, list | tuple) else value


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _uuid() -> str:
    return str(uuid.uuid4())


@dataclass(kw_only=True)
class Envelope(_Model):
    v: int = 1
    msg_type: MsgType
    role: Role
    corr_id: str = field(default_factory=_uuid)
    dedup_id: str
    task_id: str
    node_id: str
    step_type: str
    attempt_epoch: int
    ts_ms: int = field(default_factory=_now_ms)
    payload: dict[str, Any] = field(default_factory=dict)
    target_worker_id: str | None = None

    def __post_init__(self) -> None:
        self.msg_type, self.role = MsgType(self.msg_type), Role(self.role)


@dataclass(kw_only=True)
class CmdTaskStart(_Model):
    cmd: CommandKind = CommandKind.TASK_START
    input_ref: dict[str, Any] | None = None
    input_inline: dict[str, Any] | None = None
    batching: dict[str, Any] | None = None
    cancel_token: str


@dataclass(kw_only=True)
class CmdTaskCancel(_Model):
    cmd: CommandKind = CommandKind.TASK_CANCEL
    reason: str
    cancel_token: str


@dataclass(kw_only=True)
class EvWorkerOnline(_Model):
    kind: EventKind = EventKind.WORKER_ONLINE
    worker_id: str
    type: str
    capabilities: dict[str, Any] = field(default_factory=dict)
    version: str = "2.0.0"
    capacity: dict[str, Any] = field(default_factory=lambda: {"tasks": 1})
    resume: dict[str, Any] | None = None


@dataclass(kw_only=True)
class EvWorkerOffline(_Model):
    kind: EventKind = EventKind.WORKER_OFFLINE
    worker_id: str


@dataclass(kw_only=True)
class _Leased(_Model):
    worker_id: str
    lease_id: str
    lease_deadline_ts_ms: int


@dataclass(kw_only=True)
class EvTaskAccepted(_Leased):
    kind: EventKind = EventKind.TASK_ACCEPTED


@dataclass(kw_only=True)
class EvHeartbeat(_Leased):
    kind: EventKind = EventKind.TASK_HEARTBEAT


@dataclass(kw_only=True)
class EvBatchOk(_Model):
    kind: EventKind = EventKind.BATCH_OK
    worker_id: str
    batch_uid: str
    metrics: dict[str, Any] = field(default_factory=dict)
    artifacts_ref: dict[str, Any] | None = None


@dataclass(kw_only=True)
class EvBatchFailed(_Model):
    kind: EventKind = EventKind.BATCH_FAILED
    worker_id: str
    batch_uid: str
    reason_code: str
    permanent: bool = False
    error: str | None = None
    artifacts_ref: dict[str, Any] | None = None


@dataclass(kw_only=True)
class EvTaskDone(_Model):
    kind: EventKind = EventKind.TASK_DONE
    worker_id: str
    metrics: dict[str, Any] = field(default_factory=dict)
    artifacts_ref: dict[str, Any] | None = None
    final_uid: str = "__final__"


@dataclass(kw_only=True)
class EvTaskFailed(_Model):
    kind: EventKind = EventKind.TASK_FAILED
    worker_id: str
    reason_code: str
    permanent: bool = False
    error: str | None = None


@dataclass(kw_only=True)
class EvCancelled(_Model):
    kind: EventKind = EventKind.CANCELLED
    worker_id: str
    reason: str


@dataclass(kw_only=True)
class QTaskDiscover(_Model):
    query: QueryKind = QueryKind.TASK_DISCOVER
    want_epoch: int


@dataclass(kw_only=True)
class RTaskSnapshot(_Model):
    reply: ReplyKind = ReplyKind.TASK_SNAPSHOT
    worker_id: str
    run_state: str
    attempt_epoch: int
    lease: dict[str, Any] | None = None
    progress: dict[str, Any] | None = None
    artifacts: dict[str, Any] | None = None


@dataclass(kw_only=True)
class SigCancel(_Model):
    sig: SigKind = SigKind.CANCEL
    reason: str
    cancel_token: str | None = None
    deadline_ts_ms: int | None = None
