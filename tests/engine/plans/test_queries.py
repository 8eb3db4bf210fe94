"""How the executors of a plan are doing, as those see it who ask."""

import pytest

from flo.model.errors import NotFound
from flo.model.plans import GetPlan, WindowView
from flows import document, workflow_harness

PAY = document(
    """\
plans:
  pay:
    executors:
      - name: first
        action: "@actions/one"
        priority: 2
        breaker: {failure_threshold: 2, cooldown_ms: 1000}
        rate_limit: {max_per_second: 3, max_per_minute: 5}
      - {name: second, action: "@actions/two", priority: 1}
    health: {min_samples: 2}
start: {run: "@plan/pay", transitions: {success: flo.Completed, failure: flo.Failed}}
"""
)


@pytest.fixture
def harness():
    return workflow_harness(PAY, "one", "two")


def seen(harness, number=0):
    return harness.query(GetPlan(workflow="order", plan="pay")).executors[number]


def failed(harness, times=1):
    """So many runs in which the first executor fails, and the second does it."""
    for _ in range(times):
        harness.start()
        harness.fail("one")
        harness.perform("two")


def test_before_the_first_call_every_executor_is_as_good_as_any(harness):
    plan = harness.query(GetPlan(workflow="order", plan="pay"))
    first, second = plan.executors

    assert (plan.begun, plan.min_samples, plan.at_ms) == (0, 2, harness.now_ms)
    assert (first.breaker, first.failures, first.failures_max) == ("closed", 0, 2)
    assert (first.score, first.samples, first.answered, first.succeeded) == (1.0, 0, 1.0, 1.0)
    assert first.free_at_ms == harness.now_ms
    assert (second.breaker, second.failures_max, second.windows) == ("none", None, [])


def test_calls_are_counted_in_each_window_until_they_leave_it(harness):
    harness.start()
    assert seen(harness).windows == [
        WindowView(length_ms=1_000, limit=3, used=1),
        WindowView(length_ms=60_000, limit=5, used=1),
    ]
    harness.later(1_000)
    assert [window.used for window in seen(harness).windows] == [0, 1]


def test_failures_in_a_row_open_the_breaker_for_its_cooldown(harness):
    failed(harness)
    assert (seen(harness).breaker, seen(harness).failures) == ("closed", 1)
    assert seen(harness).half_open_at_ms is None

    failed(harness)
    assert (seen(harness).breaker, seen(harness).half_open_at_ms) == (
        "open",
        harness.now_ms + 1_000,
    )
    harness.later(1_000)
    assert seen(harness).breaker == "half_open"


def test_the_score_counts_once_there_are_enough_samples(harness):
    failed(harness)
    assert (seen(harness).samples, seen(harness).is_measured, seen(harness).score) == (
        1,
        False,
        1.0,
    )
    failed(harness)
    assert (seen(harness).samples, seen(harness).is_measured) == (2, True)
    assert (seen(harness).answered, seen(harness).succeeded, seen(harness).score) == (
        0.0,
        0.0,
        0.0,
    )
    assert (seen(harness, 1).answered, seen(harness, 1).succeeded, seen(harness, 1).score) == (
        1,
        1,
        1,
    )


@pytest.mark.parametrize(
    ("fields", "code", "problem"),
    [
        ({"workflow": "nobody"}, "workflow_not_found", "'nobody' is not deployed"),
        ({"version": "7"}, "workflow_not_found", "'order' has no version '7'; it has 1"),
        ({"plan": "pya"}, "plan_not_found", "'order' has no plan 'pya'; it has pay"),
    ],
)
def test_what_is_not_there_is_said(harness, fields, code, problem):
    with pytest.raises(NotFound, match=problem) as refused:
        harness.query(GetPlan(**{"workflow": "order", "plan": "pay", **fields}))
    assert refused.value.code == code
