"""Live: what is true only while the process lives.

A restart forgets it. It steers decisions; what was decided from it is in the events.
"""

from collections import deque
from typing import NamedTuple

from flo.model.base import Sign
from flo.model.ids import Namespace, RunId, WorkerId
from flo.model.workers import TaskCancelled, WorkerAskedToDrain, WorkerHeard, WorkerLeft

HEADLINES_MAX = 1_000


class Presence(NamedTuple):
    """When a worker was last heard of, and how busy it said it was."""

    heard_at_ms: int
    current_load: int


class Headline(NamedTuple):
    """Something a worker should know at once: that a task is cancelled, or, if none, to drain."""

    number: int
    cancelled: RunId | None = None


class Live:
    def __init__(self, started_at_ms: int) -> None:
        self.started_at_ms = started_at_ms
        self.presence: dict[tuple[Namespace, WorkerId], Presence] = {}
        self.news: dict[tuple[Namespace, WorkerId], deque[Headline]] = {}
        self.news_first = self.news_last = started_at_ms * 1_000
        """Headlines are numbered from here; numbers go on across restarts."""

    def observe(self, sign: Sign, now_ms: int) -> None:
        match sign:
            case WorkerHeard(namespace=namespace, worker_id=worker_id, current_load=load):
                if load is None:
                    load = self.heard(namespace, worker_id).current_load
                self.presence[namespace, worker_id] = Presence(now_ms, load)
            case TaskCancelled(namespace=namespace, worker_id=worker_id, run_id=run_id):
                self._tell(namespace, worker_id, run_id)
            case WorkerAskedToDrain(namespace=namespace, worker_id=worker_id):
                self._tell(namespace, worker_id, None)
            case WorkerLeft(namespace=namespace, worker_id=worker_id):
                self.presence.pop((namespace, worker_id), None)
                self.news.pop((namespace, worker_id), None)
            case _:
                raise AssertionError(f"nobody remembers {sign!r}")

    def news_after(self, namespace: Namespace, worker_id: WorkerId, number: int) -> list[Headline]:
        news = self.news.get((namespace, worker_id), ())
        return [headline for headline in news if headline.number > number]

    def heard(self, namespace: Namespace, worker_id: WorkerId) -> Presence:
        """A worker not heard of since the start is given the time since the start to speak up."""
        return self.presence.get((namespace, worker_id)) or Presence(self.started_at_ms, 0)

    def _tell(self, namespace: Namespace, worker_id: WorkerId, cancelled: RunId | None) -> None:
        self.news_last += 1
        news = self.news.setdefault((namespace, worker_id), deque(maxlen=HEADLINES_MAX))
        news.append(Headline(self.news_last, cancelled))
