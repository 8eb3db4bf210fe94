"""Since when things are as they are: the time, the place in the log, and who made them so."""

import pytest

from flo.engine.ticks import Tick
from flo.model.actions import DisableAction, EnableAction, RegisterAction
from flo.model.errors import Conflict
from flo.model.executions.history import GetHistory
from flo.model.executions.steps import GetSteps
from flo.model.explain import CauseCode
from flo.model.runs import Cancel, Claim, Complete, ExplainRun, Fail, GetRun, Invoke
from flo.model.storage.since import Since
from flo.model.workers import DeregisterWorker, DrainWorker, RegisterWorker
from flo.model.workflows import (
    CancelWorkflow,
    CreateWorkflow,
    PauseWorkflow,
    ResumeWorkflow,
    SignalWorkflow,
    StartWorkflow,
)
from flo.shard.snapshot import dump, fingerprint, load
from flo.testing.clock import NOON_MS
from given import ANNA, CALLER, DEFAULT, Later, given, replayed

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
FAIL = Fail(run_id="send-1", worker_id=ANNA, error="no", retry=True)
WORKFLOW = """
kind: Workflow
name: flow
version: 1.0.0
start: {run: "@actions/send", transitions: {success: flo.Completed, failure: flo.Failed}}
"""


def event_at(engine, position):
    return type(engine.log[position]).__name__


@pytest.mark.parametrize(
    ("steps", "event"),
    [
        ([INVOKE], "RunQueued"),
        ([Invoke(action="send", delay_ms=500), Later(500), Tick()], "RunReleased"),
        ([INVOKE, CLAIM], "RunClaimed"),
        ([INVOKE, CLAIM, FAIL], "RunRequeued"),
        ([INVOKE, CLAIM, FAIL, Later(1_000), Tick()], "RunReleased"),
    ],
)
def test_a_run_knows_the_event_since_which_it_is_as_it_is(steps, event):
    engine = given(SEND, *steps, Invoke(action="send"))

    assert event_at(engine, engine.run("send-1").since_position) == event


def test_a_disabled_action_knows_since_when_and_by_whom():
    engine = given(SEND, INVOKE, Later(70), DisableAction(name="send"), Later(5), SEND)

    since = engine.state.space(DEFAULT).actions["send"].disabled_since

    assert since == Since(at_ms=NOON_MS + 70, position=since.position, caller=CALLER)
    assert event_at(engine, since.position) == "ActionDisabled"
    engine.execute(EnableAction(name="send"))
    assert engine.state.space(DEFAULT).actions["send"].disabled_since is None


def test_a_draining_worker_knows_since_when_though_its_event_says_no_time():
    engine = given(SEND, INVOKE, RegisterWorker(worker_id=ANNA, processes=["send"]), Later(70))
    engine.execute(DrainWorker(worker_id=ANNA), Later(10))

    since = engine.state.space(DEFAULT).workers[ANNA].draining_since
    (draining,) = [
        cause
        for cause in engine.query(ExplainRun(run_id="send-1")).causes
        if cause.code is CauseCode.WORKER_DRAINING
    ]

    assert (since.at_ms, event_at(engine, since.position)) == (NOON_MS + 70, "WorkerDrained")
    assert (draining.since_at_ms, draining.since_position) == (since.at_ms, since.position)
    assert draining.by == "rpc 192.0.2.1"


def test_a_paused_execution_knows_since_when():
    engine = given(SEND, CreateWorkflow(text=WORKFLOW), StartWorkflow(name="flow"), Later(70))
    engine.execute(PauseWorkflow(run_id="wfrun-1"))
    execution = engine.state.space(DEFAULT).executions["wfrun-1"]

    since = execution.paused_since
    assert (since.at_ms, event_at(engine, since.position)) == (NOON_MS + 70, "WorkflowPaused")
    engine.execute(ResumeWorkflow(run_id="wfrun-1"))
    assert execution.paused_since is None


def test_a_branch_knows_the_event_since_which_it_waits():
    engine = given(SEND, CreateWorkflow(text=WORKFLOW), StartWorkflow(name="flow"))

    (branch,) = engine.state.space(DEFAULT).executions["wfrun-1"].branches.values()

    assert event_at(engine, branch.since.position) == "StepStarted"


def test_replay_and_a_snapshot_know_the_same():
    engine = given(
        SEND,
        CreateWorkflow(text=WORKFLOW),
        StartWorkflow(name="flow"),
        Later(3),
        PauseWorkflow(run_id="wfrun-1"),
        DisableAction(name="send"),
        CLAIM,
        Later(3),
        Complete(run_id="send-1", worker_id=ANNA),
    )

    assert fingerprint(replayed(engine.log)) == fingerprint(engine.state)
    assert fingerprint(load(dump(engine.state))) == fingerprint(engine.state)


def test_a_history_says_who_did_what_was_done_to_the_run():
    engine = given(SEND, CreateWorkflow(text=WORKFLOW), StartWorkflow(name="flow"))
    engine.execute(PauseWorkflow(run_id="wfrun-1"))

    entries = engine.query(GetHistory(run_id="wfrun-1")).items

    by = {entry.type: entry.by for entry in entries}
    assert by["workflow_started"] == by["workflow_paused"] == "rpc 192.0.2.1"
    assert by["step_started"] is None


def test_a_signal_says_who_has_sent_it():
    engine = given(SEND, CreateWorkflow(text=WORKFLOW), StartWorkflow(name="flow"))
    engine.execute(SignalWorkflow(run_id="wfrun-1", type="hurry"))

    (signal,) = engine.query(GetSteps(run_id="wfrun-1")).signals

    assert signal.actor == "rpc 192.0.2.1"


def test_a_cancelled_execution_says_by_whom():
    engine = given(SEND, CreateWorkflow(text=WORKFLOW), StartWorkflow(name="flow"))
    engine.execute(CancelWorkflow(run_id="wfrun-1", reason="sold"))

    last = engine.query(GetHistory(run_id="wfrun-1")).items[-1]

    assert (last.type, last.by) == ("workflow_cancelled", "rpc 192.0.2.1")


UNDOES = WORKFLOW.replace("transitions", 'rollback: "@actions/send", transitions')


def test_a_rollback_is_nobodys_doing_unless_somebody_has_cancelled():
    fails = UNDOES.replace("success: flo.Completed", "success: flo.Failed")
    engine = given(SEND, CreateWorkflow(text=fails), StartWorkflow(name="flow"), CLAIM)
    engine.execute(Complete(run_id="send-1", worker_id=ANNA))

    entries = engine.query(GetHistory(run_id="wfrun-1")).items

    assert {entry.type: entry.by for entry in entries}["rollback_started"] is None


def test_a_run_says_who_has_invoked_it_and_who_has_cancelled_it():
    engine = given(SEND, INVOKE, CreateWorkflow(text=WORKFLOW), StartWorkflow(name="flow"))
    engine.execute(Cancel(run_id="send-1"))

    invoked, called = (engine.query(GetRun(run_id=one)) for one in ("send-1", "send-2"))

    assert (invoked.by, invoked.cancelled_by) == ("rpc 192.0.2.1", "rpc 192.0.2.1")
    assert (called.by, called.cancelled_by) == (None, None)


@pytest.mark.parametrize("is_over", [False, True])
def test_a_history_tells_of_late_reports_also_after_its_end(is_over):
    engine = given(SEND, CreateWorkflow(text=WORKFLOW), StartWorkflow(name="flow"), CLAIM)
    engine.execute(RegisterWorker(worker_id=ANNA, processes=["send"]), Later(1))
    engine.execute(DeregisterWorker(worker_id=ANNA))
    if is_over:
        engine.execute(CancelWorkflow(run_id="wfrun-1"))
    with pytest.raises(Conflict):
        engine.execute(Complete(run_id="send-1", worker_id=ANNA, attempt=1))

    last = engine.query(GetHistory(run_id="wfrun-1")).items[-1]

    assert (last.type, last.step) == ("late_report", "start")
    assert last.detail == "send-1 by anna: success"
