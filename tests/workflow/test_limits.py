from flo.workflow.limits import (
    BURST_S,
    ExecutionLimits,
    Limits,
    Pace,
    pace_of,
)


def test_the_lower_bound_counts_of_workflow_and_server():
    server = ExecutionLimits(steps=100, events=1_000, steps_per_second=10)
    assert pace_of(None, server) == Pace(100, 1_000, 100)
    assert pace_of(Limits(steps=50), server) == Pace(50, 1_000, 100)
    assert pace_of(Limits(steps=500, events=5, steps_per_second=100), server) == Pace(100, 5, 100)
    assert pace_of(Limits(steps_per_second=2), server) == Pace(100, 1_000, 500)
    assert pace_of(None, None) == Pace(1_000_000, 10_000_000, 20)


def test_a_burst_is_free_and_then_steps_come_at_their_pace():
    pace = pace_of(Limits(steps_per_second=2), None)
    now_ms, behind_ms, taken = 1_000_000, 0, 0
    while pace.delayed_until_ms(behind_ms, now_ms) is None:
        behind_ms, taken = pace.after_step(behind_ms, now_ms), taken + 1
    assert taken == 2 * BURST_S + 1
    for number in range(1, 4):
        now_ms = pace.delayed_until_ms(behind_ms, now_ms) or 0
        assert now_ms == 1_000_000 + number * 500
        behind_ms = pace.after_step(behind_ms, now_ms)


def test_whoever_rests_may_have_a_burst_again():
    pace = pace_of(Limits(steps_per_second=1), None)
    behind_ms = pace.after_step(500_000, 1_000_000)
    assert behind_ms == 1_001_000
    assert pace.delayed_until_ms(behind_ms, 1_000_000) is None
