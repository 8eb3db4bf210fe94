from flo.engine.idempotency import KEYS_REMEMBERED_MAX
from flo.engine.runs.events import RunCompleted
from flo.engine.runs.records import Attempt
from flo.engine.ticks import Tick
from flo.model.actions import DeleteAction, RegisterAction
from flo.model.runs import Accepted, Claim, Complete, Fail, Invoke, Invoked, RunStatus
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, claimed, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send", input=b"{}")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
COMPLETE = Complete(run_id="send-1", worker_id=ANNA, attempt=1, output=b"sent")
FAIL = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no route", retry=True)
KEYED = Invoke(action="send", idempotency_key="order-7")
SAME_RUN = Invoked(run_id="send-1", duplicate=True)


def test_a_completed_run_leaves_the_state_for_the_archive():
    engine = given(SEND, INVOKE, CLAIM, Later(20))

    decision = engine.execute(
        Complete(run_id="send-1", worker_id=ANNA, output=b"sent", outcome="approved")
    )

    completed = RunCompleted(
        namespace=DEFAULT,
        run_id="send-1",
        at_ms=NOON_MS + 20,
        output=b"sent",
        outcome="approved",
    )
    assert decision.reply == Accepted(run_id="send-1", status=RunStatus.COMPLETED)
    assert decision.events == (completed,)
    assert engine.state.spaces[DEFAULT].runs == {}
    run = engine.ended[DEFAULT, "send-1"]
    assert (run.status, run.output, run.outcome) == (RunStatus.COMPLETED, b"sent", "approved")
    assert (run.started_at_ms, run.finished_at_ms) == (NOON_MS, NOON_MS + 20)
    assert (run.worker_id, run.attempt, run.error) == (ANNA, 1, None)


def test_the_archive_row_of_a_run_says_what_it_is_found_by():
    engine = given(SEND, Invoke(action="send", idempotency_key="order-7"), CLAIM, Later(20))

    (row,) = engine.execute(COMPLETE).archived

    assert (row.kind, row.namespace, row.name, row.number) == ("run", DEFAULT, "send", 1)
    assert (row.status, row.finished_at_ms, row.key) == ("completed", NOON_MS + 20, "order-7")


def test_a_run_completed_after_a_failed_attempt_remembers_the_attempt_but_no_error():
    engine = given(SEND, INVOKE, CLAIM, Later(10), FAIL, Later(1_000), Tick(), CLAIM)

    engine.execute(Complete(run_id="send-1", worker_id=ANNA, attempt=2))

    run = engine.run("send-1")
    assert (run.status, run.attempt, run.error) == (RunStatus.COMPLETED, 2, None)
    assert run.attempts == (
        Attempt(
            number=1,
            worker_id=ANNA,
            started_at_ms=NOON_MS,
            ended_at_ms=NOON_MS + 10,
            error="no route",
            error_code="failure",
        ),
    )


def test_when_every_run_has_ended_nothing_of_them_is_left_in_memory():
    engine = given(SEND, *[INVOKE] * 20)
    for run_id in claimed(engine):
        engine.execute(Complete(run_id=run_id, worker_id=ANNA))
    engine.execute(DeleteAction(name="send"))

    space = engine.state.spaces[DEFAULT]
    assert not space.runs
    assert not any(space.queues.values())
    assert not space.held
    assert not space.run_keys.run_ids
    assert len(engine.state.due) == 0


def finish_keyed_runs(engine, count):
    for _ in range(count):
        key = f"another-{len(engine.events)}"
        invoked = engine.execute(Invoke(action="send", idempotency_key=key)).reply
        engine.execute(CLAIM, Complete(run_id=invoked.run_id, worker_id=ANNA))


def test_a_key_that_memory_has_forgotten_is_recalled_from_the_archive(monkeypatch):
    monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 3)
    engine = given(SEND, KEYED, CLAIM, COMPLETE)
    space = engine.state.spaces[DEFAULT]

    finish_keyed_runs(engine, 2)
    assert ("send", "order-7") in space.run_keys.run_ids

    finish_keyed_runs(engine, 1)
    assert ("send", "order-7") not in space.run_keys.run_ids
    assert (len(space.run_keys.run_ids), len(space.run_keys.finished)) == (3, 3)
    assert engine.execute(KEYED).reply == SAME_RUN


def test_the_key_of_a_live_run_is_never_forgotten(monkeypatch):
    monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 3)
    engine = given(SEND, KEYED, Claim(worker_id=BORIS, actions=["send"]))

    finish_keyed_runs(engine, 10)
    engine.forget_archive()

    assert engine.execute(KEYED).reply == SAME_RUN


def test_a_key_that_the_archive_has_forgotten_too_may_be_used_again(monkeypatch):
    monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 3)
    engine = given(SEND, KEYED, CLAIM, COMPLETE)
    finish_keyed_runs(engine, 4)
    engine.forget_archive()

    assert engine.execute(KEYED).reply == Invoked(run_id="send-6", duplicate=False)

    engine.execute(Claim(worker_id=BORIS, actions=["send"]))
    finish_keyed_runs(engine, 3)
    assert engine.execute(KEYED).reply == Invoked(run_id="send-6", duplicate=True)


def test_memory_keeps_ten_thousand_keys_of_ended_runs():
    assert KEYS_REMEMBERED_MAX == 10_000
