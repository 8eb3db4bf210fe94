"""A result that changes keys: the run ends and the keys change in one step, or neither happens.

A report that comes again because its answer was lost changes nothing again.
"""

from flo.core.decision import Decision
from flo.core.kv import decide_transact
from flo.core.moment import Moment
from flo.core.runs import decide_complete as decide_complete_run
from flo.core.state import State
from flo.model.kv import Transact
from flo.model.runs import Complete


def decide_complete(state: State, command: Complete, moment: Moment) -> Decision:
    decision = decide_complete_run(state, command, moment)
    if not decision.events or not (command.checks or command.changes):
        return decision
    changes = Transact(namespace=command.namespace, checks=command.checks, changes=command.changes)
    changed = decide_transact(state, changes, moment)
    return decision._replace(events=(*changed.events, *decision.events))
