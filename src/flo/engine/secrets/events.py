"""What the log remembers of secrets."""

from flo.model.base import Event
from flo.model.ids import Namespace


class SecretStored(Event):
    namespace: Namespace
    name: str
    version: int
    sealed: bytes
    key_id: str
    at_ms: int


class SecretsSealedAnew(Event):
    """The same values under another key: each seal, and the one in its place."""

    namespace: Namespace
    key_id: str
    seals: tuple[tuple[bytes, bytes], ...]


class SecretDeleted(Event):
    namespace: Namespace
    name: str
    at_ms: int
