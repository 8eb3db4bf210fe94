"""In which order the executors of a plan are tried.

    static-order       the highest priority first
    round-robin        as written, begun one executor further every time
    random             every order is as likely as any other
    health-weighted    the highest score first; between equal scores, the highest priority

Executors of the same priority stand as they are written; under health-weighted, where they are
equal in score too, they take turns at random. An executor with fewer than `min_samples` samples
counts as healthy, so that before anything is known the priority decides.

A score cannot rise without calls. So under health-weighted a half-open executor goes first while
its breaker has probes to give: at most `half_open_max_calls` calls at a time try it, and whatever
fails there goes on to the next executor.
"""

from collections.abc import Callable

from flo.workflow.plan.breaker import BreakerPhase
from flo.workflow.plan.monitor import PlanMonitor
from flo.workflow.plan.plan import Executor, Plan, Selection


def order_of(
    plan: Plan, monitor: PlanMonitor, now_ms: int, rng: Callable[[], float]
) -> tuple[Executor, ...]:
    """A random number is drawn once for each executor, if the selection is random at all."""
    written = plan.executors
    match plan.selection:
        case Selection.STATIC_ORDER:
            return _by_priority(written)
        case Selection.ROUND_ROBIN:
            first = monitor.turn % len(written)
            return written[first:] + written[:first]
        case Selection.RANDOM:
            return _shuffled(written, rng)
        case Selection.HEALTH_WEIGHTED:
            return _by_health(_by_priority(_shuffled(written, rng)), monitor, now_ms)


def _by_priority(executors: tuple[Executor, ...]) -> tuple[Executor, ...]:
    return tuple(sorted(executors, key=lambda executor: -executor.priority))


def _shuffled(executors: tuple[Executor, ...], rng: Callable[[], float]) -> tuple[Executor, ...]:
    return tuple(sorted(executors, key=lambda _: rng()))


def _by_health(
    executors: tuple[Executor, ...], monitor: PlanMonitor, now_ms: int
) -> tuple[Executor, ...]:
    def rank(executor: Executor) -> tuple[bool, float]:
        state = monitor.of(executor.name)
        has_probe = state.phase(now_ms) is BreakerPhase.HALF_OPEN and state.is_let_through(now_ms)
        return (not has_probe, -state.score(now_ms))

    return tuple(sorted(executors, key=rank))
