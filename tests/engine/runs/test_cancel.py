import pytest

from flo.engine.runs.events import RunCancelled
from flo.engine.ticks import Tick
from flo.model.actions import DeleteAction, GetAction, RegisterAction
from flo.model.errors import Conflict, NotFound, TooLarge
from flo.model.runs import Accepted, Cancel, Claim, Complete, Fail, Invoke, RunStatus, Touch
from flo.model.views.attempts import AttemptEnd
from flo.model.workers import GetWorker, RegisterWorker
from flo.testing.clock import NOON_MS
from given import ANNA, DEFAULT, Later, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send", input=b"{}")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
COMPLETE = Complete(run_id="send-1", worker_id=ANNA, attempt=1, output=b"sent")
FAIL = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no route", retry=True)
GIVE_UP = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no such user")
CANCEL = Cancel(run_id="send-1", reason="not needed any more")


def claimed(engine):
    """The ids of the runs that a claim brings."""
    claim = Claim(worker_id=ANNA, actions=["send"], max_tasks=1_000)
    return [task.task_id for task in engine.execute(claim).reply.tasks]


def cancelled(worker_id=None, at_ms=NOON_MS):
    return RunCancelled(
        namespace=DEFAULT,
        run_id="send-1",
        at_ms=at_ms,
        reason="not needed any more",
        worker_id=worker_id,
    )


def test_a_waiting_run_is_cancelled_and_nobody_gets_it():
    engine = given(SEND, INVOKE, INVOKE, Later(5))

    decision = engine.execute(CANCEL)

    assert decision.reply == Accepted(run_id="send-1", status=RunStatus.CANCELLED)
    assert decision.events == (cancelled(at_ms=NOON_MS + 5),)
    run = engine.ended[DEFAULT, "send-1"]
    assert (run.status, run.error, run.finished_at_ms) == (
        RunStatus.CANCELLED,
        "not needed any more",
        NOON_MS + 5,
    )
    assert (run.worker_id, run.attempt, run.dead_lettered) == (None, 0, False)
    assert claimed(engine) == ["send-2"]


def test_the_archive_row_of_a_cancelled_run_is_no_dead_letter():
    (row,) = given(SEND, INVOKE).execute(CANCEL).archived

    assert (row.status, row.number, row.dead) == ("cancelled", 1, False)


def test_a_delayed_run_is_cancelled_and_does_not_fall_due():
    engine = given(SEND, Invoke(action="send", delay_ms=500))

    engine.execute(CANCEL)

    assert len(engine.state.due) == 0
    assert engine.execute(Later(500), Tick()).events == ()
    run = engine.run("send-1")
    assert (run.status, run.is_delayed) == (RunStatus.CANCELLED, False)


def test_a_run_between_two_attempts_is_cancelled_and_remembers_the_first():
    engine = given(SEND, INVOKE, CLAIM, FAIL, CANCEL)

    assert engine.execute(Later(1_000), Tick()).events == ()
    run = engine.run("send-1")
    assert (run.status, run.attempt, len(run.attempts)) == (RunStatus.CANCELLED, 1, 1)


def test_a_run_that_waits_again_after_its_delay_is_cancelled():
    engine = given(SEND, INVOKE, CLAIM, FAIL, Later(1_000), Tick(), CANCEL)

    assert claimed(engine) == []


def test_a_running_run_is_cancelled_and_its_worker_is_told():
    engine = given(
        SEND, RegisterWorker(worker_id=ANNA, processes=["send"]), INVOKE, CLAIM, Later(5)
    )

    decision = engine.execute(CANCEL)

    assert decision.reply == Accepted(run_id="send-1", status=RunStatus.CANCELLED)
    assert decision.events == (cancelled(ANNA, NOON_MS + 5),)
    assert [one.cancelled for one in engine.volatile.notifications_after(DEFAULT, ANNA, 0)] == [
        "send-1"
    ]
    run = engine.run("send-1")
    assert (run.status, run.worker_id, run.attempt) == (RunStatus.CANCELLED, ANNA, 1)
    (attempt,) = run.attempts
    assert (attempt.number, attempt.worker_id, attempt.ended_at_ms) == (1, ANNA, NOON_MS + 5)
    assert (attempt.end, attempt.error_code) == (AttemptEnd.CANCELLED, "cancelled")


def test_the_lease_of_a_cancelled_run_is_over():
    engine = given(SEND, INVOKE, CLAIM, CANCEL)

    space = engine.state.spaces[DEFAULT]
    assert (space.held, space.runs, len(engine.state.due)) == ({}, {}, 0)
    assert engine.execute(Later(30_000), Tick()).events == ()


def test_a_cancelled_task_counts_neither_for_nor_against_its_worker():
    engine = given(SEND, RegisterWorker(worker_id=ANNA, processes=["send"]), INVOKE, CLAIM, CANCEL)

    view = engine.query(GetWorker(worker_id=ANNA))

    assert (view.tasks_completed, view.tasks_failed) == (0, 0)


def test_the_worker_of_a_cancelled_run_that_nobody_registered_is_not_told():
    engine = given(SEND, INVOKE, CLAIM)

    engine.execute(CANCEL)

    assert engine.volatile.notifications == {}


@pytest.mark.parametrize("report", [COMPLETE, FAIL, GIVE_UP])
def test_a_report_on_a_cancelled_run_is_refused(report):
    engine = given(SEND, INVOKE, CLAIM, CANCEL)

    with pytest.raises(Conflict, match="the run is cancelled") as refusal:
        engine.execute(report)

    assert refusal.value.code == "lease_lost"


def test_a_cancelled_run_cannot_be_touched():
    engine = given(SEND, INVOKE, CLAIM, CANCEL)

    with pytest.raises(NotFound) as refusal:
        engine.execute(Touch(run_id="send-1", worker_id=ANNA))

    assert refusal.value.code == "run_not_found"


@pytest.mark.parametrize(
    ("since", "status"),
    [
        ([CLAIM, COMPLETE], "completed"),
        ([CLAIM, GIVE_UP], "failed"),
        ([CANCEL], "cancelled"),
        ([CLAIM, CANCEL], "cancelled"),
        ([CLAIM, Later(30_000), Tick()], "timed_out"),
    ],
)
def test_a_run_that_has_ended_cannot_be_cancelled(since, status):
    engine = given(RegisterAction(name="send", max_retries=0), INVOKE, *since)
    ended = engine.run("send-1")

    with pytest.raises(Conflict, match=f"has ended already: it is {status}") as refusal:
        engine.execute(CANCEL)

    assert refusal.value.code == "run_has_ended"
    assert engine.run("send-1") == ended


@pytest.mark.parametrize("run_id", ["send-2", "print-1", "nonsense", ""])
def test_a_run_that_never_was_cannot_be_cancelled(run_id):
    with pytest.raises(NotFound) as refusal:
        given(SEND, INVOKE).execute(Cancel(run_id=run_id))

    assert refusal.value.code == "run_not_found"


def test_a_reason_may_be_left_out_but_not_be_a_book():
    engine = given(SEND, INVOKE)

    with pytest.raises(TooLarge):
        engine.execute(Cancel(run_id="send-1", reason="x" * 4_097))
    engine.execute(Cancel(run_id="send-1"))

    assert engine.run("send-1").error is None


def test_the_counts_of_an_action_follow_a_cancel():
    engine = given(SEND, INVOKE, INVOKE, CLAIM)
    for run_id in ("send-1", "send-2"):
        engine.execute(Cancel(run_id=run_id))

    runs = engine.query(GetAction(name="send")).runs
    assert (runs["pending"], runs["running"], runs["cancelled"]) == (0, 0, 2)


def test_cancelled_runs_leave_their_lane_wherever_they_stand():
    engine = given(SEND, *[INVOKE] * 6)

    for number in (2, 1, 6, 4):
        engine.execute(Cancel(run_id=f"send-{number}"))

    assert claimed(engine) == ["send-3", "send-5"]


def test_a_cancelled_run_leaves_the_lane_of_its_labels_and_priority():
    engine = given(SEND, RegisterWorker(worker_id=ANNA, processes=["send"], labels={"gpu": True}))
    for priority in (10, 200):
        engine.execute(*[Invoke(action="send", priority=priority, labels={"gpu": True})] * 2)
        engine.execute(Invoke(action="send", priority=priority))

    engine.execute(Cancel(run_id="send-4"), Cancel(run_id="send-3"))

    assert claimed(engine) == ["send-5", "send-6", "send-1", "send-2"]


def test_a_deleted_action_is_forgotten_when_its_last_run_is_cancelled():
    engine = given(SEND, INVOKE, DeleteAction(name="send"), CANCEL)

    assert engine.state.spaces[DEFAULT].deleted == {}
