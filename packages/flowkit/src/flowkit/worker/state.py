"""What a worker says of the run that it is at. The server remembers it: nothing is kept here."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ActiveRun:
    task_id: str
    node_id: str
    step_type: str = ""
    attempt_epoch: int = 0
    lease_id: str = ""
    cancel_token: str = ""
    started_at_ms: int = 0
    state: str = "running"
    checkpoint: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


class LocalStateManager:
    """Accepted for programs that make one; a worker finds its node again by its id and lease."""

    def __init__(self, *, db: Any = None, clock: Any = None, worker_id: str = "") -> None:
        self.worker_id = worker_id
        self._run: ActiveRun | None = None

    async def refresh(self) -> None:
        """There is nothing to read."""

    def read_active(self) -> ActiveRun | None:
        return self._run

    async def write_active(self, ar: ActiveRun | None) -> None:
        self._run = ar
