"""An action's registration: commands, queries, replies."""

from typing import Any

from flo.model.base import Message, Nothing, Record
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, ActionName, Namespace
from flo.model.operation import Command, Permission, Query, operation

TIMEOUT_MS_DEFAULT = 30_000
MAX_RETRIES_DEFAULT = 3
RETRY_DELAY_MS_DEFAULT = 1_000
MAX_RETRIES_MAX = 1_000
ENTRYPOINT_DEFAULT = "handle"
MEMORY_PAGES_DEFAULT = 256
"""Pages of 64 KB: 16 MB."""


class ActionLimits(Record):
    """How many runs of an action may be ready or under way at a time, and how many may begin."""

    concurrency_max: int | None = None
    concurrency_key: str = ""
    """A text such as "{input.customer_id}": counted for each value of it, otherwise for all."""
    max_per_second: int | None = None
    max_per_minute: int | None = None
    max_per_hour: int | None = None


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

    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    timeout_ms: int = TIMEOUT_MS_DEFAULT
    max_retries: int = MAX_RETRIES_DEFAULT
    retry_delay_ms: int = RETRY_DELAY_MS_DEFAULT
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    if_changed: bool = False
    wasm_module: bytes | None = None
    """With a module, the server performs the action itself."""
    wasm_digest: str | None = None
    """Or with one that the server has already."""
    wasm_entrypoint: str = ENTRYPOINT_DEFAULT
    wasm_memory_limit: int = MEMORY_PAGES_DEFAULT
    """In pages of 64 KB."""
    limits: ActionLimits | None = None
    if_version: int | None = None


@operation(opcode=11, permission=Permission.ACTIONS_WRITE)
class DeleteAction(Command[Nothing]):
    """Remove the action; its live runs go on to their end, new ones are refused."""

    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=14, permission=Permission.ACTIONS_WRITE)
class EnableAction(Command[Nothing]):
    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=15, permission=Permission.ACTIONS_WRITE)
class DisableAction(Command[Nothing]):
    """Refuse new invocations; runs that are there already go on."""

    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=12, permission=Permission.ACTIONS_READ)
class GetAction(Query[ActionView]):
    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=13, permission=Permission.ACTIONS_READ)
class ListActions(Query[ActionPage]):
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None
