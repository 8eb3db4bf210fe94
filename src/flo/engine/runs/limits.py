"""Concurrency limits of actions: under each key from the input, who has a permit and who waits.

    RegisterAction(limits=ActionLimits(concurrency_key="{input.customer_id}", concurrency_max=1))

    ready ──▸ wait queue ──▸ permit, and ready to be claimed ──▸ running ──▸ ended, or tried again
                  ▲               │                                             │
                  └───────────────┘ the limit is lower now                      └──▸ the next one
                                                                                     has the permit

A run has a permit from the moment it may be claimed until it ends, or until it has to be tried
again: then it waits anew when it is ready. Runs without a permit are in no lane, so a claim never
sees them. In the wait queue the highest priority comes first, then who has been ready for longest.
All of it follows from the runs themselves: no permit can be leaked. When the limits of an action
are changed, they hold for all of its live runs; what is running goes on, and counts.
"""

from operator import itemgetter

from msgspec.structs import replace

from flo.engine.actions.records import Action
from flo.engine.runs.events import RunsRekeyed
from flo.engine.runs.queue import Lane
from flo.engine.runs.records import Run
from flo.engine.state import ActionPermits, Space, State
from flo.model.actions import ActionLimits
from flo.model.ids import ActionName, run_id_of
from flo.model.runs import RunStatus
from flo.workflow.mapping import Scope, compile_template
from flo.workflow.payload import value_of

LIMIT_KEY_LENGTH_MAX = 1_024


def key_from(template: str, payload: bytes) -> str:
    """What a template says for this input."""
    text: str = compile_template(template).resolve(Scope(input=value_of(payload)))
    return text[:LIMIT_KEY_LENGTH_MAX]


def limit_key_of(action: Action, payload: bytes) -> str | None:
    """The key under which the runs of an action are limited; None if they are not."""
    template = counted_by(action.limits)
    return key_from(template, payload) if template is not None else None


def counted_by(limits: ActionLimits | None) -> str | None:
    """The template by which the runs of an action are counted; None if they are not."""
    return limits.concurrency_key if limits and limits.concurrency_max is not None else None


def enter_queue(state: State, space: Space, run: Run) -> None:
    """The run is ready: into the queue, or behind those who wait for a permit of its key."""
    if run.limit_key is None:
        space.queue(run.action).push(run.labels, run.priority, run.number)
        return
    permits = _permits(space, run.action, run.limit_key)
    permits.waiting.push(run.priority, run.number)
    _admit(state, space, run.action, permits)


def return_to_queue(state: State, space: Space, run: Run) -> None:
    """The run was handed out in vain: back to where it was, before those ready later than it."""

    def is_later(number: int) -> bool:
        other = space.runs[run_id_of(run.action, number)]
        return (other.ready_at_ms, other.number) > (run.ready_at_ms, run.number)

    if run.limit_key is None:
        space.queue(run.action).push_before(run.labels, run.priority, run.number, is_later)
        return
    permits = _permits(space, run.action, run.limit_key)
    permits.waiting.push_before(run.priority, run.number, is_later)
    _admit(state, space, run.action, permits)


def give_back_permit(state: State, space: Space, run: Run) -> None:
    """The run has ended, or rests: the next one that waits has its permit."""
    if run.limit_key is None:
        return
    permits = space.action_permits[run.action, run.limit_key]
    del permits.holders[run.run_id]
    _admit(state, space, run.action, permits)
    _forget_if_empty(space, run.action, run.limit_key)


def leave_queue(state: State, space: Space, run: Run) -> None:
    """A run that was ready is not wanted any more."""
    _step_out(space, run)
    if run.limit_key is not None:
        _admit(state, space, run.action, space.action_permits[run.action, run.limit_key])
        _forget_if_empty(space, run.action, run.limit_key)


def waits_for_permit(space: Space, run: Run) -> bool:
    """Whether a run is ready, but for a permit."""
    if run.limit_key is None or not _is_ready(run):
        return False
    return run.run_id not in space.action_permits[run.action, run.limit_key].holders


def fit(state: State, space: Space, name: ActionName) -> None:
    """The limits of an action are others now: more have a permit, or some wait again."""
    named = [
        (key, permits) for (action, key), permits in space.action_permits.items() if action == name
    ]
    for key, permits in sorted(named, key=itemgetter(0)):  # no other order is kept
        _put_back(space, name, permits)
        _admit(state, space, name, permits)
        _forget_if_empty(space, name, key)


def apply_rekeyed(state: State, event: RunsRekeyed) -> None:
    space = state.spaces[event.namespace]
    ready: list[Run] = []
    for number, limit_key in event.keys:
        run = space.runs[run_id_of(event.action, number)]
        if _is_ready(run):
            _step_out(space, run)
            ready.append(replace(run, limit_key=limit_key))
        elif run.limit_key is not None and run.status is RunStatus.RUNNING:
            del space.action_permits[run.action, run.limit_key].holders[run.run_id]
        space.runs[run.run_id] = replace(run, limit_key=limit_key)
        if limit_key is not None and run.status is RunStatus.RUNNING:
            _permits(space, run.action, limit_key).holders[run.run_id] = state.moment()
    for run in sorted(ready, key=lambda run: (run.ready_at_ms, run.number)):
        if run.limit_key is None:
            space.queue(run.action).push(run.labels, run.priority, run.number)
        else:
            _permits(space, run.action, run.limit_key).waiting.push(run.priority, run.number)
    fit(state, space, event.action)


def _admit(state: State, space: Space, name: ActionName, permits: ActionPermits) -> None:
    most = _most(space, name)
    while permits.waiting and (most is None or len(permits.holders) < most):
        run = space.runs[run_id_of(name, next(iter(permits.waiting)))]
        permits.waiting.take(run.priority, run.number)
        permits.holders[run.run_id] = state.moment()
        space.queue(name).push(run.labels, run.priority, run.number)


def _put_back(space: Space, name: ActionName, permits: ActionPermits) -> None:
    """Those in the queue for whom there is no permit any more; what is running goes on."""
    most = _most(space, name)
    held = [space.runs[run_id] for run_id in permits.holders]
    ready = [run for run in held if run.status is RunStatus.PENDING]
    if most is None or len(held) <= most or not ready:
        return
    ready.sort(key=lambda run: (-run.priority, run.ready_at_ms, run.number))
    back = ready[max(0, most - (len(held) - len(ready))) :]
    waiting = Lane()
    for run in back:
        del permits.holders[run.run_id]
        space.queue(name).call_off(run.labels, run.priority, run.number)
        waiting.push(run.priority, run.number)
    for priority, numbers in permits.waiting.parts():
        for number in numbers:
            waiting.push(priority, number)
    permits.waiting = waiting


def _most(space: Space, name: ActionName) -> int | None:
    limits = space.settings(name).limits
    return limits.concurrency_max if limits is not None else None


def _permits(space: Space, name: ActionName, key: str) -> ActionPermits:
    return space.action_permits.setdefault((name, key), ActionPermits())


def _is_ready(run: Run) -> bool:
    return run.status is RunStatus.PENDING and not run.is_delayed


def _step_out(space: Space, run: Run) -> None:
    """Out of its lane or the wait queue, wherever a ready run is; its permit is nobody's yet."""
    permits = space.action_permits[run.action, run.limit_key] if run.limit_key is not None else None
    if permits is not None and run.run_id not in permits.holders:
        permits.waiting.call_off(run.priority, run.number)
        return
    space.queues[run.action].call_off(run.labels, run.priority, run.number)
    if permits is not None:
        del permits.holders[run.run_id]


def _forget_if_empty(space: Space, name: ActionName, key: str) -> None:
    permits = space.action_permits[name, key]
    if not permits.holders and not permits.waiting:
        del space.action_permits[name, key]
