"""The causes why a live run is where it is.

    running ──▸ who executes it
    pending ──▸ its delay, its backoff ──▸ a permit, the rate ──▸ who could take it (workers.py)

The first cause is what it waits for now; those that follow are worth knowing, too.
"""

from collections.abc import Iterator
from itertools import islice

from flo.engine.context import Context
from flo.engine.runs.claims import rate_now
from flo.engine.runs.explain.workers import disconnected, first_lease_end, who_could_take
from flo.engine.runs.limits import waits_for_permit
from flo.engine.runs.records import Run
from flo.engine.state import Space, State
from flo.engine.workers.presence import connection_of
from flo.model.explain import Cause, CauseCode, since_when
from flo.model.ids import Namespace
from flo.model.runs import RunStatus
from flo.model.storage.since import Since
from flo.model.workers import INLINE_WORKER_ID, WorkerConnection
from flo.workflow.plan.rate import HOUR_MS, MINUTE_MS, SECOND_MS, Rate, Window

HOLDERS_SHOWN_MAX = 3
"""So many of those who are before it are named."""

_WINDOWS = {SECOND_MS: "second", MINUTE_MS: "minute", HOUR_MS: "hour"}


def causes_of(state: State, namespace: Namespace, run: Run, context: Context) -> list[Cause]:
    """Why a live run is where it is; never empty."""
    space = state.space(namespace)
    if run.status is RunStatus.RUNNING:
        return [*_in_grace(space, namespace, run, context), _executed(run), *reported_late(run)]
    causes = list(_held_back(space, namespace, run, context))
    if not causes:
        causes = who_could_take(state, namespace, run, context)
    return [*causes, *_of_action(space, run), *reported_late(run)]


def reported_late(run: Run) -> Iterator[Cause]:
    """What was said of its attempts after they had ended: each may have had its effect."""
    for attempt in run.attempts:
        late = attempt.late
        if late is not None:
            yield Cause(
                code=CauseCode.LATE_REPORT,
                text=f"Attempt {attempt.number} ended as {attempt.end.value}, and worker "
                f"{late.worker_id!r} reported {late.outcome!r} of it afterwards: its effect may "
                "have happened.",
                since_at_ms=late.at_ms,
                since_position=late.position,
                advice=[f"flo action status {run.run_id}"],
                facts={
                    "attempt": attempt.number,
                    "end": attempt.end.value,
                    "worker_id": late.worker_id,
                    "outcome": late.outcome,
                    "error_code": late.error_code,
                },
            )


def _in_grace(space: Space, namespace: Namespace, run: Run, context: Context) -> Iterator[Cause]:
    """The worker that has it may be gone."""
    worker = space.workers.get(run.worker_id or "")
    if worker is None:
        return
    if connection_of(worker, namespace, context) is WorkerConnection.DISCONNECTED:
        yield disconnected(worker, namespace, context)


def _executed(run: Run) -> Cause:
    facts = {"worker_id": run.worker_id, "attempt": run.attempt}
    if run.worker_id == INLINE_WORKER_ID:
        return Cause(
            code=CauseCode.EXECUTED_BY_SERVER,
            text=f"The server executes its module (attempt {run.attempt}).",
            since_at_ms=run.started_at_ms,
            since_position=run.since_position,
            next_at_ms=run.lease_expires_at_ms,
            facts=facts,
        )
    return Cause(
        code=CauseCode.HELD_BY_WORKER,
        text=f"Worker {run.worker_id!r} has it (attempt {run.attempt}).",
        since_at_ms=run.started_at_ms,
        since_position=run.since_position,
        next_at_ms=run.lease_expires_at_ms,
        advice=[f"flo action status {run.run_id}", f"flo worker info {run.worker_id}"],
        facts=facts,
    )


def _held_back(space: Space, namespace: Namespace, run: Run, context: Context) -> Iterator[Cause]:
    """What keeps a pending run from being claimed, whoever is there."""
    if run.is_delayed:
        yield _delayed(run)
    elif waits_for_permit(space, run):
        yield _limited(space, run)
    else:
        rate = rate_now(space, namespace, run.action, context.volatile)
        if rate is not None and not rate.may_call(context.now_ms):
            yield _rated(run, rate, context.now_ms)


def _delayed(run: Run) -> Cause:
    if not run.attempts:
        return Cause(
            code=CauseCode.DELAYED,
            text="It was invoked with a delay, which is not over.",
            since_at_ms=run.created_at_ms,
            since_position=run.since_position,
            next_at_ms=run.ready_at_ms,
            facts={"delay_ms": run.ready_at_ms - run.created_at_ms},
        )
    last = run.attempts[-1]
    return Cause(
        code=CauseCode.RETRY_BACKOFF,
        text=f"Attempt {last.number} has failed, and it is tried again after a pause: {last.error}",
        since_at_ms=last.ended_at_ms,
        since_position=run.since_position,
        next_at_ms=run.ready_at_ms,
        advice=[f"flo action status {run.run_id}"],
        facts={"attempt": last.number, "worker_id": last.worker_id, "error": last.error},
    )


def _limited(space: Space, run: Run) -> Cause:
    limits = space.settings(run.action).limits
    most = limits.concurrency_max if limits is not None else None
    permits = space.action_permits[run.action, run.limit_key or ""]
    holders = list(islice(permits.holders, HOLDERS_SHOWN_MAX))
    key = f" with the key {run.limit_key!r}" if run.limit_key else ""
    return Cause(
        code=CauseCode.CONCURRENCY_LIMIT,
        text=f"At most {most} runs of action {run.action!r}{key} may be under way at a time, and "
        f"{len(permits.holders)} are.",
        since_at_ms=run.ready_at_ms,
        since_position=run.since_position,
        next_at_ms=first_lease_end(space, permits.holders),
        advice=[
            *(f"flo action explain {holder}" for holder in holders),
            f"flo action info {run.action}",
        ],
        facts={
            "action": run.action,
            "limit": most,
            "key": run.limit_key,
            "under_way": len(permits.holders),
            "waiting": len(permits.waiting),
            "holders": holders,
            "held_since": [_held_since(permits.holders[one]) for one in holders],
        },
    )


def _held_since(since: Since) -> dict[str, int]:
    return {"at": since.at_ms, "position": since.position}


def _rated(run: Run, rate: Rate, now_ms: int) -> Cause:
    window = max(rate.windows, key=lambda window: window.next_at_ms(now_ms))
    return Cause(
        code=CauseCode.RATE_LIMIT,
        text=f"No more than {window.limit} runs of action {run.action!r} may begin in "
        f"{_length_of(window)}, and as many have begun.",
        since_at_ms=run.ready_at_ms,
        since_position=run.since_position,
        next_at_ms=rate.next_at_ms(now_ms),
        advice=[f"flo action info {run.action}"],
        facts={"action": run.action, "limit": window.limit, "window_ms": window.length_ms},
    )


def _of_action(space: Space, run: Run) -> Iterator[Cause]:
    """What is worth knowing of its action; it does not keep a run that is there from going on."""
    action = space.actions.get(run.action)
    if action is None:
        yield Cause(
            code=CauseCode.ACTION_DELETED,
            text=f"Action {run.action!r} has been deleted; this run goes on, and no other begins.",
            **since_when(space.deleted[run.action].deleted_since),
            facts={"action": run.action},
        )
    elif not action.enabled:
        yield Cause(
            code=CauseCode.ACTION_DISABLED,
            text=f"Action {run.action!r} is disabled; this run goes on, and no other begins.",
            **since_when(action.disabled_since),
            advice=[f"flo action enable {run.action}"],
            facts={"action": run.action},
        )


def _length_of(window: Window) -> str:
    name = _WINDOWS.get(window.length_ms)
    return f"a{'n' if name == 'hour' else ''} {name}" if name else f"{window.length_ms} ms"
