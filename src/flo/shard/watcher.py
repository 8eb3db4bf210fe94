"""Who hears what a shard does, for metrics."""

from collections.abc import Sequence
from typing import Protocol

from flo.model.base import Event


class CommitWatcher(Protocol):
    """Hears what the shard does, for metrics."""

    def committed(self, events: Sequence[Event], archived: int, seconds: float) -> None: ...

    def refused(self, code: str) -> None: ...


class Unwatched:
    def committed(self, events: Sequence[Event], archived: int, seconds: float) -> None:
        pass

    def refused(self, code: str) -> None:
        pass
