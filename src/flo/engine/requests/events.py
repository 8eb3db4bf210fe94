"""What the log remembers of requests, in the append of what they led to."""

from flo.model.base import Event
from flo.model.ids import Namespace


class RequestsDone(Event):
    """Requests that a client numbered were carried out, with these replies."""

    session: int
    unheard: int
    """The client waits for this one and what came after; it has heard of all before."""
    numbers: tuple[int, ...]
    """Counted from `unheard`."""
    replies: tuple[bytes, ...]


class KeyedRequestDone(Event):
    """A request with a key that a user chose was carried out, with this reply."""

    namespace: Namespace
    key: str
    digest: bytes
    """Of the message: another one with the same key is a mistake."""
    reply: bytes


class RequestsForgotten(Event):
    """Requests that were carried out too long ago by this time are forgotten."""

    at_ms: int
