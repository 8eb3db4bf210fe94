"""Who asks for something, as the log remembers it."""

from enum import StrEnum

from flo.model.base import Record


class Source(StrEnum):
    """The way a command came in."""

    RPC = "rpc"
    HTTP = "http"
    SERVER = "server"
    """A part of the server itself: triggers, WebAssembly, connections of workers."""
    TIMER = "timer"
    """Something fell due."""


class Caller(Record):
    source: Source
    address: str = ""
    """The address of the other end."""
    actor: str | None = None
    """Who it is, where callers are known."""
    reason: str | None = None
    """Why, in the caller's words."""

    def __str__(self) -> str:
        who = self.actor or self.address
        return f"{self.source} {who}" if who else self.source


OUTSIDE = frozenset({Source.RPC, Source.HTTP})
SERVER = Caller(source=Source.SERVER)
TIMER = Caller(source=Source.TIMER)
