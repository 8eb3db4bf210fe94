"""OutboxDispatcher: accepted and idle. What is sent is durable on the server already."""

from typing import Any


class OutboxDispatcher:
    def __init__(
        self, *, db: Any = None, bus: Any = None, cfg: Any = None, clock: Any = None, **_: Any
    ) -> None:
        self.db, self.bus, self.cfg, self.clock = db, bus, cfg, clock

    async def start(self) -> None:
        """There is nothing to dispatch."""

    async def stop(self) -> None:
        """There is nothing to dispatch."""
