"""Whatever the plan and whatever happens: it ends, and no limit or breaker is overrun."""

import msgspec
import pytest
from hypothesis import Phase as Search
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from flo.workflow.outcome import StepError
from flo.workflow.plan import progress as plans
from flo.workflow.plan.breaker import PLACE_MS_MIN, BreakerPhase, BreakerState
from flo.workflow.plan.monitor import PlanEventType, new_monitor
from flo.workflow.plan.plan import (
    Breaker,
    ErrorClasses,
    Fallback,
    FallbackCondition,
    Health,
    Plan,
    RateLimit,
    Selection,
)
from flo.workflow.plan.progress import (
    EndPlan,
    ExecutorCall,
    ExecutorResult,
    PlanProgress,
    WaitUntil,
)
from flo.workflow.plan.rate import Rate
from flo.workflow.retry import Backoff, Retry
from workflow.plans import executor

RESULTS = [
    ExecutorResult("success", b"{}"),
    ExecutorResult("pending", b"{}"),
    ExecutorResult("failure"),
    ExecutorResult("failure", error=StepError(message="no", code="invalid_card")),
    ExecutorResult("failure", error=StepError(message="no", code="rate_limited")),
    ExecutorResult("timeout", is_answer=False),
]
retries = st.none() | st.builds(
    Retry,
    max_attempts=st.integers(1, 3),
    backoff=st.sampled_from(Backoff),
    initial_delay_ms=st.sampled_from([0, 100, 3_000]),
    within_ms=st.sampled_from([None, 500, 60_000]),
)
breakers = st.none() | st.builds(
    Breaker,
    failure_threshold=st.integers(1, 3),
    cooldown_ms=st.sampled_from([1, 1_000, 5_000]),
    half_open_max_calls=st.integers(1, 2),
)
limits = st.none() | st.builds(
    RateLimit,
    max_per_second=st.none() | st.integers(1, 3),
    max_per_minute=st.none() | st.integers(2, 5),
)
executors = st.lists(
    st.builds(
        lambda **fields: fields,
        priority=st.integers(1, 3),
        retry=retries,
        breaker=breakers,
        rate_limit=limits,
    ),
    min_size=1,
    max_size=4,
).map(lambda all_of_them: tuple(executor(f"e{n}", **one) for n, one in enumerate(all_of_them)))
any_plan = st.builds(
    Plan,
    executors=executors,
    selection=st.sampled_from(Selection),
    health=st.none() | st.just(Health(window_ms=5_000, min_samples=2)),
    fallback=st.none()
    | st.builds(Fallback, value=st.just("{}"), condition=st.sampled_from(FallbackCondition)),
    errors=st.none()
    | st.builds(
        ErrorClasses,
        retryable=st.sampled_from([(), ("rate_limited",), ("timeout", "failure", "rate_limited")]),
        fatal=st.sampled_from([(), ("invalid_card",)]),
    ),
)


class PlansUnderWay(RuleBasedStateMachine):
    """Many ways through one plan at the same time, on one board."""

    fresh = staticmethod(new_monitor)
    ended = staticmethod(plans.ended)

    @initialize(plan=any_plan, throws=st.randoms(use_true_random=False))
    def begin_with(self, plan, throws):
        self.plan, self.rng = plan, throws.random
        self.now_ms = 10_000
        self.monitor = self.fresh(plan, self.now_ms)
        self.under_way = []
        """(choice, progress, how many moves it has made)"""
        self.started = {one.name: [] for one in plan.executors}
        self.probes = {one.name: [] for one in plan.executors}

    @rule(ms=st.sampled_from([1, 99, 500, 1_000, 5_000, 60_000]))
    def time_passes(self, ms):
        self.now_ms += ms

    @rule()
    def one_begins(self):
        self._take(plans.begin(self.plan, self.monitor, self.now_ms, self.rng), moves=1)

    @rule(which=st.integers(0, 20), result=st.sampled_from(RESULTS))
    def a_call_ends(self, which, result):
        calls = [one for one in self.under_way if isinstance(one[0], ExecutorCall)]
        if calls:
            self._end(calls[which % len(calls)], result)

    @rule(which=st.integers(0, 20))
    def a_call_is_abandoned(self, which):
        calls = [one for one in self.under_way if isinstance(one[0], ExecutorCall)]
        if calls:
            one = calls[which % len(calls)]
            self.under_way.remove(one)
            name, began_ms = one[1].order[0], one[1].called_at_ms
            self.monitor = self.monitor.abandoned(name, began_ms)
            self._forget_probe(name, began_ms)

    @rule()
    def rests_are_over(self):
        for one in list(self.under_way):
            if isinstance(one[0], WaitUntil) and one[0].until_ms <= self.now_ms:
                self._resume(one)

    def teardown(self):
        """Whatever is still under way ends, though nothing goes well any more."""
        while getattr(self, "under_way", []):
            one = self.under_way[0]
            if isinstance(one[0], ExecutorCall):
                self._end(one, ExecutorResult("timeout", is_answer=False))
            else:
                self.now_ms = max(self.now_ms, one[0].until_ms)
                self._resume(one)
            self.no_window_is_over_its_limit()
            self.never_more_probes_than_allowed()

    @invariant()
    def no_window_is_over_its_limit(self):
        for one in self.plan.executors if hasattr(self, "plan") else ():
            limit, times = one.rate_limit or RateLimit(), self.started[one.name]
            for length_ms, most in ((1_000, limit.max_per_second), (60_000, limit.max_per_minute)):
                late = times[most:] if most else []
                assert all(b - a >= length_ms for a, b in zip(times, late, strict=False))

    @invariant()
    def never_more_probes_than_allowed(self):
        for one in self.plan.executors if hasattr(self, "plan") else ():
            if one.breaker is not None:
                held_ms = max(one.breaker.cooldown_ms, PLACE_MS_MIN)
                held = [at for at in self.probes[one.name] if self.now_ms - at < held_ms]
                assert len(held) <= one.breaker.half_open_max_calls

    def _end(self, one, result):
        _, progress, moves = one
        self.under_way.remove(one)
        self._forget_probe(progress.order[0], progress.called_at_ms)
        after = self.ended(self.plan, progress, result, self.monitor, self.now_ms, self.rng)
        self._take(after, moves + 1)

    def _resume(self, one):
        _, progress, moves = one
        self.under_way.remove(one)
        after = plans.resumed(self.plan, progress, self.monitor, self.now_ms, self.rng)
        self._take(after, moves + 1)

    def _take(self, after, moves):
        assert moves <= self._moves_max()
        before = self.monitor
        for event in after.events:
            before = self._observe(before, event)
        assert before == after.monitor
        self.monitor = after.monitor
        assert _after_a_snapshot(after.progress) == after.progress
        is_start = bool(after.events) and after.events[-1].type is PlanEventType.EXECUTOR_START
        assert is_start == isinstance(after.choice, ExecutorCall)
        match after.choice:
            case EndPlan(outcome=outcome, error=error):
                if after.progress.error is not None:
                    assert error in (after.progress.error, None)
                assert (outcome == "failure") == (error is not None)
                assert self.plan.fallback is None or error is None
            case WaitUntil(until_ms=until_ms):
                assert until_ms > self.now_ms
                self.under_way.append((after.choice, after.progress, moves))
            case ExecutorCall():
                self.under_way.append((after.choice, after.progress, moves))

    def _observe(self, monitor, event):
        name = event.executor
        if event.type is PlanEventType.EXECUTOR_START:
            phase = monitor.of(name).phase(self.now_ms)
            assert phase is not BreakerPhase.OPEN
            if phase is BreakerPhase.HALF_OPEN:
                self.probes[name].append(self.now_ms)
            self.started[name].append(self.now_ms)
        observed = monitor.observe(event, self.now_ms)
        for one in self.plan.executors:
            breaker, then = monitor.of(one.name).breaker, observed.of(one.name).breaker
            if breaker and (breaker.is_open, breaker.since_ms) != (then.is_open, then.since_ms):
                self.probes[one.name] = []
        return observed

    def _forget_probe(self, name, began_ms):
        if began_ms in self.probes[name]:
            self.probes[name].remove(began_ms)

    def _moves_max(self):
        attempts = [one.retry.max_attempts if one.retry else 1 for one in self.plan.executors]
        return 2 * sum(attempts) + max(attempts) + 1


def _after_a_snapshot(progress):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(progress), type=PlanProgress)


def forgets_its_attempts(plan, progress, *rest):
    return plans.ended(plan, replace(progress, attempt=1), *rest)


class LimitThatLetsAllThrough(Rate):
    def may_call(self, now_ms):
        return True


class BreakerThatForgetsProbes(BreakerState):
    def called(self, now_ms):
        return self


def without_limits(plan, now_ms):
    monitor = new_monitor(plan, now_ms)
    return monitor._replace(
        states=tuple(
            one._replace(rate=LimitThatLetsAllThrough(*one.rate)) for one in monitor.states
        )
    )


def without_probes(plan, now_ms):
    monitor = new_monitor(plan, now_ms)
    return monitor._replace(
        states=tuple(
            one._replace(breaker=one.breaker and BreakerThatForgetsProbes(*one.breaker))
            for one in monitor.states
        )
    )


TestPlansUnderWay = PlansUnderWay.TestCase
TestPlansUnderWay.settings = settings(max_examples=300, stateful_step_count=30)


@pytest.mark.parametrize(
    "broken",
    [{"ended": forgets_its_attempts}, {"fresh": without_limits}, {"fresh": without_probes}],
)
def test_a_broken_plan_is_found(broken):
    parts = {name: staticmethod(part) for name, part in broken.items()}
    machine = type("Broken", (PlansUnderWay,), parts)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            machine,
            settings=settings(
                TestPlansUnderWay.settings, phases=(Search.generate,), report_multiple_bugs=False
            ),
        )
