"""Which workers could take a run that is ready, and why none of them has.

registered for its action? ──▸ with its labels? ──▸ there, and not draining? ──▸ has room?
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from flo.engine.context import Context
from flo.engine.runs.queue import is_met, lane_key
from flo.engine.runs.records import Run
from flo.engine.state import Space, State
from flo.engine.workers.presence import connection_of
from flo.engine.workers.records import Worker
from flo.engine.workers.rules import is_stuck, worker_status
from flo.model.explain import Cause, CauseCode, since_when
from flo.model.ids import Namespace, RunId
from flo.model.storage.since import Since
from flo.model.workers import INLINE_WORKER_ID, WorkerConnection, WorkerStatus

WORKERS_SHOWN_MAX = 10


class _Candidates(NamedTuple):
    """The workers for the action of a run, by what keeps each from taking it."""

    able: list[Worker]
    busy: list[Worker]
    draining: list[Worker]
    stuck: list[Worker]
    disconnected: list[Worker]
    gone: list[Worker]
    other_labels: list[Worker]


def who_could_take(state: State, namespace: Namespace, run: Run, context: Context) -> list[Cause]:
    """Why a run that is ready has not been claimed; never empty."""
    space = state.space(namespace)
    if space.settings(run.action).guest is not None:
        return [_in_server(state, run)]
    found = _candidates(space, namespace, run, context)
    if found.able:
        return [_ready(found.able[0], run)]
    if found.busy:
        return [_busy(space, found.busy, run)]
    causes = [
        *(disconnected(worker, namespace, context) for worker in found.disconnected),
        *(_gone(worker, namespace, run, context) for worker in found.gone),
        *(_stuck(worker, run) for worker in found.stuck),
        *(_draining(worker, run) for worker in found.draining),
    ][:WORKERS_SHOWN_MAX]
    if found.other_labels:
        causes.append(_unmatched(found.other_labels, run))
    return causes or [_nobody(space, run)]


def _candidates(space: Space, namespace: Namespace, run: Run, context: Context) -> _Candidates:
    found = _Candidates([], [], [], [], [], [], [])
    for worker in space.workers.values():
        if run.action not in worker.actions:
            continue
        status = worker_status(space, worker, namespace, context)
        connection = connection_of(worker, namespace, context)
        abandoned = context.volatile.heard(namespace, worker.worker_id).abandoned
        held = len(space.held.get(worker.worker_id, ()))
        if not _has_labels(worker, run):
            group = found.other_labels
        elif connection is WorkerConnection.DISCONNECTED:
            group = found.disconnected
        elif status is WorkerStatus.UNHEALTHY:
            group = found.stuck if is_stuck(worker, abandoned) else found.gone
        elif status is WorkerStatus.DRAINING:
            group = found.draining
        elif held + abandoned >= worker.max_concurrency:
            group = found.busy
        else:
            group = found.able
        group.append(worker)
    return found


def _in_server(state: State, run: Run) -> Cause:
    held = [space.held.get(INLINE_WORKER_ID, {}) for space in state.spaces.values()]
    executed = [run_id for run_ids in held for run_id in run_ids]
    if not executed:
        return Cause(
            code=CauseCode.READY,
            text="The server executes its module next.",
            since_at_ms=run.ready_at_ms,
            since_position=run.since_position,
        )
    return Cause(
        code=CauseCode.EXECUTION_PLACES_TAKEN,
        text=f"The server executes {len(executed)} WebAssembly modules, which is as many as it may "
        "at a time.",
        since_at_ms=run.ready_at_ms,
        since_position=run.since_position,
        advice=[f"flo action explain {run_id}" for run_id in executed[:3]],
        facts={"executed": len(executed), "runs": executed[:WORKERS_SHOWN_MAX]},
    )


def _ready(worker: Worker, run: Run) -> Cause:
    return Cause(
        code=CauseCode.READY,
        text=f"Worker {worker.worker_id!r} has room for it, and takes it when it next asks.",
        since_at_ms=run.ready_at_ms,
        since_position=run.since_position,
        advice=[f"flo worker info {worker.worker_id}"],
        facts={"worker_id": worker.worker_id},
    )


def _busy(space: Space, busy: list[Worker], run: Run) -> Cause:
    which = f"Worker {busy[0].worker_id!r}" if len(busy) == 1 else f"Each of {len(busy)} workers"
    return Cause(
        code=CauseCode.WORKERS_BUSY,
        text=f"{which} that could take it is busy with as many tasks as it takes at a time.",
        since_at_ms=run.ready_at_ms,
        since_position=run.since_position,
        next_at_ms=first_lease_end(space, _tasks_of(space, busy)),
        advice=[f"flo action runs {run.action} --status running", "flo worker list"],
        facts={
            "action": run.action,
            "workers": [
                {
                    "worker_id": one.worker_id,
                    "tasks": len(space.held.get(one.worker_id, ())),
                    "max_concurrency": one.max_concurrency,
                }
                for one in islice(busy, WORKERS_SHOWN_MAX)
            ],
        },
    )


def _tasks_of(space: Space, workers: list[Worker]) -> Iterator[RunId]:
    return chain.from_iterable(space.held.get(one.worker_id, ()) for one in workers)


def first_lease_end(space: Space, run_ids: Iterable[RunId]) -> int | None:
    """When the first of these runs is taken from its worker, unless it has ended before."""
    ends = (space.runs[run_id].lease_expires_at_ms for run_id in run_ids)
    return min((at_ms for at_ms in ends if at_ms is not None), default=None)


def disconnected(worker: Worker, namespace: Namespace, context: Context) -> Cause:
    """Its connection is broken, and the grace period is not over."""
    since = context.volatile.disconnected_since(namespace, worker.worker_id)
    assert since is not None
    grace_ms = context.volatile.worker_grace_ms
    return Cause(
        code=CauseCode.WORKER_DISCONNECTED,
        text=f"Worker {worker.worker_id!r} has lost its connection; if it is not back in time, it "
        "is given up, and its tasks are ready again.",
        since_at_ms=since.at_ms,
        since_position=since.position,
        next_at_ms=since.at_ms + grace_ms,
        advice=[f"flo worker info {worker.worker_id}"],
        facts={"worker_id": worker.worker_id, "grace_ms": grace_ms},
    )


def _gone(worker: Worker, namespace: Namespace, run: Run, context: Context) -> Cause:
    who = f"Worker {worker.worker_id!r} for action {run.action!r}"
    heard = context.volatile.heard(namespace, worker.worker_id)
    silent = Since(at_ms=heard.heard_at_ms, position=heard.position)
    is_lost = worker.lost_since is not None
    return Cause(
        code=CauseCode.WORKER_GONE,
        text=f"{who} {'is lost: its connection broke' if is_lost else 'has fallen silent'}.",
        **since_when(worker.lost_since or silent),
        advice=[_start(run), f"flo worker info {worker.worker_id}"],
        facts={
            "worker_id": worker.worker_id,
            "action": run.action,
            "how": "lost" if is_lost else "silent",
        },
    )


def _stuck(worker: Worker, run: Run) -> Cause:
    return Cause(
        code=CauseCode.WORKER_STUCK,
        text=f"Worker {worker.worker_id!r} for action {run.action!r} is stuck: every place of it "
        "is held by a handler that was told to stop, and does not.",
        since_at_ms=run.ready_at_ms,
        since_position=run.since_position,
        advice=[f"flo worker info {worker.worker_id}", _start(run)],
        facts={"worker_id": worker.worker_id, "action": run.action},
    )


def _draining(worker: Worker, run: Run) -> Cause:
    return Cause(
        code=CauseCode.WORKER_DRAINING,
        text=f"Worker {worker.worker_id!r} for action {run.action!r} is draining, and takes no "
        "more.",
        **since_when(worker.draining_since),
        advice=[_start(run), f"flo worker info {worker.worker_id}"],
        facts={"worker_id": worker.worker_id, "action": run.action},
    )


def _unmatched(workers: list[Worker], run: Run) -> Cause:
    """Nobody has its labels: who is nearest, and what differs."""
    nearest = min(
        workers,
        key=lambda one: (one.lost_at_ms is not None, len(_missing(one, run)), one.worker_id),
    )
    asked, has = run.labels or {}, nearest.labels or {}
    differing: dict[str, dict[str, Any]] = {
        name: {"asked": asked[name], "has": has.get(name)} for name in _missing(nearest, run)
    }
    told = ", ".join(
        f"{name} is {_value(one['has'])} and not {_value(one['asked'])}"
        for name, one in differing.items()
    )
    return Cause(
        code=CauseCode.LABELS_UNMATCHED,
        text=f"No worker for action {run.action!r} has the labels it asks for; nearest is worker "
        f"{nearest.worker_id!r}, whose {told}.",
        since_at_ms=run.ready_at_ms,
        since_position=run.since_position,
        advice=[f"flo worker info {nearest.worker_id}"],
        facts={"labels": asked, "nearest": nearest.worker_id, "differing": differing},
    )


def _nobody(space: Space, run: Run) -> Cause:
    left = space.departures.get(run.action)
    if left is None:
        return Cause(
            code=CauseCode.NO_WORKER,
            text=f"No worker is registered for action {run.action!r}, and none has been.",
            since_at_ms=run.ready_at_ms,
            since_position=run.since_position,
            advice=[_start(run)],
            facts={"action": run.action},
        )
    return Cause(
        code=CauseCode.WORKER_GONE,
        text=f"No worker is registered for action {run.action!r} any more: {left.worker_id!r} was "
        "the last to leave.",
        since_at_ms=left.at_ms,
        since_position=left.position,
        advice=[_start(run)],
        facts={"worker_id": left.worker_id, "action": run.action, "how": "left"},
    )


def _start(run: Run) -> str:
    return f"flo worker run MODULE  # one that performs {run.action}"


def _has_labels(worker: Worker, run: Run) -> bool:
    return is_met(lane_key(run.labels), frozenset(lane_key(worker.labels)))


def _missing(worker: Worker, run: Run) -> list[str]:
    has = frozenset(lane_key(worker.labels))
    return [label[0] for label in lane_key(run.labels) if not is_met((label,), has)]


def _value(value: Any) -> str:
    return "missing" if value is None else repr(value)
