"""What is known of a plan's executors while the process lives: breakers, health, rate windows.

    PlanMonitor ── ExecutorState for each executor: breaker, rate, health
          └─ turn, for round-robin

A PlanMonitor is a value, folded from the events of the plan and nothing else. A restart forgets it,
and every executor starts afresh.

    verdict    how the run of the call ended                         breaker    api     business
    good       completed, and the outcome is no error                success    good    good
    bad        completed with an error                               failure    good    bad
    refused    completed with an error that the plan calls fatal     success    good    bad
    failed     failed, timed out, was cancelled, or never began      failure    bad     bad
    fatal      failed with an error that the plan calls fatal        success    bad     bad

The api has succeeded if the executor answered, whatever the answer. A card that is declined five
times opens no breaker of the provider that declines it. When a breaker closes, the health before it
is forgotten too: the executor has recovered.
"""

from enum import StrEnum
from typing import NamedTuple

from flo.model.base import Record
from flo.workflow.plan.breaker import BreakerPhase, BreakerState
from flo.workflow.plan.health import PENALTIES, ExecutorHealth
from flo.workflow.plan.plan import Executor, Health, Plan
from flo.workflow.plan.rate import Rate, rate_of


class PlanEventType(StrEnum):
    """As histories name them."""

    EXECUTOR_START = "plan_executor_start"
    EXECUTOR_SUCCESS = "plan_executor_success"
    EXECUTOR_RETRY = "plan_executor_retry"
    EXECUTOR_EXHAUSTED = "plan_executor_exhausted"
    BREAKER_SKIP = "plan_breaker_skip"
    RATE_LIMITED = "plan_rate_limited"
    CACHE_HIT = "plan_cache_hit"
    FALLBACK = "plan_fallback"


class CallDecision(StrEnum):
    """What the end of a call says about the executor."""

    GOOD = "good"
    BAD = "bad"
    REFUSED = "refused"
    FAILED = "failed"
    FATAL = "fatal"


ANSWERS = frozenset((CallDecision.GOOD, CallDecision.BAD, CallDecision.REFUSED))
"""The executor answered: the api has succeeded."""
BREAKER_FAILURES = frozenset((CallDecision.BAD, CallDecision.FAILED))
"""They count against the breaker."""


class PlanEvent(Record):
    """Something that happened in a plan."""

    type: PlanEventType
    executor: str | None = None
    attempt: int = 0
    """On this executor, from 1; 0 where no attempt is meant."""
    error: str | None = None
    verdict: CallDecision | None = None
    """Of the call that has ended with this event, and began at `began_ms`."""
    began_ms: int = 0
    is_turn: bool = False
    """Whether it is the first of its plan, so that the next one begins one executor further."""
    error_code: str | None = None


class ExecutorState(NamedTuple):
    """What is known of one executor."""

    health: ExecutorHealth
    rate: Rate
    breaker: BreakerState | None = None

    def phase(self, now_ms: int) -> BreakerPhase:
        return BreakerPhase.CLOSED if self.breaker is None else self.breaker.phase(now_ms)

    def is_let_through(self, now_ms: int) -> bool:
        return self.breaker is None or self.breaker.may_call(now_ms)

    def score(self, now_ms: int) -> float:
        """From 0 to 1; with fewer samples than `min_samples`, only the breaker counts."""
        phase = self.phase(now_ms)
        if not self.health.is_measured(now_ms):
            return PENALTIES[phase]
        return round(self.health.score(phase, now_ms), 9)

    def called(self, now_ms: int) -> "ExecutorState":
        return self._replace(
            rate=self.rate.called(now_ms),
            breaker=self.breaker and self.breaker.called(now_ms),
        )

    def ended(self, verdict: CallDecision, began_ms: int, now_ms: int) -> "ExecutorState":
        is_good = verdict is CallDecision.GOOD
        health = self.health.sampled(verdict in ANSWERS, is_good, now_ms)
        if self.breaker is None:
            return self._replace(health=health)
        if verdict in BREAKER_FAILURES:
            return self._replace(health=health, breaker=self.breaker.failed(began_ms, now_ms))
        breaker = self.breaker.succeeded(began_ms, now_ms)
        if self.breaker.is_open and not breaker.is_open:
            health = ExecutorHealth(self.health.settings)
        return self._replace(health=health, breaker=breaker)

    def abandoned(self, began_ms: int) -> "ExecutorState":
        return self._replace(breaker=self.breaker and self.breaker.abandoned(began_ms))


class PlanMonitor(NamedTuple):
    names: tuple[str, ...]
    states: tuple[ExecutorState, ...]
    turn: int = 0
    """How many times the plan has begun."""

    def of(self, executor: str) -> ExecutorState:
        return self.states[self.names.index(executor)]

    def observe(self, event: PlanEvent, now_ms: int) -> "PlanMonitor":
        monitor = self._replace(turn=self.turn + 1) if event.is_turn else self
        if event.executor not in self.names:
            return monitor
        state = monitor.of(event.executor)
        if event.verdict is not None:
            state = state.ended(event.verdict, event.began_ms, now_ms)
        if event.type is PlanEventType.EXECUTOR_START:
            state = state.called(now_ms)
        return monitor._with(event.executor, state)

    def abandoned(self, executor: str, began_ms: int) -> "PlanMonitor":
        """The call was given up, as when its workflow run is cancelled: it says nothing."""
        return self._with(executor, self.of(executor).abandoned(began_ms))

    def _with(self, executor: str, state: ExecutorState) -> "PlanMonitor":
        place = self.names.index(executor)
        states = (*self.states[:place], state, *self.states[place + 1 :])
        return self._replace(states=states)


def new_monitor(plan: Plan, now_ms: int) -> PlanMonitor:
    """Nothing is known yet."""
    health = plan.health or Health()
    return PlanMonitor(
        names=tuple(executor.name for executor in plan.executors),
        states=tuple(_new_state(executor, health, now_ms) for executor in plan.executors),
    )


def _new_state(executor: Executor, health: Health, now_ms: int) -> ExecutorState:
    return ExecutorState(
        health=ExecutorHealth(health),
        rate=rate_of(executor.rate_limit),
        breaker=BreakerState(executor.breaker, since_ms=now_ms) if executor.breaker else None,
    )
