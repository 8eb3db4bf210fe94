import pytest

from flo.engine.runs.events import RunRequeued, RunTimedOut
from flo.engine.workers.events import WorkerBack, WorkerLost, WorkerRegistered
from flo.engine.workers.presence import Disconnect, KnownWorker, LoseWorker, expected_workers
from flo.model.actions import ActionLimits, RegisterAction
from flo.model.errors import Conflict, NotFound
from flo.model.runs import Claim, Complete, GetRun, Invoke, RunStatus
from flo.model.views.attempts import AttemptEnd
from flo.model.workers import (
    DeregisterWorker,
    DrainWorker,
    GetWorker,
    HeldTask,
    RegisterWorker,
    ResumeWorker,
    WorkerConnection,
    WorkerStatus,
)
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, EngineHarness, Later, given

GRACE_MS = 3_000
SEND = RegisterAction(name="send", max_retries=1, retry_delay_ms=60_000, timeout_ms=600_000)
INVOKE = Invoke(action="send")
REGISTER = RegisterWorker(
    worker_id=ANNA, processes=["send"], incarnation="first", connection_bound=True
)


def claim(worker_id=ANNA, max_tasks=10):
    return Claim(worker_id=worker_id, actions=["send"], max_tasks=max_tasks)


def disconnect(since_ms=NOON_MS, incarnation="first"):
    return Disconnect(worker_id=ANNA, namespace=DEFAULT, incarnation=incarnation, since_ms=since_ms)


def lose(since_ms=NOON_MS, incarnation="first"):
    return LoseWorker(worker_id=ANNA, namespace=DEFAULT, incarnation=incarnation, since_ms=since_ms)


def resume(*held, incarnation="first"):
    tasks = [HeldTask(run_id=run_id, attempt=attempt) for run_id, attempt in held]
    return ResumeWorker(worker_id=ANNA, incarnation=incarnation, held=tasks)


def kinds(decision):
    return [type(event) for event in decision.events]


def connection(engine):
    return engine.query(GetWorker(worker_id=ANNA)).connection


# Lost


def test_a_worker_that_does_not_come_back_is_lost_and_its_tasks_are_ready_at_once():
    engine = given(SEND, REGISTER, INVOKE, INVOKE, claim(), disconnect(), Later(GRACE_MS))

    decision = engine.execute(lose())

    assert kinds(decision) == [WorkerLost, RunRequeued, RunRequeued]
    assert {event.end for event in decision.events[1:]} == {AttemptEnd.WORKER_LOST}
    assert connection(engine) is WorkerConnection.LOST
    tasks = engine.execute(claim(BORIS)).reply.tasks
    assert [(task.task_id, task.attempt) for task in tasks] == [("send-1", 2), ("send-2", 2)]


def test_a_lost_worker_has_used_up_an_attempt():
    engine = given(SEND, REGISTER, INVOKE, claim(), disconnect(), Later(GRACE_MS), lose())
    engine.execute(claim(BORIS))
    engine.execute(resume())
    engine.execute(claim())

    run = engine.query(GetRun(run_id="send-1"))

    assert [attempt.end for attempt in run.attempts] == [AttemptEnd.WORKER_LOST]
    last = given(
        RegisterAction(name="send", max_retries=0),
        REGISTER,
        INVOKE,
        claim(),
        disconnect(),
        Later(GRACE_MS),
    )
    assert kinds(last.execute(lose())) == [WorkerLost, RunTimedOut]


def test_what_a_lost_worker_had_comes_before_what_was_ready_after_it():
    engine = given(SEND, REGISTER, *[INVOKE] * 3, claim(max_tasks=2), disconnect(), Later(GRACE_MS))
    engine.execute(INVOKE)
    engine.execute(lose())

    tasks = engine.execute(claim(BORIS)).reply.tasks

    assert [task.task_id for task in tasks] == ["send-1", "send-2", "send-3", "send-4"]


def test_what_a_lost_worker_had_under_a_limit_is_the_first_to_get_a_permit_again():
    limits = ActionLimits(concurrency_key="all", concurrency_max=1)
    engine = given(
        RegisterAction(name="send", limits=limits),
        REGISTER,
        *[INVOKE] * 3,
        claim(),
        disconnect(),
        Later(GRACE_MS),
        lose(),
    )
    order = []
    for _ in range(3):
        (task,) = engine.execute(claim(BORIS)).reply.tasks
        order.append(task.task_id)
        engine.execute(Complete(run_id=task.task_id, worker_id=BORIS, attempt=task.attempt))

    assert order == ["send-2", "send-1", "send-3"]


def test_the_late_result_of_a_lost_worker_is_refused():
    engine = given(SEND, REGISTER, INVOKE, claim(), disconnect(), Later(GRACE_MS), lose())

    with pytest.raises(Conflict, match="lease"):
        engine.execute(Complete(run_id="send-1", worker_id=ANNA, attempt=1))


def test_a_period_that_began_before_the_connection_broke_is_not_its_own():
    engine = given(SEND, REGISTER, INVOKE, claim(), disconnect(), Later(GRACE_MS))

    assert not engine.execute(lose(since_ms=NOON_MS - 1)).events


def test_a_worker_that_is_back_is_not_lost():
    engine = given(SEND, REGISTER, INVOKE, claim(), disconnect(), Later(1_000))
    engine.execute(resume(("send-1", 1)))
    engine.execute(Later(GRACE_MS))

    assert not engine.execute(lose()).events
    assert connection(engine) is WorkerConnection.CONNECTED
    assert engine.run("send-1").worker_id == ANNA


def test_a_worker_whose_connection_breaks_again_has_the_whole_grace_period_again():
    engine = given(SEND, REGISTER, disconnect(), Later(2_000))
    engine.execute(resume())
    engine.execute(disconnect(since_ms=NOON_MS + 2_000))
    engine.execute(Later(1_000))

    assert not engine.execute(lose()).events
    engine.execute(Later(2_000))
    assert kinds(engine.execute(lose(since_ms=NOON_MS + 2_000))) == [WorkerLost]


def test_a_grace_period_that_is_over_needs_no_clock_that_agrees():
    """The batch in which a worker is given up may have been opened before the period was over."""
    engine = given(SEND, REGISTER, INVOKE, claim(), disconnect(), Later(GRACE_MS - 1))

    assert kinds(engine.execute(lose())) == [WorkerLost, RunRequeued]


def test_the_end_of_the_connection_of_an_earlier_process_means_nothing():
    again = RegisterWorker(
        worker_id=ANNA, processes=["send"], incarnation="second", connection_bound=True
    )
    engine = given(SEND, REGISTER, again, INVOKE, claim(), disconnect(), Later(GRACE_MS))

    assert not engine.execute(lose()).events
    assert connection(engine) is WorkerConnection.CONNECTED


def test_a_worker_without_a_connection_keeps_its_leases():
    over_http = RegisterWorker(worker_id=ANNA, processes=["send"])
    engine = given(SEND, over_http, INVOKE, claim(), Later(GRACE_MS))

    assert not engine.execute(lose(incarnation="")).events
    assert connection(engine) is None
    assert not list(expected_workers(engine.state))


def test_after_a_start_of_the_server_a_worker_has_the_grace_period_to_come_back():
    engine = given(SEND, REGISTER, INVOKE, claim())
    assert list(expected_workers(engine.state)) == [KnownWorker(DEFAULT, ANNA, "first")]

    engine = EngineHarness(engine.state, NOON_MS)
    assert connection(engine) is WorkerConnection.DISCONNECTED
    assert not engine.execute(lose(since_ms=NOON_MS - 1)).events
    assert kinds(engine.execute(lose())) == [WorkerLost, RunRequeued]
    assert not engine.execute(lose()).events
    assert not list(expected_workers(engine.state))


def test_another_process_in_the_place_of_a_broken_one_releases_what_that_one_had():
    again = RegisterWorker(
        worker_id=ANNA, processes=["send"], incarnation="second", connection_bound=True
    )
    engine = given(SEND, REGISTER, INVOKE, claim(), disconnect())

    decision = engine.execute(again)

    assert kinds(decision) == [WorkerLost, RunRequeued, WorkerRegistered]
    assert connection(engine) is WorkerConnection.CONNECTED


def test_another_process_beside_one_that_is_connected_takes_nothing_away_from_it():
    again = RegisterWorker(
        worker_id=ANNA, processes=["send"], incarnation="second", connection_bound=True
    )
    engine = given(SEND, REGISTER, INVOKE, claim())

    assert kinds(engine.execute(again)) == [WorkerRegistered]


def test_a_worker_that_left_in_order_cannot_be_lost():
    engine = given(SEND, REGISTER, DeregisterWorker(worker_id=ANNA), disconnect(), Later(GRACE_MS))

    assert not engine.execute(lose()).events


# Back


def test_what_a_worker_never_heard_of_is_released_and_no_attempt_is_used_up():
    engine = given(SEND, REGISTER, *[INVOKE] * 2, claim(), disconnect())

    decision = engine.execute(resume(("send-1", 1)))

    assert kinds(decision) == [WorkerBack, RunRequeued]
    assert decision.events[1].end is AttemptEnd.RELEASED
    assert decision.reply.lost == []
    run = engine.query(GetRun(run_id="send-2"))
    assert (run.status, run.error) == (RunStatus.PENDING, None)
    assert [attempt.end for attempt in run.attempts] == [AttemptEnd.RELEASED]
    assert engine.run("send-1").worker_id == ANNA


def test_a_claim_that_nobody_heard_costs_no_retry_however_often():
    never_again = RegisterAction(name="send", max_retries=0)
    engine = given(never_again, REGISTER, INVOKE)
    for _ in range(5):
        engine.execute(claim())
        engine.execute(resume())
    engine.execute(claim())
    engine.execute(disconnect())
    engine.execute(Later(GRACE_MS))

    assert engine.run("send-1").attempt == 6
    assert kinds(engine.execute(lose())) == [WorkerLost, RunTimedOut]


def test_what_a_former_process_of_the_same_name_had_counts_as_an_attempt():
    second = RegisterWorker(
        worker_id=ANNA, processes=["send"], incarnation="second", connection_bound=True
    )
    engine = given(SEND, REGISTER, INVOKE, claim(), Later(5), second)

    decision = engine.execute(resume(incarnation="second"))

    assert kinds(decision) == [WorkerBack, RunRequeued]
    assert decision.events[1].end is AttemptEnd.WORKER_LOST


def test_a_worker_hears_which_of_its_tasks_others_have():
    engine = given(SEND, REGISTER, *[INVOKE] * 2, claim(), disconnect(), Later(GRACE_MS), lose())
    engine.execute(claim(BORIS, max_tasks=1))

    decision = engine.execute(resume(("send-1", 1), ("send-2", 1)))

    assert decision.reply.lost == ["send-1", "send-2"]
    assert engine.run("send-1").worker_id == BORIS
    assert connection(engine) is WorkerConnection.CONNECTED


def test_an_earlier_attempt_is_not_the_one_that_it_holds():
    engine = given(SEND, REGISTER, INVOKE, claim(), resume(), claim(), disconnect())

    decision = engine.execute(resume(("send-1", 1)))

    assert decision.reply.lost == ["send-1"]
    assert kinds(decision) == [WorkerBack, RunRequeued]


def test_a_worker_that_drains_hears_it_when_it_is_back():
    engine = given(SEND, REGISTER, DrainWorker(worker_id=ANNA), disconnect())

    assert engine.execute(resume()).reply.status is WorkerStatus.DRAINING


def test_who_is_not_registered_or_was_replaced_must_register_again():
    with pytest.raises(NotFound, match="not registered"):
        given().execute(resume())
    with pytest.raises(Conflict, match="another process") as refusal:
        given(SEND, REGISTER).execute(resume(incarnation="other"))
    assert refusal.value.code == "worker_replaced"
