"""Limits on how many may run at a time, by a key from the input: who has a slot, who waits in line.

    RegisterAction(limits=ActionLimits(concurrency_key="{input.customer_id}", concurrency_max=1))

A run has a slot from the moment it is ready until it ends, or until it has to be tried again later.
Runs without a slot stand in line and in no queue, so a claim never sees them. All of it follows
from the runs themselves: no slot can be leaked.
"""

from typing import Any

import msgspec

from flo.core.state import Slots, Space
from flo.model.actions import Action
from flo.model.ids import ActionName
from flo.model.runs import Run
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
    slots = space.action_slots.setdefault((run.action, run.slot), Slots())
    slots.line[run.run_id] = None
    _admit(space, run.action, slots)


def leave_slot(space: Space, run: Run) -> None:
    """The run has ended, or rests: the next in line has its slot."""
    if run.slot is None:
        return
    slots = space.action_slots[run.action, run.slot]
    slots.holders.pop(run.run_id, None)
    slots.line.pop(run.run_id, None)
    _admit(space, run.action, slots)
    if not slots.holders and not slots.line:
        del space.action_slots[run.action, run.slot]


def leave_queue(space: Space, run: Run) -> None:
    """A run that was ready is not wanted any more."""
    slots = space.action_slots.get((run.action, run.slot or ""))
    if run.slot is None or (slots is not None and run.run_id in slots.holders):
        space.queues[run.action].call_off(run.labels, run.priority, run.number)
    leave_slot(space, run)


def widen(space: Space, name: ActionName) -> None:
    """The limits of an action are others now."""
    for (action, _), slots in space.action_slots.items():
        if action == name:
            _admit(space, name, slots)


def value_of(payload: bytes) -> Any:
    """The JSON in a payload; text that is none stays text, and nothing is null."""
    if not payload:
        return None
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return payload.decode(errors="replace")


def _admit(space: Space, name: ActionName, slots: Slots) -> None:
    limits = space.settings(name).limits
    most = limits.concurrency_max if limits is not None else None
    while slots.line and (most is None or len(slots.holders) < most):
        run_id = next(iter(slots.line))
        del slots.line[run_id]
        slots.holders[run_id] = None
        run = space.runs[run_id]
        space.queue(name).push(run.labels, run.priority, run.number)
