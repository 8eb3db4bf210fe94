"""Children: what their ends mean to their parents, which version they are, how deep they go."""

import pytest

from flo.engine.runs.events import RunQueued
from flo.engine.ticks import Tick
from flo.engine.workflows.advance.base import DEPTH_MAX
from flo.engine.workflows.events import WorkflowFinished, WorkflowStarted
from flo.model.workflows import DeleteWorkflow, DisableWorkflow, StartWorkflow
from flows import document, events_of, one_step, workflow_harness


def parent(transitions="success: flo.Completed, failure: flo.Failed", target="child", more=""):
    return one_step(f'{{run: "@workflow/{target}"{more}, transitions: {{{transitions}}}}}')


def child(terminal="flo.Completed", version="1", action="work"):
    step = f'{{run: "@actions/{action}", transitions: {{success: {terminal}}}}}'
    return one_step(step, name="child", version=version)


def begun(*texts):
    harness = workflow_harness(texts[0], "work", "other").deploy(*texts[1:])
    harness.start(value={"id": 7})
    return harness


def test_a_child_is_a_run_of_its_own_that_knows_its_parent():
    harness = begun(child(), parent())

    view = harness.view("wfrun-2")

    assert (view.workflow, view.parent, view.triggered_by) == ("child", "wfrun-1", "parent")
    assert harness.view("wfrun-1").waits[0].awaited == "wfrun-2"
    assert harness.history_pairs("wfrun-1")[-1] == ("awaiting_child", "child")


def test_a_child_is_set_in_motion_with_the_next_tick():
    harness = begun(child(), parent())
    assert (harness.status("wfrun-2"), harness.pending("work")) == ("pending", 0)

    harness.restart().execute(Tick())

    assert (harness.status("wfrun-2"), harness.pending("work")) == ("waiting", 1)


def test_the_output_of_a_child_is_the_output_of_its_step():
    harness = begun(child(), parent())
    harness.later()

    assert harness.perform("work", {"ok": 1}) == {"id": 7}

    assert harness.status() == "completed"
    assert harness.output() == {"ok": 1}
    assert ("child_completed", "success") in harness.history_pairs()
    assert harness.leftovers() == []


def test_the_input_of_a_child_may_be_mapped():
    harness = begun(child(), parent(more=", inputMapping: {order: $.input.id}"))
    harness.later()

    assert harness.perform("work") == {"order": 7}


TIMEOUT_TOO = "success: flo.Completed, failure: flo.Failed, timeout: flo.TimedOut"


@pytest.mark.parametrize(
    ("terminal", "transitions", "outcome"),
    [
        ("flo.Completed", TIMEOUT_TOO, "success"),
        ("flo.Failed", TIMEOUT_TOO, "failure"),
        ("flo.Cancelled", TIMEOUT_TOO, "failure"),
        ("flo.TimedOut", TIMEOUT_TOO, "timeout"),
        ("flo.TimedOut", "success: flo.Completed, failure: flo.Failed", "failure"),
    ],
)
def test_the_end_of_a_child_is_an_outcome_of_its_parent(terminal, transitions, outcome):
    harness = begun(child(terminal), parent(transitions))
    harness.later()

    harness.perform("work")

    assert harness.outcomes() == {"start": outcome}
    assert harness.leftovers() == []


def test_the_error_of_a_child_is_that_of_its_step():
    harness = begun(child(), parent())
    harness.later()

    harness.fail("work", "no stock")

    assert "no stock" in harness.ending()[2]


def test_a_child_of_no_version_is_the_latest_at_its_start_and_stays_so():
    harness = begun(child(version="1"), child(version="2", action="other"), parent())
    harness.deploy(child(version="3"))
    harness.later()

    assert harness.view("wfrun-2").version == "2"
    assert harness.pending("other") == 1


def test_a_child_of_a_version_is_of_that_one():
    harness = begun(child(version="1"), child(version="2"), parent(target="child:1"))

    assert harness.view("wfrun-2").version == "1"


def test_a_version_that_is_not_deployed_is_a_target_that_is_not_there():
    harness = begun(child(), parent("target_not_found: flo.TimedOut", target="child:9"))

    assert harness.status() == "timed_out"
    assert ("child_not_found", "child") in harness.history_pairs()


@pytest.mark.parametrize("version", [None, "1"])
def test_a_child_that_is_disabled_is_a_target_that_is_disabled(version):
    harness = workflow_harness(child()).deploy(parent("target_disabled: flo.TimedOut"))
    harness.execute(DisableWorkflow(name="child", version=version))

    harness.start()

    assert harness.status() == "timed_out"
    assert "child_disabled" in harness.kinds()


def test_a_child_goes_on_when_its_workflow_is_deleted_meanwhile():
    harness = begun(child(), parent())
    harness.execute(DeleteWorkflow(name="child"))
    harness.restart().later()

    harness.perform("work")

    assert harness.status() == "completed"
    assert "child" not in harness.space.workflows
    assert harness.leftovers() == []


def test_children_of_children_end_somewhere():
    endless = one_step(
        '{run: "@workflow/order", transitions: {success: flo.Completed, failure: flo.Failed}}'
    )
    harness = workflow_harness(endless)
    harness.start()

    harness.later()

    ends = events_of(harness, WorkflowFinished)
    assert len(ends) == DEPTH_MAX + 1
    assert f"children are {DEPTH_MAX} deep" in ends[0].ending.error
    assert harness.status() == "failed"
    assert harness.leftovers() == []


def test_a_child_with_an_input_that_has_grown_too_large_is_not_started(monkeypatch):
    monkeypatch.setattr("flo.engine.workflows.advance.scope.PAYLOAD_LENGTH_MAX", 200)
    doubling = one_step(
        '{run: "@workflow/order", inputMapping: {a: $.input, b: $.input}, '
        "transitions: {success: flo.Completed, failure: flo.Failed}}"
    )
    harness = workflow_harness(doubling)
    harness.start(value="xxxxx")

    harness.later()

    assert harness.status() == "failed"
    assert len(events_of(harness, WorkflowStarted)) < 8


def test_parents_that_start_children_in_the_same_tick_get_numbers_of_their_own():
    sleepy = document(
        """
start: {sleep: 1s, transitions: {success: kid}}
steps:
  kid: {run: "@workflow/child", transitions: {success: flo.Completed}}
"""
    )
    harness = workflow_harness(child(), "work").deploy(sleepy)
    for _ in range(3):
        harness.start()

    harness.later(1_000)

    numbers = [event.run.number for event in events_of(harness, WorkflowStarted)]
    assert numbers == [1, 2, 3, 4, 5, 6]
    assert len(events_of(harness, RunQueued)) == 3
    for _ in range(3):
        harness.perform("work")
    assert harness.leftovers() == []


def test_a_parent_may_start_its_child_again():
    harness = begun(child(), parent(more=", retry: {max_attempts: 2, initial_delay_ms: 5}"))
    harness.later()
    harness.fail("work")
    harness.later(5)

    harness.perform("work")

    assert (harness.status("wfrun-2"), harness.status("wfrun-3")) == ("failed", "completed")
    assert harness.status() == "completed"


def test_a_parent_goes_on_after_a_restart():
    harness = begun(child(), parent())
    harness.later()
    harness.restart()

    harness.perform("work")

    assert harness.status() == "completed"


def test_the_idempotency_of_a_child_is_not_asked_for():
    needy = one_step(
        '{run: "@actions/work", transitions: {success: flo.Completed}}',
        name="child",
        more="idempotency: required\n",
    )
    harness = begun(needy, parent())
    harness.later()

    harness.perform("work")

    assert harness.status() == "completed"
    assert (
        harness.execute(StartWorkflow(name="child", idempotency_key="k")).reply.run_id == "wfrun-3"
    )
