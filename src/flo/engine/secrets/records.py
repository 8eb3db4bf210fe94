"""What the state holds of secrets: seals only."""

from flo.model.base import Record


class Secret(Record):
    name: str
    version: int
    sealed: bytes
    key_id: str
    set_at_ms: int
    by: str | None = None


RETIRED_MAX = 100


class RetiredSecret(Record):
    """A value that was replaced or deleted: tasks that were given it may still be under way."""

    name: str
    sealed: bytes
