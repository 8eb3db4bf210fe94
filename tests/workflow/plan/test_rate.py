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

from flo.workflow.plan.plan import RateLimit
from flo.workflow.plan.rate import HOUR_MS, MINUTE_MS, SECOND_MS, SLOTS_MAX, Rate, Window, rate_of


def called_at(rate, *times):
    for now_ms in times:
        assert rate.may_call(now_ms)
        rate = rate.called(now_ms)
    return rate


def test_without_limits_every_call_is_allowed():
    assert rate_of(None) == rate_of(RateLimit()) == Rate()
    assert Rate().may_call(5)
    assert Rate().next_at_ms(5) == 5


def test_each_limit_has_its_window():
    rate = rate_of(RateLimit(max_per_second=3, max_per_minute=50, max_per_hour=700))

    assert [(window.length_ms, window.limit) for window in rate.windows] == [
        (SECOND_MS, 3),
        (MINUTE_MS, 50),
        (HOUR_MS, 700),
    ]


def test_a_call_over_the_limit_has_to_wait_until_the_oldest_has_left():
    rate = called_at(rate_of(RateLimit(max_per_second=2)), 10_300, 10_700)

    assert not rate.may_call(10_700)
    assert rate.next_at_ms(10_700) == 11_300
    assert not rate.may_call(11_299)
    assert rate.may_call(11_300)
    assert rate.called(11_300).next_at_ms(11_300) == 11_700


def test_a_window_has_no_fixed_beginning():
    rate = called_at(rate_of(RateLimit(max_per_second=2)), 10_990, 10_999)

    assert not rate.may_call(11_001)


def test_the_strictest_window_decides():
    rate = called_at(rate_of(RateLimit(max_per_second=2, max_per_minute=3)), 0, 0, 1_000)

    assert rate.next_at_ms(1_000) == 60_000


def test_calls_in_the_same_millisecond_leave_together():
    rate = called_at(rate_of(RateLimit(max_per_second=3)), 5, 5, 5)

    assert rate.next_at_ms(5) == 1_005
    assert rate.windows[0].at(1_004).used == 3
    assert rate.windows[0].at(1_005).used == 0


@pytest.mark.parametrize(("limit", "exact"), [(SLOTS_MAX, True), (SLOTS_MAX + 1, False)])
def test_a_window_is_exact_as_long_as_its_limit_is_low(limit, exact):
    rate = called_at(rate_of(RateLimit(max_per_second=limit)), *[10_001] * limit)

    assert not rate.may_call(11_000)
    assert rate.may_call(11_001) is exact
    assert rate.next_at_ms(10_001) <= 11_001 + SECOND_MS // SLOTS_MAX


@pytest.mark.parametrize("limit", [SLOTS_MAX + 1, 5_000, 50_000, 1_000_000])
def test_a_high_limit_is_remembered_in_few_slots_and_almost_used_up(limit):
    window = Window(HOUR_MS, limit)
    calls = 0
    for now_ms in range(0, 3 * HOUR_MS, HOUR_MS // 500):
        free = limit - window.at(now_ms).used
        if free > 0:
            window = window.called(now_ms)
            last = window.slots[-1]
            window = window._replace(
                slots=(*window.slots[:-1], last._replace(calls=last.calls + free - 1)),
                used=limit,
            )
            calls += free
        assert len(window.slots) <= SLOTS_MAX + 1

    assert 3 * limit * (1 - 2 / SLOTS_MAX) <= calls <= 3 * limit


def test_a_clock_that_is_set_back_neither_frees_nor_loses_a_call():
    rate = called_at(rate_of(RateLimit(max_per_second=2)), 10_000, 9_000)

    assert not rate.may_call(9_500)
    assert rate.next_at_ms(9_500) == 11_000


class RateUnderCalls(RuleBasedStateMachine):
    """Whoever is allowed to call does; every window that ever was must hold its limit."""

    window_type = Window

    @initialize(
        limits=st.tuples(st.sampled_from([1, 2, 5, 65, 70]), st.sampled_from([2, 6, 80, 130]))
    )
    def begin(self, limits):
        self.now_ms = 123_456
        lengths = (SECOND_MS, MINUTE_MS)
        self.rate = Rate(tuple(map(self.window_type, lengths, limits)))
        self.times = []

    @rule(ms=st.sampled_from([1, 7, 100, 450, 999, 1_000, 15_000, 59_999]))
    def time_passes(self, ms):
        self.now_ms += ms

    @rule(count=st.integers(1, 40))
    def a_burst_comes(self, count):
        for _ in range(count):
            if self.rate.may_call(self.now_ms):
                self.rate = self.rate.called(self.now_ms)
                self.times.append(self.now_ms)

    @rule()
    def someone_waits_for_the_next_time(self):
        at_ms = self.rate.next_at_ms(self.now_ms)
        assert at_ms >= self.now_ms
        if at_ms > self.now_ms:
            assert not self.rate.may_call(at_ms - 1)
        assert self.rate.may_call(at_ms)
        self.now_ms = at_ms
        self.a_burst_comes(1)

    @invariant()
    def no_window_is_ever_over_its_limit(self):
        for window in getattr(self, "rate", Rate()).windows:
            for first, past in zip(self.times, self.times[window.limit :], strict=False):
                assert past - first >= window.length_ms

    @invariant()
    def nobody_waits_longer_than_the_calls_before_explain(self):
        rate = getattr(self, "rate", Rate())
        free_at_ms = [
            self.times[-window.limit] + window.length_ms + _slot_ms(window)
            for window in rate.windows
            if len(self.times) >= window.limit
        ]
        if rate.windows:
            assert rate.next_at_ms(self.now_ms) <= max([self.now_ms, *free_at_ms])

    @invariant()
    def what_is_remembered_is_bounded(self):
        for window in getattr(self, "rate", Rate()).windows:
            assert len(window.slots) <= SLOTS_MAX + 1
            assert window.used == sum(slot.calls for slot in window.slots)


def _slot_ms(window):
    return 0 if window.limit <= SLOTS_MAX else window.length_ms // SLOTS_MAX + 1


class TumblingWindow(Window):
    """Counts from zero with every full second, as a careless limiter would."""

    def at(self, now_ms):
        begun_ms = now_ms // self.length_ms * self.length_ms
        slots = tuple(slot for slot in self.slots if slot.ends_ms >= begun_ms)
        return self._replace(slots=slots, used=sum(slot.calls for slot in slots))


TestRateUnderCalls = RateUnderCalls.TestCase
TestRateUnderCalls.settings = settings(max_examples=150, stateful_step_count=40)


def test_a_window_that_tumbles_is_found():
    machine = type("Broken", (RateUnderCalls,), {"window_type": TumblingWindow})

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            machine,
            settings=settings(
                TestRateUnderCalls.settings, phases=(Search.generate,), report_multiple_bugs=False
            ),
        )
