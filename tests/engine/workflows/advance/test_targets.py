"""Children: what their ends mean to their parents, which version they are, how deep they go."""

import pytest

from flo.engine.runs.events import RunQueued
from flo.engine.ticks import Tick
from flo.engine.workflows.advance.targets import DEPTH_MAX
from flo.engine.workflows.events import WorkflowFinished, WorkflowStarted
from flo.model.workflows import DeleteWorkflow, DisableWorkflow, StartWorkflow
from flows import document, events_of, one_step, playing


def parent(transitions="success: flo.Completed, failure: flo.Failed", target="child", more=""):
    return one_step(f'{{run: "@workflow/{target}"{more}, transitions: {{{transitions}}}}}')


def child(terminal="flo.Completed", version="1", action="work"):
    step = f'{{run: "@actions/{action}", transitions: {{success: {terminal}}}}}'
    return one_step(step, name="child", version=version)


def begun(*texts):
    play = playing(texts[0], "work", "other").deploy(*texts[1:])
    play.start(value={"id": 7})
    return play


def test_a_child_is_a_run_of_its_own_that_knows_its_parent():
    play = begun(child(), parent())

    view = play.view("wfrun-2")

    assert (view.workflow, view.parent, view.triggered_by) == ("child", "wfrun-1", "parent")
    assert play.view("wfrun-1").waits[0].awaited == "wfrun-2"
    assert play.history_pairs("wfrun-1")[-1] == ("awaiting_child", "child")


def test_a_child_is_set_in_motion_with_the_next_tick():
    play = begun(child(), parent())
    assert (play.status("wfrun-2"), play.pending("work")) == ("pending", 0)

    play.restart().tell(Tick())

    assert (play.status("wfrun-2"), play.pending("work")) == ("waiting", 1)


def test_the_output_of_a_child_is_the_output_of_its_step():
    play = begun(child(), parent())
    play.later()

    assert play.perform("work", {"ok": 1}) == {"id": 7}

    assert play.status() == "completed"
    assert play.output() == {"ok": 1}
    assert ("child_completed", "success") in play.history_pairs()
    assert play.leftovers() == []


def test_the_input_of_a_child_may_be_mapped():
    play = begun(child(), parent(more=", inputMapping: {order: $.input.id}"))
    play.later()

    assert play.perform("work") == {"order": 7}


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
    play = begun(child(terminal), parent(transitions))
    play.later()

    play.perform("work")

    assert play.outcomes() == {"start": outcome}
    assert play.leftovers() == []


def test_the_error_of_a_child_is_that_of_its_step():
    play = begun(child(), parent())
    play.later()

    play.fail("work", "no stock")

    assert "no stock" in play.ending()[2]


def test_a_child_of_no_version_is_the_latest_at_its_start_and_stays_so():
    play = begun(child(version="1"), child(version="2", action="other"), parent())
    play.deploy(child(version="3"))
    play.later()

    assert play.view("wfrun-2").version == "2"
    assert play.pending("other") == 1


def test_a_child_of_a_version_is_of_that_one():
    play = begun(child(version="1"), child(version="2"), parent(target="child:1"))

    assert play.view("wfrun-2").version == "1"


def test_a_version_that_is_not_deployed_is_a_target_that_is_not_there():
    play = begun(child(), parent("target_not_found: flo.TimedOut", target="child:9"))

    assert play.status() == "timed_out"
    assert ("child_not_found", "child") in play.history_pairs()


@pytest.mark.parametrize("version", [None, "1"])
def test_a_child_that_is_disabled_is_a_target_that_is_disabled(version):
    play = playing(child()).deploy(parent("target_disabled: flo.TimedOut"))
    play.tell(DisableWorkflow(name="child", version=version))

    play.start()

    assert play.status() == "timed_out"
    assert "child_disabled" in play.kinds()


def test_a_child_goes_on_when_its_workflow_is_deleted_meanwhile():
    play = begun(child(), parent())
    play.tell(DeleteWorkflow(name="child"))
    play.restart().later()

    play.perform("work")

    assert play.status() == "completed"
    assert "child" not in play.space.workflows
    assert play.leftovers() == []


def test_children_of_children_end_somewhere():
    endless = one_step(
        '{run: "@workflow/order", transitions: {success: flo.Completed, failure: flo.Failed}}'
    )
    play = playing(endless)
    play.start()

    play.later()

    ends = events_of(play, WorkflowFinished)
    assert len(ends) == DEPTH_MAX + 1
    assert f"children are {DEPTH_MAX} deep" in ends[0].ending.error
    assert play.status() == "failed"
    assert play.leftovers() == []


def test_a_child_with_an_input_that_has_grown_too_large_is_not_started(monkeypatch):
    monkeypatch.setattr("flo.engine.workflows.advance.scope.PAYLOAD_LENGTH_MAX", 200)
    doubling = one_step(
        '{run: "@workflow/order", inputMapping: {a: $.input, b: $.input}, '
        "transitions: {success: flo.Completed, failure: flo.Failed}}"
    )
    play = playing(doubling)
    play.start(value="xxxxx")

    play.later()

    assert play.status() == "failed"
    assert len(events_of(play, WorkflowStarted)) < 8


def test_parents_that_start_children_in_the_same_tick_get_numbers_of_their_own():
    sleepy = document(
        """
start: {sleep: 1s, transitions: {success: kid}}
steps:
  kid: {run: "@workflow/child", transitions: {success: flo.Completed}}
"""
    )
    play = playing(child(), "work").deploy(sleepy)
    for _ in range(3):
        play.start()

    play.later(1_000)

    numbers = [event.run.number for event in events_of(play, WorkflowStarted)]
    assert numbers == [1, 2, 3, 4, 5, 6]
    assert len(events_of(play, RunQueued)) == 3
    for _ in range(3):
        play.perform("work")
    assert play.leftovers() == []


def test_a_parent_may_start_its_child_again():
    play = begun(child(), parent(more=", retry: {max_attempts: 2, initial_delay_ms: 5}"))
    play.later()
    play.fail("work")
    play.later(5)

    play.perform("work")

    assert (play.status("wfrun-2"), play.status("wfrun-3")) == ("failed", "completed")
    assert play.status() == "completed"


def test_a_parent_goes_on_after_a_restart():
    play = begun(child(), parent())
    play.later()
    play.restart()

    play.perform("work")

    assert play.status() == "completed"


def test_the_idempotency_of_a_child_is_not_asked_for():
    needy = one_step(
        '{run: "@actions/work", transitions: {success: flo.Completed}}',
        name="child",
        more="idempotency: required\n",
    )
    play = begun(needy, parent())
    play.later()

    play.perform("work")

    assert play.status() == "completed"
    assert play.tell(StartWorkflow(name="child", idempotency_key="k")).reply.run_id == "wfrun-3"
