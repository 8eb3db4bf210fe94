"""Read-only answers: one action, run or worker, and lists of them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

import msgspec

from flo.engine.actions.records import Action
from flo.engine.actions.rules import named_action
from flo.engine.context import Context
from flo.engine.namespaces.rules import named_namespace
from flo.engine.runs.records import Attempt, Run
from flo.engine.state import NO_RUNS, Space, State
from flo.engine.workers.records import Process, Worker
from flo.engine.workers.rules import named_worker, worker_status
from flo.model.actions import ActionPage, ActionView, GetAction, LimitsView, ListActions
from flo.model.errors import Invalid, NotFound
from flo.model.fields import check_fields
from flo.model.ids import (
    NAMESPACE_DEFAULT,
    Namespace,
    run_id_of,
)
from flo.model.namespaces import GetNamespace, ListNamespaces, NamespacePage, NamespaceView
from flo.model.runs import (
    AttemptView,
    Ended,
    GetRun,
    ListDead,
    ListRuns,
    RunPage,
    RunResult,
    RunStatus,
    RunView,
    WaitForRuns,
)
from flo.model.workers import (
    AwaitNotifications,
    GetWorker,
    ListWorkers,
    Notifications,
    ProcessView,
    WorkerPage,
    WorkerType,
    WorkerView,
)

PAYLOADS_PER_PAGE_LENGTH_MAX = 2 * 1024 * 1024
NUMBERS_PER_PAGE_MAX = 10_000
"""A page of runs looks at no more run numbers than this; an empty page may have a cursor."""

_CURSOR = re.compile(r"[0-9]{1,18}")


def get_action(state: State, query: GetAction, context: Context) -> ActionView:
    space = state.space(query.namespace)
    return _action_view(query.namespace, space, named_action(space, query.name))


def list_actions(state: State, query: ListActions, context: Context) -> ActionPage:
    space = state.space(query.namespace)
    names, cursor = page_of(space.actions, query)
    views = [_action_view(query.namespace, space, space.actions[name]) for name in names]
    return ActionPage(items=views, cursor=cursor)


def get_run(state: State, query: GetRun, context: Context) -> RunView:
    space = state.space(query.namespace)
    run = space.runs.get(query.run_id)
    run = run or context.recalled.runs.get((space.archive_name, query.run_id))
    if run is None:
        raise NotFound(f"run {query.run_id!r} does not exist", code="run_not_found")
    return run_view(query.namespace, run)


def wait_for_runs(state: State, query: WaitForRuns, context: Context) -> Ended:
    space = state.space(query.namespace)
    results, unknown = [], []
    for run_id in query.run_ids:
        if run_id not in space.runs:
            run = context.recalled.runs.get((space.archive_name, run_id))
            if run is None:
                unknown.append(run_id)
            else:
                results.append(run_result(run))
    return Ended(results=results, unknown=unknown)


def list_runs(state: State, query: ListRuns, context: Context) -> RunPage:
    """A page of what was live when the archive was asked, and what it knew."""
    space = state.space(query.namespace)
    below = numbers_below(space, query)
    floor = _floor(below)
    runs = [run for run in context.recalled.pages[space.archive_name] if run.number >= floor]
    runs.sort(key=lambda run: run.number, reverse=True)
    fitting = list(islice(_within_length(runs), query.limit))
    is_whole = len(fitting) == len(runs) < query.limit
    last = floor if is_whole else fitting[-1].number
    views = [run_view(query.namespace, run) for run in fitting]
    return RunPage(items=views, cursor=str(last) if last > 1 else None)


def list_dead(state: State, query: ListDead, context: Context) -> RunPage:
    """A page of dead letters; one more was asked for, to know whether there is more."""
    space = state.space(query.namespace)
    found = context.recalled.pages[space.archive_name]
    page = list(_within_length(found[: query.limit]))
    views = [run_view(query.namespace, run) for run in page if space.has_dead(run)]
    is_whole = len(page) == len(found)
    return RunPage(items=views, cursor=None if is_whole else str(page[-1].number))


def get_namespace(state: State, query: GetNamespace, context: Context) -> NamespaceView:
    return _namespace_view(query.name, named_namespace(state, query.name))


def list_namespaces(state: State, query: ListNamespaces, context: Context) -> NamespacePage:
    names, cursor = page_of({NAMESPACE_DEFAULT, *state.spaces}, query)
    views = [_namespace_view(name, state.space(name)) for name in names]
    return NamespacePage(items=views, cursor=cursor)


def await_notifications(state: State, query: AwaitNotifications, context: Context) -> Notifications:
    space = state.space(query.namespace)
    worker = named_worker(space, query.worker_id)
    live, after = context.live, query.after
    if (
        after > live.notifications_last
    ):  # a number of an earlier life of the server, whose clock was ahead
        after = 0
    headlines = live.notifications_after(query.namespace, query.worker_id, after)
    return Notifications(
        last=headlines[-1].number if headlines else max(after, live.notifications_first),
        cancelled=[one.cancelled for one in headlines if one.cancelled is not None],
        draining=worker.draining,
    )


def get_worker(state: State, query: GetWorker, context: Context) -> WorkerView:
    space = state.space(query.namespace)
    worker = named_worker(space, query.worker_id)
    return _worker_view(query.namespace, space, worker, context)


def list_workers(state: State, query: ListWorkers, context: Context) -> WorkerPage:
    space = state.space(query.namespace)
    ids, cursor = page_of(space.workers, query)
    views = [
        _worker_view(query.namespace, space, space.workers[worker_id], context) for worker_id in ids
    ]
    return WorkerPage(items=views, cursor=cursor)


def run_view(namespace: Namespace, run: Run) -> RunView:
    return RunView(
        run_id=run.run_id,
        action=run.action,
        namespace=namespace,
        status=run.status,
        priority=run.priority,
        attempt=run.attempt,
        input=run.input,
        created_at_ms=run.created_at_ms,
        ready_at_ms=run.ready_at_ms,
        started_at_ms=run.started_at_ms,
        finished_at_ms=run.finished_at_ms,
        worker_id=run.worker_id,
        lease_expires_at_ms=run.lease_expires_at_ms,
        output=run.output,
        outcome=run.outcome,
        error=run.error,
        dead_lettered=run.dead_lettered,
        idempotency_key=run.idempotency_key,
        labels=run.labels,
        attempts=[_attempt_view(attempt) for attempt in run.attempts],
    )


def _attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        worker_id=attempt.worker_id,
        started_at_ms=attempt.started_at_ms,
        ended_at_ms=attempt.ended_at_ms,
        error=attempt.error,
    )


def run_result(run: Run) -> RunResult:
    return RunResult(
        run_id=run.run_id,
        status=run.status,
        attempt=run.attempt,
        output=run.output,
        outcome=run.outcome,
        error=run.error,
    )


def numbers_below(space: Space, query: ListRuns | ListDead) -> int:
    """The run numbers a page looks at are under this one."""
    check_fields(query)
    newest = space.numbers.get(query.action, 0)
    if query.cursor is None:
        return newest + 1
    if not _CURSOR.fullmatch(query.cursor):
        raise Invalid(f"expected a cursor of an earlier page, got {query.cursor[:80]!r}")
    return min(int(query.cursor), newest + 1)


def live_runs(space: Space, query: ListRuns, below: int) -> Iterator[Run]:
    """The live runs that may be on a page, the newest first."""
    found = 0
    for number in range(below - 1, _floor(below) - 1, -1):
        run = space.runs.get(run_id_of(query.action, number))
        if run is not None and query.status in (None, run.status):
            yield run
            found += 1
            if found == query.limit:
                return


def _floor(below: int) -> int:
    """The lowest run number that a page looks at."""
    return max(1, below - NUMBERS_PER_PAGE_MAX)


def _within_length(runs: Iterable[Run]) -> Iterable[Run]:
    """As many as one reply may carry, and at least one."""
    length = 0
    for run in runs:
        yield run
        length += len(run.input) + len(run.output or b"")
        if length > PAYLOADS_PER_PAGE_LENGTH_MAX:
            return


class Paged(Protocol):
    @property
    def limit(self) -> int: ...

    @property
    def cursor(self) -> str | None: ...


def page_of(names: Iterable[str], query: Paged) -> tuple[list[str], str | None]:
    """The names of one page in order, and the cursor of the next."""
    after = query.cursor
    ordered = sorted(name for name in names if after is None or name > after)
    page = ordered[: query.limit]
    return page, page[-1] if len(ordered) > len(page) else None


def _action_view(namespace: Namespace, space: Space, action: Action) -> ActionView:
    tally = space.tallies.get(action.name, NO_RUNS)
    return ActionView(
        name=action.name,
        namespace=namespace,
        type="user" if action.guest is None else "wasm",
        timeout_ms=action.timeout_ms,
        max_retries=action.max_retries,
        retry_delay_ms=action.retry_delay_ms,
        description=action.description,
        version=action.version,
        enabled=action.enabled,
        created_at_ms=action.created_at_ms,
        updated_at_ms=action.updated_at_ms,
        runs=msgspec.structs.asdict(tally),
        input_schema=_schema_view(action.input_schema),
        output_schema=_schema_view(action.output_schema),
        wasm_digest=action.guest.digest if action.guest else None,
        wasm_entrypoint=action.guest.entrypoint if action.guest else None,
        wasm_memory_limit=action.guest.memory_pages if action.guest else None,
        limits=LimitsView(**msgspec.structs.asdict(action.limits)) if action.limits else None,
    )


def _schema_view(schema: str | None) -> dict[str, Any] | None:
    return msgspec.json.decode(schema, type=dict[str, Any]) if schema is not None else None


def _namespace_view(name: Namespace, space: Space) -> NamespaceView:
    runs = Counter[str]()
    for tally in space.tallies.values():
        runs.update(msgspec.structs.asdict(tally))
    return NamespaceView(
        name=name,
        created_at_ms=space.created_at_ms,
        actions=len(space.actions),
        workers=len(space.workers),
        runs={status.value: runs[status.value] for status in RunStatus},
        streams=len(space.streams),
        keys=len(space.kv),
    )


def _worker_view(
    namespace: Namespace, space: Space, worker: Worker, context: Context
) -> WorkerView:
    presence = context.live.heard(namespace, worker.worker_id)
    processes = space.processes[worker.worker_id].values()
    return WorkerView(
        worker_id=worker.worker_id,
        worker_type=worker.worker_type,
        status=worker_status(worker, namespace, context),
        namespace=namespace,
        max_concurrency=worker.max_concurrency,
        current_load=presence.current_load,
        tasks_completed=sum(process.run_count for process in processes),
        tasks_failed=sum(process.fail_count for process in processes),
        registered_at_ms=worker.registered_at_ms,
        last_heartbeat_ms=presence.heard_at_ms,
        machine_id=worker.machine_id,
        labels=worker.labels,
        metadata=worker.metadata,
        processes=[_process_view(worker.worker_type, process) for process in processes],
    )


def _process_view(worker_type: WorkerType, process: Process) -> ProcessView:
    return ProcessView(
        name=process.name,
        kind="action" if worker_type is WorkerType.ACTION else "stream_consumer",
        run_count=process.run_count,
        fail_count=process.fail_count,
        last_run_at_ms=process.last_run_at_ms,
    )
