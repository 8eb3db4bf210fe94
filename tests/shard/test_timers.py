import pytest

from flo.shard.timers import Timer
from flo.testing.clock import NOON_MS, ManualClock


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def rung():
    return []


@pytest.fixture
def timer(clock, rung):
    return Timer(clock, lambda: rung.append(clock.now_ms() - NOON_MS))


def test_it_rings_once_at_its_time(timer, clock, rung):
    timer.set(NOON_MS + 10)
    clock.advance(9)
    assert rung == []

    clock.advance(100)
    assert rung == [10]


@pytest.mark.parametrize("moved_to", [5, 50])
def test_it_rings_only_at_the_time_it_was_moved_to(timer, clock, rung, moved_to):
    timer.set(NOON_MS + 10)
    timer.set(NOON_MS + moved_to)

    clock.advance(100)

    assert rung == [moved_to]


def test_it_can_be_set_to_the_same_time_again_after_it_rang(timer, clock, rung):
    timer.set(NOON_MS + 10)
    clock.advance(10)

    timer.set(NOON_MS + 10)
    clock.advance(0)

    assert rung == [10, 10]


def test_setting_it_to_the_time_it_has_costs_nothing(timer, clock):
    for _ in range(100):
        timer.set(NOON_MS + 10)

    assert len(clock._alarms) == 1


def test_with_nothing_due_it_is_silent(timer, clock, rung):
    timer.set(NOON_MS + 10)
    timer.set(None)
    clock.advance(100)
    timer.cancel()

    assert rung == []


class ElapsedClock(ManualClock):
    """Alarms ring when so much time has passed, whatever the clock was put to meanwhile."""

    def put_forward(self, by_ms):
        self._now_ms += by_ms
        self._alarms = [(at_ms + by_ms, order, alarm) for at_ms, order, alarm in self._alarms]


def test_a_clock_that_is_put_forward_is_noticed_within_a_second():
    clock, rung = ElapsedClock(), []
    timer = Timer(clock, lambda: rung.append(clock.now_ms() - NOON_MS))
    timer.set(NOON_MS + 3_600_000)

    clock.put_forward(7_200_000)
    clock.advance(999)
    assert rung == []

    clock.advance(1)
    assert rung == [7_201_000]


def test_a_clock_that_was_put_back_is_waited_for(timer, clock, rung):
    timer.set(NOON_MS + 10)
    clock.set_back(5_000)

    clock.advance(5_009)
    assert rung == []

    clock.advance(1)
    assert rung == [10]


def test_a_long_sleep_is_slept_a_second_at_a_time(timer, clock, rung):
    timer.set(NOON_MS + 10_500)

    for _ in range(10):
        clock.advance(1_000)
        assert rung == []
    clock.advance(500)

    assert rung == [10_500]
