from flo.server.rpc.refusal_pace import (
    FREE_MS,
    LENGTH_PER_MS,
    PAUSE_MS_MAX,
    REFUSAL_LENGTH,
    RefusalPace,
)
from flo.testing.clock import ManualClock

MOST_FREE = FREE_MS * LENGTH_PER_MS - REFUSAL_LENGTH


def setup():
    clock, ends = ManualClock(), []
    return clock, RefusalPace(clock, lambda: ends.append(clock.now_ms())), ends


def test_who_is_refused_now_and_then_is_read_from():
    clock, pace, _ = setup()
    for _ in range(20):
        pace.refused(MOST_FREE)
        assert not pace.is_pausing
        clock.advance(1_000)


def test_who_is_refused_much_is_not_read_from_until_it_is_no_longer_ahead():
    clock, pace, ends = setup()
    pace.refused(MOST_FREE + 100 * LENGTH_PER_MS)

    assert pace.is_pausing
    clock.advance(99)
    assert pace.is_pausing
    clock.advance(1)

    assert not pace.is_pausing
    assert len(ends) == 1


def test_small_refusals_add_up():
    _, pace, _ = setup()
    count = 0
    while not pace.is_pausing:
        pace.refused(0)
        count += 1

    assert count == FREE_MS * LENGTH_PER_MS // REFUSAL_LENGTH + 1


def test_what_is_refused_in_a_pause_makes_it_longer():
    clock, pace, ends = setup()
    pace.refused(MOST_FREE + 100 * LENGTH_PER_MS)
    pace.refused(100 * LENGTH_PER_MS - REFUSAL_LENGTH)

    clock.advance(100)
    assert pace.is_pausing
    clock.advance(100)

    assert not pace.is_pausing
    assert len(ends) == 1


def test_no_pause_is_longer_than_the_longest_however_much_is_refused():
    clock, pace, _ = setup()
    pace.refused(1 << 40)
    pace.refused(1 << 40)

    clock.advance(PAUSE_MS_MAX)

    assert not pace.is_pausing


def test_a_pause_ends_with_its_connection():
    clock, pace, ends = setup()
    pace.refused(1 << 40)

    pace.end()
    clock.advance(PAUSE_MS_MAX)

    assert ends == []
