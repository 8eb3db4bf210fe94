"""Since when something is so: the time, the place in the log, and who caused it."""

from flo.model.base import Record
from flo.model.storage.caller import Caller


class Since(Record):
    at_ms: int
    position: int
    """The index of the event that made it so."""
    caller: Caller | None = None
