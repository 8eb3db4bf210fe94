"""Since when something is so, as its users see it."""

from flo.model.base import Message
from flo.model.storage.since import Since


class SinceView(Message):
    at_ms: int
    position: int
    """The index in the log of the event that made it so."""
    by: str | None = None
    """Who did it."""


def since_view(since: Since | None) -> SinceView | None:
    if since is None:
        return None
    by = str(since.caller) if since.caller is not None else None
    return SinceView(at_ms=since.at_ms, position=since.position, by=by)
