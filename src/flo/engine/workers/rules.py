"""Rules of worker registration, heartbeat, drain, departure.

    register ──▸ active / idle ──drain──▸ draining ──▸ deregister
                      │  ▲
       90 s of silence▾  │heard of again
                    unhealthy

What must outlive a restart (the registration, the drain) is an event; a heartbeat is observed.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.state import Space, State
from flo.engine.workers.events import (
    WorkerAskedToDrain,
    WorkerDeregistered,
    WorkerDrained,
    WorkerHeard,
    WorkerLeft,
    WorkerRegistered,
)
from flo.engine.workers.records import Process, Worker
from flo.model.base import Event, Nothing, Observation
from flo.model.errors import Conflict, NotFound, TooLarge
from flo.model.ids import (
    ActionName,
    Labels,
    Namespace,
    WorkerId,
    check_action_name,
    check_json,
)
from flo.model.workers import (
    ACTIONS_PER_WORKER_MAX,
    METADATA_LENGTH_MAX,
    SILENCE_MS_MAX,
    WORKERS_MAX,
    DeregisterWorker,
    DrainWorker,
    Heartbeat,
    RegisterWorker,
    WorkerKnown,
    WorkerStatus,
    WorkerType,
)


def decide_register(state: State, command: RegisterWorker, context: Context) -> Decision:
    if len(command.actions) > ACTIONS_PER_WORKER_MAX:
        raise TooLarge(
            f"expected at most {ACTIONS_PER_WORKER_MAX} actions, got {len(command.actions)}"
        )
    for name in command.actions:
        for part in name.split("/", 1) if command.worker_type is WorkerType.STREAM else (name,):
            check_action_name(part)
    if command.metadata is not None:
        _check_metadata(command.metadata)
    workers = state.space(command.namespace).workers
    known = workers.get(command.worker_id)
    evicted = None if known else _evicted(command.namespace, workers, context)
    worker = Worker(
        worker_id=command.worker_id,
        actions=tuple(dict.fromkeys(command.actions)),
        registered_at_ms=context.now_ms,
        max_concurrency=command.max_concurrency,
        machine_id=command.machine_id,
        labels=_labels_of(command),
        metadata=command.metadata,
        worker_type=command.worker_type,
        incarnation=command.incarnation,
        draining=known is not None and known.draining and _is_same_process(known, command),
    )
    left, observations = _leave(command.namespace, evicted, context) if evicted else ((), ())
    return Decision(
        WorkerKnown(worker_id=command.worker_id, status=_status_of(worker, 0)),
        (*left, WorkerRegistered(namespace=command.namespace, worker=worker)),
        (*observations, _heard(command.namespace, command.worker_id, 0)),
    )


def decide_heartbeat(state: State, command: Heartbeat, context: Context) -> Decision:
    worker = named_worker(state.space(command.namespace), command.worker_id)
    status = _status_of(worker, command.current_load)
    return Decision(
        WorkerKnown(worker_id=command.worker_id, status=status),
        observations=(_heard(command.namespace, command.worker_id, command.current_load),),
    )


def decide_drain(state: State, command: DrainWorker, context: Context) -> Decision:
    worker = named_worker(state.space(command.namespace), command.worker_id)
    known = WorkerKnown(worker_id=command.worker_id, status=WorkerStatus.DRAINING)
    if worker.draining:
        return Decision(known)
    drained = WorkerDrained(namespace=command.namespace, worker_id=command.worker_id)
    observation = WorkerAskedToDrain(namespace=command.namespace, worker_id=command.worker_id)
    return Decision(known, (drained,), (observation,))


def decide_deregister(state: State, command: DeregisterWorker, context: Context) -> Decision:
    space = state.space(command.namespace)
    if command.worker_id not in space.workers and command.worker_id not in space.held:
        return Decision(Nothing())
    return Decision(Nothing(), *_leave(command.namespace, command.worker_id, context))


def apply_registered(state: State, event: WorkerRegistered) -> None:
    space = state.space_made(event.namespace)
    worker = event.worker
    space.workers[worker.worker_id] = worker
    known = space.processes.get(worker.worker_id, {})
    space.processes[worker.worker_id] = {
        name: known.get(name) or Process(name=name) for name in worker.actions
    }


def apply_drained(state: State, event: WorkerDrained) -> None:
    workers = state.spaces[event.namespace].workers
    workers[event.worker_id] = replace(workers[event.worker_id], draining=True)


def apply_deregistered(state: State, event: WorkerDeregistered) -> None:
    space = state.spaces[event.namespace]
    space.workers.pop(event.worker_id, None)
    space.processes.pop(event.worker_id, None)


def count_run(
    space: Space,
    worker_id: WorkerId,
    action: ActionName,
    at_ms: int,
    *,
    failed: bool,
    count: int = 1,
) -> None:
    """A registered worker has ended an attempt at a run, or some records of a stream."""
    processes = space.processes.get(worker_id)
    if processes is None:
        return
    process = processes.get(action) or Process(name=action)
    processes[action] = Process(
        name=action,
        run_count=process.run_count + (0 if failed else count),
        fail_count=process.fail_count + (count if failed else 0),
        last_run_at_ms=at_ms,
    )


def named_worker(space: Space, worker_id: WorkerId) -> Worker:
    worker = space.workers.get(worker_id)
    if worker is None:
        raise NotFound(f"worker {worker_id!r} is not registered", code="worker_not_found")
    return worker


def worker_status(worker: Worker, namespace: Namespace, context: Context) -> WorkerStatus:
    if not worker.draining and _is_silent(namespace, worker.worker_id, context):
        return WorkerStatus.UNHEALTHY
    return _status_of(worker, context.volatile.heard(namespace, worker.worker_id).current_load)


def _labels_of(command: RegisterWorker) -> Labels | None:
    """The labels, or what of the metadata can serve as labels."""
    if command.labels is not None:
        return command.labels
    flat = {
        key: value
        for key, value in (command.metadata or {}).items()
        if isinstance(value, str | bool | int | float)
    }
    return flat or None


def _is_same_process(known: Worker, command: RegisterWorker) -> bool:
    return bool(command.incarnation) and command.incarnation == known.incarnation


def _evicted(
    namespace: Namespace, workers: dict[WorkerId, Worker], context: Context
) -> WorkerId | None:
    """Who makes room when the registry is full: whoever has been silent for longest."""
    if len(workers) < WORKERS_MAX:
        return None
    oldest = min(workers, key=lambda one: (context.volatile.heard(namespace, one).heard_at_ms, one))
    if not _is_silent(namespace, oldest, context):
        raise Conflict(
            f"{WORKERS_MAX} workers are registered, and that is the most: deregister some",
            code="too_many_workers",
        )
    return oldest


def _is_silent(namespace: Namespace, worker_id: WorkerId, context: Context) -> bool:
    return (
        context.now_ms - context.volatile.heard(namespace, worker_id).heard_at_ms > SILENCE_MS_MAX
    )


def _leave(
    namespace: Namespace, worker_id: WorkerId, context: Context
) -> tuple[tuple[Event, ...], tuple[Observation, ...]]:
    left = WorkerDeregistered(namespace=namespace, worker_id=worker_id, at_ms=context.now_ms)
    return (left,), (WorkerLeft(namespace=namespace, worker_id=worker_id),)


def _check_metadata(metadata: dict[str, Any]) -> None:
    check_json(metadata, "metadata")
    length = len(msgspec.json.encode(metadata))
    if length > METADATA_LENGTH_MAX:
        raise TooLarge(f"expected metadata of at most {METADATA_LENGTH_MAX} bytes, got {length}")


def _status_of(worker: Worker, current_load: int) -> WorkerStatus:
    if worker.draining:
        return WorkerStatus.DRAINING
    return WorkerStatus.ACTIVE if current_load else WorkerStatus.IDLE


def _heard(namespace: Namespace, worker_id: WorkerId, current_load: int) -> Observation:
    return WorkerHeard(namespace=namespace, worker_id=worker_id, current_load=current_load)
