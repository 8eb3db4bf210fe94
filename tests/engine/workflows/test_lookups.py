"""What a word about workflows needs to know of the archive, and when it needs to know nothing."""

import pytest

from flo.engine.context import Recalled
from flo.engine.lookup import recalls_for
from flo.engine.streams.lookups import NOTHING_KNOWN
from flo.engine.workflows.lookups import (
    RecallHistory,
    RecallWorkflow,
    RecallWorkflowKey,
    RecallWorkflows,
)
from flo.model.workflows import (
    CHOSEN,
    CancelWorkflow,
    ExplainWorkflow,
    GetHistory,
    GetWorkflowRun,
    ListWorkflowRuns,
    PauseWorkflow,
    RerunWorkflow,
    ResumeWorkflow,
    SignalWorkflow,
    StartWorkflow,
    WaitForWorkflow,
)
from flows import document, one_step, playing

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


@pytest.fixture
def play():
    """The first run has ended, the second one lives."""
    play = playing(one_step(STEP, more="idempotency: optional\n"), "check")
    play.start(idempotency_key="k1")
    play.perform("check")
    play.start(idempotency_key="k2")
    return play


@pytest.mark.parametrize("message", OF_A_RUN)
def test_a_run_that_has_ended_is_looked_up_and_one_that_lives_is_not(play, message):
    assert list(recalls_for(play.state, message(run_id="wfrun-1"))) == [
        RecallWorkflow("default", "wfrun-1", 1)
    ]
    assert list(recalls_for(play.state, message(run_id="wfrun-2"))) == []


@pytest.mark.parametrize("run_id", ["wfrun-3", "wfrun-x", "a b", "x" * 257, ""])
def test_a_run_that_cannot_be_is_not_looked_up(play, run_id):
    assert list(recalls_for(play.state, SignalWorkflow(run_id=run_id, type="t"))) == []


def test_an_id_that_may_have_been_chosen_leads_to_its_number_first(play):
    named = RecallWorkflowKey("default", CHOSEN, "order-7")
    query = GetWorkflowRun(run_id="order-7")
    assert list(recalls_for(play.state, query)) == [named]

    known = NOTHING_KNOWN._replace(recalled=Recalled(workflow_keys={named: "wfrun-1"}))
    assert list(recalls_for(play.state, query, known)) == [RecallWorkflow("default", "order-7", 1)]


def test_a_chosen_id_is_looked_up_if_memory_does_not_know_it(play):
    play.start(run_id="order-7")

    def needed(**fields):
        return list(recalls_for(play.state, StartWorkflow(name="order", **fields)))

    assert needed(run_id="order-7") == []
    assert needed(run_id="order-8", idempotency_key="k1") == [
        RecallWorkflowKey("default", CHOSEN, "order-8")
    ]


def test_a_key_is_looked_up_if_memory_does_not_know_it(play):
    def needed(**fields):
        return list(recalls_for(play.state, StartWorkflow(name="order", **fields)))

    assert needed() == needed(idempotency_key="k1") == needed(idempotency_key="k2") == []
    assert needed(idempotency_key="k3") == [RecallWorkflowKey("default", "order", "k3")]


def test_a_list_takes_along_what_lives_now(play):
    (recall,) = recalls_for(play.state, ListWorkflowRuns(limit=5, workflow="order"))

    assert isinstance(recall, RecallWorkflows)
    assert (recall.below, recall.limit, recall.workflow) == (3, 6, "order")
    assert [one.run_id for one in recall.live] == ["wfrun-2"]


@pytest.mark.parametrize("asked", [{"cursor": "x"}, {"limit": -5}, {"limit": 10**9}])
def test_a_list_that_will_be_refused_asks_the_archive_for_nothing(play, asked):
    assert list(recalls_for(play.state, ListWorkflowRuns(**asked))) == []


def test_only_the_parts_of_a_history_are_looked_up_that_a_page_lies_in():
    loop = document('start: {run: "@actions/check", transitions: {success: start}}')
    play = playing(loop, "check")
    play.start()
    for _ in range(160):
        play.perform("check")

    def parts(**fields):
        recalls = recalls_for(play.state, GetHistory(run_id="wfrun-1", **fields))
        assert all(isinstance(recall, RecallHistory) for recall in recalls)
        return [recall.part for recall in recalls]

    assert play.space.executions["wfrun-1"].history_parts == 3
    assert parts(limit=10) == [0]
    assert parts(limit=200) == [0, 1]
    assert parts(limit=10, cursor="395") == [1, 2]
    assert parts(limit=1_000) == [0, 1, 2]
    assert parts(limit=10, cursor="600") == []
