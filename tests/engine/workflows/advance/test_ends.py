"""Rollback: what was done is undone, the last first, when a run ends badly."""

import pytest

from flo.engine.workflows.events import RollbackBegan, StepUndone
from flo.model.errors import Conflict
from flows import document, events_of, playing

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
    play = playing(SAGA, *ACTIONS)
    play.start(value={"order": 1})
    play.perform("reserve", {"shelf": 3})
    if charged:
        play.perform("charge", {"id": "p-1"})
    return play


def test_what_was_done_is_undone_in_the_reverse_order_of_completion():
    play = shipped()

    play.fail("ship", "no van")

    (began,) = events_of(play, RollbackBegan)
    assert began.steps == ("charge", "start")
    assert (play.pending("refund"), play.pending("release")) == (1, 0)
    assert play.perform("refund") == {"payment": "p-1", "run": "wfrun-1"}
    assert play.perform("release") == {"shelf": 3}
    assert play.ending() == ("failed", "flo.Failed", "no van")
    assert play.view("wfrun-1").undone == ["charge", "start"]
    assert play.leftovers() == []


def test_the_run_is_not_over_before_everything_is_undone():
    play = shipped()
    play.fail("ship")

    view = play.view("wfrun-1")
    assert (view.status, view.terminal, view.current_step) == ("waiting", "flo.Failed", "charge")
    assert play.explain().summary == "It ends failed, and is being undone first."

    play.restart()
    play.perform("refund")
    play.perform("release")
    assert play.status() == "failed"


def test_a_step_that_did_not_succeed_is_not_undone():
    play = shipped(charged=False)

    play.fail("charge")

    assert play.pending("refund") == 0
    play.perform("release")
    assert play.view("wfrun-1").undone == ["start"]


def test_a_run_that_ends_well_undoes_nothing():
    play = shipped()

    play.perform("ship")

    assert play.status() == "completed"
    assert events_of(play, RollbackBegan) == []


def test_a_run_that_ends_timed_out_is_undone_too():
    play = shipped()

    play.perform("ship", outcome="late")
    play.perform("refund")
    play.perform("release")

    assert play.status() == "timed_out"


def test_a_cancelled_run_is_undone_and_then_cancelled():
    play = shipped()

    play.cancel("wfrun-1", "changed my mind")

    assert play.pending("ship") == 0
    play.perform("refund")
    play.perform("release")
    assert play.ending() == ("cancelled", "flo.Cancelled", "changed my mind")
    assert play.history_pairs()[-1] == ("workflow_cancelled", "changed my mind")
    assert play.leftovers() == []


def test_undoing_is_tried_again_as_its_own_retry_says():
    play = shipped()
    play.fail("ship")

    play.fail("refund")
    play.restart().later(10)
    play.perform("refund")
    play.perform("release")

    assert play.view("wfrun-1").undone == ["charge", "start"]
    assert [one.attempt for one in play.history() if one.type == "rollback_step"] == [1, 2, 1]


def test_what_cannot_be_undone_is_written_down_and_the_rest_is_undone_all_the_same():
    play = shipped()
    play.fail("ship")
    play.fail("refund", "bank is closed")
    play.later(10)
    play.fail("refund", "bank is still closed")

    play.perform("release")

    undone = [(one.step, one.succeeded, one.error) for one in events_of(play, StepUndone)]
    assert undone == [("charge", False, "bank is still closed"), ("start", True, None)]
    assert play.view("wfrun-1").undone == ["start"]
    assert ("rollback_failed", "bank is still closed") in play.history_pairs()
    assert play.status() == "failed"


def test_without_a_retry_of_its_own_undoing_has_some_patience():
    play = shipped(charged=False)
    play.fail("charge")

    for wait in (1_000, 2_000, 4_000, 8_000):
        play.fail("release")
        play.later(wait)
    play.perform("release")

    assert play.view("wfrun-1").undone == ["start"]


def test_a_rollback_whose_action_is_not_there_does_not_hold_the_run_up():
    play = playing(SAGA, "reserve", "charge")
    play.start()
    play.perform("reserve")

    play.fail("charge")

    assert play.status() == "failed"
    assert play.view("wfrun-1").undone == []


def test_a_run_that_is_being_undone_cannot_be_cancelled_or_paused():
    play = shipped()
    play.fail("ship")

    for refused in (play.cancel, play.pause):
        with pytest.raises(Conflict) as refusal:
            refused("wfrun-1")
        assert refusal.value.code == "run_has_ended"


def test_a_paused_run_that_is_cancelled_is_undone():
    play = shipped()
    play.pause("wfrun-1")

    play.cancel("wfrun-1")
    play.perform("refund")
    play.perform("release")

    assert play.status() == "cancelled"


def test_the_history_has_a_ledger_of_what_was_undone():
    play = shipped()
    play.fail("ship")
    play.perform("refund")
    play.perform("release")

    history_pairs = [pair for pair in play.history_pairs() if pair[0].startswith("rollback")]
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
    play = playing(BRANCHES, "left", "right", "last", "unleft", "unright").deploy(UNRIGHT)
    play.start()
    play.perform("right", "r")
    play.perform("left", "l")

    play.fail("last")

    assert play.perform("unleft") == "l"
    play.later()
    assert play.perform("unright") == "r"
    assert play.view("wfrun-1").undone == ["left", "right"]
    assert play.status() == "failed"
    assert play.leftovers() == []


def test_a_branch_that_had_succeeded_is_undone_when_the_other_fails():
    play = playing(BRANCHES, "left", "right", "unleft").deploy(UNRIGHT)
    play.start()
    play.perform("left", "l")

    play.fail("right")

    assert play.perform("unleft") == "l"
    assert play.status() == "failed"


def test_a_step_that_was_done_twice_is_undone_once_with_what_it_did_last():
    text = document(
        """
start:
  run: "@actions/left"
  rollback: "@actions/unleft"
  transitions: {success: start, enough: flo.Failed}
"""
    )
    play = playing(text, "left", "unleft")
    play.start()
    play.perform("left", 1)
    play.perform("left", 2)
    play.perform("left", outcome="enough")

    assert play.pending("unleft") == 1
    play.perform("unleft")
    assert play.status() == "failed"
