"""Pause, resume and cancel."""

import pytest

from flo.engine.runs.events import RunCancelled
from flo.engine.workflows.events import WorkflowPaused, WorkflowResumed
from flo.model.errors import Conflict, NotFound, TooLarge
from flo.model.workers import AwaitNotifications, RegisterWorker
from flows import document, events_of, one_step, workflow_harness
from given import ANNA

TWO = document(
    """
start: {run: "@actions/check", transitions: {success: ship, failure: flo.Failed}}
steps:
  ship: {run: "@actions/ship", transitions: {success: flo.Completed}}
"""
)


def two():
    harness = workflow_harness(TWO, "check", "ship")
    harness.start()
    return harness


def test_a_paused_run_lets_its_action_end_and_begins_nothing_new():
    harness = two()

    harness.pause("wfrun-1")
    harness.perform("check")

    assert harness.pending("ship") == 0
    assert (harness.view("wfrun-1").paused, harness.status()) == (True, "waiting")


def test_a_resumed_run_goes_on_where_it_would_have_gone():
    harness = two()
    harness.pause("wfrun-1")
    harness.perform("check")
    harness.restart()

    harness.resume("wfrun-1")
    harness.perform("ship")

    assert harness.status() == "completed"
    assert (
        harness.kinds().count("workflow_paused") == harness.kinds().count("workflow_resumed") == 1
    )


def test_a_run_that_is_resumed_before_its_action_ends_has_missed_nothing():
    harness = two()
    harness.pause("wfrun-1")
    harness.resume("wfrun-1")
    harness.perform("check")

    assert harness.pending("ship") == 1


def test_to_pause_or_resume_twice_changes_nothing():
    harness = two()
    harness.pause("wfrun-1")
    assert harness.pause("wfrun-1").events == ()
    harness.resume("wfrun-1")
    assert harness.resume("wfrun-1").events == ()

    assert len(events_of(harness, WorkflowPaused, WorkflowResumed)) == 2


def test_no_time_of_a_paused_run_comes_until_it_is_resumed():
    harness = workflow_harness(one_step("{sleep: 1s, transitions: {success: flo.Completed}}"))
    harness.start()
    harness.pause("wfrun-1")
    assert harness.explain().next_at_ms is None

    harness.later(5_000)
    assert harness.status() == "waiting"

    harness.resume("wfrun-1")
    harness.later()
    assert harness.status() == "completed"


def test_a_retry_waits_for_the_end_of_the_pause():
    text = one_step(
        '{run: "@actions/check", retry: {max_attempts: 2, initial_delay_ms: 10}, '
        "transitions: {success: flo.Completed}}"
    )
    harness = workflow_harness(text, "check")
    harness.start()
    harness.pause("wfrun-1")
    harness.fail("check")
    harness.later(100)
    assert harness.pending("check") == 0

    harness.resume("wfrun-1")
    harness.later()

    assert harness.pending("check") == 1


def test_signals_of_a_paused_run_are_kept_and_matched_when_it_is_resumed():
    text = one_step(
        "{waitForSignal: {type: go, timeoutMs: 1000}, transitions: {success: flo.Completed}}"
    )
    harness = workflow_harness(text)
    harness.start()
    harness.pause("wfrun-1")
    harness.signal("wfrun-1", "go")
    harness.later(2_000)
    assert harness.status() == "waiting"

    harness.resume("wfrun-1")

    assert harness.status() == "completed"


def test_a_paused_run_opens_no_further_items_and_goes_on_with_them_later():
    text = one_step(
        '{forEach: {items: $.input, run: "@actions/check", concurrency: 1}, '
        "transitions: {success: flo.Completed}}"
    )
    harness = workflow_harness(text, "check")
    harness.start(value=[1, 2])
    harness.pause("wfrun-1")
    harness.perform("check")
    assert harness.pending("check") == 0

    harness.restart().resume("wfrun-1")
    harness.perform("check")

    assert harness.status() == "completed"


def test_a_child_that_is_paused_before_it_begins_begins_when_it_is_resumed():
    kid = one_step('{run: "@actions/check", transitions: {success: flo.Completed}}', name="kid")
    harness = workflow_harness(kid, "check").deploy(
        one_step('{run: "@workflow/kid", transitions: {success: flo.Completed}}')
    )
    harness.start()
    harness.pause("wfrun-2")
    harness.later()
    assert harness.pending("check") == 0

    harness.resume("wfrun-2")
    harness.later()
    harness.perform("check")

    assert harness.status() == "completed"


def test_a_run_that_is_paused_in_line_does_not_begin_when_its_turn_comes():
    text = one_step(
        '{run: "@actions/check", transitions: {success: flo.Completed}}', more="concurrency: 1\n"
    )
    harness = workflow_harness(text, "check")
    harness.start()
    harness.start()
    harness.pause("wfrun-2")

    harness.perform("check")
    assert harness.pending("check") == 0

    harness.resume("wfrun-2")
    harness.perform("check")
    assert harness.status("wfrun-2") == "completed"
    assert harness.leftovers() == []


def test_a_cancelled_run_ends_and_its_actions_are_cancelled():
    harness = two()
    harness.claim("check")

    harness.cancel("wfrun-1", "not needed")

    assert harness.ending() == ("cancelled", "flo.Cancelled", "not needed")
    (cancelled,) = events_of(harness, RunCancelled)
    assert (cancelled.run_id, cancelled.worker_id) == ("check-1", ANNA)
    assert harness.leftovers() == []


def test_the_worker_that_has_the_action_of_a_cancelled_run_hears_of_it():
    harness = two()
    harness.execute(RegisterWorker(worker_id=ANNA, processes=["check"]))
    harness.claim("check")

    harness.cancel("wfrun-1")

    assert harness.query(AwaitNotifications(worker_id=ANNA, after=0)).cancelled == ["check-1"]


def test_a_cancelled_run_without_a_reason_says_who_it_was():
    harness = two()

    harness.cancel("wfrun-1")

    assert harness.history_pairs()[-1] == ("workflow_cancelled", "cancelled by user")
    assert harness.ending() == ("cancelled", "flo.Cancelled", "cancelled by user")


def test_to_cancel_reaches_children_and_their_actions():
    kid = one_step('{run: "@actions/check", transitions: {success: flo.Completed}}', name="kid")
    middle = one_step(
        '{run: "@workflow/kid", transitions: {success: flo.Completed}}', name="middle"
    )
    harness = workflow_harness(kid, "check").deploy(
        middle, one_step('{run: "@workflow/middle", transitions: {success: flo.Completed}}')
    )
    harness.start()
    harness.later()
    harness.claim("check")

    harness.cancel("wfrun-1")

    assert [harness.status(f"wfrun-{number}") for number in (1, 2, 3)] == ["cancelled"] * 3
    assert "wfrun-2 does not wait for it" in harness.ending("wfrun-3")[2]
    assert harness.leftovers() == []


def test_a_child_that_is_cancelled_by_hand_is_a_failure_to_its_parent():
    kid = one_step('{run: "@actions/check", transitions: {success: flo.Completed}}', name="kid")
    harness = workflow_harness(kid, "check").deploy(
        one_step('{run: "@workflow/kid", transitions: {failure: flo.TimedOut}}')
    )
    harness.start()

    harness.cancel("wfrun-2")

    assert harness.status() == "timed_out"


def test_a_run_that_has_ended_or_never_was_can_be_neither_paused_resumed_nor_cancelled():
    harness = two()
    harness.cancel("wfrun-1")

    for refused in (harness.pause, harness.resume, harness.cancel):
        with pytest.raises(Conflict, match="it is cancelled"):
            refused("wfrun-1")
        with pytest.raises(NotFound):
            refused("wfrun-2")
        with pytest.raises(NotFound):
            refused("check-1")


def test_a_reason_that_is_too_long_is_refused_and_nothing_is_cancelled():
    harness = two()

    with pytest.raises(TooLarge):
        harness.cancel("wfrun-1", "x" * 5_000)

    assert harness.status() == "waiting"


@pytest.mark.parametrize("restarted", [False, True])
def test_what_sleeps_or_waits_for_a_signal_is_cancelled_without_a_trace(restarted):
    text = document(
        """
start:
  parallel:
    branches:
      nap: {sleep: 1h, transitions: {success: flo.Completed}}
      go: {waitForSignal: {type: go, timeoutMs: 1000}}
      many: {forEach: {items: $.input, run: "@actions/check"}}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
    )
    harness = workflow_harness(text, "check")
    harness.start(value=[1, 2, 3])
    if restarted:
        harness.restart()

    harness.cancel("wfrun-1")

    assert harness.leftovers() == []
