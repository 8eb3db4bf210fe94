"""An action's registration: record, commands, questions, events, replies."""

from typing import Any

from flo.model.base import Event, Message, Record
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, ActionName, Namespace

TIMEOUT_MS_DEFAULT = 30_000
MAX_RETRIES_DEFAULT = 3
RETRY_DELAY_MS_DEFAULT = 1_000
MAX_RETRIES_MAX = 1_000
ENTRYPOINT_DEFAULT = "handle"
MEMORY_PAGES_DEFAULT = 256
"""Pages of 64 KB: 16 MB."""


class Guest(Record):
    """The WebAssembly module that performs an action inside the server."""

    digest: str
    """The SHA-256 of its bytes."""
    entrypoint: str = ENTRYPOINT_DEFAULT
    memory_pages: int = MEMORY_PAGES_DEFAULT


class ActionLimits(Record):
    """How many runs of an action may be ready or under way at a time, and how many may begin."""

    concurrency_max: int | None = None
    concurrency_key: str = ""
    """A text such as "{input.customer_id}": counted for each value of it, otherwise for all."""
    max_per_second: int | None = None
    max_per_minute: int | None = None
    max_per_hour: int | None = None


class Action(Record):
    """A named task type. `timeout_ms` is the lease of a run; 0 means it never runs out."""

    name: ActionName
    timeout_ms: int = TIMEOUT_MS_DEFAULT
    max_retries: int = MAX_RETRIES_DEFAULT
    retry_delay_ms: int = RETRY_DELAY_MS_DEFAULT
    description: str = ""
    version: int = 1
    enabled: bool = True
    created_at_ms: int = 0
    updated_at_ms: int = 0
    input_schema: str | None = None
    output_schema: str | None = None
    """JSON Schemas, as JSON text."""
    guest: Guest | None = None
    """None: outside workers perform it."""
    limits: ActionLimits | None = None


class RegisterAction(Message):
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


class DeleteAction(Message):
    """Remove the action; its live runs go on to their end, new ones are refused."""

    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


class EnableAction(Message):
    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


class DisableAction(Message):
    """Refuse new invocations; runs that are there already go on."""

    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


class GetAction(Message):
    name: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT


class ListActions(Message):
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class ActionRegistered(Event):
    namespace: Namespace
    action: Action


class ModuleStored(Event):
    """The bytes of a module, once for all actions that use it."""

    digest: str
    body: bytes


class ActionDeleted(Event):
    namespace: Namespace
    name: ActionName
    at_ms: int


class ActionEnabled(Event):
    namespace: Namespace
    name: ActionName
    at_ms: int


class ActionDisabled(Event):
    namespace: Namespace
    name: ActionName
    at_ms: int


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
