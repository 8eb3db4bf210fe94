"""The turns of breakers, as the log remembers them: opened, half-open, closed.

What a breaker learns from single calls stays in VolatileState, and a restart forgets it. Then the
first call after it finds a breaker closed that was not, and says so.
"""

from collections.abc import Iterable

from flo.engine.context import Context
from flo.engine.plans.events import BreakerTurned
from flo.engine.plans.records import BreakerTurn
from flo.engine.snapshot import Section, SnapshotPart
from flo.engine.state import State
from flo.engine.workflows.events import PlanNoted
from flo.model.base import Event
from flo.model.ids import Namespace
from flo.model.workflows import WorkflowName
from flo.workflow.plan.breaker import BreakerPhase


def react_plan_noted(state: State, event: PlanNoted, context: Context) -> Iterable[Event]:
    """The monitor of the plan has learned from this event: a breaker may have turned."""
    key = (event.namespace, event.workflow, event.version, event.plan)
    monitor = context.volatile.monitors.get(key)
    if event.executor is None or monitor is None:
        return
    executor = monitor.states[monitor.names.index(event.executor)]
    known = state.spaces[event.namespace].breakers.get((*key[1:], event.executor))
    was = known.phase if known is not None else BreakerPhase.CLOSED
    phase = executor.phase(event.at_ms) if executor.breaker is not None else BreakerPhase.CLOSED
    if phase is not was:
        yield BreakerTurned(
            namespace=event.namespace,
            workflow=event.workflow,
            version=event.version,
            plan=event.plan,
            executor=event.executor,
            phase=phase,
            at_ms=event.at_ms,
        )


def apply_turned(state: State, event: BreakerTurned) -> None:
    breakers = state.spaces[event.namespace].breakers
    key = (event.workflow, event.version, event.plan, event.executor)
    if event.phase is BreakerPhase.CLOSED:
        breakers.pop(key, None)
    else:
        breakers[key] = BreakerTurn(phase=event.phase, since=state.since())


class BreakersPart(SnapshotPart):
    namespace: Namespace
    breakers: list[tuple[tuple[WorkflowName, str, str, str], BreakerTurn]]


def _dump(state: State) -> Iterable[BreakersPart]:
    for namespace, space in sorted(state.spaces.items()):
        if space.breakers:
            yield BreakersPart(namespace=namespace, breakers=sorted(space.breakers.items()))


def _restore(state: State, part: BreakersPart) -> None:
    state.spaces[part.namespace].breakers = dict(part.breakers)


SNAPSHOT = (Section(BreakersPart, _dump, _restore),)
