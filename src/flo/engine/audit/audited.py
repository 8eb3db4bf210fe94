"""A command that is audited: whatever becomes of it, the append says so.

    AuditedCommand(DeleteAction) ──▸ ActionDeleted │ AuditNoted "allowed"
                                 └─▸ refused       │ AuditNoted, with the code of the refusal

The entry is in the same append as what the command has led to. Who asked stands in the log before
it (engine/callers.py), and is filed with it.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

from msgspec.structs import replace

from flo.engine.audit.events import AuditNoted
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.feature import Rule
from flo.engine.state import State
from flo.model.base import Message, Record
from flo.model.declare.operation import Command
from flo.model.errors import FloError, Unexpected
from flo.model.ids import TEXT_LENGTH_MAX
from flo.model.safety.audit import ALLOWED


class AuditTarget(Record):
    """What a command is about, as the audit names it."""

    operation: str
    namespace: str
    target: str


class AuditedCommand(Command[Message]):
    """A command, and what is to be said of it."""

    command: Any
    about: AuditTarget


def asked_in(message: Message) -> Any:
    """What was asked for, audited or not."""
    return message.command if isinstance(message, AuditedCommand) else message


class NoteRefusal(Command[Message]):
    """Somebody was refused before the rules were asked."""

    about: AuditTarget
    code: str


def rule_of(decide: Callable[[State, Message, Context], Decision]) -> Rule:
    """The rule of audited commands, given that of all others."""

    def decide_audited(state: State, command: AuditedCommand, context: Context) -> Decision:
        try:
            decision = decide(state, command.command, context)
        except Unexpected:
            raise
        except FloError as refusal:
            return Decision(refusal, (noted(state, command.about, refusal.code, context.now_ms),))
        reply = decision.reply
        outcome = reply.code if isinstance(reply, FloError) else ALLOWED
        entry = noted(state, command.about, outcome, context.now_ms)
        if decision.then:
            return replace(decision, then=chain(decision.then, (entry,)))
        return replace(decision, events=(*decision.events, entry))

    return decide_audited


def noted(state: State, about: AuditTarget, outcome: str, at_ms: int) -> AuditNoted:
    return AuditNoted(
        namespace=about.namespace,
        number=state.audit_numbers.get(about.namespace, 0) + 1,
        at_ms=at_ms,
        operation=about.operation,
        target=about.target[:TEXT_LENGTH_MAX],
        outcome=outcome,
    )
