"""Rules of worker registration, heartbeat, drain, departure.

    register ──▸ active ◂──load── heartbeat ──no load──▸ idle        both ──drain──▸ draining
                  │  ▲
    90 s of silence▾  │heard of again
                unhealthy ◂── every place is held by a handler that was told to stop

A worker that holds tasks is active, whatever it said last. What must outlive a restart (the
registration, the drain) is an event; a heartbeat is observed. What follows when the connection of a
worker breaks is in presence.py.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any

import msgspec
from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.state import Space, State
from flo.engine.workers.events import (
    LoadReported,
    WorkerAskedToDrain,
    WorkerDeregistered,
    WorkerDrained,
    WorkerLeft,
    WorkerRegistered,
)
from flo.engine.workers.presence import connected, connection_of, named_worker, replaced
from flo.engine.workers.records import Departure, Process, RegisteredHandler, Worker
from flo.model.base import Event, Nothing, Observation
from flo.model.errors import Conflict, Invalid, TooLarge
from flo.model.ids import (
    ActionName,
    ConsumerName,
    Labels,
    Namespace,
    WorkerId,
    check_action_name,
    check_json,
    check_text,
    check_worker_id,
)
from flo.model.workers import (
    ACTIONS_PER_WORKER_MAX,
    METADATA_LENGTH_MAX,
    SILENCE_MS_MAX,
    WORKERS_MAX,
    DeregisterWorker,
    DrainWorker,
    HandlerInfo,
    Heartbeat,
    RegisterWorker,
    WorkerConnection,
    WorkerKnown,
    WorkerStatus,
    WorkerType,
)


def decide_register(state: State, command: RegisterWorker, context: Context) -> Decision:
    if len(command.processes) > ACTIONS_PER_WORKER_MAX:
        raise TooLarge(
            f"expected at most {ACTIONS_PER_WORKER_MAX} processes, got {len(command.processes)}"
        )
    for name in command.processes:
        for part in name.split("/", 1) if command.worker_type is WorkerType.STREAM else (name,):
            check_action_name(part)
    metadata = _metadata_of(command)
    workers = state.space(command.namespace).workers
    worker_id = command.worker_id or _new_id(command, workers, context)
    known = workers.get(worker_id)
    is_same = known is not None and _is_same_process(known, command)
    is_bound = command.connection_bound and worker_id == command.worker_id
    evicted = None if known else _evicted(command.namespace, workers, context)
    worker = Worker(
        worker_id=worker_id,
        actions=tuple(dict.fromkeys(command.processes)),
        registered_at_ms=known.registered_at_ms if known else context.now_ms,
        max_concurrency=command.max_concurrency,
        machine_id=command.machine_id,
        labels=command.labels if command.labels is not None else _flat(metadata),
        metadata=metadata,
        worker_type=command.worker_type,
        incarnation=command.incarnation,
        began_at_ms=known.began_at_ms if known and is_same else context.now_ms,
        draining=known is not None and known.draining and is_same,
        draining_since=known.draining_since if known and is_same else None,
        connection_bound=is_bound,
        consumer=command.consumer,
        build_id=command.build_id,
        handlers=tuple(map(_registered_handler, command.handlers or ())),
    )
    left, observations = _leave(command.namespace, evicted, context) if evicted else ((), ())
    lost = replaced(known, command, context) if known else ()
    if is_bound:
        observations += (connected(command.namespace, worker_id),)
    return Decision(
        WorkerKnown(worker_id=worker_id, status=_status_of(worker, None)),
        (*left, *lost, WorkerRegistered(namespace=command.namespace, worker=worker)),
        (*observations, _load_reported(state, command.namespace, worker_id, None)),
    )


def decide_heartbeat(state: State, command: Heartbeat, context: Context) -> Decision:
    space = state.space(command.namespace)
    worker = named_worker(space, command.worker_id)
    is_back = _is_silent(command.namespace, command.worker_id, context)
    load = None if is_back and not command.current_load else command.current_load
    return Decision(
        WorkerKnown(
            worker_id=command.worker_id,
            status=WorkerStatus.UNHEALTHY
            if is_stuck(worker, command.abandoned)
            else _status_of(worker, load, leased_count(space, worker)),
        ),
        observations=(
            _load_reported(state, command.namespace, command.worker_id, load, command.abandoned),
        ),
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
    workers[event.worker_id] = replace(
        workers[event.worker_id], draining=True, draining_since=state.since()
    )


def apply_deregistered(state: State, event: WorkerDeregistered) -> None:
    space = state.spaces[event.namespace]
    worker = space.workers.pop(event.worker_id, None)
    space.processes.pop(event.worker_id, None)
    for name in worker.actions if worker is not None else ():
        if name in space.actions:
            space.departures[name] = Departure(
                worker_id=event.worker_id, at_ms=event.at_ms, position=state.position
            )


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


def worker_status(
    space: Space, worker: Worker, namespace: Namespace, context: Context
) -> WorkerStatus:
    connection = connection_of(worker, namespace, context)
    if connection in (WorkerConnection.DISCONNECTED, WorkerConnection.LOST):
        return WorkerStatus.UNHEALTHY
    if not worker.draining and _is_silent(namespace, worker.worker_id, context):
        return WorkerStatus.UNHEALTHY
    presence = context.volatile.heard(namespace, worker.worker_id)
    if is_stuck(worker, presence.abandoned):
        return WorkerStatus.UNHEALTHY
    return _status_of(worker, presence.reported_load, leased_count(space, worker))


def is_stuck(worker: Worker, abandoned: int) -> bool:
    """Whether every place of it is held by a handler that was told to stop, and still runs."""
    return not worker.draining and abandoned >= worker.max_concurrency


def leased_count(space: Space, worker: Worker) -> int:
    """How many tasks, or records of streams, a worker has in hand.

    Records count for it if its consumers are called as it is, or as it said.
    """
    if worker.worker_type.runs_actions:
        return len(space.held.get(worker.worker_id, ()))
    consumer = worker.consumer or worker.worker_id
    return sum(_records_held(space, process, consumer) for process in worker.actions)


def _records_held(space: Space, process: str, consumer: ConsumerName) -> int:
    stream_name, _, group_name = process.partition("/")
    stream = space.streams.get(stream_name)
    group = stream.groups.get(group_name) if stream is not None else None
    return len(group.backlog.held.get(consumer, ())) if group is not None else 0


def _load_reported(
    state: State, namespace: Namespace, worker_id: WorkerId, load: int | None, abandoned: int = 0
) -> LoadReported:
    return LoadReported(
        namespace=namespace,
        worker_id=worker_id,
        load=load,
        abandoned=abandoned,
        position=state.position,
    )


def _new_id(
    command: RegisterWorker, workers: Mapping[WorkerId, Worker], context: Context
) -> WorkerId:
    """An id that no worker has: the machine's name and a random number."""
    machine = command.machine_id or "worker"
    ids = (f"{machine}-{number:08x}" for number in count(int(context.rng() * 2**32)))
    worker_id = next(one for one in ids if one not in workers)
    check_worker_id(worker_id)
    return worker_id


def _registered_handler(handler: HandlerInfo) -> RegisteredHandler:
    return RegisteredHandler(
        action=handler.action,
        effect=handler.effect,
        code_digest=handler.code_digest,
        input_schema=handler.input_schema,
        output_schema=handler.output_schema,
    )


def _flat(metadata: dict[str, Any] | None) -> Labels | None:
    """What of the metadata can serve as labels."""
    flat: Labels = {
        key: value
        for key, value in (metadata or {}).items()
        if isinstance(value, str | bool | int | float)
    }
    return flat or None


def _is_same_process(known: Worker, command: RegisterWorker) -> bool:
    return bool(command.incarnation) and command.incarnation == known.incarnation


def _evicted(
    namespace: Namespace, workers: Mapping[WorkerId, Worker], context: Context
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


def _metadata_of(command: RegisterWorker) -> dict[str, Any] | None:
    """The metadata, which may come as the text of a JSON object."""
    metadata = command.metadata
    if metadata is None:
        return None
    if isinstance(metadata, str):
        check_text(metadata, "metadata", METADATA_LENGTH_MAX)
        try:
            metadata = msgspec.json.decode(metadata, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            raise Invalid(
                f"expected metadata as a JSON object, or as the text of one: {error}",
                code="invalid_metadata",
            ) from error
    check_json(metadata, "metadata")
    length = len(msgspec.json.encode(metadata))
    if length > METADATA_LENGTH_MAX:
        raise TooLarge(f"expected metadata of at most {METADATA_LENGTH_MAX} bytes, got {length}")
    return metadata


def _status_of(worker: Worker, reported_load: int | None, leased: int = 0) -> WorkerStatus:
    if worker.draining:
        return WorkerStatus.DRAINING
    return WorkerStatus.IDLE if reported_load == 0 and not leased else WorkerStatus.ACTIVE
