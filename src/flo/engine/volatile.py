"""Live: what is true only while the process lives.

A restart forgets it. It steers decisions; what was decided from it is in the events.
"""

from collections import deque
from typing import NamedTuple

from flo.engine.groups.events import ConsumerHeard
from flo.engine.kv.events import TransactionClosed, TransactionFilled, TransactionOpened
from flo.engine.plans.events import EventEmitted
from flo.engine.runs.rates import rate_under
from flo.engine.workers.events import (
    RunsBegun,
    TaskCancelled,
    WorkerAskedToDrain,
    WorkerHeard,
    WorkerLeft,
)
from flo.model.base import Observation
from flo.model.ids import ConsumerName, GroupName, Namespace, RunId, StreamName, WorkerId
from flo.model.kv import Change, Check
from flo.workflow.plan.cache import CacheKey, ResultCache
from flo.workflow.plan.monitor import PlanMonitor
from flo.workflow.plan.rate import Rate

HEADLINES_MAX = 1_000
CONSUMERS_REMEMBERED_MAX = 20_000
RATES_REMEMBERED_MAX = 10_000


class Presence(NamedTuple):
    """When a worker was last heard of, and how busy it said it was."""

    heard_at_ms: int
    current_load: int


class Headline(NamedTuple):
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
    def __init__(self, started_at_ms: int) -> None:
        self.started_at_ms = started_at_ms
        self.presence: dict[tuple[Namespace, WorkerId], Presence] = {}
        self.notifications: dict[tuple[Namespace, WorkerId], deque[Headline]] = {}
        self.notifications_first = self.notifications_last = started_at_ms * 1_000
        """Headlines are numbered from here; numbers go on across restarts."""
        self.consumers: dict[tuple[Namespace, StreamName, GroupName, ConsumerName], int] = {}
        """Until when a consumer is taken to be there."""
        self.monitors: dict[tuple[str, str, str, str], PlanMonitor] = {}
        """What is known of the executors of plans: by namespace, workflow, version and plan."""
        self.rates: dict[tuple[Namespace, str], Rate] = {}
        """How many runs have begun lately of the actions that are limited by rate."""
        self.caches: dict[tuple[str, str, str, str], ResultCache] = {}
        self.cacheable: dict[tuple[str, str, str], tuple[CacheKey, int]] = {}
        """Where the result of a step is to be kept, once it has one: by namespace, run and walk."""
        self.transactions: dict[int, OpenTransaction] = {}
        self.transactions_opened = started_at_ms * 1_000

    def observe(self, observation: Observation, now_ms: int) -> None:
        match observation:
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
                self.notifications.pop((namespace, worker_id), None)
            case _:
                self._observe_rest(observation, now_ms)

    def _observe_rest(self, observation: Observation, now_ms: int) -> None:
        match observation:
            case ConsumerHeard(stream=stream, group=group, consumer=consumer, until_ms=until_ms):
                self._forget_consumers(now_ms)
                self.consumers[observation.namespace, stream, group, consumer] = until_ms
            case TransactionOpened(transaction=number):
                self.transactions_opened = number
                self.transactions[number] = OpenTransaction(observation.namespace, now_ms)
            case TransactionFilled(transaction=number):
                self._fill(self.transactions[number], observation, now_ms)
            case RunsBegun():
                self._count(observation, now_ms)
            case EventEmitted(namespace=namespace, name=name):
                for key, results in self.caches.items():
                    if key[0] == namespace:
                        results.invalidate(name, now_ms)
            case _:
                assert isinstance(observation, TransactionClosed), (
                    f"nobody remembers {observation!r}"
                )
                self.transactions.pop(observation.transaction, None)

    def consumer_until_ms(
        self, namespace: Namespace, stream: StreamName, group: GroupName, consumer: ConsumerName
    ) -> int | None:
        """Until when a consumer is taken to be there; None if it was not heard of since start."""
        return self.consumers.get((namespace, stream, group, consumer))

    def notifications_after(
        self, namespace: Namespace, worker_id: WorkerId, number: int
    ) -> list[Headline]:
        notifications = self.notifications.get((namespace, worker_id), ())
        return [headline for headline in notifications if headline.number > number]

    def heard(self, namespace: Namespace, worker_id: WorkerId) -> Presence:
        """A worker not heard of since the start is given the time since the start to speak up."""
        return self.presence.get((namespace, worker_id)) or Presence(self.started_at_ms, 0)

    def _count(self, observation: RunsBegun, now_ms: int) -> None:
        self._forget_rates(now_ms)
        rate = rate_under(
            observation.limits, self.rates.get((observation.namespace, observation.action))
        )
        for _ in range(observation.count):
            rate = rate.called(now_ms)
        self.rates[observation.namespace, observation.action] = rate

    def _forget_rates(self, now_ms: int) -> None:
        """Actions may be gone, and namespaces; what has left its windows says nothing."""
        if len(self.rates) > RATES_REMEMBERED_MAX:
            self.rates = {
                name: rate
                for name, rate in self.rates.items()
                if any(window.at(now_ms).used for window in rate.windows)
            }

    def _forget_consumers(self, now_ms: int) -> None:
        if len(self.consumers) > CONSUMERS_REMEMBERED_MAX:
            there = {name: until for name, until in self.consumers.items() if until >= now_ms}
            self.consumers = there

    def _fill(
        self, transaction: OpenTransaction, observation: TransactionFilled, now_ms: int
    ) -> None:
        transaction.touched_at_ms = now_ms
        if observation.change is not None:
            transaction.changes.append(observation.change)
        if observation.read is not None:
            transaction.reads.setdefault(observation.read.key, observation.read)

    def _tell(self, namespace: Namespace, worker_id: WorkerId, cancelled: RunId | None) -> None:
        self.notifications_last += 1
        notifications = self.notifications.setdefault(
            (namespace, worker_id), deque(maxlen=HEADLINES_MAX)
        )
        notifications.append(Headline(self.notifications_last, cancelled))
