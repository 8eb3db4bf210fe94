"""What keeps the executors of a plan from being called: breakers and rate limits."""

from collections.abc import Iterator

from flo.engine.context import Context
from flo.engine.plans.monitors import MonitorKey
from flo.engine.state import Space
from flo.model.explain import Cause, CauseCode, since_when
from flo.model.storage.since import Since
from flo.workflow.plan.breaker import BreakerPhase
from flo.workflow.plan.monitor import ExecutorState


def causes_of_plan(
    space: Space, key: MonitorKey, since: Since | None, context: Context
) -> Iterator[Cause]:
    """A cause for each executor that may not be called now; `since` is when one was last."""
    monitor = context.volatile.monitors.get(key)
    if monitor is None:
        return
    _, workflow, version, plan = key
    advice = [f"flo plan status {workflow} {plan}"]
    for name, state in zip(monitor.names, monitor.states, strict=True):
        breaker, now_ms = state.breaker, context.now_ms
        facts = {"workflow": workflow, "plan": plan, "executor": name}
        if breaker is not None and state.phase(now_ms) is BreakerPhase.OPEN:
            turn = space.breakers.get((workflow, version, plan, name))
            yield Cause(
                code=CauseCode.BREAKER_OPEN,
                text=f"The breaker of executor {name!r} of plan {plan!r} is open.",
                since_at_ms=breaker.since_ms,
                since_position=turn.since.position if turn is not None else None,
                next_at_ms=breaker.half_open_at_ms,
                advice=advice,
                facts=facts,
            )
        elif not state.rate.may_call(now_ms):
            yield _over_its_rate(state, since, facts, advice, now_ms)


def _over_its_rate(
    state: ExecutorState, since: Since | None, facts: dict[str, str], advice: list[str], now_ms: int
) -> Cause:
    return Cause(
        code=CauseCode.EXECUTOR_RATE_LIMIT,
        text=f"The rate limit of executor {facts['executor']!r} of plan {facts['plan']!r} is used "
        "up.",
        **since_when(since),
        next_at_ms=state.rate.next_at_ms(now_ms),
        advice=advice,
        facts=dict(facts),
    )
