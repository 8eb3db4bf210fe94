"""What the state and the archive hold of actions."""

from flo.model.actions import (
    ENTRYPOINT_DEFAULT,
    MAX_RETRIES_DEFAULT,
    MEMORY_PAGES_DEFAULT,
    RETRY_DELAY_MS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    ActionLimits,
)
from flo.model.base import Record
from flo.model.ids import ActionName
from flo.model.storage.since import Since


class Guest(Record):
    """The WebAssembly module that performs an action inside the server."""

    digest: str
    """The SHA-256 of its bytes."""
    entrypoint: str = ENTRYPOINT_DEFAULT
    memory_pages: int = MEMORY_PAGES_DEFAULT


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
    disabled_since: Since | None = None
    """None while it is enabled."""
    deleted_since: Since | None = None
    """None while it is there."""
    secrets: tuple[str, ...] = ()
    """The names of those that its workers are given."""
