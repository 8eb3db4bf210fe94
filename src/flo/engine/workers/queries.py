"""Queries about workers, and what a worker should know at once."""

from flo.engine.context import Context
from flo.engine.lists.paging import page_of
from flo.engine.state import Space, State
from flo.engine.workers.presence import connection_of, named_worker
from flo.engine.workers.records import Process, RegisteredHandler, Worker
from flo.engine.workers.rules import leased_count, worker_status
from flo.model.ids import Namespace
from flo.model.workers import (
    AwaitNotifications,
    GetWorker,
    HandlerInfo,
    ListWorkers,
    Notifications,
    ProcessView,
    WorkerPage,
    WorkerType,
    WorkerView,
)

LISTED_MS = 60 * 60 * 1_000
"""So long a worker that was lost stays in the list."""


def _is_long_lost(worker: Worker, context: Context) -> bool:
    return worker.lost_at_ms is not None and context.now_ms - worker.lost_at_ms >= LISTED_MS


def get_worker(state: State, query: GetWorker, context: Context) -> WorkerView:
    space = state.space(query.namespace)
    worker = named_worker(space, query.worker_id)
    return _worker_view(query.namespace, space, worker, context)


def list_workers(state: State, query: ListWorkers, context: Context) -> WorkerPage:
    space = state.space(query.namespace)
    ids, cursor = page_of(space.workers, query)
    workers = (space.workers[worker_id] for worker_id in ids)
    views = [
        _worker_view(query.namespace, space, worker, context)
        for worker in workers
        if query.all or not _is_long_lost(worker, context)
    ]
    return WorkerPage(items=views, cursor=cursor)


def await_notifications(state: State, query: AwaitNotifications, context: Context) -> Notifications:
    worker = named_worker(state.space(query.namespace), query.worker_id)
    volatile, after = context.volatile, query.after
    if after > volatile.notifications_last:  # a number of an earlier start, with the clock ahead
        after = 0
    found = volatile.notifications_after(query.namespace, query.worker_id, after)
    return Notifications(
        last=found[-1].number if found else max(after, volatile.notifications_first),
        cancelled=[one.cancelled for one in found if one.cancelled is not None],
        draining=worker.draining,
    )


def _worker_view(
    namespace: Namespace, space: Space, worker: Worker, context: Context
) -> WorkerView:
    presence = context.volatile.heard(namespace, worker.worker_id)
    load = leased_count(space, worker) + presence.abandoned
    if not worker.worker_type.runs_actions:  # it knows best what it has in hand
        load = max(load, presence.reported_load or 0)
    processes = space.processes[worker.worker_id].values()
    return WorkerView(
        worker_id=worker.worker_id,
        worker_type=worker.worker_type,
        status=worker_status(space, worker, namespace, context),
        namespace=namespace,
        max_concurrency=worker.max_concurrency,
        current_load=load,
        tasks_completed=sum(process.run_count for process in processes),
        tasks_failed=sum(process.fail_count for process in processes),
        registered_at_ms=worker.registered_at_ms,
        last_heartbeat_ms=presence.heard_at_ms,
        machine_id=worker.machine_id,
        labels=worker.labels,
        metadata=worker.metadata,
        processes=[_process_view(worker.worker_type, process) for process in processes],
        connection=connection_of(worker, namespace, context),
        build_id=worker.build_id,
        handlers=[_handler_view(handler) for handler in worker.handlers],
        abandoned=presence.abandoned,
    )


def _handler_view(handler: RegisteredHandler) -> HandlerInfo:
    return HandlerInfo(
        action=handler.action,
        effect=handler.effect,
        code_digest=handler.code_digest,
        input_schema=handler.input_schema,
        output_schema=handler.output_schema,
    )


PROCESS_KINDS = {
    WorkerType.ACTION: "action",
    WorkerType.STREAM: "stream_consumer",
    WorkerType.PIPELINE: "role",
    WorkerType.BLOCK: "job",
}


def _process_view(worker_type: WorkerType, process: Process) -> ProcessView:
    return ProcessView(
        name=process.name,
        kind=PROCESS_KINDS[worker_type],
        run_count=process.run_count,
        fail_count=process.fail_count,
        last_run_at_ms=process.last_run_at_ms,
    )
