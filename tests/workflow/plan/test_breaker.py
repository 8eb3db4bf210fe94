import pytest
from hypothesis import Phase as Search
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from flo.workflow.plan.breaker import PLACE_MS_MIN, BreakerPhase, BreakerState
from flo.workflow.plan.plan import Breaker

THREE_FAILURES = Breaker(failure_threshold=3, cooldown_ms=30_000, half_open_max_calls=2)
CLOSED = BreakerState(THREE_FAILURES, since_ms=0)


def failed_times(breaker, times, now_ms=0):
    for _ in range(times):
        breaker = breaker.called(now_ms).failed(now_ms, now_ms)
    return breaker


OPENED_AT_0 = failed_times(CLOSED, 3)


def test_a_new_breaker_is_closed_and_lets_calls_through():
    assert CLOSED.phase(0) is BreakerPhase.CLOSED
    assert CLOSED.may_call(0)
    assert CLOSED.next_at_ms(7) == 7


def test_so_many_failures_in_a_row_open_it():
    almost = failed_times(CLOSED, 2, now_ms=100)

    assert almost.phase(100) is BreakerPhase.CLOSED
    assert failed_times(almost, 1, now_ms=100).phase(100) is BreakerPhase.OPEN


def test_a_success_in_between_starts_the_row_anew():
    breaker = failed_times(CLOSED, 2).succeeded(0, 0)

    assert failed_times(breaker, 2).phase(0) is BreakerPhase.CLOSED
    assert failed_times(breaker, 3).phase(0) is BreakerPhase.OPEN


def test_an_open_breaker_lets_nothing_through_until_the_cooldown_is_over():
    assert not OPENED_AT_0.may_call(29_999)
    assert OPENED_AT_0.next_at_ms(5) == 30_000
    assert OPENED_AT_0.phase(30_000) is BreakerPhase.HALF_OPEN
    assert OPENED_AT_0.may_call(30_000)


def test_half_open_lets_so_many_probes_through_and_no_more():
    one = OPENED_AT_0.called(30_000)
    two = one.called(30_001)

    assert one.may_call(30_001)
    assert not two.may_call(30_002)


def test_a_probe_that_succeeds_closes_it():
    breaker = OPENED_AT_0.called(30_000).succeeded(30_000, 30_500)

    assert breaker == BreakerState(THREE_FAILURES, since_ms=30_500)
    assert breaker.may_call(30_500)


def test_a_probe_that_fails_opens_it_for_another_cooldown():
    breaker = OPENED_AT_0.called(30_000).failed(30_000, 30_500)

    assert breaker.phase(60_499) is BreakerPhase.OPEN
    assert breaker.phase(60_500) is BreakerPhase.HALF_OPEN
    assert breaker.probes == ()


def test_the_other_probe_of_a_phase_that_is_over_says_nothing():
    both_out = OPENED_AT_0.called(30_000).called(30_001)

    opened = both_out.failed(30_000, 31_000)
    closed = both_out.succeeded(30_000, 31_000)

    assert opened.succeeded(30_001, 61_000) == opened
    assert closed.failed(30_001, 31_001) == closed


def test_calls_that_began_before_it_opened_neither_keep_it_open_nor_close_it():
    assert OPENED_AT_0.failed(0, 20_000) == OPENED_AT_0
    assert OPENED_AT_0.succeeded(0, 20_000) == OPENED_AT_0
    assert OPENED_AT_0.failed(0, 30_000) == OPENED_AT_0
    assert OPENED_AT_0.succeeded(0, 30_000) == OPENED_AT_0


def test_probes_that_are_never_heard_of_give_their_places_back():
    full = OPENED_AT_0.called(30_000).called(40_000)

    assert full.next_at_ms(40_000) == 60_000
    assert not full.may_call(59_999)
    assert full.may_call(60_000)
    again = full.called(60_000)
    assert again.probes == (40_000, 60_000)
    assert again.next_at_ms(60_000) == 70_000


def test_a_probe_slower_than_its_place_still_closes_the_breaker():
    breaker = OPENED_AT_0.called(30_000).called(30_000).called(60_000)

    assert breaker.succeeded(30_000, 90_000).phase(90_000) is BreakerPhase.CLOSED


def test_a_probe_that_was_abandoned_gives_its_place_back_and_says_nothing():
    full = OPENED_AT_0.called(30_000).called(30_000)

    freed = full.abandoned(30_000)

    assert not full.may_call(30_001)
    assert freed.phase(30_001) is BreakerPhase.HALF_OPEN
    assert freed.may_call(30_001)
    assert not freed.called(30_001).may_call(30_001)
    assert freed.abandoned(99) == freed
    assert OPENED_AT_0.called(30_000).called(30_001).abandoned(30_001).probes == (30_000,)


def test_without_a_cooldown_a_place_is_held_for_a_while_all_the_same():
    hasty = BreakerState(
        Breaker(failure_threshold=1, cooldown_ms=0, half_open_max_calls=1), since_ms=0
    )

    probing = hasty.failed(0, 0).called(0)

    assert not probing.may_call(0)
    assert probing.next_at_ms(0) == PLACE_MS_MIN


class BreakerUnderCalls(RuleBasedStateMachine):
    """Callers who ask first, and results that come late, never, or not at all."""

    circuit_type = BreakerState

    def __init__(self):
        super().__init__()
        self.now_ms = 1_000
        self.breaker = self.circuit_type(
            Breaker(failure_threshold=2, cooldown_ms=2_000, half_open_max_calls=2), self.now_ms
        )
        self.under_way = []
        self.probes = []
        """When each probe of this half-open phase began that has not ended."""
        self.failures = 0

    @rule(ms=st.sampled_from([1, 500, 1_999, 2_000, 5_000]))
    def time_passes(self, ms):
        self.now_ms += ms

    @rule()
    def someone_calls(self):
        phase = self.breaker.phase(self.now_ms)
        if not self.breaker.may_call(self.now_ms):
            assert phase is not BreakerPhase.CLOSED
            return
        assert phase is not BreakerPhase.OPEN
        self.breaker = self.breaker.called(self.now_ms)
        self.under_way.append((self.now_ms, phase))
        if phase is BreakerPhase.HALF_OPEN:
            self.probes.append(self.now_ms)

    @rule(which=st.integers(0, 20), how=st.sampled_from(["succeeded", "failed", "abandoned"]))
    def a_call_ends(self, which, how):
        if not self.under_way:
            return
        began_ms, _ = self.under_way.pop(which % len(self.under_way))
        before = self.breaker
        if how == "abandoned":
            self.breaker = before.abandoned(began_ms)
        else:
            self.breaker = getattr(before, how)(began_ms, self.now_ms)
        if began_ms in self.probes:
            self.probes.remove(began_ms)
        if (before.is_open, before.since_ms) != (self.breaker.is_open, self.breaker.since_ms):
            self.probes = []
        if before.is_open and not self.breaker.is_open:
            assert how == "succeeded"
        if not before.is_open and self.breaker.is_open:
            assert how == "failed"

    @invariant()
    def never_more_probes_than_allowed(self):
        fresh = [at_ms for at_ms in self.probes if self.now_ms - at_ms < 2_000]
        assert len(fresh) <= 2
        assert len(self.breaker.probes) <= 2

    @invariant()
    def it_is_never_stuck(self):
        at_ms = self.breaker.next_at_ms(self.now_ms)
        assert self.now_ms <= at_ms <= self.now_ms + 2_000
        assert self.breaker.may_call(at_ms)


class ForgetfulCircuit(BreakerState):
    def called(self, now_ms):
        return self


class StuckCircuit(BreakerState):
    def _places(self, now_ms):
        return self.probes


TestBreakerUnderCalls = BreakerUnderCalls.TestCase
TestBreakerUnderCalls.settings = settings(max_examples=200, stateful_step_count=40)


@pytest.mark.parametrize("broken", [ForgetfulCircuit, StuckCircuit])
def test_a_broken_breaker_is_found(broken):
    machine = type("Broken", (BreakerUnderCalls,), {"circuit_type": broken})

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            machine,
            settings=settings(
                TestBreakerUnderCalls.settings,
                phases=(Search.generate,),
                report_multiple_bugs=False,
            ),
        )
