"""Lists of runs and workflow runs about a subject: live and ended, page by page."""

import pytest

from flo.model.actions import RegisterAction
from flo.model.runs import Claim, Complete, Invoke, ListRuns, RunStatus
from flo.model.workflows import ListWorkflowRuns, StartWorkflow
from flows import WorkflowHarness, one_step
from given import ANNA

FLOW = one_step('{run: "@actions/send", transitions: {success: flo.Completed}}')


@pytest.fixture
def harness():
    """Six runs, by turns about two subjects; the first of them have ended."""
    harness = WorkflowHarness()
    harness.execute(RegisterAction(name="send"), RegisterAction(name="bill"))
    for number in range(6):
        action = "send" if number < 4 else "bill"
        harness.execute(Invoke(action=action, subject=f"customer-{number % 2}"))
    for run_id in ("send-1", "send-2"):
        harness.execute(
            Claim(worker_id=ANNA, actions=["send"]), Complete(run_id=run_id, worker_id=ANNA)
        )
    return harness


def listed(harness, query, limit, **fields):
    """What all pages of a list show."""
    found, cursor = [], None
    while True:
        page = harness.query(query(limit=limit, cursor=cursor, **fields))
        found += [item.run_id for item in page.items]
        cursor = page.cursor
        if cursor is None:
            return found


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, ["bill-1", "send-3", "send-1"]),
        ({"action": "send"}, ["send-3", "send-1"]),
        ({"status": RunStatus.COMPLETED}, ["send-1"]),
        ({"status": RunStatus.PENDING}, ["bill-1", "send-3"]),
        ({"action": "bill", "status": RunStatus.COMPLETED}, []),
    ],
)
def test_runs_about_a_subject_are_listed_live_and_ended(harness, fields, found):
    wanted = {"subject": "customer-0", **fields}

    assert listed(harness, ListRuns, 100, **wanted) == found
    assert listed(harness, ListRuns, 1, **wanted) == found


def test_nobody_has_a_subject_that_no_run_is_about(harness):
    assert listed(harness, ListRuns, 10, subject="customer-2") == []


def test_a_run_that_has_ended_leaves_the_index_of_live_runs(harness):
    live = harness.space.runs

    assert [run.run_id for run in live.about("customer-0", 100)] == ["bill-1", "send-3"]
    assert list(live.about("nobody", 100)) == []


@pytest.mark.parametrize("limit", [1, 100])
def test_workflow_runs_about_a_subject_are_listed_live_and_ended(limit):
    harness = WorkflowHarness().deploy(FLOW).register("send")
    for number in range(4):
        harness.execute(StartWorkflow(name="order", subject=f"customer-{number % 2}"))
    harness.perform("send")

    found = listed(harness, ListWorkflowRuns, limit, subject="customer-0")
    ended = listed(harness, ListWorkflowRuns, limit, subject="customer-0", status="completed")

    assert found == ["wfrun-3", "wfrun-1"]
    assert ended == ["wfrun-1"]
    (item,) = harness.query(ListWorkflowRuns(subject="customer-1", limit=1)).items
    assert item.subject == "customer-1"


def test_a_subject_and_an_attribute_of_that_name_are_not_the_same():
    more = "searchAttributes: [{name: subject, from: $.input.subject, type: string}]\n"
    text = one_step('{run: "@actions/send", transitions: {success: flo.Completed}}', more=more)
    harness = WorkflowHarness().deploy(text).register("send")
    harness.start(value={"subject": "a"}, subject="b")

    assert listed(harness, ListWorkflowRuns, 10, subject="a") == []
    assert listed(harness, ListWorkflowRuns, 10, subject="b") == ["wfrun-1"]
    assert listed(harness, ListWorkflowRuns, 10, where='subject = "a"') == ["wfrun-1"]
