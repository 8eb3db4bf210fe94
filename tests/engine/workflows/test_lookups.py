"""What a word about workflows needs to know of the archive, and when it needs to know nothing."""

import pytest

from flo.engine.context import Context
from flo.engine.lookup import Found
from flo.engine.machine import lookups_for
from flo.engine.workflows.lists.pages import WorkflowPageLookup
from flo.engine.workflows.lookups import (
    ChosenIdLookup,
    HistoryLookup,
    WorkflowKeyLookup,
    WorkflowLookup,
)
from flo.model.executions.history import GetHistory
from flo.model.workflows import (
    CancelWorkflow,
    ExplainWorkflow,
    GetWorkflowRun,
    ListWorkflowRuns,
    PauseWorkflow,
    RerunWorkflow,
    ResumeWorkflow,
    SignalWorkflow,
    StartWorkflow,
    WaitForWorkflow,
)
from flows import document, one_step, workflow_harness

STEP = '{run: "@actions/check", transitions: {success: flo.Completed}}'
OF_A_RUN = [
    GetWorkflowRun,
    WaitForWorkflow,
    GetHistory,
    ExplainWorkflow,
    CancelWorkflow,
    PauseWorkflow,
    ResumeWorkflow,
    RerunWorkflow,
]


def wanted(harness, message, fetched=None):
    context = Context(harness.now_ms, lambda: 0.5, harness.volatile, Found({}, fetched or {}))
    return lookups_for(harness.state, message, context)


@pytest.fixture
def harness():
    """The first run has ended, the second one lives."""
    harness = workflow_harness(one_step(STEP, more="idempotency: optional\n"), "check")
    harness.start(idempotency_key="k1")
    harness.perform("check")
    harness.start(idempotency_key="k2")
    return harness


@pytest.mark.parametrize("message", OF_A_RUN)
def test_a_run_that_has_ended_is_looked_up_and_one_that_lives_is_not(harness, message):
    assert list(wanted(harness, message(run_id="wfrun-1"))) == [WorkflowLookup("default", 1)]
    assert list(wanted(harness, message(run_id="wfrun-2"))) == []


@pytest.mark.parametrize("run_id", ["wfrun-3", "wfrun-x", "a b", "x" * 257, ""])
def test_a_run_that_cannot_be_is_not_looked_up(harness, run_id):
    assert list(wanted(harness, SignalWorkflow(run_id=run_id, type="t"))) == []


def test_an_id_that_may_have_been_chosen_leads_to_its_number_first(harness):
    named = ChosenIdLookup("default", "wfrun", "/order-7")
    query = GetWorkflowRun(run_id="order-7")
    assert list(wanted(harness, query)) == [named]

    fetched = {named: "wfrun-1"}
    assert list(wanted(harness, query, fetched)) == [WorkflowLookup("default", 1)]


def test_a_chosen_id_is_looked_up_if_memory_does_not_know_it(harness):
    harness.start(run_id="order-7")

    def needed(**fields):
        return list(wanted(harness, StartWorkflow(name="order", **fields)))

    assert needed(run_id="order-7") == []
    chosen = ChosenIdLookup("default", "wfrun", "/order-8")
    assert needed(run_id="order-8") == [chosen]
    assert needed(run_id="order-8", idempotency_key="k2") == []


def test_a_key_is_looked_up_if_memory_does_not_know_it(harness):
    def needed(**fields):
        return list(wanted(harness, StartWorkflow(name="order", **fields)))

    assert needed() == needed(idempotency_key="k2") == []
    assert needed(idempotency_key="k3") == [WorkflowKeyLookup("default", "wfrun", "order/k3")]


def test_of_a_run_with_the_same_key_that_has_ended_it_is_asked_how(harness):
    start, key = StartWorkflow(name="order", idempotency_key="k1"), ("default", "wfrun", "order/k9")

    assert list(wanted(harness, start)) == [WorkflowLookup("default", 1)]
    start = StartWorkflow(name="order", idempotency_key="k9")
    fetched = {WorkflowKeyLookup(*key): "wfrun-1"}
    assert list(wanted(harness, start, fetched)) == [WorkflowLookup("default", 1)]


def test_a_list_takes_along_what_lives_now(harness):
    (lookup,) = wanted(harness, ListWorkflowRuns(limit=5, workflow="order"))

    assert isinstance(lookup, WorkflowPageLookup)
    assert (lookup.below, lookup.query.workflow) == (3, "order")
    assert [one.run_id for one in lookup.live.items.values()] == ["wfrun-2"]


@pytest.mark.parametrize("asked", [{"cursor": "x"}, {"limit": -5}, {"limit": 10**9}])
def test_a_list_that_will_be_refused_asks_the_archive_for_nothing(harness, asked):
    assert list(wanted(harness, ListWorkflowRuns(**asked))) == []


def test_only_the_parts_of_a_history_are_looked_up_that_a_page_lies_in():
    loop = document('start: {run: "@actions/check", transitions: {success: start}}')
    harness = workflow_harness(loop, "check")
    harness.start()
    for _ in range(160):
        harness.perform("check")

    def parts(**fields):
        lookups = wanted(harness, GetHistory(run_id="wfrun-1", **fields))
        assert all(isinstance(lookup, HistoryLookup) for lookup in lookups)
        return [lookup.part for lookup in lookups]

    assert harness.space.executions["wfrun-1"].history_parts == 3
    assert parts(limit=10) == [0]
    assert parts(limit=200) == [0, 1]
    assert parts(limit=10, cursor="395") == [1, 2]
    assert parts(limit=1_000) == [0, 1, 2]
    assert parts(limit=10, cursor="600") == []
