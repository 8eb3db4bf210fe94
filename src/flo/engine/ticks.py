"""Time passes only as a command: what fell due since the last tick, falls due now.

One thing after the other: what the first one leads to may call off the second.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import DueKey
from flo.engine.state import State
from flo.model.base import Event, Message
from flo.model.declare.operation import Command

DUE_PER_TICK_MAX = 1_000
EVENTS_PER_TICK_MAX = 20_000

FallDue: TypeAlias = Callable[[State, DueKey, Context], Iterable[Event]]


class Ticked(Message):
    """`more` says that not everything due fitted into one tick."""

    more: bool


class Tick(Command[Ticked]):
    """Time has passed: whatever fell due, falls due now."""


def rule_of(table: Mapping[str, FallDue]) -> Callable[[State, Tick, Context], Decision]:
    """The rule of a tick, given what each kind of deadline leads to."""

    def decide_tick(state: State, command: Tick, context: Context) -> Decision:
        ripe = state.due.ripe(context.now_ms, DUE_PER_TICK_MAX)
        more = len(ripe) == DUE_PER_TICK_MAX
        return Decision(Ticked(more=more), then=_fallen_due(table, state, ripe, context))

    return decide_tick


def _fallen_due(
    table: Mapping[str, FallDue], state: State, ripe: Sequence[DueKey], context: Context
) -> Iterator[Event]:
    count = 0
    for key in ripe:
        if not state.due.is_ripe(key, context.now_ms):
            continue
        for event in table[key[0]](state, key, context):
            count += 1
            yield event
        if count >= EVENTS_PER_TICK_MAX:
            return  # what is left stays due
