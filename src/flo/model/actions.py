"""An action's registration: commands, queries, replies."""

from typing import Annotated, Any, TypeAlias

import msgspec

from flo.model.base import Message, Nothing, Record
from flo.model.declare.fields import Checked, Cursor, Limit, NewNamespace, Range, Text, about
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import (
    DURATION_MS_MAX,
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    ActionName,
    Namespace,
    check_action_name,
    check_secret_names,
)
from flo.model.views.since import SinceView

TIMEOUT_MS_DEFAULT = 30_000
MAX_RETRIES_DEFAULT = 3
RETRY_DELAY_MS_DEFAULT = 1_000
MAX_RETRIES_MAX = 1_000
ENTRYPOINT_DEFAULT = "handle"
MEMORY_PAGES_DEFAULT = 256
"""Pages of 64 KB: 16 MB."""
RUNS_LIMIT_MAX = 1_000_000

AttemptTimeoutMs: TypeAlias = Annotated[
    int, Range(0, DURATION_MS_MAX), about("How long an attempt may take; 0 is without end.")
]
MaxRetries: TypeAlias = Annotated[
    int, Range(0, MAX_RETRIES_MAX), about("How often a run that failed is tried again.")
]
RetryDelayMs: TypeAlias = Annotated[
    int, Range(0, DURATION_MS_MAX), about("The wait before the first retry; it doubles.")
]
Description: TypeAlias = Annotated[str, Text(), about("What the action does, for people.")]
InputSchema: TypeAlias = Annotated[
    dict[str, Any] | None, about("The JSON Schema of the inputs that can be invoked.")
]
OutputSchema: TypeAlias = Annotated[
    dict[str, Any] | None, about("The JSON Schema of the results that a worker can report.")
]
IfChanged: TypeAlias = Annotated[bool, about("Settings already in force make no new version.")]
WasmEntrypoint: TypeAlias = Annotated[str, about("The function to call.")]
WasmMemoryLimit: TypeAlias = Annotated[int, about("The most memory, in pages of 64 KB.")]
MaxRuns: TypeAlias = Annotated[
    int | None, Range(1, RUNS_LIMIT_MAX), about("The most runs ready or under way at a time.")
]
ConcurrencyKey: TypeAlias = Annotated[
    str,
    Text(),
    about("Such as {input.customer_id}: counted for each value of it, otherwise for all."),
]
MaxPerSecond: TypeAlias = Annotated[
    int | None, Range(1, RUNS_LIMIT_MAX), about("The most runs that begin in a second.")
]
MaxPerMinute: TypeAlias = Annotated[
    int | None, Range(1, RUNS_LIMIT_MAX), about("The most runs that begin in a minute.")
]
MaxPerHour: TypeAlias = Annotated[
    int | None, Range(1, RUNS_LIMIT_MAX), about("The most runs that begin in an hour.")
]


ActionSecrets: TypeAlias = Annotated[
    list[str],
    Checked(check_secret_names),
    about("The secrets whose values its workers are given with each task."),
]


class ActionLimits(Record):
    """How many runs of an action may be ready or under way at a time, and how many may begin."""

    concurrency_max: MaxRuns = None
    concurrency_key: ConcurrencyKey = ""
    max_per_second: MaxPerSecond = None
    max_per_minute: MaxPerMinute = None
    max_per_hour: MaxPerHour = None


class Registered(Message):
    name: ActionName
    version: int


class LimitsView(Message):
    """ActionLimits, as users see them."""

    concurrency_max: int | None
    concurrency_key: str
    max_per_second: int | None
    max_per_minute: int | None
    max_per_hour: int | None


class ActionView(Message):
    """An action as its users see it."""

    name: ActionName
    namespace: Namespace
    type: str
    timeout_ms: int
    max_retries: int
    retry_delay_ms: int
    description: str
    version: int
    enabled: bool
    created_at_ms: int
    updated_at_ms: int
    runs: dict[str, int]
    input_schema: dict[str, Any] | None
    output_schema: dict[str, Any] | None
    wasm_digest: str | None = None
    wasm_entrypoint: str | None = None
    wasm_memory_limit: int | None = None
    limits: LimitsView | None = None
    disabled_since: SinceView | None = None
    secrets: list[str] = msgspec.field(default_factory=list)
    """The secrets whose values its workers are given with each task."""


class ActionPage(Message):
    items: list[ActionView]
    cursor: str | None = None


@operation(opcode=10, permission=Permission.ACTIONS_WRITE)
class RegisterAction(Command[Registered]):
    """Create the action or replace its settings; the version goes up by one.

    With `if_changed`, settings that are already in force change nothing: this is how a worker
    announces its actions at every start. With `if_version`, the action must have this version, or
    must not be there if it is 0.
    """

    name: Annotated[ActionName, Checked(check_action_name)]
    namespace: NewNamespace = NAMESPACE_DEFAULT
    timeout_ms: AttemptTimeoutMs = TIMEOUT_MS_DEFAULT
    max_retries: MaxRetries = MAX_RETRIES_DEFAULT
    retry_delay_ms: RetryDelayMs = RETRY_DELAY_MS_DEFAULT
    description: Description = ""
    input_schema: InputSchema = None
    output_schema: OutputSchema = None
    if_changed: IfChanged = False
    wasm_module: Annotated[
        bytes | None, about("A WebAssembly module: the server performs the action itself.")
    ] = None
    wasm_digest: Annotated[
        str | None, about("The digest of a module that the server has already.")
    ] = None
    wasm_entrypoint: WasmEntrypoint = ENTRYPOINT_DEFAULT
    wasm_memory_limit: WasmMemoryLimit = MEMORY_PAGES_DEFAULT
    limits: Annotated[
        ActionLimits | None, about("How many runs may be under way, and how many may begin.")
    ] = None
    if_version: Annotated[
        int | None, about("Only if the action has this version; 0: if it is not there.")
    ] = None
    secrets: ActionSecrets = msgspec.field(default_factory=list)


@operation(
    opcode=11,
    permission=Permission.ACTIONS_WRITE,
    http=Route("DELETE", "/actions/{name}", errors=(404,)),
)
class DeleteAction(Command[Nothing]):
    """Delete an action; its live runs go on to their end, new ones are refused."""

    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=14, permission=Permission.ACTIONS_WRITE)
class EnableAction(Command[Nothing]):
    """Let a disabled action be invoked again."""

    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=15, permission=Permission.ACTIONS_WRITE)
class DisableAction(Command[Nothing]):
    """Refuse new invocations; runs that are there already go on."""

    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=12, permission=Permission.ACTIONS_READ)
class GetAction(Query[ActionView]):
    """An action: its settings, and its runs by status."""

    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=13, permission=Permission.ACTIONS_READ, http=Route("GET", "/actions"))
class ListActions(Query[ActionPage]):
    """The registered actions, by name."""

    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None
