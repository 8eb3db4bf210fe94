"""The reference model of workers: who is registered, who drains, who has just left."""

import msgspec

from flo.engine.workers.events import WorkerDeregistered, WorkerDrained, WorkerRegistered
from flo.engine.workers.records import Worker
from flo.model.ids import Namespace, WorkerId
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads


class WorkerReference:
    def __init__(self, observer: Observer) -> None:
        self.registered: dict[tuple[Namespace, WorkerId], Worker] = {}
        self.left: set[tuple[Namespace, WorkerId]] = set()
        """Those that left with this append."""
        self._hold = observer.hold

    def begin(self) -> None:
        self.left.clear()

    def forget(self, namespace: Namespace) -> None:
        for key in [key for key in self.registered if key[0] == namespace]:
            del self.registered[key]

    @reads
    def _registered(self, event: WorkerRegistered) -> None:
        worker = event.worker
        known = self.registered.get((event.namespace, worker.worker_id))
        stays = known is not None and known.draining and known.incarnation == worker.incarnation
        drains = stays and worker.incarnation != ""
        self._hold(Invariant.DRAIN_IS_KEPT, worker.draining is drains, worker, known)
        self.registered[event.namespace, worker.worker_id] = worker

    @reads
    def _drained(self, event: WorkerDrained) -> None:
        key = (event.namespace, event.worker_id)
        self.registered[key] = msgspec.structs.replace(self.registered[key], draining=True)

    @reads
    def _deregistered(self, event: WorkerDeregistered) -> None:
        self.registered.pop((event.namespace, event.worker_id), None)
        self.left.add((event.namespace, event.worker_id))
