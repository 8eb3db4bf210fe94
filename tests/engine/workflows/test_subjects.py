"""Whom the payloads of an execution are about, so are those of all that it starts."""

from flo.model.runs import GetRun
from flows import document, one_step, workflow_harness

CHILD = one_step('{run: "@actions/charge", transitions: {success: flo.Completed}}', name="child")
PARENT = document(
    'start: {run: "@actions/check", transitions: {success: call}}\n'
    'steps:\n  call: {run: "@workflow/child", transitions: {success: flo.Completed}}\n'
)


def harness_with(subject):
    harness = workflow_harness(CHILD, "check", "charge").deploy(PARENT)
    harness.start(subject=subject)
    return harness


def test_runs_and_children_have_the_subject_of_their_execution():
    harness = harness_with("customer-7")
    harness.perform("check")
    harness.later()

    assert harness.query(GetRun(run_id="check-1")).subject == "customer-7"
    assert harness.view("wfrun-2").subject == "customer-7"
    assert harness.query(GetRun(run_id="charge-1")).subject == "customer-7"


def test_an_execution_keeps_its_subject_after_its_end_and_when_it_is_repeated():
    harness = harness_with("customer-7")
    harness.perform("check")
    harness.later()
    harness.perform("charge")
    harness.later()
    assert harness.status() == "completed"

    harness.rerun("wfrun-1")

    assert harness.view("wfrun-1").subject == "customer-7"
    assert harness.view("wfrun-3").subject == "customer-7"


def test_without_a_subject_there_is_none():
    harness = harness_with(None)

    assert harness.view("wfrun-1").subject is None
    assert harness.query(GetRun(run_id="check-1")).subject is None
