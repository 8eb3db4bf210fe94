"""The rule of refusals that came before the rules, and the fold of all entries."""

from flo.engine.audit.audited import NoteRefusal, noted
from flo.engine.audit.events import AuditNoted
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.state import State
from flo.model.base import Nothing


def decide_note(state: State, command: NoteRefusal, context: Context) -> Decision:
    return Decision(Nothing(), (noted(state, command.about, command.code, context.now_ms),))


def apply_noted(state: State, event: AuditNoted) -> None:
    assert event.number == state.audit_numbers.get(event.namespace, 0) + 1
    state.audit_numbers[event.namespace] = event.number
