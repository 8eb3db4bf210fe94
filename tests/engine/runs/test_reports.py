import pytest
from msgspec.structs import replace

from flo.engine.runs.events import (
    RunFailed,
    RunGivenBack,
    RunRequeued,
    RunTimedOut,
    RunTouched,
)
from flo.engine.runs.reports import GIVEN_BACK_MAX
from flo.engine.ticks import Tick
from flo.model.actions import RegisterAction
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.ids import DURATION_MS_MAX, PAYLOAD_LENGTH_MAX
from flo.model.runs import (
    Accepted,
    Cancel,
    Claim,
    Complete,
    Fail,
    GetRun,
    Invoke,
    RunStatus,
    Touch,
    Touched,
)
from flo.model.views.attempts import AttemptEnd
from flo.model.workers import INLINE_WORKER_ID, DeregisterWorker, RegisterWorker
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, claimed, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send", input=b"{}")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
COMPLETE = Complete(run_id="send-1", worker_id=ANNA, attempt=1, output=b"sent")
FAIL = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no route", retry=True)
GIVE_UP = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no such user")


# Complete


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"output": bytes(PAYLOAD_LENGTH_MAX + 1)}, TooLarge), ({"outcome": "x" * 4_097}, TooLarge)],
)
def test_a_result_past_its_bounds_is_refused_and_the_lease_goes_on(settings, error):
    engine = given(SEND, INVOKE, CLAIM)

    with pytest.raises(error):
        engine.execute(Complete(run_id="send-1", worker_id=ANNA, **settings))

    assert engine.execute(COMPLETE).reply.status is RunStatus.COMPLETED


# Late and repeated reports


REPORTS = [COMPLETE, FAIL, GIVE_UP, Touch(run_id="send-1", worker_id=ANNA, attempt=1)]


def name_of(report):
    return type(report).__name__


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_a_worker_that_lost_its_lease_cannot_report_while_another_holds_the_run(report):
    engine = given(SEND, INVOKE, CLAIM, Later(30_000), Tick(), Later(1_000), Tick())
    engine.execute(Claim(worker_id=BORIS, actions=["send"]))

    with pytest.raises(Conflict, match="held by 'boris' as attempt 2") as refusal:
        engine.execute(report)

    assert refusal.value.code == "lease_lost"


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_a_worker_that_lost_its_lease_cannot_report_while_the_run_waits_again(report):
    engine = given(SEND, INVOKE, CLAIM, Later(30_000), Tick())

    with pytest.raises(Conflict, match="the run is pending"):
        engine.execute(report)


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_a_report_of_an_earlier_attempt_is_refused_though_the_same_worker_holds_the_run(report):
    engine = given(SEND, INVOKE, CLAIM, Later(30_000), Tick(), Later(1_000), Tick(), CLAIM)

    with pytest.raises(Conflict, match="of attempt 1 is lost: the run is running, held"):
        engine.execute(report)


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_nobody_but_the_holder_may_report(report):
    engine = given(SEND, INVOKE, Claim(worker_id=BORIS, actions=["send"]))

    with pytest.raises(Conflict, match="held by 'boris'"):
        engine.execute(report)


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_a_report_on_a_run_nobody_claimed_is_refused(report):
    with pytest.raises(Conflict, match="the run is pending"):
        given(SEND, INVOKE).execute(report)


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_a_report_on_a_run_that_never_was_is_refused(report):
    with pytest.raises(NotFound) as refusal:
        given(SEND).execute(report)

    assert refusal.value.code == "run_not_found"


@pytest.mark.parametrize("report", [FAIL, GIVE_UP], ids=name_of)
def test_a_completed_run_can_no_longer_fail(report):
    engine = given(SEND, INVOKE, CLAIM, COMPLETE)

    with pytest.raises(Conflict, match="the run is completed"):
        engine.execute(report)


def test_a_failed_run_can_no_longer_complete():
    engine = given(SEND, INVOKE, CLAIM, GIVE_UP)

    with pytest.raises(Conflict, match="the run is failed"):
        engine.execute(COMPLETE)


def test_a_run_that_has_ended_cannot_be_touched():
    engine = given(SEND, INVOKE, CLAIM, COMPLETE)

    with pytest.raises(NotFound, match="has ended"):
        engine.execute(Touch(run_id="send-1", worker_id=ANNA))


@pytest.mark.parametrize(
    ("report", "status"),
    [
        (COMPLETE, RunStatus.COMPLETED),
        (FAIL, RunStatus.PENDING),
        (GIVE_UP, RunStatus.FAILED),
    ],
)
def test_a_report_whose_answer_was_lost_may_come_again_and_counts_once(report, status):
    engine = given(SEND, INVOKE, CLAIM, report)

    decision = engine.execute(report)

    assert decision.reply == Accepted(run_id="send-1", status=status)
    assert decision.events == ()


def test_a_failure_that_comes_again_during_the_next_attempt_does_not_end_that_one():
    engine = given(SEND, INVOKE, CLAIM, FAIL, Later(1_000), Tick(), CLAIM)

    decision = engine.execute(FAIL)

    assert decision.reply == Accepted(run_id="send-1", status=RunStatus.RUNNING)
    assert decision.events == ()


@pytest.mark.parametrize(
    "other", [{"output": b"other"}, {"outcome": "rejected"}, {"worker_id": BORIS}, {"attempt": 2}]
)
def test_a_report_that_differs_from_the_one_taken_in_is_refused(other):
    engine = given(SEND, INVOKE, CLAIM, COMPLETE)
    report = {"run_id": "send-1", "worker_id": ANNA, "attempt": 1, "output": b"sent"}

    with pytest.raises(Conflict):
        engine.execute(Complete(**report | other))


# Fail, and the attempts that follow


def test_a_failed_attempt_is_tried_again_after_the_retry_delay():
    engine = given(SEND, INVOKE, CLAIM, Later(10))

    decision = engine.execute(FAIL)

    requeued = RunRequeued(
        namespace=DEFAULT,
        run_id="send-1",
        at_ms=NOON_MS + 10,
        error="no route",
        ready_at_ms=NOON_MS + 1_010,
        error_code="failure",
        end=AttemptEnd.REPORTED,
    )
    assert decision.reply == Accepted(run_id="send-1", status=RunStatus.PENDING)
    assert decision.events == (requeued,)
    run = engine.run("send-1")
    assert (run.status, run.worker_id, run.error) == (RunStatus.PENDING, None, "no route")


def attempts(engine, report):
    """Fail attempt after attempt; the delays between them, and the run as it ended."""
    delays = []
    while "send-1" in engine.state.spaces[DEFAULT].runs:
        (task,) = engine.execute(CLAIM).reply.tasks
        (event,) = engine.execute(report(task)).events
        if isinstance(event, RunRequeued):
            delays.append(event.ready_at_ms - event.at_ms)
            engine.execute(Later(delays[-1]), Tick())
    return delays, engine.run("send-1")


def failing(task):
    return Fail(run_id=task.task_id, worker_id=ANNA, attempt=task.attempt, error="no", retry=True)


@pytest.mark.parametrize(
    ("max_retries", "retry_delay_ms", "delays"),
    [
        (0, 1_000, []),
        (1, 1_000, [1_000]),
        (3, 1_000, [1_000, 2_000, 4_000]),
        (5, 7, [7, 14, 28, 56, 112]),
        (3, 0, [0, 0, 0]),
        (2, DURATION_MS_MAX, [DURATION_MS_MAX, DURATION_MS_MAX]),
    ],
)
def test_the_delay_doubles_until_the_retries_are_used_up(max_retries, retry_delay_ms, delays):
    engine = given(
        RegisterAction(
            name="send", timeout_ms=0, max_retries=max_retries, retry_delay_ms=retry_delay_ms
        ),
        INVOKE,
    )

    waited, run = attempts(engine, failing)

    assert waited == delays
    assert (run.status, run.attempt) == (RunStatus.FAILED, max_retries + 1)
    assert [attempt.number for attempt in run.attempts] == list(range(1, max_retries + 2))


def test_the_failure_that_uses_up_the_retries_is_dead_lettered():
    engine = given(RegisterAction(name="send", max_retries=0), INVOKE, CLAIM)

    decision = engine.execute(FAIL)

    failed = RunFailed(
        namespace=DEFAULT,
        run_id="send-1",
        at_ms=NOON_MS,
        error="no route",
        dead_lettered=True,
        error_code="failure",
        retryable=True,
        end=AttemptEnd.REPORTED,
    )
    assert decision.reply == Accepted(run_id="send-1", status=RunStatus.FAILED)
    assert decision.events == (failed,)
    assert engine.run("send-1").dead_lettered


def test_a_failure_without_retry_ends_the_run_at_once_as_a_dead_letter():
    engine = given(SEND, INVOKE, CLAIM)

    engine.execute(GIVE_UP)

    run = engine.run("send-1")
    assert (run.status, run.attempt, run.dead_lettered) == (RunStatus.FAILED, 1, True)
    assert (run.error, run.finished_at_ms) == ("no such user", NOON_MS)


@pytest.mark.parametrize(("retry", "max_retries"), [(False, 3), (True, 0)])
def test_a_failure_that_wants_no_dead_letter_leaves_none(retry, max_retries):
    engine = given(RegisterAction(name="send", max_retries=max_retries), INVOKE, CLAIM)

    engine.execute(Fail(run_id="send-1", worker_id=ANNA, retry=retry, dead_letter=False))

    run = engine.run("send-1")
    assert (run.status, run.dead_lettered) == (RunStatus.FAILED, False)


@pytest.mark.parametrize(
    ("report", "code"),
    [
        ({"error": "card refused", "code": "invalid_card"}, "invalid_card"),
        ({"error": "invalid_card"}, "invalid_card"),
        ({"error": "invalid_card: it has expired"}, "invalid_card"),
        ({"error": "the card: it has expired"}, "failure"),
        ({"error": ""}, "failure"),
        ({"error": "x" * 129}, "failure"),
        ({"error": "too slow", "timed_out": True}, "timeout"),
        ({"error": "too slow", "timed_out": True, "code": "slow_bank"}, "slow_bank"),
    ],
)
def test_a_failure_has_the_code_that_was_given_or_that_its_error_begins_with(report, code):
    engine = given(SEND, INVOKE, CLAIM, Fail(run_id="send-1", worker_id=ANNA, **report))

    run = engine.run("send-1")
    assert (run.error_code, run.attempts[-1].error_code) == (code, code)


@pytest.mark.parametrize(
    ("report", "retryable"),
    [
        ({}, True),
        ({"retry": True}, True),
        ({"retry": True, "dead_letter": False}, True),
        ({"dead_letter": False}, False),
    ],
)
def test_only_a_failure_without_retry_and_dead_letter_is_not_retryable(report, retryable):
    engine = given(RegisterAction(name="send", max_retries=0), INVOKE, CLAIM)

    engine.execute(Fail(run_id="send-1", worker_id=ANNA, **report))

    run = engine.run("send-1")
    assert (run.retryable, run.attempts[-1].retryable) == (retryable, retryable)


def test_a_result_after_a_failed_attempt_has_no_code():
    engine = given(RegisterAction(name="send", retry_delay_ms=0), INVOKE, CLAIM, FAIL, CLAIM)
    assert (engine.run("send-1").error_code, engine.run("send-1").retryable) == ("failure", True)

    engine.execute(Complete(run_id="send-1", worker_id=ANNA, attempt=2))

    assert (engine.run("send-1").error_code, engine.run("send-1").retryable) == (None, None)


def test_an_attempt_tells_how_it_ended():
    engine = given(
        RegisterAction(name="send", retry_delay_ms=0, timeout_ms=700),
        RegisterWorker(worker_id=ANNA, processes=["send"]),
        INVOKE,
    )

    engine.execute(CLAIM, FAIL)
    engine.execute(CLAIM, Later(700), Tick())
    engine.execute(CLAIM, DeregisterWorker(worker_id=ANNA))

    ends = [(attempt.end, attempt.error_code) for attempt in engine.run("send-1").attempts]
    assert ends == [
        (AttemptEnd.REPORTED, "failure"),
        (AttemptEnd.LEASE_EXPIRED, "timeout"),
        (AttemptEnd.WORKER_LEFT, "worker_left"),
    ]


def test_a_failure_is_no_repeated_report_because_another_end_has_its_words():
    engine = given(
        RegisterAction(name="send", retry_delay_ms=0),
        RegisterWorker(worker_id=ANNA, processes=["send"]),
        INVOKE,
        CLAIM,
        DeregisterWorker(worker_id=ANNA),
    )

    with pytest.raises(Conflict, match="is lost"):
        engine.execute(Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="worker 'anna' left"))


def test_with_no_retry_delay_the_run_is_ready_at_once():
    engine = given(RegisterAction(name="send", retry_delay_ms=0), INVOKE, CLAIM, FAIL)

    assert claimed(engine) == ["send-1"]


def test_a_run_keeps_its_priority_and_labels_through_a_retry():
    engine = given(
        RegisterAction(name="send", retry_delay_ms=0),
        RegisterWorker(worker_id=ANNA, processes=["send"], labels={"gpu": True}),
        Invoke(action="send", priority=200, labels={"gpu": True}),
        CLAIM,
        INVOKE,
        FAIL,
    )

    assert claimed(engine, BORIS) == ["send-2"]
    assert claimed(engine, ANNA) == ["send-1"]


def test_a_very_long_error_is_cut_and_still_known_when_it_comes_again():
    shout = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="x" * 100_000)
    engine = given(SEND, INVOKE, CLAIM, shout)

    run = engine.run("send-1")
    assert (len(run.error), len(run.attempts[0].error)) == (65_536, 4_096)
    assert engine.execute(shout).events == ()


def test_of_very_many_attempts_the_last_hundred_are_kept():
    engine = given(
        RegisterAction(name="send", max_retries=120, retry_delay_ms=0, timeout_ms=0), INVOKE
    )

    _, run = attempts(engine, failing)

    assert [attempt.number for attempt in run.attempts] == list(range(22, 122))


# Leases


def test_a_run_whose_lease_ended_is_tried_again_after_the_retry_delay():
    engine = given(RegisterAction(name="send", timeout_ms=700), INVOKE, CLAIM, Later(699))
    assert engine.execute(Tick()).events == ()

    (event,) = engine.execute(Later(1), Tick()).events

    assert isinstance(event, RunRequeued)
    assert event.ready_at_ms == NOON_MS + 700 + 1_000
    assert event.error == "no result from worker 'anna' within its lease (timeout_ms 700)"
    assert engine.run("send-1").attempts[0].number == 1


def test_a_run_whose_last_lease_ended_has_timed_out():
    engine = given(
        RegisterAction(name="send", timeout_ms=700, max_retries=0), INVOKE, CLAIM, Later(700)
    )

    decision = engine.execute(Tick())

    error = "no result from worker 'anna' within its lease (timeout_ms 700)"
    assert decision.events == (
        RunTimedOut(
            namespace=DEFAULT,
            run_id="send-1",
            at_ms=NOON_MS + 700,
            error=error,
            error_code="timeout",
            end=AttemptEnd.LEASE_EXPIRED,
        ),
    )
    run = engine.run("send-1")
    assert (run.status, run.error, run.dead_lettered) == (RunStatus.TIMED_OUT, error, True)


def test_a_lost_lease_counts_as_an_attempt():
    def waiting_in_vain(task):
        engine.now_ms = task.lease_expires_at_ms
        return Tick()

    engine = given(RegisterAction(name="send", timeout_ms=700, max_retries=2), INVOKE)

    delays, run = attempts(engine, waiting_in_vain)

    assert delays == [1_000, 2_000]
    assert (run.status, run.attempt) == (RunStatus.TIMED_OUT, 3)


def test_a_lease_without_a_timeout_never_ends():
    engine = given(RegisterAction(name="send", timeout_ms=0), INVOKE)

    (task,) = engine.execute(CLAIM).reply.tasks

    assert task.lease_expires_at_ms is None
    assert engine.execute(Later(DURATION_MS_MAX), Tick()).events == ()
    assert engine.state.due.next_at_ms() is None


@pytest.mark.parametrize("report", [COMPLETE, GIVE_UP], ids=name_of)
def test_a_run_that_ended_in_time_does_not_fall_due(report):
    engine = given(SEND, INVOKE, CLAIM, report)

    assert len(engine.state.due) == 0
    assert engine.execute(Later(60_000), Tick()).events == ()


def test_a_report_that_beats_the_tick_is_taken_in_though_the_lease_is_over():
    engine = given(SEND, INVOKE, CLAIM, Later(30_001))

    assert engine.execute(COMPLETE).reply.status is RunStatus.COMPLETED


# Touch


def test_a_touch_extends_the_lease():
    engine = given(RegisterAction(name="send", timeout_ms=700), INVOKE, CLAIM, Later(600))

    decision = engine.execute(Touch(run_id="send-1", worker_id=ANNA, attempt=1, extend_ms=5_000))

    assert decision.reply == Touched(run_id="send-1", lease_expires_at_ms=NOON_MS + 5_600)
    assert decision.events == (
        RunTouched(
            namespace=DEFAULT,
            run_id="send-1",
            lease_expires_at_ms=NOON_MS + 5_600,
            at_ms=NOON_MS + 600,
        ),
    )
    assert engine.execute(Later(4_999), Tick()).events == ()
    assert len(engine.execute(Later(1), Tick()).events) == 1


def test_a_lease_that_never_ends_needs_no_touch():
    engine = given(RegisterAction(name="send", timeout_ms=0), INVOKE, CLAIM)

    decision = engine.execute(Touch(run_id="send-1", worker_id=ANNA))

    assert decision.reply == Touched(run_id="send-1", lease_expires_at_ms=None)
    assert decision.events == ()


@pytest.mark.parametrize("extend_ms", [-1, 0, 3_600_001])
def test_a_touch_past_its_bounds_is_refused(extend_ms):
    with pytest.raises(Invalid):
        given(SEND, INVOKE, CLAIM).execute(
            Touch(run_id="send-1", worker_id=ANNA, extend_ms=extend_ms)
        )


# Workers that leave


def test_what_a_worker_leaves_undone_is_given_up_at_once():
    engine = given(SEND, RegisterWorker(worker_id=ANNA, processes=["send"]), *[INVOKE] * 3)
    claimed(engine, ANNA, max_tasks=2)
    claimed(engine, BORIS, max_tasks=1)

    _, *given_up = engine.execute(DeregisterWorker(worker_id=ANNA)).events

    assert [event.run_id for event in given_up] == ["send-2", "send-1"]
    assert {event.error for event in given_up} == {"worker 'anna' left"}
    assert {event.ready_at_ms for event in given_up} == {NOON_MS}
    assert engine.run("send-3").worker_id == BORIS


def test_what_a_worker_leaves_undone_comes_before_what_was_ready_after_it():
    engine = given(SEND, RegisterWorker(worker_id=ANNA, processes=["send"]), *[INVOKE] * 6)
    claimed(engine, ANNA, max_tasks=3)
    engine.execute(Cancel(run_id="send-4"))
    engine.execute(Later(1_000))
    engine.execute(INVOKE)

    engine.execute(DeregisterWorker(worker_id=ANNA))

    assert claimed(engine, BORIS) == ["send-1", "send-2", "send-3", "send-5", "send-6", "send-7"]


def test_the_last_attempt_of_a_worker_that_leaves_has_timed_out():
    engine = given(
        RegisterAction(name="send", max_retries=0),
        RegisterWorker(worker_id=ANNA, processes=["send"]),
        INVOKE,
        CLAIM,
    )

    decision = engine.execute(DeregisterWorker(worker_id=ANNA))

    assert engine.run("send-1").status is RunStatus.TIMED_OUT
    assert len(decision.archived) == 1


def test_who_holds_what_is_known_as_long_as_it_is_held():
    engine = given(SEND, *[INVOKE] * 3)
    space = engine.state.spaces[DEFAULT]

    claimed(engine, ANNA, max_tasks=2)
    claimed(engine, BORIS)
    assert {worker: list(runs) for worker, runs in space.held.items()} == {
        ANNA: ["send-1", "send-2"],
        BORIS: ["send-3"],
    }

    engine.execute(COMPLETE, Fail(run_id="send-3", worker_id=BORIS, retry=True))
    assert {worker: list(runs) for worker, runs in space.held.items()} == {ANNA: ["send-2"]}


# What the server executed itself when it died


CLAIM_INSIDE = Claim(worker_id=INLINE_WORKER_ID, actions=["send"], held_max=1)
START_ANEW = DeregisterWorker(worker_id=INLINE_WORKER_ID)


def test_what_the_server_executed_when_it_died_is_ready_again_and_has_used_up_no_attempt():
    engine = given(SEND, INVOKE, CLAIM_INSIDE, Later(1))

    decision = engine.execute(START_ANEW)

    back = RunGivenBack(namespace=DEFAULT, run_id="send-1", at_ms=NOON_MS + 1)
    assert decision.events[1:] == (back,)
    (task,) = engine.execute(CLAIM_INSIDE).reply.tasks
    assert (task.task_id, task.attempt) == ("send-1", 1)


def test_a_lease_from_before_the_server_started_uses_up_no_attempt():
    engine = given(RegisterAction(name="send", max_retries=0), INVOKE, CLAIM_INSIDE)
    engine.volatile.started_at_ms = NOON_MS + 1
    engine.execute(Later(60_000))

    (event,) = engine.execute(Tick()).events

    assert isinstance(event, RunGivenBack)


def test_a_lease_of_the_server_that_runs_out_while_it_lives_ends_the_attempt():
    engine = given(RegisterAction(name="send", max_retries=0), INVOKE, Later(1), CLAIM_INSIDE)

    decision = engine.execute(Later(60_000), Tick())

    assert [type(event) for event in decision.events] == [RunTimedOut]


def test_a_run_that_was_there_each_time_the_server_died_uses_up_its_attempts():
    engine = given(SEND, INVOKE)
    for _ in range(GIVEN_BACK_MAX):
        engine.execute(CLAIM_INSIDE)
        engine.execute(START_ANEW)

    engine.execute(CLAIM_INSIDE)
    decision = engine.execute(START_ANEW)

    assert isinstance(decision.events[1], RunRequeued)


def test_another_worker_that_leaves_uses_up_the_attempt():
    engine = given(SEND, INVOKE, CLAIM)

    decision = engine.execute(DeregisterWorker(worker_id=ANNA))

    assert isinstance(decision.events[1], RunRequeued)


# Times by the clock of the worker


def test_a_run_shows_how_long_it_took_and_was_held_by_the_clock_of_its_worker():
    engine = given(SEND, INVOKE, CLAIM)
    engine.execute(replace(COMPLETE, took_ms=1_200, held_ms=30))

    run = engine.query(GetRun(run_id="send-1"))
    assert (run.took_ms, run.held_ms) == (1_200, 30)


def test_every_attempt_keeps_its_own_times():
    engine = given(SEND, INVOKE, CLAIM)
    engine.execute(replace(FAIL, took_ms=500, held_ms=0))
    engine.execute(Later(1_000), Tick(), CLAIM)
    engine.execute(replace(COMPLETE, attempt=2, took_ms=7, held_ms=None))

    run = engine.query(GetRun(run_id="send-1"))
    assert [(one.took_ms, one.held_ms) for one in run.attempts] == [(500, 0)]
    assert (run.took_ms, run.held_ms) == (7, None)


@pytest.mark.parametrize("took_ms", [-1, DURATION_MS_MAX + 1])
def test_a_time_out_of_bounds_is_refused(took_ms):
    engine = given(SEND, INVOKE, CLAIM)

    with pytest.raises(Invalid, match="took_ms"):
        engine.execute(replace(COMPLETE, took_ms=took_ms))
