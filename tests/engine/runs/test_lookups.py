import pytest

from flo.engine.context import Context
from flo.engine.lists.portion import Portion
from flo.engine.lookup import Found
from flo.engine.machine import lookups_for
from flo.engine.runs.lists.pages import RunPageLookup
from flo.engine.runs.lookups import DeadRunPageLookup, RunKeyLookup, RunLookup
from flo.model.actions import GetAction, RegisterAction
from flo.model.errors import Invalid
from flo.model.namespaces import DeleteNamespace
from flo.model.runs import (
    Cancel,
    Claim,
    Complete,
    Fail,
    GetRun,
    Invoke,
    ListDeadRuns,
    ListRuns,
    PurgeDeadRuns,
    RequeueDeadRuns,
    RunStatus,
    Touch,
    WaitForRuns,
)
from given import ANNA, DEFAULT, EngineHarness, given

ENDED = RunLookup(DEFAULT, "send", 1)
KEY = RunKeyLookup(DEFAULT, "send", "new")


def wanted(engine, message):
    context = Context(engine.now_ms, lambda: 0.5, engine.volatile)
    return [*lookups_for(engine.state, message, context)]


def page(below, limit=51, status=None, live=()):
    portion = Portion({run.number: run for run in live}, 0)
    return RunPageLookup(DEFAULT, "send", below, limit, status, live=portion)


def dead_page(below, limit):
    return DeadRunPageLookup(DEFAULT, "send", below, limit)


STATE = given(
    RegisterAction(name="send"),
    Invoke(action="send", idempotency_key="one"),
    Claim(worker_id=ANNA, actions=["send"]),
    Complete(run_id="send-1", worker_id=ANNA),
    Invoke(action="send", idempotency_key="two"),
).state
"""Run 1 has completed with a key, run 2 has a key and waits."""
WAITING = STATE.spaces[DEFAULT].runs["send-2"]


@pytest.mark.parametrize(
    ("message", "lookups"),
    [
        (Invoke(action="send"), []),
        (Invoke(action="send", idempotency_key="one"), []),
        (Invoke(action="send", idempotency_key="two"), []),
        (Invoke(action="send", idempotency_key="new"), [KEY]),
        (Complete(run_id="send-1", worker_id=ANNA), [ENDED]),
        (Complete(run_id="send-2", worker_id=ANNA), []),
        (Complete(run_id="send-3", worker_id=ANNA), []),
        (Fail(run_id="send-1", worker_id=ANNA), [ENDED]),
        (Fail(run_id="send-2", worker_id=ANNA), []),
        (Touch(run_id="send-1", worker_id=ANNA), []),
        (Cancel(run_id="send-1"), [ENDED]),
        (Cancel(run_id="send-2"), []),
        (Cancel(run_id="send-3"), []),
        (RequeueDeadRuns(action="send", ids=["send-2", "send-1", "send-1", "send-3"]), [ENDED]),
        (RequeueDeadRuns(action="send"), [dead_page(below=3, limit=101)]),
        (RequeueDeadRuns(action="send", limit=2**63), [dead_page(below=3, limit=1_001)]),
        (RequeueDeadRuns(action="send", limit=-1), [dead_page(below=3, limit=2)]),
        (PurgeDeadRuns(action="send", ids=["send-1"] * 2_000), [ENDED]),
        (PurgeDeadRuns(action="send", limit=7), [dead_page(below=3, limit=8)]),
        (ListDeadRuns(action="send", cursor="2", limit=7), [dead_page(below=2, limit=8)]),
        (GetRun(run_id="send-1"), [ENDED]),
        (GetRun(run_id="send-2"), []),
        (GetRun(run_id="send-3"), []),
        (GetRun(run_id="print-1"), []),
        (GetRun(run_id="nonsense"), []),
        (GetRun(run_id="send-1", namespace="prod"), []),
        (WaitForRuns(run_ids=["send-2", "send-1", "send-3", "what", "send-1"]), [ENDED]),
        (ListRuns(action="send"), [page(below=3, live=(WAITING,))]),
        (ListRuns(action="send", cursor="2", limit=7), [page(2, limit=8)]),
        (ListRuns(action="send", cursor="99"), [page(below=3, live=(WAITING,))]),
        (
            ListRuns(action="send", status=RunStatus.FAILED),
            [page(3, status=RunStatus.FAILED)],
        ),
        (GetAction(name="send"), []),
        (Claim(worker_id=ANNA, actions=["send"]), []),
    ],
)
def test_the_archive_is_asked_for_what_the_state_cannot_know_and_for_nothing_else(message, lookups):
    assert wanted(EngineHarness(STATE), message) == lookups


@pytest.mark.parametrize("query", [ListRuns, ListDeadRuns])
def test_a_query_that_makes_no_sense_is_refused_and_the_archive_is_not_asked(query):
    engine = EngineHarness(STATE)
    senseless = query(action="send", limit=0)

    assert wanted(engine, senseless) == []
    with pytest.raises(Invalid):
        engine.query(senseless)


def test_of_very_many_runs_no_more_are_looked_up_than_may_be_named_at_once():
    engine = given(RegisterAction(name="send"), *[Invoke(action="send")] * 1_002)
    engine.execute(Claim(worker_id=ANNA, actions=["send"], max_tasks=1_000))
    engine.execute(Claim(worker_id=ANNA, actions=["send"], max_tasks=2))
    run_ids = [f"send-{number}" for number in range(1, 1_003)]
    engine.execute(*(Complete(run_id=run_id, worker_id=ANNA) for run_id in run_ids))

    for message in (WaitForRuns(run_ids=run_ids), RequeueDeadRuns(action="send", ids=run_ids)):
        assert len(wanted(engine, message)) == 1_000


def test_what_ended_in_a_namespace_is_looked_for_under_the_name_it_was_filed_under():
    prod = {"namespace": "prod"}
    engine = given(RegisterAction(name="send", **prod), DeleteNamespace(name="prod", force=True))
    engine.execute(RegisterAction(name="send", **prod), Invoke(action="send", **prod))
    engine.execute(Cancel(run_id="send-1", **prod))

    keyed = Invoke(action="send", idempotency_key="k", **prod)

    assert wanted(engine, keyed) == [RunKeyLookup("prod~1", "send", "k")]
    assert wanted(engine, GetRun(run_id="send-1", **prod)) == [RunLookup("prod~1", "send", 1)]
    (page,) = wanted(engine, ListDeadRuns(action="send", **prod))
    assert page.archive_name == "prod~1"


@pytest.mark.parametrize(
    ("fetched", "lookup", "known"),
    [
        ({}, KEY, False),
        ({KEY: None}, KEY, True),
        ({KEY: "send-1"}, KEY, True),
        ({RunKeyLookup("default~1", "send", "new"): "send-1"}, KEY, False),
        ({}, ENDED, False),
        ({ENDED: None}, ENDED, True),
        ({RunLookup("default~1", "send", 1): None}, ENDED, False),
        ({}, page(3), False),
        ({page(2).key(): ()}, page(3), True),
        ({RunPageLookup("default~1", "send").key(): ()}, page(3), False),
    ],
)
def test_no_such_is_an_answer_too_but_not_one_of_another_life_of_the_namespace(
    fetched, lookup, known
):
    assert (lookup in Found({}, fetched)) is known
