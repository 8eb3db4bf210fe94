"""Time passes only as a command: what fell due since the last tick, falls due now.

One thing after the other: what the first one leads to may call off the second.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from flo.core import groups, kv, reports, schedules, workflows
from flo.core.decision import Decision
from flo.core.due import GROUP, KEY, RUN, SCHEDULE, WORKFLOW, DueKey
from flo.core.moment import Moment
from flo.core.state import State
from flo.model.base import Fact
from flo.model.runs import Tick, Ticked

DUE_PER_TICK_MAX = 1_000
EVENTS_PER_TICK_MAX = 20_000

DUES: dict[str, Callable[[State, DueKey, Moment], Iterable[Fact]]] = {
    RUN: reports.fall_due,
    GROUP: groups.fall_due,
    KEY: kv.fall_due,
    WORKFLOW: workflows.fall_due,
    SCHEDULE: schedules.fall_due,
}
"""What is due is no longer due, or not at this time, once these events are folded."""


def decide_tick(state: State, command: Tick, moment: Moment) -> Decision:
    ripe = state.due.ripe(moment.now_ms, DUE_PER_TICK_MAX)
    more = len(ripe) == DUE_PER_TICK_MAX
    return Decision(Ticked(more=more), then=_fallen_due(state, ripe, moment))


def _fallen_due(state: State, ripe: Sequence[DueKey], moment: Moment) -> Iterator[Fact]:
    count = 0
    for key in ripe:
        if not state.due.is_ripe(key, moment.now_ms):
            continue
        for event in DUES[key[0]](state, key, moment):
            count += 1
            yield event
        if count >= EVENTS_PER_TICK_MAX:
            return  # what is left stays due
