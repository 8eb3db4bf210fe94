import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.workflow.retry import Backoff, Poll, Retry, delay_ms, next_attempt_at_ms, next_poll_at_ms

NOON = 1_000_000


@pytest.mark.parametrize(
    ("backoff", "rng", "delays"),
    [
        (Backoff.CONSTANT, 0.9, [100, 100, 100, 100, 100]),
        (Backoff.LINEAR, 0.9, [100, 200, 300, 400, 500]),
        (Backoff.EXPONENTIAL, 0.9, [100, 200, 400, 800, 1_000]),
        (Backoff.EXPONENTIAL_JITTER, 0.0, [100, 200, 400, 800, 1_000]),
        (Backoff.EXPONENTIAL_JITTER, 0.5, [112, 225, 450, 900, 1_000]),
        (Backoff.EXPONENTIAL_JITTER, 1.0, [125, 250, 500, 1_000, 1_000]),
    ],
)
def test_the_four_formulas(backoff, rng, delays):
    assert [delay_ms(backoff, 100, 1_000, n, rng) for n in range(5)] == delays


@given(
    st.sampled_from(Backoff),
    st.integers(0, 10**10),
    st.integers(0, 10**10),
    st.integers(0, 1_000),
    st.floats(0, 1),
)
def test_no_delay_is_above_the_maximum_and_none_shrinks(backoff, first, most, repetition, rng):
    delay = delay_ms(backoff, first, most, repetition, rng)

    assert 0 <= delay <= most
    assert delay >= min(first, most)
    assert delay_ms(backoff, first, most, repetition + 1, rng) >= delay


def test_max_attempts_counts_the_first_one():
    retry = Retry(max_attempts=3, backoff=Backoff.CONSTANT, initial_delay_ms=10)

    found = [next_attempt_at_ms(retry, attempt, NOON, NOON, 0.0) for attempt in (1, 2, 3, 4)]

    assert found == [NOON + 10, NOON + 10, None, None]


def test_no_attempt_begins_after_the_budget():
    retry = Retry(max_attempts=9, backoff=Backoff.CONSTANT, initial_delay_ms=100, within_ms=250)

    assert next_attempt_at_ms(retry, 1, NOON, NOON + 150, 0.0) == NOON + 250
    assert next_attempt_at_ms(retry, 1, NOON, NOON + 151, 0.0) is None


def test_a_delay_of_zero_is_at_once():
    assert next_attempt_at_ms(Retry(initial_delay_ms=0), 1, NOON, NOON, 1.0) == NOON


def test_the_first_poll_waits_for_the_initial_delay_and_later_ones_for_the_backoff():
    poll = Poll(initial_delay_ms=7, max_attempts=4, base_delay_ms=100, max_delay_ms=300)

    found = [next_poll_at_ms(poll, polls, NOON, 0.0) for polls in range(6)]

    assert found == [NOON + 7, NOON + 100, NOON + 200, NOON + 300, None, None]


def test_without_an_initial_delay_the_first_poll_waits_for_the_base_delay():
    poll = Poll(max_attempts=3, base_delay_ms=100)

    found = [next_poll_at_ms(poll, polls, NOON, 0.0) for polls in range(4)]

    assert found == [NOON + 100, NOON + 100, NOON + 200, None]
    assert next_poll_at_ms(Poll(initial_delay_ms=0), 0, NOON, 0.0) == NOON
