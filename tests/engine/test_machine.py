import pytest

from flo.engine import machine
from flo.engine.audit.audited import AuditedCommand, NoteRefusal
from flo.engine.losses.rules import AcceptLoss
from flo.engine.machine import (
    ARCHIVES,
    EVENTS,
    FOLDS,
    QUERIES,
    REACTIONS,
    REMOVALS,
    RULES,
    decide,
    execute,
)
from flo.engine.runs.events import RunQueued
from flo.engine.secrets.rules import ResealSecrets, StoreSecret
from flo.engine.ticks import Tick
from flo.engine.volatile import Presence
from flo.engine.workers.presence import Disconnect, LoseClaims, LoseWorker
from flo.engine.workflows.rules import fall_due
from flo.model.actions import DeleteAction, DisableAction, EnableAction, RegisterAction
from flo.model.base import Message
from flo.model.errors import FloError, Unexpected
from flo.model.namespaces import CreateNamespace, DeleteNamespace
from flo.model.runs import (
    Cancel,
    Claim,
    Complete,
    Fail,
    GetRun,
    Invoke,
    PurgeDeadRuns,
    RequeueDeadRuns,
    Touch,
)
from flo.model.schedules import PullTrigger
from flo.model.workers import DrainWorker, Heartbeat, RegisterWorker
from flo.shard.snapshot import fingerprint
from flo.testing.clock import NOON_MS
from flo.wire.opcodes import FORMS
from flows import workflow_harness
from given import ANNA, BORIS, DEFAULT, Later, given

# The tables


def test_every_event_has_a_fold():
    assert set(FOLDS) == set(EVENTS)
    assert set(FOLDS) >= set(REACTIONS) | set(ARCHIVES) | set(REMOVALS)
    assert not set(ARCHIVES) & set(REMOVALS)


def test_whatever_can_be_asked_over_the_wire_is_known_to_the_machine():
    asked = {operation.request for operation in FORMS if operation.opcode >= 10}

    assert set(RULES) | set(QUERIES) == asked | {
        Tick,
        PullTrigger,
        Disconnect,
        LoseWorker,
        LoseClaims,
        AcceptLoss,
        AuditedCommand,
        NoteRefusal,
        StoreSecret,
        ResealSecrets,
    }
    assert not set(RULES) & set(QUERIES)


# Refusals


@pytest.mark.parametrize(
    "refused",
    [
        Invoke(action="print"),
        Invoke(action="send", priority=256),
        Claim(worker_id="", actions=["send"]),
        Complete(run_id="send-1", worker_id=BORIS),
        Complete(run_id="send-9", worker_id=ANNA),
        Fail(run_id="send-1", worker_id=ANNA, attempt=9),
        Touch(run_id="send-1", worker_id=ANNA, extend_ms=0),
        RegisterAction(name="send", timeout_ms=-1),
        RegisterAction(name="send", namespace="not a namespace"),
        DeleteAction(name="print"),
        EnableAction(name="print"),
        DisableAction(name="print"),
        RegisterAction(name="send", input_schema={"type": "nonsense"}),
        Cancel(run_id="send-9"),
        Cancel(run_id="send-2", reason="x" * 5_000),
        RequeueDeadRuns(action="send", ids=["send-2", "send-9"]),
        RequeueDeadRuns(action="send", limit=0),
        PurgeDeadRuns(action="send", ids=["send-1"]),
        PurgeDeadRuns(action="send", ids=[]),
        CreateNamespace(name="default"),
        CreateNamespace(name="not a name"),
        DeleteNamespace(name="default", force=True),
        DeleteNamespace(name="prod"),
        RegisterWorker(worker_id="an na", processes=[]),
        Heartbeat(worker_id=BORIS),
        DrainWorker(worker_id=BORIS),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_refused_command_leaves_no_trace(refused):
    engine = given(
        RegisterAction(name="send"),
        RegisterWorker(worker_id=ANNA, processes=["send"]),
        Invoke(action="send"),
        Invoke(action="send"),
        Claim(worker_id=ANNA, actions=["send"], max_tasks=2),
        Fail(run_id="send-2", worker_id=ANNA),
    )
    before = (
        fingerprint(engine.state),
        dict(engine.volatile.presence),
        dict(engine.volatile.notifications),
    )

    with pytest.raises(FloError):
        engine.execute(refused)

    assert (
        fingerprint(engine.state),
        dict(engine.volatile.presence),
        dict(engine.volatile.notifications),
    ) == before


class Riddle(Message):
    pass


def test_a_command_without_a_rule_is_refused_as_our_mistake():
    with pytest.raises(Unexpected, match="Riddle could not be decided"):
        given().execute(Riddle())


def test_a_question_without_a_view_is_refused_as_our_mistake():
    with pytest.raises(Unexpected, match="Riddle could not be answered"):
        given().query(Riddle())


def test_a_broken_rule_is_our_mistake_and_not_the_askers(monkeypatch):
    def broken(state, command, context):
        raise ZeroDivisionError

    monkeypatch.setitem(RULES, Invoke, broken)
    monkeypatch.setitem(QUERIES, GetRun, broken)

    with pytest.raises(Unexpected, match="ZeroDivisionError") as refusal:
        given().execute(Invoke(action="send"))
    assert isinstance(refusal.value.__cause__, ZeroDivisionError)
    with pytest.raises(Unexpected):
        given().query(GetRun(run_id="send-1"))


def test_to_decide_is_not_yet_to_do():
    engine = given(RegisterAction(name="send"))
    before = fingerprint(engine.state)

    decision = decide(engine.state, Invoke(action="send"), engine.context(Invoke(action="send")))

    assert decision.events
    assert fingerprint(engine.state) == before


def test_a_command_that_leads_to_endless_events_is_our_mistake(monkeypatch):
    engine = given(RegisterAction(name="send"), Invoke(action="send"), Invoke(action="send"))
    monkeypatch.setattr(machine, "EVENTS_PER_COMMAND_MAX", 1)

    with pytest.raises(AssertionError):
        engine.execute(Claim(worker_id=ANNA, actions=["send"], max_tasks=2))


# From outside


def test_time_and_rng_are_all_that_a_decision_needs_from_outside():
    """The same commands at the same moments lead to the same facts, in whatever process."""
    steps = [
        RegisterAction(name="send"),
        Invoke(action="send"),
        Later(5),
        Claim(worker_id=ANNA, actions=["send"]),
        Fail(run_id="send-1", worker_id=ANNA, retry=True),
    ]

    assert given(*steps).events == given(*steps).events


def test_observations_change_the_volatile_state_and_never_become_events():
    engine = given(RegisterWorker(worker_id=ANNA, processes=[]))
    context = engine.context(Tick())

    decision = execute(engine.state, Heartbeat(worker_id=ANNA, current_load=4), context)

    assert decision.events == ()
    assert engine.volatile.heard(DEFAULT, ANNA) == Presence(
        NOON_MS, 4, position=engine.state.position
    )


def test_what_is_decided_later_sees_what_was_folded_before():
    """The control: runs that were decided together would all have got the same number."""
    nap = '{sleep: 1s, transitions: {success: next}}\nsteps: {next: {run: "@actions/a"}}'
    harness = workflow_harness(f'kind: Workflow\nname: order\nversion: "1"\nstart: {nap}\n', "a")
    for _ in range(3):
        harness.start()
    harness.now_ms += 1_000
    together = [
        event.run.run_id
        for run_id in harness.space.executions
        for event in fall_due(harness.state, ("workflow", DEFAULT, run_id), harness.context(Tick()))
        if isinstance(event, RunQueued)
    ]

    harness.execute(Tick())

    assert together == ["a-1"] * 3
    assert sorted(harness.space.runs) == ["a-1", "a-2", "a-3"]
