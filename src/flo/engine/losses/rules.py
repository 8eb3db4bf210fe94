"""The rule of a loss that is accepted: the log says from where on it goes on without something."""

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.losses.events import LossAccepted
from flo.engine.state import State
from flo.model.base import Nothing
from flo.model.declare.operation import Command


class AcceptLoss(Command[Nothing]):
    """The store lacks something, and whoever started the server has accepted that."""

    code: str
    problem: str
    expected_position: int
    position: int


def decide_accept(state: State, command: AcceptLoss, context: Context) -> Decision:
    accepted = LossAccepted(
        at_ms=context.now_ms,
        code=command.code,
        problem=command.problem,
        expected_position=command.expected_position,
        position=command.position,
    )
    return Decision(Nothing(), (accepted,))


def apply_accepted(state: State, event: LossAccepted) -> None:
    """It is there to be read; nothing follows from it."""
