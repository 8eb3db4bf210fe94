import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.workflow.plan.breaker import BreakerPhase
from flo.workflow.plan.health import BUCKETS, ExecutorHealth
from flo.workflow.plan.plan import Health

STEADY = Health(window_ms=10_000, decay=1.0, min_samples=3)
DECAYING = Health(window_ms=10_000, decay=0.5, min_samples=3)
BUCKET_MS = 1_000


def sampled(health, *samples, now_ms=0):
    for api, business in samples:
        health = health.sampled(api, business, now_ms)
    return health


def score(health, now_ms=0, phase=BreakerPhase.CLOSED):
    return pytest.approx(health.score(phase, now_ms))


def test_an_executor_that_nothing_is_known_of_is_as_good_as_any():
    assert ExecutorHealth(STEADY).score(BreakerPhase.CLOSED, 0) == 1.0
    assert not ExecutorHealth(STEADY).is_measured(0)


def test_an_executor_without_failures_scores_1():
    health = sampled(ExecutorHealth(DECAYING), *[(True, True)] * 7)
    health = sampled(health, *[(True, True)] * 5, now_ms=3_000)

    assert health.score(BreakerPhase.CLOSED, 3_500) == 1.0


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([(True, True), (False, False)], 0.5),
        ([(True, True), (True, False)], 0.7 + 0.3 * 0.5),
        ([(True, False)], 0.7),
        ([(False, False)], 0.0),
        ([(True, True), (True, False), (False, False), (False, False)], 0.7 * 0.5 + 0.3 * 0.25),
    ],
)
def test_the_score_is_api_times_70_and_business_times_30_percent(samples, expected):
    assert score(sampled(ExecutorHealth(STEADY), *samples)) == expected


def test_a_breaker_that_is_open_or_half_open_lowers_the_score():
    health = sampled(ExecutorHealth(STEADY), (True, True), (False, False))

    assert score(health, phase=BreakerPhase.OPEN) == 0.05
    assert score(health, phase=BreakerPhase.HALF_OPEN) == 0.25
    assert score(ExecutorHealth(STEADY), phase=BreakerPhase.OPEN) == 0.1


def test_a_sample_weighs_less_with_every_bucket_that_begins_after_it():
    health = sampled(ExecutorHealth(DECAYING), (False, False))
    health = sampled(health, (True, True), now_ms=2 * BUCKET_MS)

    assert score(health, now_ms=2 * BUCKET_MS) == 1 / (1 + 0.25)
    assert score(health, now_ms=5 * BUCKET_MS) == 1 / (1 + 0.25)


def test_without_decay_old_and_new_weigh_the_same():
    health = sampled(ExecutorHealth(STEADY), (False, False))
    health = sampled(health, (True, True), now_ms=9_000)

    assert score(health, now_ms=9_000) == 0.5


def test_what_has_left_the_window_is_forgotten():
    health = sampled(ExecutorHealth(STEADY), *[(False, False)] * 3)

    assert health.is_measured(9_999)
    assert score(health, now_ms=9_999) == 0.0
    assert not health.is_measured(10_000)
    assert score(health, now_ms=10_000) == 1.0


def test_it_is_measured_from_min_samples_on():
    two = sampled(ExecutorHealth(STEADY), *[(True, True)] * 2)

    assert not two.is_measured(0)
    assert sampled(two, (False, False)).is_measured(0)


@given(
    st.lists(
        st.tuples(st.integers(0, 2_500), st.booleans(), st.booleans()), min_size=1, max_size=200
    )
)
def test_few_buckets_are_remembered_and_the_score_stays_between_0_and_1(samples):
    health, now_ms = ExecutorHealth(DECAYING), 0
    for ms, api, business in samples:
        now_ms += ms
        health = health.sampled(api, business, now_ms)
        assert len(health.buckets) <= BUCKETS
        assert 0.0 <= health.score(BreakerPhase.CLOSED, now_ms) <= 1.0
        assert 1 <= health.samples(now_ms) <= len(samples)


@given(
    st.lists(
        st.tuples(st.integers(0, 2_500), st.booleans(), st.booleans()), min_size=1, max_size=60
    ),
    st.sampled_from([0.3, 0.9, 1.0]),
)
def test_the_buckets_give_what_a_list_of_all_samples_gives(samples, decay):
    health, now_ms, all_of_them = ExecutorHealth(Health(window_ms=10_000, decay=decay)), 0, []
    for ms, api, business in samples:
        now_ms += ms
        health = health.sampled(api, business, now_ms)
        all_of_them.append((now_ms // BUCKET_MS, api, business))

    ages = [(now_ms // BUCKET_MS - bucket, api, business) for bucket, api, business in all_of_them]
    weights = [(decay**age, api, business) for age, api, business in ages if age < BUCKETS]
    total = sum(weight for weight, _, _ in weights)
    api_rate = sum(weight for weight, api, _ in weights if api) / total
    business_rate = sum(weight for weight, _, business in weights if business) / total

    assert score(health, now_ms) == api_rate * 0.7 + business_rate * 0.3
    assert health.samples(now_ms) == len(weights)


def test_a_clock_that_is_set_back_adds_to_the_newest_bucket():
    health = sampled(ExecutorHealth(STEADY), (True, True), now_ms=5_000)
    health = sampled(health, (False, False), now_ms=1_000)

    assert [bucket.samples for bucket in health.buckets] == [2]
