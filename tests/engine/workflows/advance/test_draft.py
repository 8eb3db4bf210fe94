"""A draft: in which order its events stand, and whose numbers its runs have."""

import pytest

from flo.engine.runs.events import RunCancelled, RunQueued
from flo.engine.workflows.advance.draft import Draft
from flo.engine.workflows.events import ChildCancelled, StepHeld, StepStarted, WorkflowStarted
from flo.engine.workflows.records import Branch, WorkflowRun
from flo.model.actions import DisableAction
from flo.model.errors import Conflict
from flo.model.runs import Cancel
from flo.model.workflows import MAIN, BranchPhase
from flo.testing.clock import NOON_MS
from flows import one_step, playing
from given import DEFAULT

TEXT = one_step('{run: "@actions/check", transitions: {success: flo.Completed}}')
RESTING = Branch(step="start", phase=BranchPhase.RETRY)
CHILD = WorkflowRun(
    run_id="wfrun-2", number=2, workflow="order", version="1", input=b"", created_at_ms=NOON_MS
)


@pytest.fixture
def play():
    play = playing(TEXT, "check", "ship")
    play.start()
    return play


@pytest.fixture
def draft(play):
    execution = play.space.executions["wfrun-1"]
    return Draft(play.state, DEFAULT, execution, play.context(Cancel(run_id="check-1")))


def test_what_is_started_comes_first_and_what_is_cancelled_last(draft):
    draft.cancel_run("check-1", "not needed")
    draft.cancel_child("wfrun-9")
    draft.hold(MAIN, RESTING)
    draft.start_child(CHILD)
    draft.queue("ship", b"{}")

    kinds = [type(event) for event in draft.events()]
    assert kinds == [RunQueued, WorkflowStarted, StepHeld, RunCancelled, ChildCancelled]


def test_the_next_decision_sees_what_was_emitted_and_the_state_does_not(play, draft):
    draft.start(MAIN, RESTING)

    assert draft.execution.branches[MAIN] == RESTING
    assert play.space.executions["wfrun-1"].branches[MAIN].phase is BranchPhase.ACTION
    assert [type(event) for event in draft.own] == [StepStarted]


def test_each_run_and_each_child_has_a_number_of_its_own(draft):
    assert [draft.queue("check", b""), draft.queue("check", b"")] == ["check-2", "check-3"]
    assert draft.next_child_number() == 2
    draft.start_child(CHILD)
    assert draft.next_child_number() == 3


def test_a_run_that_is_refused_leaves_no_trace(play, draft):
    play.tell(DisableAction(name="ship"))

    with pytest.raises(Conflict):
        draft.queue("ship", b"")

    assert draft.events() == ()


def test_a_run_that_was_queued_in_the_same_draft_can_be_cancelled(play, draft):
    run_id = draft.queue("ship", b"{}")
    draft.cancel_run(run_id, "not needed")

    (queued, cancelled) = draft.events()
    assert queued.run.run_id == cancelled.run_id == "ship-1"
    assert (cancelled.reason, cancelled.worker_id) == ("not needed", None)


def test_the_worker_that_has_a_cancelled_run_is_named(play):
    task = play.claim("check")
    execution = play.space.executions["wfrun-1"]
    draft = Draft(play.state, DEFAULT, execution, play.context(Cancel(run_id=task.task_id)))

    draft.cancel_run(task.task_id, "not needed")

    (cancelled,) = draft.events()
    assert cancelled.worker_id == "anna"


def test_a_run_that_has_ended_is_not_cancelled(draft):
    draft.cancel_run("check-9", "not needed")

    assert draft.events() == ()
