"""The reference model of workers: who is registered, who drains, who has left, is lost or back."""

import msgspec

from flo.engine.workers.events import (
    WorkerBack,
    WorkerDeregistered,
    WorkerDrained,
    WorkerLost,
    WorkerRegistered,
)
from flo.engine.workers.records import Worker
from flo.model.ids import Namespace, RunId, WorkerId
from flo.model.workers import HandlerInfo
from simulator.checks.invariants import Invariant
from simulator.checks.observer import WORKER_GRACE_MS, Observer
from simulator.ledgers.reports import build_of, handlers_of
from simulator.reference.handlers import reads


class WorkerReference:
    def __init__(self, observer: Observer) -> None:
        self.registered: dict[tuple[Namespace, WorkerId], Worker] = {}
        self.left: set[tuple[Namespace, WorkerId]] = set()
        """Those that left with this append."""
        self.lost: dict[tuple[Namespace, WorkerId], WorkerLost] = {}
        """Those that were lost with this append."""
        self.ever_lost: set[tuple[Namespace, WorkerId]] = set()
        self.back: dict[tuple[Namespace, WorkerId], set[tuple[RunId, int]]] = {}
        """Those that came back with this append, and what they hold."""
        self._replaced: set[tuple[Namespace, WorkerId]] = set()
        self._hold = observer.hold

    def begin(self) -> None:
        self.left.clear()
        self.lost.clear()
        self.back.clear()
        self._replaced.clear()

    def finish(self) -> None:
        """Whoever was lost was away for long enough, or another process is in its place."""
        for key, event in self.lost.items():
            is_over = event.at_ms - event.since_ms >= WORKER_GRACE_MS
            self._hold(Invariant.NOT_LOST_EARLY, is_over or key in self._replaced, event)

    def is_gone(self, worker: tuple[Namespace, WorkerId], claimed_at_ms: int) -> bool:
        """Whether who claimed something at this time has left or was lost with this append, or was
        a former process of one that is back."""
        if worker in self.left or worker in self.lost:
            return True
        return worker in self.back and claimed_at_ms < self.registered[worker].began_at_ms

    def forget(self, namespace: Namespace) -> None:
        for key in [key for key in self.registered if key[0] == namespace]:
            del self.registered[key]

    @reads
    def _registered(self, event: WorkerRegistered) -> None:
        worker = event.worker
        key = (event.namespace, worker.worker_id)
        known = self.registered.get(key)
        stays = known is not None and known.draining and known.incarnation == worker.incarnation
        drains = stays and worker.incarnation != ""
        self._hold(Invariant.DRAIN_IS_KEPT, worker.draining is drains, worker, known)
        if known is not None and known.incarnation != worker.incarnation:
            self._replaced.add(key)
        if worker.build_id == build_of(worker.worker_id):
            handlers = [HandlerInfo(**msgspec.structs.asdict(one)) for one in worker.handlers]
            said = handlers_of(worker.worker_id, worker.actions)
            self._hold(Invariant.CODE_AS_SAID, handlers == said, handlers, said)
        self.registered[key] = worker

    @reads
    def _drained(self, event: WorkerDrained) -> None:
        key = (event.namespace, event.worker_id)
        self.registered[key] = msgspec.structs.replace(self.registered[key], draining=True)

    @reads
    def _deregistered(self, event: WorkerDeregistered) -> None:
        self.registered.pop((event.namespace, event.worker_id), None)
        self.left.add((event.namespace, event.worker_id))

    @reads
    def _lost(self, event: WorkerLost) -> None:
        key = (event.namespace, event.worker_id)
        bound = self.registered[key].connection_bound
        self._hold(Invariant.NOT_LOST_EARLY, bound, "has no connection to lose:", event)
        self.registered[key] = msgspec.structs.replace(self.registered[key], lost_at_ms=event.at_ms)
        self.lost[key] = event
        self.ever_lost.add(key)

    @reads
    def _back(self, event: WorkerBack) -> None:
        key = (event.namespace, event.worker_id)
        self.registered[key] = msgspec.structs.replace(self.registered[key], lost_at_ms=None)
        self.back[key] = set(event.held)
