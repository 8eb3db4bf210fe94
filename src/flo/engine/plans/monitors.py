"""What is known of plans while the process lives: monitors and caches, folded from events."""

from typing import TypeAlias

from flo.engine.plans.events import EventEmitted
from flo.engine.state import State
from flo.engine.volatile import VolatileState
from flo.engine.workflows.advance.scope import scope_of
from flo.engine.workflows.events import PlanNoted, SignalReceived, StepEnded
from flo.engine.workflows.execution import Execution, step_at
from flo.model.ids import Namespace
from flo.model.workflows import WorkflowName
from flo.workflow.outcome import SUCCESS
from flo.workflow.plan.cache import ResultCache, cache_key
from flo.workflow.plan.monitor import CallDecision, PlanEvent, PlanEventType, new_monitor
from flo.workflow.steps import RunStep

MonitorKey: TypeAlias = tuple[Namespace, WorkflowName, str, str]
"""Namespace, workflow, version and plan."""

ABANDONED = "plan_executor_abandoned"
"""A call that was given up, as when its workflow run is cancelled."""


def note_plan(state: State, event: PlanNoted, volatile: VolatileState) -> None:
    """Fold an event of a plan into its monitor."""
    execution = state.spaces[event.namespace].executions[event.run_id]
    key = monitor_key(event.namespace, execution, event.plan)
    monitor = volatile.monitors.get(key) or new_monitor(
        execution.definition.plans[event.plan], event.at_ms
    )
    if event.what == ABANDONED:
        if event.executor is not None:
            volatile.monitors[key] = monitor.abandoned(event.executor, event.began_ms)
        return
    seen = PlanEvent(
        type=PlanEventType(event.what),
        executor=event.executor,
        attempt=event.attempt,
        error=event.error,
        error_code=event.error_code,
        verdict=CallDecision(event.verdict) if event.verdict is not None else None,
        began_ms=event.began_ms,
        is_turn=event.is_turn,
    )
    volatile.monitors[key] = monitor.observe(seen, event.at_ms)
    _note_result(execution, event, key, volatile)


def note_step_ended(state: State, event: StepEnded, volatile: VolatileState) -> None:
    """Keep the result of a plan, if an executor gave it and the plan wants it kept."""
    found = volatile.cacheable.pop((event.namespace, event.run_id, event.branch), None)
    if found is None or event.outcome != SUCCESS:
        return
    execution = state.spaces[event.namespace].executions[event.run_id]
    step = step_at(execution.definition, event.branch, event.step)
    assert isinstance(step, RunStep)
    cache = execution.definition.plans[step.run.name].cache
    assert cache is not None
    key = monitor_key(event.namespace, execution, step.run.name)
    results = volatile.caches.setdefault(key, ResultCache(cache))
    results.keep(found[0], event.output, found[1], event.at_ms)


def note_signal(state: State, event: SignalReceived, volatile: VolatileState) -> None:
    """A signal is an event of its type, too."""
    emitted = EventEmitted(name=event.signal.type, namespace=event.namespace)
    observe_emitted(volatile, emitted, event.signal.at_ms)


def observe_emitted(volatile: VolatileState, observation: EventEmitted, now_ms: int) -> None:
    """What is cached until this event happens is no longer valid."""
    for key, results in volatile.caches.items():
        if key[0] == observation.namespace:
            results.invalidate(observation.name, now_ms)


def _note_result(
    execution: Execution, event: PlanNoted, key: MonitorKey, volatile: VolatileState
) -> None:
    cache = execution.definition.plans[event.plan].cache
    branch = execution.branches.get(event.branch)
    if cache is None or branch is None:
        return
    found = cache_key(cache.key, scope_of(execution, event.at_ms))
    if found is None:
        return
    if event.what == PlanEventType.CACHE_HIT and key in volatile.caches:
        volatile.caches[key].used(found)
    elif event.what == PlanEventType.EXECUTOR_SUCCESS:
        volatile.cacheable[event.namespace, event.run_id, event.branch] = (
            found,
            branch.began_at_ms,
        )


def monitor_key(namespace: Namespace, execution: Execution, plan: str) -> MonitorKey:
    return namespace, execution.run.workflow, execution.run.version, plan
