"""Steps: outcomes, transitions, endings, inputs."""

import json

import pytest

from flo.engine.runs.events import RunQueued
from flo.engine.ticks import Tick
from flo.engine.workflows.advance.steps import ADVANCE_STEPS_MAX
from flo.engine.workflows.events import (
    ActionEnded,
    BranchClosed,
    StepEnded,
    StepStarted,
    WorkflowFinished,
    WorkflowStarted,
)
from flo.model.actions import DisableAction, RegisterAction
from flo.model.runs import Cancel, Fail
from flo.model.workers import DeregisterWorker, RegisterWorker
from flo.model.workflows import BranchPhase, CreateWorkflow, GetWorkflowRun, StartWorkflow
from flo.testing.clock import NOON_MS
from flows import WorkflowHarness, document, events_of, one_step, workflow_harness
from given import ANNA, DEFAULT, Later

ORDER = document(
    """
start:
  run: "@actions/check"
  transitions: {success: ship, failure: flo.Failed}
steps:
  ship:
    run: "@actions/ship"
    transitions: {success: flo.Completed, failure: flo.Failed}
"""
)


def branching(transitions):
    """A run whose only step may lead to many places."""
    goals = "\n".join(
        f"  at_{name}: {{run: '@actions/rest', transitions: {{success: flo.Completed}}}}"
        for name in dict.fromkeys(transitions)
    )
    table = ", ".join(f"{name}: at_{name}" for name in transitions)
    head = f"start: {{run: '@actions/check', transitions: {{{table}}}}}"
    return document(f"{head}\nsteps:\n{goals}\n")


def test_a_start_begins_the_first_step_and_queues_its_action():
    harness = workflow_harness(ORDER, "check", "ship")

    harness.start(value={"id": 7})

    started, queued, begun = harness.events[-3:]
    assert isinstance(started, WorkflowStarted)
    assert isinstance(queued, RunQueued)
    assert (queued.run.run_id, queued.run.input) == ("check-1", b'{"id": 7}')
    assert isinstance(begun, StepStarted)
    assert (begun.branch, begun.now.step, begun.now.phase) == ("", "start", BranchPhase.ACTION)
    assert (begun.now.awaited, begun.detail, begun.at_ms) == ("check-1", "check", NOON_MS)


def test_the_end_of_an_action_carries_the_run_to_its_next_step_in_one_commit():
    harness = workflow_harness(ORDER, "check", "ship")
    harness.start()
    task = harness.claim("check")

    events = harness.complete(task.task_id, {"ok": True}).events

    kinds = [type(event).__name__ for event in events]
    assert kinds == ["RunCompleted", "ActionEnded", "StepEnded", "RunQueued", "StepStarted"]
    (ended,) = [event for event in events if isinstance(event, StepEnded)]
    assert (ended.step, ended.outcome, ended.output) == ("start", "success", b'{"ok": true}')


def test_a_run_ends_at_a_terminal_and_leaves_nothing_behind():
    harness = workflow_harness(ORDER, "check", "ship")
    harness.start()
    harness.perform("check")

    harness.perform("ship", {"parcel": 1})

    assert harness.ending() == ("completed", "flo.Completed", None)
    assert harness.output() == {"parcel": 1}
    assert harness.leftovers() == []


def test_the_output_of_a_run_is_that_of_the_step_that_ended_last_not_of_the_first():
    harness = workflow_harness(ORDER, "check", "ship")
    harness.start()
    harness.perform("check", "checked")
    harness.restart()
    harness.perform("ship", "shipped")

    assert harness.output() == "shipped"


def test_the_output_may_be_put_together_from_all_that_is_known():
    text = document(
        """
start: {run: "@actions/check", transitions: {success: flo.Completed}}
output: {total: $.steps.start.output.total, for: $.input.customer, run: $.flo.run_id}
"""
    )
    harness = workflow_harness(text, "check")
    harness.start(value={"customer": "c"})

    harness.perform("check", {"total": 12})

    assert harness.output() == {"total": 12, "for": "c", "run": "wfrun-1"}


@pytest.mark.parametrize("outcome", ["success", "failure", "timeout", "pending", "needs_review"])
def test_a_business_outcome_leads_where_it_says_exactly(outcome):
    harness = workflow_harness(
        branching(["success", "failure", "timeout", "pending", "needs_review"]), "check"
    )
    harness.register("rest")
    harness.start()

    harness.perform("check", outcome=outcome)

    assert harness.view("wfrun-1").current_step == f"at_{outcome}"


@pytest.mark.parametrize("outcome", ["timeout", "pending", "needs_review", "target_not_foundx"])
def test_an_outcome_without_a_transition_fails_the_run_and_names_step_and_outcome(outcome):
    harness = workflow_harness(branching(["success", "failure"]), "check", "rest")
    harness.start()

    harness.perform("check", outcome=outcome)

    status, terminal, error = harness.ending()
    assert (status, terminal) == ("failed", "flo.Failed")
    assert error == f"no transition for outcome {outcome!r} of step 'start'"


def test_the_error_of_an_action_is_told_when_nothing_is_said_about_its_failure():
    harness = workflow_harness(
        one_step('{run: "@actions/check", transitions: {success: flo.Completed}}')
    )
    harness.register("check")
    harness.start()

    harness.fail("check", "the card is lost")

    assert harness.ending()[2].endswith("of step 'start': the card is lost")


@pytest.mark.parametrize(
    ("transitions", "goal"),
    [
        (["target_not_found", "execution_failure", "failure"], "at_target_not_found"),
        (["execution_failure", "failure"], "at_execution_failure"),
        (["failure"], "at_failure"),
    ],
)
def test_an_action_that_does_not_exist_falls_back_along_the_chain(transitions, goal):
    harness = workflow_harness(branching(transitions)).register("rest")

    harness.start()

    assert harness.view("wfrun-1").current_step == goal
    assert harness.outcomes() == {"start": "target_not_found"}
    assert "action_not_found" in harness.kinds()


@pytest.mark.parametrize(
    ("transitions", "goal"),
    [
        (["target_disabled", "execution_failure", "failure"], "at_target_disabled"),
        (["execution_failure", "failure", "target_not_found"], "at_execution_failure"),
        (["failure", "target_not_found"], "at_failure"),
    ],
)
def test_an_action_that_is_disabled_falls_back_along_the_chain(transitions, goal):
    harness = workflow_harness(branching(transitions), "check", "rest")
    harness.execute(DisableAction(name="check"))

    harness.start()

    assert harness.view("wfrun-1").current_step == goal
    assert "action_disabled" in harness.kinds()


def test_an_input_that_the_action_refuses_is_an_execution_failure():
    harness = workflow_harness(branching(["execution_failure", "failure"])).register("rest")
    harness.execute(RegisterAction(name="check", input_schema={"required": ["id"]}))

    harness.start(value={})

    assert harness.view("wfrun-1").current_step == "at_execution_failure"


def test_an_outcome_of_the_runtime_without_any_transition_of_its_chain_fails_the_run():
    harness = workflow_harness(branching(["success"])).register("rest")

    harness.start()

    assert "no transition for outcome 'target_not_found' of step 'start'" in harness.ending()[2]


def test_a_lease_that_runs_out_is_the_outcome_timeout():
    harness = workflow_harness(branching(["success", "timeout"])).register("rest")
    harness.register("check", timeout_ms=1_000)
    harness.start()
    harness.claim("check")

    harness.later(1_000)

    assert harness.view("wfrun-1").current_step == "at_timeout"


def test_an_action_that_is_cancelled_by_hand_is_a_failure():
    harness = workflow_harness(branching(["success", "failure"]), "check", "rest")
    harness.start()

    harness.execute(Cancel(run_id="check-1", reason="not today"))

    assert harness.view("wfrun-1").current_step == "at_failure"
    (ended,) = events_of(harness, ActionEnded)
    assert ended.error == "cancelled: not today"


def test_the_retries_of_the_action_come_first_and_the_step_hears_of_the_last():
    harness = workflow_harness(branching(["success", "failure"])).register("rest")
    harness.register("check", max_retries=1, retry_delay_ms=0)
    harness.start()
    task = harness.claim("check")
    harness.execute(fail(task, retry=True))
    assert harness.view("wfrun-1").current_step == "start"

    harness.fail("check")

    assert harness.view("wfrun-1").current_step == "at_failure"


def fail(task, **fields):
    return Fail(run_id=task.task_id, worker_id=ANNA, error="no", **fields)


@pytest.mark.parametrize(
    ("terminal", "status"),
    [
        ("flo.Completed", "completed"),
        ("flo.Failed", "failed"),
        ("flo.Cancelled", "cancelled"),
        ("flo.TimedOut", "timed_out"),
        ("Shipped", "completed"),
        ("Fraud", "failed"),
        ("Late", "timed_out"),
    ],
)
def test_a_terminal_gives_the_run_its_status_and_stands_in_the_history(terminal, status):
    more = (
        "terminals: {Shipped: {status: completed}, Fraud: {status: failed}, "
        "Late: {status: timed_out}}\n"
    )
    step = f'{{run: "@actions/check", transitions: {{success: {terminal}}}}}'
    harness = workflow_harness(one_step(step, more=more), "check")
    harness.start()

    harness.perform("check")

    assert harness.ending()[:2] == (status, terminal)
    assert harness.kinds()[-1] == f"workflow_{status}"
    if status != "cancelled":
        assert harness.history_pairs()[-1][1].startswith(terminal)


def test_every_path_of_the_seed_finds_its_way_into_an_input():
    mapping = {
        "all": "$.input",
        "deep": "$.input.a.b",
        "out": "$.steps.start.output",
        "part": "$.steps._start.output.id",
        "how": "$.steps.start.outcome",
        "run": "$.flo.run_id",
        "at": "$.flo.timestamp",
        "missing": "$.input.nowhere.at.all",
        "plain": "text",
        "number": 5,
        "nested": {"list": ["$.input.a.b", 1]},
    }
    text = document(
        f"""
start: {{run: "@actions/check", transitions: {{success: ship}}}}
steps:
  ship:
    run: "@actions/ship"
    inputMapping: '{json.dumps(mapping)}'
    transitions: {{success: flo.Completed}}
"""
    )
    harness = workflow_harness(text, "check", "ship")
    harness.start(value={"a": {"b": 3}})
    harness.perform("check", {"id": "x"})
    harness.later(5)

    assert harness.perform("ship") == {
        "all": {"a": {"b": 3}},
        "deep": 3,
        "out": {"id": "x"},
        "part": "x",
        "how": "success",
        "run": "wfrun-1",
        "at": NOON_MS,
        "missing": None,
        "plain": "text",
        "number": 5,
        "nested": {"list": [3, 1]},
    }


def test_without_a_mapping_every_step_is_given_the_input_of_the_run():
    harness = workflow_harness(ORDER, "check", "ship")
    harness.start(value={"id": 7})

    assert harness.perform("check", "other") == {"id": 7}
    assert harness.perform("ship") == {"id": 7}


@pytest.mark.parametrize("depth", [*range(100, 1_100, 100), *range(900, 1_000, 5), 5_000, 50_000])
def test_an_input_nested_however_deep_does_no_harm(depth):
    text = one_step(
        '{run: "@actions/check", inputMapping: {a: {b: $.input}}, '
        "transitions: {success: flo.Completed, failure: flo.Failed}}"
    )
    harness = workflow_harness(text, "check")

    harness.execute(StartWorkflow(name="order", input=b"[" * depth + b"]" * depth))

    if harness.pending("check"):
        harness.complete(harness.claim("check").task_id)
    assert harness.leftovers() == []


def test_steps_that_never_wait_come_to_an_end():
    text = document(
        """
start: {run: "@actions/nobody", transitions: {failure: again}}
steps:
  again: {run: "@actions/nobody", transitions: {failure: again}}
"""
    )
    harness = workflow_harness(text)

    harness.start()

    status, _, error = harness.ending()
    assert status == "failed"
    assert error.startswith(f"{ADVANCE_STEPS_MAX} steps without a wait")
    assert len(harness.steps()) == ADVANCE_STEPS_MAX
    assert harness.leftovers() == []


def test_sleeps_of_no_length_are_no_waits():
    text = document(
        """
start: {sleep: 0, transitions: {success: again}}
steps:
  again: {sleep: 0, transitions: {success: again}}
"""
    )
    harness = workflow_harness(text)
    harness.start()

    harness.later()

    assert "steps without a wait" in harness.ending()[2]


def test_a_loop_that_waits_for_its_action_may_go_on_for_ever_even_if_the_clock_stands_still():
    text = document(
        """
start: {run: "@actions/check", transitions: {success: again}}
steps:
  again: {run: "@actions/check", transitions: {success: again, done: flo.Completed}}
"""
    )
    harness = workflow_harness(text, "check")
    harness.start()

    for _ in range(2 * ADVANCE_STEPS_MAX):
        harness.perform("check")
    harness.perform("check", outcome="done")

    assert harness.status() == "completed"


def test_two_runs_that_wake_in_the_same_tick_do_not_get_in_each_others_way():
    text = document(
        """
start: {sleep: 1s, transitions: {success: ship}}
steps:
  ship: {run: "@actions/ship", transitions: {success: flo.Completed}}
"""
    )
    harness = workflow_harness(text, "ship")
    runs = [harness.start() for _ in range(3)]

    events = harness.execute(Later(1_000), Tick()).events

    queued = [event.run.run_id for event in events if isinstance(event, RunQueued)]
    assert queued == ["ship-1", "ship-2", "ship-3"]
    for run_id in runs:
        harness.perform("ship")
        assert harness.status(run_id) == "completed"


BOTH = document(
    """
start:
  parallel: {branches: {left: "@actions/left", right: "@actions/right"}}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
)


def test_two_leases_that_end_in_the_same_tick_end_a_run_once():
    harness = workflow_harness(BOTH).register("left", "right", timeout_ms=1_000)
    harness.start()
    harness.claim("left")
    harness.claim("right")

    harness.execute(Later(1_000), Tick())

    assert harness.status() == "failed"
    assert len(events_of(harness, WorkflowFinished)) == 1
    assert harness.leftovers() == []


def test_a_worker_that_leaves_with_two_actions_of_a_run_ends_it_once():
    harness = workflow_harness(BOTH, "left", "right")
    harness.execute(RegisterWorker(worker_id=ANNA, processes=["left", "right"]))
    harness.start()
    harness.claim("left")
    harness.claim("right")

    harness.execute(DeregisterWorker(worker_id=ANNA))

    assert harness.status() == "failed"
    assert harness.leftovers() == []


def test_a_run_that_ends_at_once_leaves_its_numbers_to_nobody_else():
    """A branch is queued and called off as its run fails, and the parent queues the same action."""
    child = document(
        """
start:
  parallel: {branches: {left: "@actions/left", right: "@actions/nobody"}}
  transitions: {failure: flo.Failed}
""",
        name="child",
    )
    parent = document(
        """
start: {run: "@workflow/child", transitions: {failure: left}}
steps:
  left: {run: "@actions/left", transitions: {success: flo.Completed}}
"""
    )
    harness = workflow_harness(child, "left").deploy(parent)
    harness.start()

    harness.later()
    harness.perform("left")

    assert harness.status() == "completed"
    assert harness.leftovers() == []


def test_whatever_a_run_waits_for_is_closed_before_it_ends():
    harness = workflow_harness(BOTH, "left", "right")
    harness.start()

    harness.fail("left")

    closed = [event.branch for event in events_of(harness, BranchClosed)]
    assert closed == ["start/right", ""]
    assert harness.space.awaited == {}
    assert harness.pending("right") == 0


def test_a_namespace_has_runs_of_its_own():
    harness = WorkflowHarness()
    harness.execute(CreateWorkflow(text=ORDER, namespace="prod"))
    harness.execute(RegisterAction(name="check", namespace="prod"))
    run_id = harness.execute(StartWorkflow(name="order", namespace="prod")).reply.run_id

    assert run_id == "wfrun-1"
    assert harness.query(GetWorkflowRun(run_id=run_id, namespace="prod")).status == "waiting"
    assert not harness.state.space(DEFAULT).executions
