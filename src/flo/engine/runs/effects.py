"""A result that changes keys: the run ends and the keys change in one step, or neither happens.

A report that comes again because its answer was lost changes nothing again.
"""

from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.kv.rules import decide_transact
from flo.engine.runs.reports import decide_complete as decide_complete_run
from flo.engine.state import State
from flo.model.errors import TooLarge
from flo.model.kv import OPERATIONS_PER_TRANSACTION_MAX, Transact
from flo.model.runs import CHECKS_PER_RESULT_MAX, Complete


def decide_complete(state: State, command: Complete, context: Context) -> Decision:
    decision = decide_complete_run(state, command, context)
    if not decision.events or not (command.checks or command.changes):
        return decision
    _check_what_was_read(state, command, context)
    changes = Transact(namespace=command.namespace, changes=command.changes)
    changed = decide_transact(state, changes, context)
    return replace(decision, events=(*changed.events, *decision.events))


def _check_what_was_read(state: State, command: Complete, context: Context) -> None:
    """A run may read more keys than a transaction may name."""
    checks = command.checks
    if len(checks) > CHECKS_PER_RESULT_MAX:
        raise TooLarge(
            f"expected at most {CHECKS_PER_RESULT_MAX} checks with a result, got {len(checks)}"
        )
    for start in range(0, len(checks), OPERATIONS_PER_TRANSACTION_MAX):
        some = checks[start : start + OPERATIONS_PER_TRANSACTION_MAX]
        decide_transact(state, Transact(namespace=command.namespace, checks=some), context)
