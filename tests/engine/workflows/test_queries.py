"""Read-only answers: one run, lists and searches over live and finished ones, definitions."""

import msgspec
import pytest

from flo.model.errors import Invalid, NotFound
from flo.model.workflows import (
    GetWorkflow,
    GetWorkflowRun,
    ListWorkflowRuns,
    ListWorkflows,
    WaitForWorkflow,
    WorkflowStatus,
)
from flo.testing.clock import NOON_MS
from flows import WorkflowHarness, document, one_step, workflow_harness

STEP = '{run: "@actions/check", transitions: {success: flo.Completed, failure: flo.Failed}}'
SEARCHED = one_step(
    STEP,
    more="""searchAttributes:
  - {name: customer_id, type: string, from: input.customer}
  - {name: amount, type: number, from: input.amount}
  - {name: at, type: timestamp, from: input.at}
""",
)


def found(harness, **asked):
    """All pages of a list."""
    items, cursor = [], None
    for _ in range(100):
        page = harness.query(ListWorkflowRuns(cursor=cursor, **asked))
        items, cursor = items + page.items, page.cursor
        if cursor is None:
            return [int(one.run_id.partition("-")[2]) for one in items]
    raise AssertionError("it never ends")


@pytest.fixture
def harness():
    """Ten runs, one a second; the even ones have ended, half of those badly."""
    harness = workflow_harness(SEARCHED, "check").deploy(one_step(STEP, name="other"))
    for number in range(1, 11):
        name = "order" if number <= 7 else "other"
        harness.start(name, value={"customer": f"c{number % 3}", "amount": number, "at": NOON_MS})
        harness.later(1_000)
    for number in range(1, 11):
        task = harness.claim("check")
        if number % 2 == 0:
            outcome = "success" if number % 4 == 0 else "failure"
            harness.complete(task.task_id, number, outcome)
    return harness


def test_runs_are_listed_the_newest_first_whether_they_live_or_not(harness):
    assert found(harness) == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("limit", [1, 2, 3, 9, 10, 11])
def test_pages_have_no_gaps_and_no_doubles(harness, limit):
    assert found(harness, limit=limit) == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert found(harness, limit=limit, workflow="other") == [10, 9, 8]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"workflow": "other"}, [10, 9, 8]),
        ({"status": "waiting"}, [9, 7, 5, 3, 1]),
        ({"status": "completed"}, [8, 4]),
        ({"status": "failed"}, [10, 6, 2]),
        ({"workflow": "order", "status": "failed"}, [6, 2]),
        ({"since_ms": NOON_MS + 7_000}, [10, 9, 8]),
        ({"where": 'customer_id = "c1"'}, [7, 4, 1]),
        ({"where": "amount > 3 and amount <= 6"}, [6, 5, 4]),
        ({"where": 'customer_id = "c1" and amount > 3', "status": "waiting"}, [7]),
        ({"where": 'customer_id = "nobody"'}, []),
        ({"where": f"at >= {NOON_MS}", "limit": 2}, [7, 6, 5, 4, 3, 2, 1]),
        ({"workflow": "nothing"}, []),
    ],
)
def test_a_search_finds_what_it_says_among_live_and_finished_runs(harness, asked, expected):
    if "status" in asked:
        asked = asked | {"status": WorkflowStatus(asked["status"])}
    assert found(harness, **asked) == expected
    assert found(harness.restart(), **asked) == expected


def test_a_search_that_has_to_look_at_very_many_goes_on_page_by_page(monkeypatch, harness):
    monkeypatch.setattr("flo.engine.workflows.lists.pages.SCANNED_MAX", 4)

    first = harness.query(ListWorkflowRuns(where="amount < 3", limit=2))

    assert (first.items, first.cursor) == ([], "4")
    assert found(harness, where="amount < 3", limit=2) == [2, 1]


def test_the_largest_page_with_a_condition_loses_nothing(monkeypatch, harness):
    monkeypatch.setattr("flo.engine.workflows.lists.pages.SCANNED_MAX", 3)

    assert found(harness, where="amount > 0", limit=3) == [7, 6, 5, 4, 3, 2, 1]


def test_an_item_of_a_list_says_what_matters(harness):
    (item,) = harness.query(ListWorkflowRuns(limit=1, where='customer_id = "c1"')).items

    assert (item.run_id, item.workflow, item.version) == ("wfrun-7", "order", "1")
    assert item.attributes == {"customer_id": "c1", "amount": 7, "at": NOON_MS}
    assert (item.status, item.finished_at_ms) == ("waiting", None)


@pytest.mark.parametrize(
    "asked", [{"cursor": "x"}, {"limit": 0}, {"limit": 1_001}, {"where": "amount >"}]
)
def test_a_question_that_makes_no_sense_is_refused(harness, asked):
    with pytest.raises(Invalid):
        harness.query(ListWorkflowRuns(**asked))


def test_a_namespace_without_runs_has_none():
    assert WorkflowHarness().query(ListWorkflowRuns(namespace="prod")).items == []


def test_a_live_run_is_seen_with_its_steps_and_what_it_waits_for():
    text = document(
        """
start: {run: "@actions/check", transitions: {success: approve}}
steps:
  approve: {waitForSignal: {type: yes, timeoutMs: 500}, transitions: {success: flo.Completed}}
"""
    )
    harness = workflow_harness(text, "check")
    harness.start()
    harness.perform("check", 5)
    harness.signal("wfrun-1", "other")

    view = harness.view("wfrun-1")

    assert (view.status, view.current_step, view.output) == ("waiting", "approve", None)
    (step,) = view.steps
    assert (step.step, step.outcome, step.output) == ("start", "success", b"5")
    (wait,) = view.waits
    assert (wait.phase, wait.signal, wait.until_ms) == ("signal", "yes", NOON_MS + 500)
    assert view.signals == ["other"]


def test_the_steps_of_a_run_stand_in_the_order_in_which_they_ended():
    text = document(
        """
start: {run: "@actions/check", transitions: {success: alpha}}
steps:
  alpha: {run: "@actions/check", transitions: {success: beta}}
  beta: {run: "@actions/check", transitions: {success: alpha}}
"""
    )
    harness = workflow_harness(text, "check")
    harness.start()
    for _ in range(4):
        harness.perform("check")

    assert list(harness.outcomes()) == ["start", "beta", "alpha"]
    assert list(harness.restart().outcomes()) == ["start", "beta", "alpha"]


def test_a_run_that_has_ended_is_seen_as_it_ended(harness):
    view = harness.view("wfrun-2")

    assert (view.status, view.terminal, view.current_step) == ("failed", "flo.Failed", None)
    assert (view.output, view.waits, view.paused) == (b"2", [], False)
    assert view.finished_at_ms == NOON_MS + 10_000
    assert harness.query(WaitForWorkflow(run_id="wfrun-2")) == view


@pytest.mark.parametrize("run_id", ["wfrun-99", "wfrun-0", "check-1", "nonsense", ""])
def test_a_run_that_never_was_is_not_found(harness, run_id):
    with pytest.raises(NotFound) as refusal:
        harness.query(GetWorkflowRun(run_id=run_id))

    assert refusal.value.code == "run_not_found"


@pytest.mark.parametrize("block_ms", [-1, 300_001])
def test_nobody_waits_for_longer_than_one_may(harness, block_ms):
    with pytest.raises(Invalid):
        harness.query(WaitForWorkflow(run_id="wfrun-1", block_ms=block_ms))


def test_workflows_are_listed_by_name_with_their_latest_version():
    harness = WorkflowHarness().deploy(*(one_step(STEP, name=name) for name in ("c", "a", "b")))
    harness.deploy(one_step(STEP, name="a", version="2"))

    first = harness.query(ListWorkflows(limit=2))
    second = harness.query(ListWorkflows(limit=2, cursor=first.cursor))

    listed = [(one.name, one.version) for one in (*first.items, *second.items)]
    assert listed == [("a", "2"), ("b", "1"), ("c", "1")]


def test_a_list_of_workflows_leaves_their_texts_out():
    harness = WorkflowHarness().deploy(one_step(STEP))
    (item,) = harness.query(ListWorkflows()).items
    view = harness.query(GetWorkflow(name="order"))

    whole = msgspec.structs.asdict(view)
    assert whole.pop("text")
    assert whole.pop("deleted") is False
    assert msgspec.structs.asdict(item) == whole


def test_a_definition_is_seen_as_it_was_written(harness):
    view = harness.query(GetWorkflow(name="order", version="1"))

    assert (view.text, view.live_runs, view.enabled) == (SEARCHED, 4, True)
    with pytest.raises(NotFound):
        harness.query(GetWorkflow(name="order", version="2"))
