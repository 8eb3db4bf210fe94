"""Rollback: what was done is undone, the last first, when a run ends badly."""

import pytest

from flo.engine.workflows.events import RollbackBegan, StepUndone
from flo.model.errors import Conflict
from flows import document, events_of, workflow_harness

SAGA = document(
    """
start:
  run: "@actions/reserve"
  rollback: "@actions/release"
  transitions: {success: charge, failure: flo.Failed}
steps:
  charge:
    run: "@actions/charge"
    rollback:
      run: "@actions/refund"
      inputMapping: {payment: $.steps.charge.output.id, run: $.flo.run_id}
      retry: {max_attempts: 2, initial_delay_ms: 10}
    transitions: {success: ship, failure: flo.Failed}
  ship:
    run: "@actions/ship"
    rollback: "@actions/unship"
    transitions: {success: flo.Completed, failure: flo.Failed, late: flo.TimedOut}
"""
)
ACTIONS = ("reserve", "release", "charge", "refund", "ship", "unship")


def shipped(*, charged=True):
    harness = workflow_harness(SAGA, *ACTIONS)
    harness.start(value={"order": 1})
    harness.perform("reserve", {"shelf": 3})
    if charged:
        harness.perform("charge", {"id": "p-1"})
    return harness


def test_what_was_done_is_undone_in_the_reverse_order_of_completion():
    harness = shipped()

    harness.fail("ship", "no van")

    (began,) = events_of(harness, RollbackBegan)
    assert began.steps == ("charge", "start")
    assert (harness.pending("refund"), harness.pending("release")) == (1, 0)
    assert harness.perform("refund") == {"payment": "p-1", "run": "wfrun-1"}
    assert harness.perform("release") == {"shelf": 3}
    assert harness.ending() == ("failed", "flo.Failed", "no van")
    assert harness.view("wfrun-1").undone == ["charge", "start"]
    assert harness.leftovers() == []


def test_the_run_is_not_over_before_everything_is_undone():
    harness = shipped()
    harness.fail("ship")

    view = harness.view("wfrun-1")
    assert (view.status, view.terminal, view.current_step) == ("waiting", "flo.Failed", "charge")
    assert harness.explain().summary == "It ends failed, and is being undone first."

    harness.restart()
    harness.perform("refund")
    harness.perform("release")
    assert harness.status() == "failed"


def test_a_step_that_did_not_succeed_is_not_undone():
    harness = shipped(charged=False)

    harness.fail("charge")

    assert harness.pending("refund") == 0
    harness.perform("release")
    assert harness.view("wfrun-1").undone == ["start"]


def test_a_run_that_ends_well_undoes_nothing():
    harness = shipped()

    harness.perform("ship")

    assert harness.status() == "completed"
    assert events_of(harness, RollbackBegan) == []


def test_a_run_that_ends_timed_out_is_undone_too():
    harness = shipped()

    harness.perform("ship", outcome="late")
    harness.perform("refund")
    harness.perform("release")

    assert harness.status() == "timed_out"


def test_a_cancelled_run_is_undone_and_then_cancelled():
    harness = shipped()

    harness.cancel("wfrun-1", "changed my mind")

    assert harness.pending("ship") == 0
    harness.perform("refund")
    harness.perform("release")
    assert harness.ending() == ("cancelled", "flo.Cancelled", "changed my mind")
    last = harness.history()[-1]
    assert (last.type, last.detail) == ("workflow_cancelled", "changed my mind")
    assert harness.leftovers() == []


def test_undoing_is_tried_again_as_its_own_retry_says():
    harness = shipped()
    harness.fail("ship")

    harness.fail("refund")
    harness.restart().later(10)
    harness.perform("refund")
    harness.perform("release")

    assert harness.view("wfrun-1").undone == ["charge", "start"]
    assert [one.attempt for one in harness.history() if one.type == "rollback_step"] == [1, 2, 1]


def test_what_cannot_be_undone_is_written_down_and_the_rest_is_undone_all_the_same():
    harness = shipped()
    harness.fail("ship")
    harness.fail("refund", "bank is closed")
    harness.later(10)
    harness.fail("refund", "bank is still closed")

    harness.perform("release")

    undone = [(one.step, one.succeeded, one.error) for one in events_of(harness, StepUndone)]
    assert undone == [("charge", False, "bank is still closed"), ("start", True, None)]
    assert harness.view("wfrun-1").undone == ["start"]
    (failed,) = [one for one in harness.history() if one.type == "rollback_failed"]
    assert (failed.detail, failed.error) == ("charge", "bank is still closed")
    assert harness.status() == "failed"


def test_without_a_retry_of_its_own_undoing_has_some_patience():
    harness = shipped(charged=False)
    harness.fail("charge")

    for wait in (1_000, 2_000, 4_000, 8_000):
        harness.fail("release")
        harness.later(wait)
    harness.perform("release")

    assert harness.view("wfrun-1").undone == ["start"]


def test_a_rollback_whose_action_is_not_there_does_not_hold_the_run_up():
    harness = workflow_harness(SAGA, "reserve", "charge")
    harness.start()
    harness.perform("reserve")

    harness.fail("charge")

    assert harness.status() == "failed"
    assert harness.view("wfrun-1").undone == []


def test_a_run_that_is_being_undone_cannot_be_cancelled_or_paused():
    harness = shipped()
    harness.fail("ship")

    for refused in (harness.cancel, harness.pause):
        with pytest.raises(Conflict) as refusal:
            refused("wfrun-1")
        assert refusal.value.code == "run_has_ended"


def test_a_paused_run_that_is_cancelled_is_undone():
    harness = shipped()
    harness.pause("wfrun-1")

    harness.cancel("wfrun-1")
    harness.perform("refund")
    harness.perform("release")

    assert harness.status() == "cancelled"


def test_the_history_has_a_ledger_of_what_was_undone():
    harness = shipped()
    harness.fail("ship")
    harness.perform("refund")
    harness.perform("release")

    history_pairs = [pair for pair in harness.history_pairs() if pair[0].startswith("rollback")]
    assert history_pairs == [
        ("rollback_started", "charge, start"),
        ("rollback_step", "charge"),
        ("rollback_completed", "charge"),
        ("rollback_step", "start"),
        ("rollback_completed", "start"),
    ]


BRANCHES = document(
    """
start:
  parallel:
    branches:
      left: {run: "@actions/left", rollback: "@actions/unleft"}
      right: {run: "@actions/right", rollback: "@workflow/unright"}
  transitions: {success: last, failure: flo.Failed}
steps:
  last: {run: "@actions/last", transitions: {success: flo.Completed, failure: flo.Failed}}
"""
)
UNRIGHT = document(
    'start: {run: "@actions/unright", transitions: {success: flo.Completed}}', name="unright"
)


def test_the_steps_of_branches_are_undone_in_the_order_in_which_they_came_to_an_end():
    harness = workflow_harness(BRANCHES, "left", "right", "last", "unleft", "unright").deploy(
        UNRIGHT
    )
    harness.start()
    harness.perform("right", "r")
    harness.perform("left", "l")

    harness.fail("last")

    assert harness.perform("unleft") == "l"
    harness.later()
    assert harness.perform("unright") == "r"
    assert harness.view("wfrun-1").undone == ["left", "right"]
    assert harness.status() == "failed"
    assert harness.leftovers() == []


def test_a_branch_that_had_succeeded_is_undone_when_the_other_fails():
    harness = workflow_harness(BRANCHES, "left", "right", "unleft").deploy(UNRIGHT)
    harness.start()
    harness.perform("left", "l")

    harness.fail("right")

    assert harness.perform("unleft") == "l"
    assert harness.status() == "failed"


def test_a_step_that_was_done_twice_is_undone_once_with_what_it_did_last():
    text = document(
        """
start:
  run: "@actions/left"
  rollback: "@actions/unleft"
  transitions: {success: start, enough: flo.Failed}
"""
    )
    harness = workflow_harness(text, "left", "unleft")
    harness.start()
    harness.perform("left", 1)
    harness.perform("left", 2)
    harness.perform("left", outcome="enough")

    assert harness.pending("unleft") == 1
    harness.perform("unleft")
    assert harness.status() == "failed"
