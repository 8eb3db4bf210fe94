"""The stepper: makes one move after the other until every branch of the execution has to wait.

    moves ──▸ a part ──▸ events ──▸ the machine folds each before it asks for the next
      ▲          │
      └──────────┘  further moves

What a move leads to comes before the moves that stood after it. Only the steps that branches have
come to wait until nothing else is left, so that all branches of a join are open before the first
of them begins.

Between two events of an advance the machine follows up on the first one. That never leads to the
execution itself: by then it waits for nothing that could end.
"""

from collections.abc import Callable, Iterator
from typing import Any

from flo.engine.workflows.advance import ends, joins, plans, steps, targets, waits, wakes
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.moves import (
    BeginItem,
    BeginPlan,
    Call,
    Close,
    Compensate,
    EndAttempt,
    EndBranch,
    EndCall,
    EndStep,
    EnterStep,
    Finish,
    Go,
    MatchSignal,
    Move,
    Moves,
    OpenItems,
    Resume,
    SettleJoin,
)
from flo.model.base import Event

PARTS: dict[type[Move], Callable[[Advance, Any], Moves]] = {
    Call: targets.call,
    BeginPlan: plans.begin_plan,
    EndCall: plans.end_call,
    EndAttempt: steps.end_attempt,
    EndStep: steps.end_step,
    Go: steps.go,
    MatchSignal: waits.match_signal,
    Resume: wakes.resume_branch,
    OpenItems: joins.open_items,
    BeginItem: joins.begin_item,
    EndBranch: joins.end_branch,
    SettleJoin: joins.settle_join,
    Close: ends.close,
    Finish: ends.finish,
    Compensate: ends.compensate,
}
"""Who makes which move; EnterStep is the stepper's own."""


def carry_out(advance: Advance, moves: Moves) -> Iterator[Event]:
    """All that happens until every branch has to wait."""
    ahead = [*reversed(moves)]
    entering: list[EnterStep] = []
    while True:
        while ahead:
            move = ahead.pop()
            if not isinstance(move, tuple):  # no move, but an event
                advance.event_count += 1
                yield move
            elif isinstance(move, EnterStep):
                entering.append(move)
            else:
                ahead.extend(reversed(PARTS[type(move)](advance, move)))
        if not entering:
            return
        entered = entering.pop(0)
        if entered.branch in advance.execution.branches:  # it may have been closed meanwhile
            ahead.extend(reversed(steps.enter_step(advance, entered)))
