"""Branches beside each other: how they join, and what becomes of those that are not needed."""

import pytest

from flo.engine.runs.events import RunCancelled
from flo.engine.workflows.events import BranchEnded
from flows import document, events_of, workflow_harness


def beside(join, *names, more=""):
    branches = "".join(f'      {name}: "@actions/{name}"\n' for name in names)
    return document(
        f"""
start:
  parallel:
    join: {join}
    branches:
{branches}{more}  transitions: {{success: flo.Completed, failure: flo.Failed}}
"""
    )


ABC = ("a", "b", "c")


def started(join, more=""):
    harness = workflow_harness(beside(join, *ABC, more=more), *ABC)
    harness.start(value={"id": 1})
    return harness


def test_all_branches_begin_together_with_the_input_of_the_run():
    harness = started("all")

    assert [harness.pending(name) for name in ABC] == [1, 1, 1]
    assert harness.perform("b") == {"id": 1}
    assert {wait.branch for wait in harness.view("wfrun-1").waits} == {"", "start/a", "start/c"}


def test_join_all_waits_for_every_branch_and_puts_their_outputs_together():
    harness = started("all")
    for name in ("c", "a"):
        harness.perform(name, name.upper())
        assert harness.status() == "waiting"

    harness.perform("b", "B")

    assert harness.status() == "completed"
    assert harness.output() == {"a": "A", "b": "B", "c": "C"}


def test_join_all_fails_with_the_first_failure_and_cancels_the_others():
    harness = started("all")
    harness.claim("a")

    harness.fail("b")

    assert harness.status() == "failed"
    cancelled = [event.run_id for event in events_of(harness, RunCancelled)]
    assert cancelled == ["a-1", "c-1"]
    assert harness.leftovers() == []


def test_join_any_goes_on_with_the_first_success_and_cancels_the_others():
    harness = started("any")
    harness.fail("a")
    assert harness.status() == "waiting"

    harness.perform("b", "B")

    assert harness.status() == "completed"
    assert harness.output() == {"a": None, "b": "B", "c": None}
    assert harness.leftovers() == []


def test_join_any_fails_when_the_last_branch_has():
    harness = started("any")
    for name in ABC:
        assert harness.status() == "waiting"
        harness.fail(name)

    assert harness.status() == "failed"


@pytest.mark.parametrize(
    ("results", "status"),
    [
        (["success", "success"], "completed"),
        (["success", "failure", "success"], "completed"),
        (["failure", "success", "success"], "completed"),
        (["failure", "failure"], "failed"),
        (["success", "failure", "failure"], "failed"),
    ],
)
def test_a_count_is_decided_as_soon_as_it_can_be(results, status):
    harness = started("2")
    for name, outcome in zip(ABC, results, strict=False):
        assert harness.status() == "waiting"
        harness.perform(name, outcome=outcome)

    assert harness.status() == status
    assert harness.leftovers() == []


def test_a_branch_whose_target_is_not_there_fails_at_once():
    text = beside("any", "a", more='      nobody: "@actions/nobody"\n')
    harness = workflow_harness(text, "a")
    harness.start()
    assert harness.status() == "waiting"

    harness.perform("a")

    assert harness.status() == "completed"
    ends = {event.branch: event.succeeded for event in events_of(harness, BranchEnded)}
    assert ends == {"start/nobody": False, "start/a": True}


def test_when_the_first_branch_decides_at_once_nothing_of_the_others_is_left():
    text = beside("all", "nobody", "a", "b")
    harness = workflow_harness(text, "a", "b")

    harness.start()

    assert harness.status() == "failed"
    assert harness.leftovers() == []


GRAPHS = document(
    """
start:
  parallel:
    branches:
      email: "@actions/email"
      payment:
        start: {run: "@actions/authorize", transitions: {success: capture, failure: flo.Failed}}
        steps:
          capture:
            run: "@actions/capture"
            inputMapping: {auth: $.steps.payment.output}
            retry: {max_attempts: 2, initial_delay_ms: 10}
            transitions: {success: nap, failure: flo.Failed}
          nap: {sleep: 1s, transitions: {success: flo.Completed}}
  transitions: {success: ship, failure: flo.Failed}
steps:
  ship:
    run: "@actions/ship"
    inputMapping: {captured: $.steps.capture.output, all: $.steps.start.output}
    transitions: {success: flo.Completed}
"""
)


def test_a_branch_is_a_graph_of_its_own_with_retries_and_waits():
    harness = workflow_harness(GRAPHS, "email", "authorize", "capture", "ship")
    harness.start()
    harness.perform("authorize", "auth-7")
    harness.restart()
    harness.perform("email", "sent")
    harness.fail("capture")
    harness.later(10)
    assert harness.perform("capture", "got it") == {"auth": "auth-7"}
    assert harness.status() == "waiting"
    harness.later(1_000)

    given = harness.perform("ship")

    assert given == {"captured": "got it", "all": {"email": "sent", "payment": None}}
    assert harness.status() == "completed"


def test_branches_are_told_of_in_the_history():
    harness = started("any")
    harness.fail("a")
    harness.perform("b")

    history_pairs = harness.history_pairs()
    assert ("branch_started", "start/c") in history_pairs
    assert ("branch_failed", "start/a") in history_pairs
    assert ("branch_completed", "start/b") in history_pairs


def test_two_branches_that_wake_at_the_same_time_both_do():
    text = document(
        """
start:
  parallel:
    branches:
      one: {sleep: 1s, transitions: {success: flo.Completed}}
      two: {sleep: 1s, transitions: {success: flo.Completed}}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
    )
    harness = workflow_harness(text)
    harness.start()

    harness.later(1_000)

    assert harness.status() == "completed"


def test_a_child_in_a_branch_that_is_not_needed_is_cancelled_too():
    text = beside("any", "a", more='      kid: "@workflow/kid"\n')
    kid = document('start: {run: "@actions/b", transitions: {success: flo.Completed}}', name="kid")
    harness = workflow_harness(text, "a", "b").deploy(kid)
    harness.start()
    harness.later()
    assert harness.status("wfrun-2") == "waiting"

    harness.perform("a")

    assert (harness.status(), harness.status("wfrun-2")) == ("completed", "cancelled")
    assert harness.leftovers() == []


def test_a_step_of_branches_may_be_come_to_again():
    text = document(
        """
start:
  parallel: {join: all, branches: {a: "@actions/a", b: "@actions/b"}}
  transitions: {success: flo.Completed, failure: start}
"""
    )
    harness = workflow_harness(text, "a", "b")
    harness.start()
    harness.fail("a")
    assert [harness.pending("a"), harness.pending("b")] == [1, 1]

    harness.perform("a")
    harness.perform("b")

    assert harness.status() == "completed"
    assert harness.leftovers() == []


def test_a_second_round_shows_nothing_of_the_first():
    text = document(
        """
start:
  parallel: {join: any, branches: {fast: "@actions/fast", slow: "@actions/slow"}}
  transitions: {success: more, failure: flo.Failed}
steps:
  more: {run: "@actions/more", transitions: {success: start, done: flo.Completed}}
"""
    )
    harness = workflow_harness(text, "fast", "slow", "more")
    harness.start()
    harness.perform("fast", 1)
    assert harness.step_output("start") == {"fast": 1, "slow": None}
    assert harness.restart().space.executions["wfrun-1"].outputs == {}
    harness.perform("more")

    harness.perform("slow", 2)

    assert harness.step_output("start") == {"fast": None, "slow": 2}
    assert harness.space.executions["wfrun-1"].outputs == {}
