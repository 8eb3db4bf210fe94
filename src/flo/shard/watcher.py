"""Who hears what a shard does, for metrics."""

from typing import Protocol


class CommitWatcher(Protocol):
    """Hears what the shard does, for metrics."""

    def committed(self, events: int, archived: int, seconds: float) -> None: ...

    def refused(self, code: str) -> None: ...


class Unwatched:
    def committed(self, events: int, archived: int, seconds: float) -> None:
        pass

    def refused(self, code: str) -> None:
        pass
