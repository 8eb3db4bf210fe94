"""What the log remembers of keys and values."""

from flo.model.base import Event, Observation
from flo.model.ids import Key, Namespace
from flo.model.kv import Change, Check


class KeyPut(Event):
    namespace: Namespace
    key: Key
    value: bytes
    version: int
    at_ms: int
    expires_at_ms: int | None = None


class KeyDeleted(Event):
    namespace: Namespace
    key: Key
    version: int
    at_ms: int


class KeyExpired(Event):
    namespace: Namespace
    key: Key
    version: int
    at_ms: int


class KeyKept(Event):
    """When the key expires has been set anew; None is never."""

    namespace: Namespace
    key: Key
    expires_at_ms: int | None
    at_ms: int = 0


class TransactionOpened(Observation):
    transaction: int
    namespace: Namespace


class TransactionFilled(Observation):
    """A change has been added to a transaction, or the version of what it read."""

    transaction: int
    change: Change | None = None
    read: Check | None = None


class TransactionClosed(Observation):
    transaction: int
