"""Rules of workers whose connection is their sign of life: broken, back in time, or lost.

    connected ──connection breaks──▸ disconnected ──grace period──▸ lost: its tasks are released
        ▲                                 │                           │
        └──────── resume, register ───────┴───────────────────────────┘

Whether a worker is connected is volatile; that it is lost or back is an event. When the server
starts, nobody is connected: the workers that it knows have the grace period to come back.
"""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.state import Space, State
from flo.engine.workers.events import (
    LoadReported,
    WorkerBack,
    WorkerConnected,
    WorkerDisconnected,
    WorkerLost,
)
from flo.engine.workers.records import Worker
from flo.model.base import Event, Nothing, Observation
from flo.model.declare.operation import Command
from flo.model.errors import Conflict, NotFound
from flo.model.ids import Namespace, RunId, WorkerId
from flo.model.workers import (
    RegisterWorker,
    Resumed,
    ResumeWorker,
    WorkerConnection,
    WorkerStatus,
)


class KnownWorker(NamedTuple):
    """One process of a worker."""

    namespace: Namespace
    worker_id: WorkerId
    incarnation: str


class Disconnect(Command[Nothing]):
    """The connection on which a worker registered or resumed last has ended."""

    worker_id: WorkerId
    namespace: Namespace
    incarnation: str
    since_ms: int


class LoseWorker(Command[Nothing]):
    """The grace period is over: give up a worker, unless it has been back in it."""

    worker_id: WorkerId
    namespace: Namespace
    incarnation: str
    since_ms: int
    """When the period began. Whoever lost a connection after it has a period of its own."""


class LoseClaims(Command[Nothing]):
    """A worker that lives by its heartbeats holds nothing any more: what was given to it is lost.

    It lives, and can have other tasks.
    """

    worker_id: WorkerId
    namespace: Namespace


def decide_disconnect(state: State, command: Disconnect, context: Context) -> Decision:
    worker = state.space(command.namespace).workers.get(command.worker_id)
    if worker is None or worker.incarnation != command.incarnation:
        return Decision(Nothing())
    observation = WorkerDisconnected(
        namespace=command.namespace,
        worker_id=command.worker_id,
        since_ms=command.since_ms,
        position=state.position,
    )
    return Decision(Nothing(), observations=(observation,))


def decide_lose(state: State, command: LoseWorker, context: Context) -> Decision:
    worker = state.space(command.namespace).workers.get(command.worker_id)
    if worker is None or worker.incarnation != command.incarnation:
        return Decision(Nothing())
    connection = connection_of(worker, command.namespace, context)
    if connection is not WorkerConnection.DISCONNECTED:
        return Decision(Nothing())
    since = context.volatile.disconnected_since(command.namespace, command.worker_id)
    assert since is not None
    if since.at_ms > command.since_ms:
        return Decision(Nothing())
    return Decision(Nothing(), (_lost(worker, command.namespace, context),))


def decide_lose_claims(state: State, command: LoseClaims, context: Context) -> Decision:
    space = state.space(command.namespace)
    worker = space.workers.get(command.worker_id)
    if worker is None or not space.held.get(command.worker_id):
        return Decision(Nothing())
    back = WorkerBack(
        namespace=command.namespace, worker_id=command.worker_id, at_ms=context.now_ms, held=()
    )
    return Decision(Nothing(), (_lost(worker, command.namespace, context), back))


def decide_resume(state: State, command: ResumeWorker, context: Context) -> Decision:
    space = state.space(command.namespace)
    worker = named_worker(space, command.worker_id)
    if worker.incarnation != command.incarnation:
        raise Conflict(
            f"worker {command.worker_id!r} was registered anew by another process: register again",
            code="worker_replaced",
        )
    held = tuple((task.run_id, task.attempt) for task in command.held)
    back = WorkerBack(
        namespace=command.namespace,
        worker_id=command.worker_id,
        at_ms=context.now_ms,
        held=held,
    )
    lost = [
        run_id for run_id, attempt in held if not holds(space, command.worker_id, run_id, attempt)
    ]
    reply = Resumed(
        worker_id=command.worker_id,
        status=WorkerStatus.DRAINING if worker.draining else WorkerStatus.ACTIVE,
        lost=lost,
    )
    heard = LoadReported(
        namespace=command.namespace,
        worker_id=command.worker_id,
        load=None,
        position=state.position,
    )
    return Decision(reply, (back,), (connected(command.namespace, command.worker_id), heard))


def apply_lost(state: State, event: WorkerLost) -> None:
    workers = state.spaces[event.namespace].workers
    workers[event.worker_id] = replace(
        workers[event.worker_id], lost_at_ms=event.at_ms, lost_since=state.since()
    )


def apply_back(state: State, event: WorkerBack) -> None:
    workers = state.spaces[event.namespace].workers
    workers[event.worker_id] = replace(workers[event.worker_id], lost_at_ms=None, lost_since=None)


def named_worker(space: Space, worker_id: WorkerId) -> Worker:
    worker = space.workers.get(worker_id)
    if worker is None:
        raise NotFound(f"worker {worker_id!r} is not registered", code="worker_not_found")
    return worker


def connection_of(
    worker: Worker, namespace: Namespace, context: Context
) -> WorkerConnection | None:
    """How it stands with the connection of a worker; None if it lives by its heartbeats."""
    if not worker.connection_bound:
        return None
    if worker.lost_at_ms is not None:
        return WorkerConnection.LOST
    if context.volatile.disconnected_since(namespace, worker.worker_id) is not None:
        return WorkerConnection.DISCONNECTED
    return WorkerConnection.CONNECTED


def expected_workers(state: State) -> Iterator[KnownWorker]:
    """The workers that should come back after a start of the server."""
    for namespace, space in state.spaces.items():
        for worker in space.workers.values():
            if worker.connection_bound and worker.lost_at_ms is None:
                yield KnownWorker(namespace, worker.worker_id, worker.incarnation)


def connected(namespace: Namespace, worker_id: WorkerId) -> Observation:
    return WorkerConnected(namespace=namespace, worker_id=worker_id)


def replaced(known: Worker, command: RegisterWorker, context: Context) -> tuple[Event, ...]:
    """Another process has taken the place of one whose connection is broken: that one is lost."""
    is_other = known.incarnation != command.incarnation
    connection = connection_of(known, command.namespace, context)
    if not is_other or connection is not WorkerConnection.DISCONNECTED:
        return ()
    return (_lost(known, command.namespace, context),)


def holds(space: Space, worker_id: WorkerId, run_id: RunId, attempt: int) -> bool:
    """Whether a worker has the lease of this attempt."""
    return run_id in space.held.get(worker_id, ()) and space.runs[run_id].attempt == attempt


def _lost(worker: Worker, namespace: Namespace, context: Context) -> WorkerLost:
    since = context.volatile.disconnected_since(namespace, worker.worker_id)
    return WorkerLost(
        namespace=namespace,
        worker_id=worker.worker_id,
        at_ms=context.now_ms,
        since_ms=since.at_ms if since is not None else context.now_ms,
    )
