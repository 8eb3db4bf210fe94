"""VolatileState: what is true only while the process lives.

A restart forgets it. It steers decisions; what was decided from it is in the events. Observations
change it: each noun says in its feature how.
"""

from collections import deque
from typing import NamedTuple

from flo.engine.requests.table import RequestTable
from flo.model.ids import ConsumerName, GroupName, Namespace, RunId, StreamName, WorkerId
from flo.model.kv import Change, Check
from flo.model.workers import WORKER_GRACE_MS_DEFAULT
from flo.workflow.limits import ExecutionLimits
from flo.workflow.plan.cache import CacheKey, ResultCache
from flo.workflow.plan.monitor import PlanMonitor
from flo.workflow.plan.rate import Rate


class Disconnected(NamedTuple):
    """When a connection ended, and how many events the log had by then."""

    at_ms: int
    position: int


class Presence(NamedTuple):
    """When a worker was last heard of, and how busy it said it was."""

    heard_at_ms: int
    reported_load: int | None
    """None until a heartbeat says it: after a registration, a restart, or too long a silence."""
    abandoned: int = 0
    """How many handlers were told to stop, and still run."""
    position: int = 0
    """How many events the log had by then."""


class Notification(NamedTuple):
    """Something a worker should know at once: that a task is cancelled, or, if none, to drain."""

    number: int
    cancelled: RunId | None = None


class OpenTransaction:
    """What has been put into a transaction, and what it has read."""

    def __init__(self, namespace: Namespace, now_ms: int) -> None:
        self.namespace = namespace
        self.touched_at_ms = now_ms
        self.changes: list[Change] = []
        self.reads: dict[str, Check] = {}


class VolatileState:
    def __init__(self, started_at_ms: int, started_position: int = 0) -> None:
        self.started_at_ms = started_at_ms
        self.started_position = started_position
        """How many events the log had when the process started."""
        self.presence: dict[tuple[Namespace, WorkerId], Presence] = {}
        self.worker_grace_ms = WORKER_GRACE_MS_DEFAULT
        """How long a worker whose connection broke may take to come back."""
        self.execution_limits: ExecutionLimits | None = None
        """How much a workflow run that is started may do; None are the defaults."""
        self.disconnected: dict[tuple[Namespace, WorkerId], Disconnected | None] = {}
        """Since when a worker has no connection; None while it has one."""
        self.notifications: dict[tuple[Namespace, WorkerId], deque[Notification]] = {}
        self.notifications_first = self.notifications_last = started_at_ms * 1_000
        """They are numbered from here; numbers go on across restarts."""
        self.consumers: dict[tuple[Namespace, StreamName, GroupName, ConsumerName], int] = {}
        """Until when a consumer is taken to be there."""
        self.monitors: dict[tuple[str, str, str, str], PlanMonitor] = {}
        """What is known of the executors of plans: by namespace, workflow, version and plan."""
        self.rates: dict[tuple[Namespace, str], Rate] = {}
        """How many runs have begun lately of the actions that are limited by rate."""
        self.caches: dict[tuple[str, str, str, str], ResultCache] = {}
        self.cacheable: dict[tuple[str, str, str], tuple[CacheKey, int]] = {}
        """Where the result of a step is to be kept: by namespace, run and branch."""
        self.transactions: dict[int, OpenTransaction] = {}
        self.transactions_opened = started_at_ms * 1_000
        self.requests = RequestTable()
        """Requests that changed only what is volatile, such as an open transaction."""
        self.requests_step_at_ms = started_at_ms
        self.token_uses: dict[str, int] = {}
        """When each token was used last."""

    def consumer_until_ms(
        self, namespace: Namespace, stream: StreamName, group: GroupName, consumer: ConsumerName
    ) -> int | None:
        """Until when a consumer is taken to be there; None if it was not heard of since start."""
        return self.consumers.get((namespace, stream, group, consumer))

    def notifications_after(
        self, namespace: Namespace, worker_id: WorkerId, number: int
    ) -> list[Notification]:
        notifications = self.notifications.get((namespace, worker_id), ())
        return [one for one in notifications if one.number > number]

    def disconnected_since(self, namespace: Namespace, worker_id: WorkerId) -> Disconnected | None:
        """None while it is connected; nobody is when the process starts."""
        worker = namespace, worker_id
        if worker in self.disconnected:
            return self.disconnected[worker]
        return Disconnected(self.started_at_ms, self.started_position)

    def heard(self, namespace: Namespace, worker_id: WorkerId) -> Presence:
        """A worker not heard of since the start is given the time since the start to speak up."""
        known = self.presence.get((namespace, worker_id))
        return known or Presence(self.started_at_ms, None, 0, self.started_position)
