"""Blocks: what a worker registers of them, and what is shown."""

from enum import StrEnum
from typing import Annotated, Any

from flo.model.base import Message, Nothing
from flo.model.blocks.names import (
    BLOCKS_PER_CALL_MAX,
    BlockId,
    Package,
    PartName,
    Reference,
    SemanticVersion,
)
from flo.model.declare.fields import (
    Cursor,
    ItemCount,
    Limit,
    NewNamespace,
    Range,
    Text,
    about,
)
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import (
    DURATION_MS_MAX,
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    ActionName,
    Namespace,
    WorkerId,
)

TIMEOUT_MS_DEFAULT = 300_000
ATTEMPTS_DEFAULT = 3
ATTEMPTS_MAX = 100
HELP_LENGTH_MAX = 65_536


class RunOn(StrEnum):
    """What a block is run for."""

    GLOBAL = "global"
    DEVICE = "device"
    INTERFACE = "interface"
    GROUP = "group"
    CLIENT = "client"


class BlockType(StrEnum):
    CONFIGURE = "configure"
    FACTS = "facts"
    CHECK = "check"
    EXECUTE = "execute"
    NONE = "none"


class OnWorkerLost(StrEnum):
    """What becomes of an EXECUTE job whose worker is lost."""

    REQUEUE = "requeue"
    """Another worker gets it, as another attempt."""
    FAIL = "fail"
    """It has failed, and so has its step, unless that is tried again."""


class BlockDeclaration(Message):
    """A block as its worker describes it."""

    package: Package
    name: PartName
    version: SemanticVersion = "1.0.0"
    description: Annotated[str, Text(), about("What it does, for people.")] = ""
    help: Annotated[str, Text(HELP_LENGTH_MAX), about("The same at length, in Markdown.")] = ""
    run_on: Annotated[RunOn, about("What it is run for.")] = RunOn.GLOBAL
    type: Annotated[BlockType, about("What kind of work it is.")] = BlockType.EXECUTE
    deprecated: Annotated[bool, about("Whether new workflows should use another one.")] = False
    parameter_schema: Annotated[
        dict[str, Any] | None, about("The JSON Schema of its parameters.")
    ] = None
    result_schema: Annotated[
        dict[str, Any] | None, about("The JSON Schema of the data of its result.")
    ] = None
    pure: Annotated[bool, about("It changes nothing: there is never anything to undo.")] = False
    idempotent: Annotated[bool, about("To do it twice is as good as once.")] = False
    reversible: Annotated[bool, about("Whether ROLLBACK undoes what EXECUTE has done.")] = False
    timeout_ms: Annotated[
        int, Range(0, DURATION_MS_MAX), about("The longest a job may take; 0 is no limit.")
    ] = TIMEOUT_MS_DEFAULT
    on_worker_lost: Annotated[
        OnWorkerLost, about("What becomes of an EXECUTE job whose worker is lost.")
    ] = OnWorkerLost.REQUEUE
    max_attempts: Annotated[
        int, Range(1, ATTEMPTS_MAX), about("How often a job is given out at most.")
    ] = ATTEMPTS_DEFAULT


class RegisteredBlock(Message):
    block: str
    created: bool
    """False if it was there already."""


class BlocksRegistered(Message):
    blocks: list[RegisteredBlock]


class BlockView(Message):
    """A block as its users see it."""

    block: str
    package: str
    name: str
    version: str
    description: str
    help: str
    run_on: RunOn
    type: BlockType
    deprecated: bool
    parameter_schema: dict[str, Any] | None
    result_schema: dict[str, Any] | None
    pure: bool
    idempotent: bool
    reversible: bool
    timeout_ms: int
    on_worker_lost: OnWorkerLost
    max_attempts: int
    created_at_ms: int
    updated_at_ms: int
    actions: list[ActionName]
    """Those whose runs are its jobs."""
    workers: list[WorkerId]
    """Those that are registered for it."""
    jobs: dict[str, int]
    """Its EXECUTE jobs, by the status of their runs."""


class BlockPage(Message):
    items: list[BlockView]
    cursor: str | None = None


@operation(
    opcode=210,
    permission=Permission.TASKS_WORK,
    repeatable=True,
    http=Route("POST", "/blocks", errors=(409,)),
)
class RegisterBlocks(Command[BlocksRegistered]):
    """Register blocks, all or none of them; what is there already in this form changes nothing.

    A version may ask for no parameter that the same version, or the newest before it of the same
    major number, did not ask for.
    """

    blocks: Annotated[
        list[BlockDeclaration], ItemCount(BLOCKS_PER_CALL_MAX, "blocks"), about("The blocks.")
    ]
    worker_id: Annotated[WorkerId | None, about("Who offers them, for the log.")] = None
    namespace: NewNamespace = NAMESPACE_DEFAULT


@operation(
    opcode=211,
    permission=Permission.ACTIONS_READ,
    http=Route("GET", "/blocks"),
)
class ListBlocks(Query[BlockPage]):
    """The registered blocks, by name and version."""

    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None


@operation(
    opcode=212,
    permission=Permission.ACTIONS_READ,
    http=Route("GET", "/blocks/{block}", errors=(404,)),
)
class GetBlock(Query[BlockView]):
    """A block: its schemas, its flags, who offers it, and its jobs by status."""

    block: Reference
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=213,
    permission=Permission.ACTIONS_WRITE,
    http=Route("DELETE", "/blocks/{block}", errors=(404,)),
)
class DeleteBlock(Command[Nothing]):
    """Forget a version of a block; its jobs go on to their end, new ones are refused."""

    block: BlockId
    namespace: Namespace = NAMESPACE_DEFAULT
