"""What the state and the archive hold of keys and values."""

from flo.model.base import Record


class Version(Record):
    """A value as it was."""

    version: int
    at_ms: int
    value: bytes


class KeyValue(Record):
    """A key as it is now."""

    value: bytes
    version: int
    at_ms: int
    expires_at_ms: int | None = None
    history: tuple[Version, ...] = ()
    """Older values, the newest first."""
