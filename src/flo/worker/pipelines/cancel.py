"""CancelFlag: whether a run is to end early, why, and by when."""

import asyncio
from enum import StrEnum


class CancelSource(StrEnum):
    """Who wants a run to end; it says what the server is told."""

    SERVER = "server"
    """The pipeline was cancelled: the server waits to hear that the run has ended."""
    LEASE = "lease"
    """The lease is lost: another worker may have the node, nothing is reported."""
    SHUTDOWN = "shutdown"
    """The worker stops: the node stays with it for as long as its lease."""


class CancelFlag(asyncio.Event):
    """An event that also knows its reason; true once it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.reason: str | None = None
        self.deadline_ts_ms: int | None = None
        self.source: CancelSource | None = None

    def __bool__(self) -> bool:
        return self.is_set()

    def cancel(self, source: CancelSource, reason: str, deadline_ts_ms: int | None = None) -> None:
        """The first reason stays, unless the lease is lost."""
        if self.source is None or source is CancelSource.LEASE:
            self.source, self.reason = source, reason
        if self.deadline_ts_ms is None:
            self.deadline_ts_ms = deadline_ts_ms
        self.set()
