"""In which order the executors of a plan are tried.

    static-order       the highest priority first
    round-robin        as written, begun one executor further every time
    random             every order is as likely as any other
    health-weighted    the highest score first; between equal scores, the highest priority

Executors of the same priority stand as they are written; under health-weighted, where they are
equal in score too, they take turns at random. An executor with fewer than `min_samples` samples
counts as healthy, so that before anything is known the priority decides.

A half-open executor stands where its halved score puts it, so it is probed when those before it
fail or are skipped. A score cannot rise without calls: when the last sample of a half-open executor
has left the window, nothing is known of it any more, and its priority decides again while its
breaker has probes to give.
"""

from collections.abc import Callable
from typing import Final

from flo.workflow.plan.breaker import BreakerPhase
from flo.workflow.plan.monitor import ExecutorState, PlanMonitor
from flo.workflow.plan.plan import Executor, Plan, Selection

HEALTHY: Final = 1.0


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
    def score(executor: Executor) -> float:
        state = monitor.of(executor.name)
        return HEALTHY if _is_due_for_a_probe(state, now_ms) else state.score(now_ms)

    return tuple(sorted(executors, key=lambda executor: -score(executor)))


def _is_due_for_a_probe(state: ExecutorState, now_ms: int) -> bool:
    is_half_open = state.phase(now_ms) is BreakerPhase.HALF_OPEN
    return is_half_open and state.is_let_through(now_ms) and not state.health.samples(now_ms)
