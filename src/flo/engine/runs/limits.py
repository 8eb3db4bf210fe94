"""Limits on how many may run at a time, by a key from the input: who has a slot, who waits in line.

    RegisterAction(limits=ActionLimits(concurrency_key="{input.customer_id}", concurrency_max=1))

    ready ──▸ line ──▸ slot, and in the queue ──claim──▸ under way ──▸ ended, or tried again later
                ▲        │                                                │
                └────────┘ the limit is lower now                         └──▸ the next has its slot

A run has a slot from the moment it may be claimed until it ends, or until it has to be tried again:
then it stands in line anew when it is ready. Runs without a slot are in no queue, so a claim never
sees them. In line the highest priority comes first, then who has been ready for longest. All of it
follows from the runs themselves: no slot can be leaked. When the limits of an action are changed,
they hold for all of its live runs; what is under way goes on, and counts.
"""

from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from flo.engine.actions.records import Action
from flo.engine.runs.events import RunsRekeyed
from flo.engine.runs.queue import Lane
from flo.engine.runs.records import Run
from flo.engine.state import ActionPermits, Space, State
from flo.model.ids import ActionName, run_id_of
from flo.model.runs import RunStatus
from flo.workflow.mapping import Scope, compile_template

SLOT_LENGTH_MAX = 1_024


def slot_key(template: str, payload: bytes) -> str:
    """What a template says for this input."""
    text: str = compile_template(template).resolve(Scope(input=value_of(payload)))
    return text[:SLOT_LENGTH_MAX]


def slot_of(action: Action, payload: bytes) -> str | None:
    """The key under which the runs of an action are limited; None if they are not."""
    limits = action.limits
    if limits is None or limits.concurrency_max is None:
        return None
    return slot_key(limits.concurrency_key, payload)


def enter_queue(space: Space, run: Run) -> None:
    """The run is ready: into the queue, or in line behind those who have the slots of its key."""
    if run.slot is None:
        space.queue(run.action).push(run.labels, run.priority, run.number)
        return
    slots = _slots(space, run.action, run.slot)
    slots.line.push(run.priority, run.number)
    _admit(space, run.action, slots)


def leave_slot(space: Space, run: Run) -> None:
    """The run has ended, or rests: the next in line has its slot."""
    if run.slot is None:
        return
    slots = space.action_slots[run.action, run.slot]
    del slots.holders[run.run_id]
    _admit(space, run.action, slots)
    _forget_if_empty(space, run.action, run.slot)


def leave_queue(space: Space, run: Run) -> None:
    """A run that was ready is not wanted any more."""
    _step_out(space, run)
    if run.slot is not None:
        _admit(space, run.action, space.action_slots[run.action, run.slot])
        _forget_if_empty(space, run.action, run.slot)


def is_in_line(space: Space, run: Run) -> bool:
    """Whether a run is ready, but for a slot."""
    if run.slot is None or not _is_ready(run):
        return False
    return run.run_id not in space.action_slots[run.action, run.slot].holders


def fit(space: Space, name: ActionName) -> None:
    """The limits of an action are others now: more have a slot, or some go back in line."""
    named = [(key, slots) for (action, key), slots in space.action_slots.items() if action == name]
    for key, slots in sorted(named, key=itemgetter(0)):  # no other order is kept
        _put_back(space, name, slots)
        _admit(space, name, slots)
        _forget_if_empty(space, name, key)


def rekeyed(space: Space, action: Action) -> list[tuple[int, str | None]]:
    """The live runs of an action that these settings count by another key than the ones before."""
    known = space.actions.get(action.name) or space.deleted.get(action.name)
    if known is None or _counted_by(known) == _counted_by(action):
        return []
    live = (run for run in space.runs.values() if run.action == action.name)
    keys = ((run, slot_of(action, run.input)) for run in live)
    return sorted((run.number, key) for run, key in keys if key != run.slot)


def apply_rekeyed(state: State, event: RunsRekeyed) -> None:
    space = state.spaces[event.namespace]
    ready: list[Run] = []
    for number, slot in event.slots:
        run = space.runs[run_id_of(event.action, number)]
        if _is_ready(run):
            _step_out(space, run)
            ready.append(replace(run, slot=slot))
        elif run.slot is not None and run.status is RunStatus.RUNNING:
            del space.action_slots[run.action, run.slot].holders[run.run_id]
        space.runs[run.run_id] = replace(run, slot=slot)
        if slot is not None and run.status is RunStatus.RUNNING:
            _slots(space, run.action, slot).holders[run.run_id] = None
    for run in sorted(ready, key=lambda run: (run.ready_at_ms, run.number)):
        if run.slot is None:
            space.queue(run.action).push(run.labels, run.priority, run.number)
        else:
            _slots(space, run.action, run.slot).line.push(run.priority, run.number)
    fit(space, event.action)


def value_of(payload: bytes) -> Any:
    """The JSON in a payload; text that is none stays text, and nothing is null."""
    if not payload:
        return None
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return payload.decode(errors="replace")


def _admit(space: Space, name: ActionName, slots: ActionPermits) -> None:
    most = _most(space, name)
    while slots.line and (most is None or len(slots.holders) < most):
        run = space.runs[run_id_of(name, next(iter(slots.line)))]
        slots.line.take(run.priority, run.number)
        slots.holders[run.run_id] = None
        space.queue(name).push(run.labels, run.priority, run.number)


def _put_back(space: Space, name: ActionName, slots: ActionPermits) -> None:
    """Those in the queue for whom there is no slot any more; what is under way goes on."""
    most = _most(space, name)
    held = [space.runs[run_id] for run_id in slots.holders]
    ready = [run for run in held if run.status is RunStatus.PENDING]
    if most is None or len(held) <= most or not ready:
        return
    ready.sort(key=lambda run: (-run.priority, run.ready_at_ms, run.number))
    back = ready[max(0, most - (len(held) - len(ready))) :]
    line = Lane()
    for run in back:
        del slots.holders[run.run_id]
        space.queue(name).call_off(run.labels, run.priority, run.number)
        line.push(run.priority, run.number)
    for priority, numbers in slots.line.parts():
        for number in numbers:
            line.push(priority, number)
    slots.line = line


def _most(space: Space, name: ActionName) -> int | None:
    limits = space.settings(name).limits
    return limits.concurrency_max if limits is not None else None


def _counted_by(action: Action) -> str | None:
    """The template by which the runs of an action are counted; None if they are not."""
    limits = action.limits
    return limits.concurrency_key if limits and limits.concurrency_max is not None else None


def _slots(space: Space, name: ActionName, key: str) -> ActionPermits:
    return space.action_slots.setdefault((name, key), ActionPermits())


def _is_ready(run: Run) -> bool:
    return run.status is RunStatus.PENDING and not run.is_delayed


def _step_out(space: Space, run: Run) -> None:
    """Out of the queue or the line, wherever a ready run stands; its slot is nobody's yet."""
    slots = space.action_slots[run.action, run.slot] if run.slot is not None else None
    if slots is not None and run.run_id not in slots.holders:
        slots.line.call_off(run.priority, run.number)
        return
    space.queues[run.action].call_off(run.labels, run.priority, run.number)
    if slots is not None:
        del slots.holders[run.run_id]


def _forget_if_empty(space: Space, name: ActionName, key: str) -> None:
    slots = space.action_slots[name, key]
    if not slots.holders and not slots.line:
        del space.action_slots[name, key]
