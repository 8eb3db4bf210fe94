"""Rules of runs: invoke and cancel, and the way into the queue.

    pending ──claim──▸ running ──complete──▸ completed
       ▲ │                │
       │ └─────────────── ┼── cancel ──▸ cancelled
       └──── requeue ─────┼── fail ──▸ failed
                          └── lease ends ──▸ timed_out

How a run comes into the hands of a worker is in claims.py, what the worker reports in reports.py,
what is left of a run that has ended in ends.py. Every decide_* reads state and returns a
Decision; every apply_* folds one event.
"""

from msgspec.structs import replace

from flo.engine.actions.rules import named_action
from flo.engine.actions.schemas import check_schema
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import RUN
from flo.engine.runs.events import RunCancelled, RunQueued, RunReleased
from flo.engine.runs.limits import enter_queue, limit_key_of
from flo.engine.runs.lookups import ended_run, run_with_key
from flo.engine.runs.records import Run, RunCause
from flo.engine.state import Space, State
from flo.engine.volatile import VolatileState
from flo.engine.workers.observations import notify
from flo.model.errors import Conflict, NotFound
from flo.model.ids import (
    ActionName,
    Labels,
    check_payload,
    run_id_of,
)
from flo.model.runs import (
    PRIORITY_DEFAULT,
    Accepted,
    Cancel,
    Invoke,
    Invoked,
    RunStatus,
)


def decide_invoke(state: State, command: Invoke, context: Context) -> Decision:
    space = state.space(command.namespace)
    action = named_action(space, command.action)
    inline = action.guest is not None
    if command.idempotency_key is not None:
        known = run_with_key(space, command.action, command.idempotency_key, context)
        if known is not None:
            return Decision(Invoked(run_id=known, duplicate=True, inline=inline))
    number = space.numbers.get(action.name, 0) + 1
    run = queue_run(
        space,
        action.name,
        command.input,
        context,
        number,
        priority=command.priority,
        delay_ms=command.delay_ms,
        idempotency_key=command.idempotency_key,
        labels=command.labels or None,
        subject=command.subject,
        trace=command.trace,
    )
    queued = RunQueued(namespace=command.namespace, run=run)
    return Decision(Invoked(run_id=run.run_id, inline=inline), (queued,))


def queue_run(
    space: Space,
    name: ActionName,
    payload: bytes,
    context: Context,
    number: int,
    *,
    priority: int = PRIORITY_DEFAULT,
    delay_ms: int = 0,
    idempotency_key: str | None = None,
    labels: Labels | None = None,
    cause: RunCause | None = None,
    subject: str | None = None,
    trace: str | None = None,
) -> Run:
    """A run to be queued, unless its action refuses it."""
    action = named_action(space, name)
    if not action.enabled:
        raise Conflict(f"action {action.name!r} is disabled", code="action_disabled")
    check_payload(payload, "an input")
    check_schema(action.input_schema, payload, "the input", "input_invalid", context)
    return Run(
        run_id=run_id_of(name, number),
        action=name,
        number=number,
        input=payload,
        priority=priority,
        created_at_ms=context.now_ms,
        ready_at_ms=context.now_ms + delay_ms,
        is_delayed=delay_ms > 0,
        idempotency_key=idempotency_key,
        labels=labels,
        limit_key=limit_key_of(action, payload),
        sequence=space.run_sequence + 1,
        cause=cause,
        subject=subject,
        trace=trace,
    )


def decide_cancel(state: State, command: Cancel, context: Context) -> Decision:
    space = state.space(command.namespace)
    run = space.runs.get(command.run_id)
    if run is None:
        raise _cannot_cancel(space, command, context)
    cancelled = RunCancelled(
        namespace=command.namespace,
        run_id=run.run_id,
        at_ms=context.now_ms,
        reason=command.reason,
        worker_id=run.worker_id,
    )
    return Decision(Accepted(run_id=run.run_id, status=RunStatus.CANCELLED), (cancelled,))


def note_cancelled(state: State, event: RunCancelled, volatile: VolatileState) -> None:
    """The worker that had the run should know at once."""
    worker_id = event.worker_id
    if worker_id is not None and worker_id in state.spaces[event.namespace].workers:
        notify(volatile, event.namespace, worker_id, event.run_id)


def apply_queued(state: State, event: RunQueued) -> None:
    by = state.by if event.run.cause is None else None
    run = replace(event.run, since_position=state.position, by=by)
    space = state.space_made(event.namespace)
    assert run.run_id not in space.runs
    assert run.sequence > space.run_sequence
    space.run_sequence = run.sequence
    space.runs[run.run_id] = run
    space.numbers[run.action] = run.number
    if run.idempotency_key is not None:
        space.run_keys.run_ids[run.action, run.idempotency_key] = run.run_id
    space.tally(run.action).pending += 1
    if run.is_delayed:
        state.due.set((RUN, event.namespace, run.run_id), run.ready_at_ms)
    else:
        enter_queue(state, space, run)


def apply_released(state: State, event: RunReleased) -> None:
    space = state.spaces[event.namespace]
    state.due.clear((RUN, event.namespace, event.run_id))
    run = space.runs[event.run_id] = replace(
        space.runs[event.run_id], is_delayed=False, since_position=state.position
    )
    enter_queue(state, space, run)


def _cannot_cancel(space: Space, command: Cancel, context: Context) -> NotFound | Conflict:
    ended = ended_run(space, command.run_id, context)
    if ended is None:
        return NotFound(f"run {command.run_id!r} does not exist", code="run_not_found")
    return Conflict(
        f"run {command.run_id!r} has ended already: it is {ended.status}", code="run_has_ended"
    )
