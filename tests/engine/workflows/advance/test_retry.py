"""Trying again and asking again: when, how often, and what comes of it in the end."""

import pytest

from flo.engine.workflows.events import StepHeld
from flo.model.workflows import BranchPhase
from flo.testing.clock import NOON_MS
from flows import document, events_of, one_step, workflow_harness


def retried(policy, more=""):
    step = f'{{run: "@actions/check", retry: {{{policy}}}, '
    return one_step(step + f"transitions: {{success: flo.Completed, failure: flo.Failed{more}}}}}")


def delays(harness, phase):
    return [event.now.until_ms - event.at_ms for event in events_of(harness, StepHeld)]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        ("constant", [100, 100, 100, 100]),
        ("linear", [100, 200, 300, 350]),
        ("exponential", [100, 200, 350, 350]),
        ("exponential_jitter", [112, 225, 350, 350]),
    ],
)
def test_each_backoff_has_its_delays_and_none_is_longer_than_the_longest(backoff, expected):
    policy = f"max_attempts: 5, backoff: {backoff}, initial_delay_ms: 100, max_delay_ms: 350"
    harness = workflow_harness(retried(policy), "check")
    harness.start()

    for _ in range(4):
        harness.fail("check")
        harness.later(harness.view("wfrun-1").waits[0].until_ms - harness.now_ms)
    harness.fail("check")

    assert delays(harness, BranchPhase.RETRY) == expected
    assert harness.status() == "failed"


def test_an_attempt_that_goes_well_ends_the_repetitions():
    harness = workflow_harness(retried("max_attempts: 3, initial_delay_ms: 100"), "check")
    harness.start()
    harness.fail("check")
    harness.later(100)

    harness.perform("check")

    assert harness.status() == "completed"
    assert harness.kinds().count("step_retry") == 1
    assert [one.attempt for one in harness.history() if one.type == "step_started"] == [1, 2]


def test_nothing_is_tried_again_before_its_time():
    harness = workflow_harness(retried("max_attempts: 3, initial_delay_ms: 100"), "check")
    harness.start()
    harness.fail("check")

    harness.later(99)
    assert harness.pending("check") == 0

    harness.later(1)
    assert harness.pending("check") == 1


def test_a_delay_of_nothing_is_at_once():
    harness = workflow_harness(retried("max_attempts: 2, initial_delay_ms: 0"), "check")
    harness.start()
    harness.fail("check")

    harness.later()

    assert harness.pending("check") == 1


def test_no_attempt_begins_when_the_time_for_all_of_them_is_over():
    policy = "max_attempts: 9, backoff: constant, initial_delay_ms: 100, within_ms: 250"
    harness = workflow_harness(retried(policy), "check")
    harness.start()

    for _ in range(2):
        harness.fail("check")
        harness.later(100)
    harness.fail("check")

    assert harness.status() == "failed"
    assert harness.steps() == ["start"] * 3


@pytest.mark.parametrize("outcome", ["timeout", "rejected", "pending"])
def test_only_failures_are_tried_again(outcome):
    harness = workflow_harness(retried("max_attempts: 3", f", {outcome}: flo.Failed"), "check")
    harness.start()

    harness.perform("check", outcome=outcome)

    assert harness.status() == "failed"
    assert "step_retry" not in harness.kinds()


def test_an_execution_failure_is_tried_again_and_may_find_the_action_willing():
    text = document(
        """
start:
  run: "@workflow/child"
  retry: {max_attempts: 2, initial_delay_ms: 100}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
    )
    child = one_step('{run: "@actions/check", transitions: {success: flo.Completed}}', name="child")
    harness = workflow_harness(text, "check").deploy(child)
    harness.start()
    harness.later()
    harness.fail("check")
    harness.later(100)
    harness.later()

    harness.perform("check")

    assert harness.status() == "completed"


def test_a_target_that_is_not_there_is_not_tried_again():
    harness = workflow_harness(retried("max_attempts: 3"))

    harness.start()

    assert harness.status() == "failed"


def test_the_count_begins_anew_when_a_step_is_come_to_again():
    text = document(
        """
start:
  run: "@actions/check"
  retry: {max_attempts: 2, initial_delay_ms: 10}
  transitions: {success: start, failure: flo.Failed}
"""
    )
    harness = workflow_harness(text, "check")
    harness.start()
    for _ in range(3):
        harness.fail("check")
        harness.later(10)
        harness.perform("check")

    assert harness.status() == "waiting"
    assert harness.view("wfrun-1").waits[0].attempt == 1


def test_a_wait_between_two_attempts_outlives_a_restart():
    harness = workflow_harness(retried("max_attempts: 2, initial_delay_ms: 100"), "check")
    harness.start()
    harness.fail("check")

    harness.restart().later(100)

    assert harness.pending("check") == 1


POLLED = one_step(
    '{run: "@actions/check", poll: {initialDelayMs: 50, maxAttempts: 3, baseDelayMs: 100, '
    "backoff: linear, maxDelayMs: 150}, "
    "transitions: {success: flo.Completed, failure: flo.Failed, timeout: flo.TimedOut}}"
)


def test_what_is_pending_is_asked_again_until_it_is_not():
    harness = workflow_harness(POLLED, "check")
    harness.start()
    harness.perform("check", outcome="pending")
    harness.later(50)
    harness.perform("check", outcome="pending")
    harness.later(100)

    harness.perform("check")

    assert harness.status() == "completed"
    assert harness.kinds().count("poll_scheduled") == 2


def test_polls_wait_as_their_backoff_says():
    harness = workflow_harness(POLLED, "check")
    harness.start()
    for wait in (50, 100, 150):
        harness.perform("check", outcome="pending")
        assert harness.view("wfrun-1").waits[0].until_ms == harness.now_ms + wait
        harness.later(wait)

    assert delays(harness, BranchPhase.POLL) == [50, 100, 150]


def test_polls_that_are_used_up_are_a_timeout():
    harness = workflow_harness(POLLED, "check")
    harness.start()
    for wait in (50, 100, 150):
        harness.perform("check", outcome="pending")
        harness.later(wait)

    harness.perform("check", outcome="pending")

    assert harness.ending() == ("timed_out", "flo.TimedOut", "still pending after 3 polls")
    assert harness.outcomes() == {"start": "timeout"}
    assert harness.kinds().count("poll_exhausted") == 1


@pytest.mark.parametrize(
    ("transitions", "outcome", "ending"),
    [
        ("pending: flo.Cancelled, timeout: flo.TimedOut", "timeout", "flo.TimedOut"),
        ("pending: flo.Cancelled", "pending", "flo.Cancelled"),
        ("success: flo.Completed", "failure", "flo.Failed"),
    ],
)
def test_polls_that_are_used_up_take_timeout_else_pending_else_failure(
    transitions, outcome, ending
):
    step = (
        '{run: "@actions/check", poll: {baseDelayMs: 100, maxAttempts: 1}, '
        "retry: {max_attempts: 3, initial_delay_ms: 10}, "
        f"transitions: {{failure: flo.Failed, {transitions}}}}}"
    )
    harness = workflow_harness(one_step(step), "check")
    harness.start()
    harness.perform("check", outcome="pending")
    harness.later(100)

    harness.perform("check", outcome="pending")

    assert harness.ending()[1:] == (ending, "still pending after 1 polls")
    assert harness.outcomes() == {"start": outcome}


def test_without_a_poll_pending_is_an_outcome_like_others():
    step = '{run: "@actions/check", transitions: {pending: flo.Completed, success: flo.Failed}}'
    harness = workflow_harness(one_step(step), "check")
    harness.start()

    harness.perform("check", outcome="pending")

    assert harness.status() == "completed"


def test_a_failure_between_polls_is_tried_again_where_it_was():
    text = one_step(
        '{run: "@actions/check", poll: {initialDelayMs: 50, maxAttempts: 1}, '
        "retry: {max_attempts: 2, initial_delay_ms: 10}, "
        "transitions: {success: flo.Completed, failure: flo.Failed, timeout: flo.TimedOut}}"
    )
    harness = workflow_harness(text, "check")
    harness.start()
    harness.perform("check", outcome="pending")
    harness.later(50)
    harness.fail("check")
    harness.later(10)

    harness.perform("check", outcome="pending")

    assert harness.status() == "timed_out"


def test_the_next_poll_is_known_to_those_who_ask():
    harness = workflow_harness(POLLED, "check")
    harness.start()
    harness.perform("check", outcome="pending")

    explained = harness.explain()

    assert explained.next_at_ms == NOON_MS + 50
    assert explained.summary == "Step 'start' is still pending, and is asked again."
