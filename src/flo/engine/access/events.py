"""What the log remembers of tokens: who may come in, never with what."""

from flo.model.base import Event


class TokenCreated(Event):
    name: str
    role: str
    digest: bytes
    namespaces: tuple[str, ...]
    only: tuple[str, ...]
    at_ms: int
    expires_at_ms: int | None = None


class TokenRotated(Event):
    name: str
    digest: bytes
    at_ms: int
    expires_at_ms: int | None = None


class TokenRevoked(Event):
    name: str
    at_ms: int
