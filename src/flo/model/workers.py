"""A registered worker: commands, queries, replies."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from flo.model.base import Message, Nothing
from flo.model.declare.fields import (
    BlockMs,
    Checked,
    Cursor,
    Limit,
    NewNamespace,
    Range,
    Text,
    about,
)
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.errors import TooLarge
from flo.model.ids import (
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    ActionName,
    ConsumerName,
    Labels,
    Namespace,
    RunId,
    WorkerId,
    check_action_name,
    check_json,
    check_labels,
    check_text,
    check_worker_id,
)

WORKERS_MAX = 10_000
ACTIONS_PER_WORKER_MAX = 1_000
INLINE_WORKER_ID = "flo-inline"
"""Who holds the runs that the server executes itself: those of WebAssembly actions."""
WORKER_GRACE_MS_DEFAULT = 3_000
"""How long a worker whose connection broke may take to come back."""
CONCURRENCY_DEFAULT = 10
CONCURRENCY_MAX = 100_000
METADATA_LENGTH_MAX = 16_384
BUILD_ID_LENGTH_MAX = 200
CODE_DIGEST_LENGTH_MAX = 128
HANDLERS_LENGTH_MAX = 65_536
"""What a worker may say of its handlers, as JSON: the schemas are most of it."""
HELD_TASKS_MAX = 100_000
SILENCE_MS_MAX = 90_000
"""A worker not heard of for longer than this is unhealthy."""


def _check_held(held: list[Any]) -> None:
    if len(held) > HELD_TASKS_MAX:
        raise TooLarge(f"expected at most {HELD_TASKS_MAX} held tasks, got {len(held)}")


class Effect(StrEnum):
    """What becomes of the world when a handler is called twice for one task."""

    NONE = "none"
    """Nothing: it changes nothing outside."""
    IDEMPOTENT = "idempotent"
    """The same as after one call."""
    KEYED = "keyed"
    """The same, since it hands on a key by which the other side knows a repetition."""
    UNSAFE = "unsafe"
    """The effect may happen twice."""


class HandlerInfo(Message):
    """What a worker says of the code that it performs an action, or reads a stream, with."""

    action: ActionName
    """Of a stream worker, the stream and its group: `orders/billing`."""
    effect: Effect = Effect.UNSAFE
    code_digest: str | None = None
    """SHA-256 of the source of the handler, or of its bytecode."""
    input_schema: dict[str, Any] | None = None
    """From its annotations."""
    output_schema: dict[str, Any] | None = None


def _check_handlers(handlers: list[HandlerInfo]) -> None:
    if len(handlers) > ACTIONS_PER_WORKER_MAX:
        raise TooLarge(f"expected at most {ACTIONS_PER_WORKER_MAX} handlers, got {len(handlers)}")
    for handler in handlers:
        for part in handler.action.split("/", 1):  # a stream and its group
            check_action_name(part)
        check_json(handler.input_schema, "input_schema")
        check_json(handler.output_schema, "output_schema")
        if handler.code_digest is not None:
            check_text(handler.code_digest, "code_digest", CODE_DIGEST_LENGTH_MAX)
    length = len(msgspec.json.encode(handlers))
    if length > HANDLERS_LENGTH_MAX:
        raise TooLarge(
            f"expected handlers of at most {HANDLERS_LENGTH_MAX} bytes as JSON, got {length}: "
            "leave out their schemas"
        )


class WorkerStatus(StrEnum):
    ACTIVE = "active"
    IDLE = "idle"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"


class WorkerType(StrEnum):
    ACTION = "action"
    STREAM = "stream"
    PIPELINE = "pipeline"
    """Its processes are the roles of nodes that it runs."""
    BLOCK = "block"
    """It does the jobs of function blocks; each block has an action for each type of job."""

    @property
    def runs_actions(self) -> bool:
        """Whether what it has in hand are runs of actions."""
        return self in (WorkerType.ACTION, WorkerType.BLOCK)


class WorkerConnection(StrEnum):
    """How it stands with a worker whose connection is its sign of life."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    """Its connection is broken: unless it is back within the grace period, it is lost."""
    LOST = "lost"
    """It did not come back in time: its tasks have been released."""


class WorkerKnown(Message):
    """The answer to everything a worker says about itself."""

    worker_id: WorkerId
    status: WorkerStatus


class HeldTask(Message):
    """A task that a worker says it holds."""

    run_id: RunId
    attempt: int


class Resumed(Message):
    """The answer to a worker that is back; `lost` are the tasks that it does not hold any more."""

    worker_id: WorkerId
    status: WorkerStatus
    lost: list[RunId] = msgspec.field(default_factory=list)


class Notifications(Message):
    """Tasks the worker should stop, and whether to take no more; `last` goes into the next wait."""

    last: int
    cancelled: list[RunId] = msgspec.field(default_factory=list)
    draining: bool = False


class ProcessView(Message):
    name: str
    kind: str
    run_count: int
    fail_count: int
    last_run_at_ms: int | None


class WorkerView(Message):
    """A worker as its users see it."""

    worker_id: WorkerId
    worker_type: WorkerType
    status: WorkerStatus
    namespace: Namespace
    max_concurrency: int
    current_load: int
    tasks_completed: int
    tasks_failed: int
    registered_at_ms: int
    last_heartbeat_ms: int = msgspec.field(name="last_heartbeat")
    machine_id: str | None
    labels: Labels | None
    metadata: dict[str, Any] | None
    processes: list[ProcessView]
    connection: WorkerConnection | None = None
    """None of a worker that lives by its heartbeats."""
    build_id: str | None = None
    """Which build of its code it runs, as it says."""
    handlers: list[HandlerInfo] = msgspec.field(default_factory=list)
    abandoned: int = 0
    """How much of its load are handlers that were told to stop, and still run."""


class WorkerPage(Message):
    items: list[WorkerView]
    cursor: str | None = None


@operation(
    opcode=40,
    permission=Permission.TASKS_WORK,
    repeatable=lambda command: command.worker_id != "",
    http=Route(
        "POST", "/workers", status=201, errors=(409,), without=("connection_bound", "consumer")
    ),
)
class RegisterWorker(Command[WorkerKnown]):
    """Register a worker, or replace its registration."""

    processes: Annotated[
        list[ActionName], about("What it performs: actions, or streams as stream/group.")
    ]
    worker_id: Annotated[
        WorkerId,
        Checked(check_worker_id),
        about("The worker's id; the server makes one if it is left out."),
    ] = ""
    namespace: NewNamespace = NAMESPACE_DEFAULT
    max_concurrency: Annotated[
        int, Range(1, CONCURRENCY_MAX), about("How many tasks it carries out at a time.")
    ] = CONCURRENCY_DEFAULT
    machine_id: Annotated[str | None, Text(), about("The machine it runs on.")] = None
    labels: Annotated[
        Labels | None,
        Checked(lambda labels: check_labels(labels, "labels")),
        about("What it has, for runs that ask for it."),
    ] = None
    metadata: Annotated[
        dict[str, Any] | str | None,
        about(
            "Anything worth knowing, as a JSON object or its text; without `labels`, its flat "
            "values are the labels."
        ),
    ] = None
    worker_type: Annotated[WorkerType, about("What it performs.")] = WorkerType.ACTION
    incarnation: Annotated[
        str,
        Text(),
        about("Another one for every start of its process: a drain lasts while it is the same."),
    ] = ""
    connection_bound: Annotated[
        bool,
        about(
            "The connection is its sign of life: when it breaks, and the worker does not resume "
            "within the grace period of the server, its tasks are released."
        ),
    ] = False
    consumer: Annotated[
        ConsumerName | None, Text(), about("The consumer that a stream worker reads as.")
    ] = None
    build_id: Annotated[
        str | None, Text(BUILD_ID_LENGTH_MAX), about("Which build of its code it runs.")
    ] = None
    handlers: Annotated[
        list[HandlerInfo] | None,
        Checked(_check_handlers),
        about("The code that it performs its actions with."),
    ] = None


@operation(opcode=47, permission=Permission.TASKS_WORK, repeatable=True)
class ResumeWorker(Command[Resumed]):
    """Say, on another connection, that the worker is back and which tasks it holds.

    Whatever else was leased to this incarnation was never heard of by it: that is released, and has
    used up no attempt.
    """

    worker_id: WorkerId
    incarnation: Annotated[str, Text(), about("That of its registration.")]
    held: Annotated[list[HeldTask], Checked(_check_held), about("The tasks that it holds.")]
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=41,
    permission=Permission.TASKS_WORK,
    repeatable=True,
    http=Route(
        "POST",
        "/workers/{worker_id}/heartbeat",
        errors=(404,),
        name="heartbeat_worker",
        is_body_optional=True,
    ),
)
class Heartbeat(Command[WorkerKnown]):
    """Say that the worker is alive; the answer tells it when it is to drain."""

    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT
    current_load: Annotated[
        int, Range(0, CONCURRENCY_MAX), about("How many tasks it has in hand.")
    ] = 0
    abandoned: Annotated[
        int,
        Range(0, CONCURRENCY_MAX),
        about("How many of them were told to stop and still run: they hold its places."),
    ] = 0


@operation(
    opcode=42,
    permission=Permission.WORKERS_MANAGE,
    http=Route("POST", "/workers/{worker_id}/drain", errors=(404,)),
)
class DrainWorker(Command[WorkerKnown]):
    """No new tasks for this worker, for as long as its process lives (see `incarnation`)."""

    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=43, permission=Permission.TASKS_WORK, http=Route("DELETE", "/workers/{worker_id}")
)
class DeregisterWorker(Command[Nothing]):
    """Take a worker off the list; what it holds goes back at once. Gone already is fine."""

    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=44,
    permission=Permission.WORKERS_READ,
    http=Route("GET", "/workers/{worker_id}", errors=(404,)),
)
class GetWorker(Query[WorkerView]):
    """A worker: its status, its load, and what it has done for each action."""

    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=45, permission=Permission.WORKERS_READ, http=Route("GET", "/workers"))
class ListWorkers(Query[WorkerPage]):
    """The registered workers, by id; one that was lost an hour ago is left out."""

    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None
    all: Annotated[bool, about("Also those that were lost long ago.")] = False


@operation(
    opcode=46,
    permission=Permission.TASKS_WORK,
    http=Route("GET", "/workers/{worker_id}/notifications", errors=(404,)),
)
class AwaitNotifications(Query[Notifications]):
    """What a worker should know at once: which of its tasks were cancelled, and whether to drain.

    The answer comes as soon as there is any; a worker that drains has it without waiting.
    """

    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT
    after: Annotated[int, Range(0), about("The `last` of the answer before this one.")] = 0
    block_ms: BlockMs = 30_000
