"""Large inputs are in the store from their queueing on, for as long as anyone may ask for them."""

import pytest

from engine.runs.inputs.large import FAIL, INVOKE, LARGE, SEND, SMALL, stored
from flo.engine.machine import apply
from flo.engine.runs.events import RunQueued
from flo.engine.state import State
from flo.model.actions import RegisterAction
from flo.model.namespaces import DeleteNamespace
from flo.model.runs import Cancel, Claim, Complete, Fail, Invoke, PurgeDeadRuns, RequeueDeadRuns
from flo.model.storage.payloads import SPILL_BYTES, StoredPayload, stored_payload
from flo.model.workflows import CreateWorkflow, StartWorkflow
from flo.shard.snapshot import dump, fingerprint, load
from given import ANNA, claimed, given

CLAIM = Claim(worker_id=ANNA, actions=["send"])


def test_a_large_input_is_stored_in_the_same_append_and_the_event_refers_to_it():
    engine = given(SEND)

    decision = engine.execute(INVOKE)

    (queued,) = decision.events
    assert queued.run.input == StoredPayload(length=len(LARGE), digest=stored_payload(LARGE).digest)
    assert [(one.address, one.body) for one in decision.beside.payloads] == [(stored(1), LARGE)]
    assert engine.state.spaces["default"].runs["send-1"].input == queued.run.input


def test_an_input_that_is_just_short_enough_stays_in_memory():
    engine = given(SEND)

    decision = engine.execute(SMALL)

    (queued,) = decision.events
    assert len(SMALL.input) == SPILL_BYTES
    assert queued.run.input == SMALL.input
    assert decision.beside.payloads == []


def test_snapshots_and_replay_have_the_reference_and_not_the_input():
    engine = given(SEND, *[INVOKE] * 3)

    replayed = State()
    for event in engine.log:
        apply(replayed, event)

    assert fingerprint(replayed) == fingerprint(engine.state)
    chunks = list(dump(engine.state))
    assert sum(map(len, chunks)) < 2_000
    assert fingerprint(load(chunks)) == fingerprint(engine.state)


@pytest.mark.parametrize(
    "end",
    [
        Complete(run_id="send-1", worker_id=ANNA),
        Fail(run_id="send-1", worker_id=ANNA),
        Cancel(run_id="send-1"),
    ],
    ids=["completed", "failed", "cancelled"],
)
def test_the_input_of_a_run_that_has_ended_stays_with_its_row_in_the_archive(end):
    engine = given(SEND, INVOKE, CLAIM, end)

    assert engine.payloads.bodies == {stored(1): LARGE}
    assert engine.run("send-1").input == stored_payload(LARGE)


def test_a_dead_letter_that_is_requeued_is_handed_out_with_its_input():
    engine = given(SEND, INVOKE, CLAIM, FAIL, RequeueDeadRuns(action="send"))

    (task,) = engine.execute(CLAIM).reply.tasks

    assert task.payload == LARGE
    assert engine.payloads.bodies == {stored(1): LARGE}


def test_a_dead_letter_that_is_purged_takes_its_input_with_it():
    engine = given(SEND, INVOKE, CLAIM, FAIL, INVOKE)

    engine.execute(PurgeDeadRuns(action="send"))

    assert engine.payloads.bodies == {stored(2): LARGE}


def test_a_namespace_that_is_deleted_takes_the_inputs_of_its_live_runs_with_it():
    register = RegisterAction(name="send", namespace="other")
    invoke = Invoke(action="send", namespace="other", input=LARGE)
    claim = Claim(worker_id=ANNA, actions=["send"], namespace="other")
    complete = Complete(run_id="send-1", worker_id=ANNA, namespace="other")
    engine = given(register, invoke, claim, complete, *[invoke] * 2, SEND, INVOKE)

    engine.execute(DeleteNamespace(name="other", force=True))

    in_archive = stored(1)._replace(namespace="other")
    assert engine.payloads.bodies == {in_archive: LARGE, stored(1): LARGE}
    engine.execute(register, invoke)
    again = stored(1)._replace(namespace="other~1")
    assert engine.payloads.bodies.keys() == {in_archive, stored(1), again}


def test_the_large_input_of_a_workflow_step_is_stored_too():
    text = """
kind: Workflow
name: pass-on
version: "1"
start: {run: "@actions/send", transitions: {success: flo.Completed, failure: flo.Failed}}
steps: {}
"""
    engine = given(SEND, CreateWorkflow(text=text), StartWorkflow(name="pass-on", input=LARGE))

    (queued,) = [event for event in engine.events if isinstance(event, RunQueued)]

    assert queued.run.input == stored_payload(LARGE)
    assert claimed(engine) == ["send-1"]
    (execution,) = engine.state.spaces["default"].executions.values()
    (call,) = execution.calls.under_way.values()
    assert call.digest == stored_payload(LARGE).digest[:8]
