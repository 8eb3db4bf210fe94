"""The moves of an advance: who makes them, in which order, and that each sees what came before."""

from typing import get_args

import pytest

from flo.engine.runs.events import RunCancelled, RunQueued
from flo.engine.ticks import Tick
from flo.engine.workflows.advance.base import Advance, Refused
from flo.engine.workflows.advance.moves import Close, EnterStep, Finish, Move, OpenItems
from flo.engine.workflows.advance.stepper import PARTS, carry_out
from flo.engine.workflows.advance.wakes import cancel
from flo.engine.workflows.events import BranchClosed, StepStarted, WorkflowFinished, WorkflowStarted
from flo.engine.workflows.records import CANCELLED
from flo.model.actions import DisableAction
from flo.model.runs import Cancel
from flo.model.workflows import MAIN, BranchPhase, CancelWorkflow, WorkflowStatus
from flo.workflow.outcome import StepError
from flows import document, events_of, one_step, workflow_harness
from given import DEFAULT

TEXT = one_step('{run: "@actions/check", transitions: {success: flo.Completed}}')
PAIR = """
start:
  parallel: {branches: {one: "%s", other: "%s"}}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""


@pytest.fixture
def harness():
    harness = workflow_harness(TEXT, "check", "ship")
    harness.start()
    return harness


@pytest.fixture
def advance(harness):
    execution = harness.space.executions["wfrun-1"]
    return Advance(harness.state, DEFAULT, execution, harness.context(Cancel(run_id="check-1")))


def kinds(events):
    return [type(event) for event in events]


def test_every_move_has_a_part_that_makes_it():
    assert {*PARTS, EnterStep} == set(get_args(Move))


def test_a_part_returns_what_follows_and_changes_nothing(harness, advance):
    (finish,) = cancel(advance, "not needed")
    why = StepError(message="not needed", code="cancelled")
    assert finish == Finish(WorkflowStatus.CANCELLED, CANCELLED, why)

    closing, finished = PARTS[Finish](advance, finish)

    assert closing == Close(MAIN)
    assert isinstance(finished, WorkflowFinished)
    assert harness.space.executions["wfrun-1"].branches[MAIN].phase is BranchPhase.ACTION


def test_the_next_move_is_made_when_the_event_before_it_is_folded(harness, advance):
    coming = carry_out(advance, cancel(advance, "not needed"))

    assert isinstance(next(coming), BranchClosed)
    assert MAIN in advance.execution.branches  # the event is yet to be folded, by whoever asked


def test_what_nobody_waits_for_is_cancelled_before_the_execution_ends(harness):
    events = harness.execute(CancelWorkflow(run_id="wfrun-1")).events

    assert kinds(events) == [BranchClosed, RunCancelled, WorkflowFinished]


def test_each_run_and_each_child_has_a_number_of_its_own():
    harness = workflow_harness(document(PAIR % ("@actions/check", "@actions/check")), "check")
    harness.deploy(document(PAIR % ("@workflow/order", "@workflow/order"), name="outer"))
    harness.start("outer")
    harness.execute(Tick())

    queued_ids = [event.run.run_id for event in events_of(harness, RunQueued)]
    assert queued_ids == ["check-1", "check-2", "check-3", "check-4"]
    started = [event.run.run_id for event in events_of(harness, WorkflowStarted)]
    assert started == ["wfrun-1", "wfrun-2", "wfrun-3"]


def test_all_branches_are_open_before_the_first_of_them_begins():
    harness = workflow_harness(document(PAIR % ("@actions/check", "@actions/check")), "check")

    harness.start()

    names = [type(event).__name__ for event in harness.events[-7:]]
    assert names == [
        "StepStarted",
        *["BranchOpened"] * 2,
        *["RunQueued", "StepStarted"] * 2,
    ]


def test_a_run_that_is_refused_leaves_no_trace(harness, advance):
    harness.execute(DisableAction(name="ship"))

    refused = advance.queued(MAIN, advance.execution.branches[MAIN], "ship", b"")

    assert isinstance(refused, Refused)
    assert refused.outcome == "target_disabled"
    assert harness.space.numbers.get("ship", 0) == 0


def test_a_run_that_was_queued_in_the_same_advance_can_be_cancelled():
    harness = workflow_harness(document(PAIR % ("@actions/check", "@actions/gone")), "check")

    harness.start()

    (run,), (cancelled,) = events_of(harness, RunQueued), events_of(harness, RunCancelled)
    assert run.run.run_id == cancelled.run_id == "check-1"
    assert (cancelled.reason, cancelled.worker_id) == ("its workflow run wfrun-1 moved on", None)
    assert harness.ending()[0] == "failed"


def test_the_worker_that_has_a_cancelled_run_is_named(harness, advance):
    task = harness.claim("check")

    (cancelled,) = advance.cancelled(task.task_id, "not needed")

    assert (cancelled.worker_id, cancelled.reason) == ("anna", "not needed")


def test_a_run_that_has_ended_is_not_cancelled(advance):
    assert advance.cancelled("check-9", "not needed") == ()


def test_items_of_a_step_that_is_no_longer_waited_for_are_not_opened(advance):
    assert PARTS[OpenItems](advance, OpenItems(MAIN, "start")) == ()
    assert PARTS[OpenItems](advance, OpenItems("start/0", "start")) == ()


def test_a_branch_that_was_closed_meanwhile_enters_nothing(advance):
    assert [*carry_out(advance, [EnterStep("start/one", "one")])] == []
    assert kinds(carry_out(advance, [EnterStep(MAIN, "start")])) == [RunQueued, StepStarted]
