"""Time passes only as a command: what fell due since the last tick, falls due now.

One thing after the other: what the first one leads to may call off the second.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import GROUP, KEY, RUN, SCHEDULE, WORKFLOW, DueKey
from flo.engine.groups import rules as groups
from flo.engine.kv import rules as kv
from flo.engine.runs import reports
from flo.engine.schedules import rules as schedules
from flo.engine.state import State
from flo.engine.workflows import rules as workflows
from flo.model.base import Event
from flo.model.runs import Tick, Ticked

DUE_PER_TICK_MAX = 1_000
EVENTS_PER_TICK_MAX = 20_000

DUES: dict[str, Callable[[State, DueKey, Context], Iterable[Event]]] = {
    RUN: reports.fall_due,
    GROUP: groups.fall_due,
    KEY: kv.fall_due,
    WORKFLOW: workflows.fall_due,
    SCHEDULE: schedules.fall_due,
}
"""What is due is no longer due, or not at this time, once these events are folded."""


def decide_tick(state: State, command: Tick, context: Context) -> Decision:
    ripe = state.due.ripe(context.now_ms, DUE_PER_TICK_MAX)
    more = len(ripe) == DUE_PER_TICK_MAX
    return Decision(Ticked(more=more), then=_fallen_due(state, ripe, context))


def _fallen_due(state: State, ripe: Sequence[DueKey], context: Context) -> Iterator[Event]:
    count = 0
    for key in ripe:
        if not state.due.is_ripe(key, context.now_ms):
            continue
        for event in DUES[key[0]](state, key, context):
            count += 1
            yield event
        if count >= EVENTS_PER_TICK_MAX:
            return  # what is left stays due
