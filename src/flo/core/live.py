"""Live: what is true only while the process lives.

A restart forgets it. It steers decisions; what was decided from it is in the events.
"""

from typing import NamedTuple

from flo.model.base import Sign
from flo.model.ids import Namespace, WorkerId
from flo.model.workers import WorkerHeard, WorkerLeft


class Presence(NamedTuple):
    """When a worker was last heard of, and how busy it said it was."""

    heard_at_ms: int
    current_load: int


class Live:
    def __init__(self, started_at_ms: int) -> None:
        self.started_at_ms = started_at_ms
        self.presence: dict[tuple[Namespace, WorkerId], Presence] = {}

    def observe(self, sign: Sign, now_ms: int) -> None:
        match sign:
            case WorkerHeard(namespace=namespace, worker_id=worker_id, current_load=load):
                if load is None:
                    load = self.heard(namespace, worker_id).current_load
                self.presence[namespace, worker_id] = Presence(now_ms, load)
            case WorkerLeft(namespace=namespace, worker_id=worker_id):
                self.presence.pop((namespace, worker_id), None)
            case _:
                raise AssertionError(f"nobody remembers {sign!r}")

    def heard(self, namespace: Namespace, worker_id: WorkerId) -> Presence:
        """A worker not heard of since the start is given the time since the start to speak up."""
        return self.presence.get((namespace, worker_id)) or Presence(self.started_at_ms, 0)
