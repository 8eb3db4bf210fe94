"""Queries about plans: how their executors are doing since the server started."""

from flo.engine.context import Context
from flo.engine.state import State
from flo.engine.workflows.rules import named_version
from flo.model.errors import NotFound
from flo.model.plans import ExecutorView, GetPlan, PlanView, WindowView
from flo.workflow.plan.monitor import ExecutorState, new_monitor
from flo.workflow.plan.plan import Executor, Health
from flo.workflow.plan.rate import Rate

NO_BREAKER = "none"


def get_plan(state: State, query: GetPlan, context: Context) -> PlanView:
    space = state.space(query.namespace)
    definition = named_version(space, query.workflow, query.version).definition
    plan = definition.plans.get(query.plan)
    if plan is None:
        known = ", ".join(definition.plans) or "none"
        raise NotFound(
            f"workflow {query.workflow!r} has no plan {query.plan!r}; it has {known}",
            code="plan_not_found",
        )
    key = (query.namespace, query.workflow, definition.version, query.plan)
    monitor = context.volatile.monitors.get(key) or new_monitor(plan, context.now_ms)
    results = context.volatile.caches.get(key)
    return PlanView(
        workflow=query.workflow,
        version=definition.version,
        plan=query.plan,
        selection=plan.selection,
        at_ms=context.now_ms,
        begun=monitor.turn,
        min_samples=(plan.health or Health()).min_samples,
        executors=[
            _executor_view(executor, monitor.of(executor.name), context.now_ms)
            for executor in plan.executors
        ],
        cached=len(results) if results is not None else 0,
    )


def _executor_view(executor: Executor, state: ExecutorState, now_ms: int) -> ExecutorView:
    breaker, health = state.breaker, state.health
    answered, succeeded = health.rates(now_ms)
    return ExecutorView(
        name=executor.name,
        action=executor.action.name,
        priority=executor.priority,
        breaker=state.phase(now_ms) if breaker is not None else NO_BREAKER,
        failures=breaker.failures if breaker is not None else 0,
        failures_max=breaker.settings.failure_threshold if breaker is not None else None,
        half_open_at_ms=(
            breaker.half_open_at_ms if breaker is not None and breaker.is_open else None
        ),
        score=state.score(now_ms),
        samples=health.samples(now_ms),
        is_measured=health.is_measured(now_ms),
        answered=round(answered, 9),
        succeeded=round(succeeded, 9),
        windows=_windows(state.rate, now_ms),
        free_at_ms=state.rate.next_at_ms(now_ms),
    )


def _windows(rate: Rate, now_ms: int) -> list[WindowView]:
    return [
        WindowView(length_ms=window.length_ms, limit=window.limit, used=window.at(now_ms).used)
        for window in rate.windows
    ]
