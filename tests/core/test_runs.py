import pytest

from flo.core.runs import PAYLOADS_PER_CLAIM_LENGTH_MAX
from flo.core.state import KEYS_REMEMBERED_MAX
from flo.core.ticks import DUE_PER_TICK_MAX
from flo.model.actions import DeleteAction, RegisterAction
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.ids import DURATION_MS_MAX, PAYLOAD_LENGTH_MAX
from flo.model.runs import (
    Accepted,
    Assigned,
    Attempt,
    Cancel,
    Claim,
    Complete,
    Fail,
    Invoke,
    Invoked,
    Run,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunQueued,
    RunReleased,
    RunRequeued,
    RunStatus,
    RunTimedOut,
    RunTouched,
    Task,
    Tick,
    Ticked,
    Touch,
    Touched,
)
from flo.model.workers import DeregisterWorker, DrainWorker, RegisterWorker
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, CLARA, DEFAULT, Later, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send", input=b"{}")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
COMPLETE = Complete(run_id="send-1", worker_id=ANNA, attempt=1, output=b"sent")
FAIL = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no route", retry=True)
GIVE_UP = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no such user")


def claimed(story, worker_id=ANNA, *actions, max_tasks=1_000):
    """The ids of the runs that a claim brings."""
    claim = Claim(worker_id=worker_id, actions=[*actions] or ["send"], max_tasks=max_tasks)
    return [task.task_id for task in story.tell(claim).reply.tasks]


# Invoke


def test_an_invocation_queues_a_run():
    decision = given(SEND).tell(Invoke(action="send", input=b"hello", priority=200))

    run = Run(
        run_id="send-1",
        action="send",
        number=1,
        input=b"hello",
        priority=200,
        created_at_ms=NOON_MS,
        ready_at_ms=NOON_MS,
    )
    assert decision.reply == Invoked(run_id="send-1", duplicate=False)
    assert decision.events == (RunQueued(namespace=DEFAULT, run=run),)


def test_runs_are_numbered_by_action_and_namespace():
    story = given(SEND, RegisterAction(name="print"), RegisterAction(name="send", namespace="prod"))

    words = [INVOKE, INVOKE, Invoke(action="print"), Invoke(action="send", namespace="prod")]
    ids = [story.tell(word).reply.run_id for word in words]

    assert ids == ["send-1", "send-2", "print-1", "send-1"]


def test_runs_of_two_namespaces_do_not_meet():
    story = given(SEND, RegisterAction(name="send", namespace="prod"), INVOKE)

    prod = Claim(worker_id=ANNA, actions=["send"], namespace="prod")
    assert story.tell(prod).reply == Assigned()
    story.tell(CLAIM)
    with pytest.raises(NotFound):
        story.tell(Complete(run_id="send-1", worker_id=ANNA, namespace="prod"))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"priority": -1}, Invalid),
        ({"priority": 256}, Invalid),
        ({"delay_ms": -1}, Invalid),
        ({"delay_ms": DURATION_MS_MAX + 1}, Invalid),
        ({"idempotency_key": ""}, Invalid),
        ({"idempotency_key": "k" * 513}, TooLarge),
        ({"input": bytes(PAYLOAD_LENGTH_MAX + 1)}, TooLarge),
        ({"labels": {"gpu": None}}, Invalid),
        ({"labels": {str(number): number for number in range(65)}}, TooLarge),
        ({"action": "sned"}, NotFound),
        ({"namespace": "prod"}, NotFound),
    ],
)
def test_an_invocation_past_its_bounds_is_refused_and_leaves_no_trace(settings, error):
    story = given(SEND)

    with pytest.raises(error):
        story.tell(Invoke(**{"action": "send", **settings}))

    assert story.tell(INVOKE).reply.run_id == "send-1"


# Delay


def test_a_delayed_run_cannot_be_claimed_before_its_time():
    story = given(SEND, Invoke(action="send", delay_ms=500), Later(499))

    assert story.tell(Tick()).events == ()
    assert claimed(story) == []

    decision = story.tell(Later(1), Tick())

    assert decision.events == (RunReleased(namespace=DEFAULT, run_id="send-1"),)
    assert claimed(story) == ["send-1"]


def test_delayed_runs_are_released_in_the_order_of_their_times():
    story = given(SEND, *(Invoke(action="send", delay_ms=delay) for delay in (300, 100, 200)))

    story.tell(Later(1_000), Tick())

    assert claimed(story) == ["send-2", "send-3", "send-1"]


# Order


def test_runs_are_claimed_by_priority_and_then_by_age():
    priorities = [10, 255, 0, 10, 255]
    story = given(SEND, *(Invoke(action="send", priority=priority) for priority in priorities))

    assert claimed(story) == ["send-2", "send-5", "send-1", "send-4", "send-3"]


def test_a_claim_for_several_actions_brings_the_most_urgent_of_them_all():
    story = given(SEND, RegisterAction(name="print"))
    for action, priority in [("print", 5), ("send", 9), ("print", 9), ("send", 5)]:
        story.tell(Later(1), Invoke(action=action, priority=priority))

    assert claimed(story, ANNA, "print", "send") == ["send-1", "print-2", "print-1", "send-2"]


def test_an_action_named_twice_in_a_claim_is_one_action():
    story = given(SEND, INVOKE, INVOKE)

    assert claimed(story, ANNA, "send", "send") == ["send-1", "send-2"]


def test_runs_that_ask_for_different_labels_keep_their_order_for_a_worker_that_has_them_all():
    labels = [None, {"gpu": True}, None, {"region": "eu"}, {"gpu": True}]
    story = given(
        SEND,
        RegisterWorker(worker_id=ANNA, actions=["send"], labels={"gpu": True, "region": "eu"}),
        *(Invoke(action="send", labels=asked) for asked in labels),
    )

    assert claimed(story) == ["send-1", "send-2", "send-3", "send-4", "send-5"]


def test_a_retry_waits_behind_those_who_came_before_it_was_ready_again():
    story = given(SEND, INVOKE, CLAIM, Later(10), FAIL, Later(500), INVOKE, Later(500), Tick())

    assert claimed(story) == ["send-2", "send-1"]


# Claim


def test_a_claim_gives_the_worker_a_lease():
    story = given(
        RegisterAction(name="send", timeout_ms=700), Invoke(action="send", input=b"hi"), Later(50)
    )

    decision = story.tell(CLAIM)

    task = Task(
        task_id="send-1",
        task_type="send",
        payload=b"hi",
        created_at_ms=NOON_MS,
        attempt=1,
        lease_expires_at_ms=NOON_MS + 750,
    )
    event = RunClaimed(
        namespace=DEFAULT,
        run_id="send-1",
        worker_id=ANNA,
        attempt=1,
        at_ms=NOON_MS + 50,
        lease_expires_at_ms=NOON_MS + 750,
    )
    assert decision.reply == Assigned(tasks=[task])
    assert decision.events == (event,)


def test_a_run_is_in_one_pair_of_hands_at_a_time():
    story = given(SEND, INVOKE)

    assert claimed(story, ANNA) == ["send-1"]
    assert claimed(story, BORIS) == []


def test_a_claim_brings_no_more_than_it_asks_for():
    story = given(SEND, *[INVOKE] * 5)

    assert len(claimed(story, max_tasks=3)) == 3
    assert len(claimed(story, max_tasks=3)) == 2


def test_a_claim_for_an_unknown_action_brings_nothing():
    assert given().tell(CLAIM).reply == Assigned()


def test_large_payloads_are_spread_over_several_claims():
    half = bytes(PAYLOADS_PER_CLAIM_LENGTH_MAX // 2)
    story = given(SEND, *[Invoke(action="send", input=half)] * 5)

    assert [len(claimed(story)) for _ in range(3)] == [3, 2, 0]


def test_a_payload_larger_than_a_claim_may_carry_comes_alone():
    story = given(SEND, *[Invoke(action="send", input=bytes(PAYLOAD_LENGTH_MAX))] * 2)

    assert [len(claimed(story)) for _ in range(3)] == [1, 1, 0]


@pytest.mark.parametrize(
    "settings",
    [
        {"worker_id": ""},
        {"worker_id": "w" * 257},
        {"actions": []},
        {"actions": ["send"] * 1_001},
        {"max_tasks": 0},
        {"max_tasks": 1_001},
        {"block_ms": -1},
        {"block_ms": 300_001},
    ],
)
def test_a_claim_past_its_bounds_is_refused(settings):
    with pytest.raises(Invalid):
        given().tell(Claim(**{"worker_id": ANNA, "actions": ["send"], **settings}))


@pytest.mark.parametrize(
    ("required", "offered", "fits"),
    [
        ({"gpu": True, "vram_gb": 24}, {"gpu": True, "vram_gb": 24, "region": "us-east"}, True),
        ({"gpu": True, "vram_gb": 24}, {"gpu": True, "vram_gb": 16}, False),
        ({"gpu": True}, {"gpu": 1}, False),
        ({"gpu": True}, None, False),
        ({}, None, True),
    ],
)
def test_only_a_worker_with_the_required_labels_gets_the_run(required, offered, fits):
    worker = RegisterWorker(worker_id=ANNA, actions=["send"], labels=offered)
    story = given(SEND, worker, Invoke(action="send", labels=required))

    assert claimed(story) == (["send-1"] if fits else [])


def test_a_worker_nobody_registered_may_claim_runs_that_ask_for_no_labels():
    story = given(SEND, INVOKE, Invoke(action="send", labels={"gpu": True}), INVOKE)

    assert claimed(story, CLARA) == ["send-1", "send-3"]


def test_a_run_passed_over_for_its_labels_waits_for_a_worker_that_has_them():
    story = given(SEND, Invoke(action="send", labels={"gpu": True}), INVOKE)
    assert claimed(story, BORIS) == ["send-2"]

    story.tell(RegisterWorker(worker_id=ANNA, actions=["send"], labels={"gpu": True}))

    assert claimed(story, ANNA) == ["send-1"]


def test_a_draining_worker_gets_nothing_more():
    story = given(
        SEND, RegisterWorker(worker_id=ANNA, actions=["send"]), DrainWorker(worker_id=ANNA), INVOKE
    )

    decision = story.tell(CLAIM)

    assert decision.reply == Assigned(draining=True)
    assert decision.events == ()


# Complete


def test_a_completed_run_leaves_the_state_for_the_archive():
    story = given(SEND, INVOKE, CLAIM, Later(20))

    decision = story.tell(
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
    assert story.state.spaces[DEFAULT].runs == {}
    run = story.ended[DEFAULT, "send-1"]
    assert (run.status, run.output, run.outcome) == (RunStatus.COMPLETED, b"sent", "approved")
    assert (run.started_at_ms, run.finished_at_ms) == (NOON_MS, NOON_MS + 20)
    assert (run.worker_id, run.attempt, run.error) == (ANNA, 1, None)


def test_the_archive_row_of_a_run_says_what_it_is_found_by():
    story = given(SEND, Invoke(action="send", idempotency_key="order-7"), CLAIM, Later(20))

    (row,) = story.tell(COMPLETE).archived

    assert (row.kind, row.namespace, row.name, row.number) == ("run", DEFAULT, "send", 1)
    assert (row.status, row.finished_at_ms, row.key) == ("completed", NOON_MS + 20, "order-7")


def test_a_run_completed_after_a_failed_attempt_remembers_the_attempt_but_no_error():
    story = given(SEND, INVOKE, CLAIM, Later(10), FAIL, Later(1_000), Tick(), CLAIM)

    story.tell(Complete(run_id="send-1", worker_id=ANNA, attempt=2))

    run = story.run("send-1")
    assert (run.status, run.attempt, run.error) == (RunStatus.COMPLETED, 2, None)
    assert run.attempts == (
        Attempt(
            number=1,
            worker_id=ANNA,
            started_at_ms=NOON_MS,
            ended_at_ms=NOON_MS + 10,
            error="no route",
        ),
    )


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"output": bytes(PAYLOAD_LENGTH_MAX + 1)}, TooLarge), ({"outcome": "x" * 4_097}, TooLarge)],
)
def test_a_result_past_its_bounds_is_refused_and_the_lease_goes_on(settings, error):
    story = given(SEND, INVOKE, CLAIM)

    with pytest.raises(error):
        story.tell(Complete(run_id="send-1", worker_id=ANNA, **settings))

    assert story.tell(COMPLETE).reply.status is RunStatus.COMPLETED


# Late and repeated reports


REPORTS = [COMPLETE, FAIL, GIVE_UP, Touch(run_id="send-1", worker_id=ANNA, attempt=1)]


def name_of(report):
    return type(report).__name__


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_a_worker_that_lost_its_lease_cannot_report_while_another_holds_the_run(report):
    story = given(SEND, INVOKE, CLAIM, Later(30_000), Tick(), Later(1_000), Tick())
    story.tell(Claim(worker_id=BORIS, actions=["send"]))

    with pytest.raises(Conflict, match="held by 'boris' as attempt 2") as refusal:
        story.tell(report)

    assert refusal.value.code == "lease_lost"


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_a_worker_that_lost_its_lease_cannot_report_while_the_run_waits_again(report):
    story = given(SEND, INVOKE, CLAIM, Later(30_000), Tick())

    with pytest.raises(Conflict, match="the run is pending"):
        story.tell(report)


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_a_report_of_an_earlier_attempt_is_refused_though_the_same_worker_holds_the_run(report):
    story = given(SEND, INVOKE, CLAIM, Later(30_000), Tick(), Later(1_000), Tick(), CLAIM)

    with pytest.raises(Conflict, match="of attempt 1 is lost: the run is running, held"):
        story.tell(report)


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_nobody_but_the_holder_may_report(report):
    story = given(SEND, INVOKE, Claim(worker_id=BORIS, actions=["send"]))

    with pytest.raises(Conflict, match="held by 'boris'"):
        story.tell(report)


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_a_report_on_a_run_nobody_claimed_is_refused(report):
    with pytest.raises(Conflict, match="the run is pending"):
        given(SEND, INVOKE).tell(report)


@pytest.mark.parametrize("report", REPORTS, ids=name_of)
def test_a_report_on_a_run_that_never_was_is_refused(report):
    with pytest.raises(NotFound) as refusal:
        given(SEND).tell(report)

    assert refusal.value.code == "run_not_found"


@pytest.mark.parametrize("report", [FAIL, GIVE_UP], ids=name_of)
def test_a_completed_run_can_no_longer_fail(report):
    story = given(SEND, INVOKE, CLAIM, COMPLETE)

    with pytest.raises(Conflict, match="the run is completed"):
        story.tell(report)


def test_a_failed_run_can_no_longer_complete():
    story = given(SEND, INVOKE, CLAIM, GIVE_UP)

    with pytest.raises(Conflict, match="the run is failed"):
        story.tell(COMPLETE)


def test_a_run_that_has_ended_cannot_be_touched():
    story = given(SEND, INVOKE, CLAIM, COMPLETE)

    with pytest.raises(NotFound, match="has ended"):
        story.tell(Touch(run_id="send-1", worker_id=ANNA))


@pytest.mark.parametrize(
    ("report", "status"),
    [
        (COMPLETE, RunStatus.COMPLETED),
        (FAIL, RunStatus.PENDING),
        (GIVE_UP, RunStatus.FAILED),
    ],
)
def test_a_report_whose_answer_was_lost_may_come_again_and_counts_once(report, status):
    story = given(SEND, INVOKE, CLAIM, report)

    decision = story.tell(report)

    assert decision.reply == Accepted(run_id="send-1", status=status)
    assert decision.events == ()


def test_a_failure_that_comes_again_during_the_next_attempt_does_not_end_that_one():
    story = given(SEND, INVOKE, CLAIM, FAIL, Later(1_000), Tick(), CLAIM)

    decision = story.tell(FAIL)

    assert decision.reply == Accepted(run_id="send-1", status=RunStatus.RUNNING)
    assert decision.events == ()


@pytest.mark.parametrize(
    "other", [{"output": b"other"}, {"outcome": "rejected"}, {"worker_id": BORIS}, {"attempt": 2}]
)
def test_a_report_that_differs_from_the_one_taken_in_is_refused(other):
    story = given(SEND, INVOKE, CLAIM, COMPLETE)
    report = {"run_id": "send-1", "worker_id": ANNA, "attempt": 1, "output": b"sent"}

    with pytest.raises(Conflict):
        story.tell(Complete(**report | other))


# Fail, and the attempts that follow


def test_a_failed_attempt_is_tried_again_after_the_retry_delay():
    story = given(SEND, INVOKE, CLAIM, Later(10))

    decision = story.tell(FAIL)

    requeued = RunRequeued(
        namespace=DEFAULT,
        run_id="send-1",
        at_ms=NOON_MS + 10,
        error="no route",
        ready_at_ms=NOON_MS + 1_010,
    )
    assert decision.reply == Accepted(run_id="send-1", status=RunStatus.PENDING)
    assert decision.events == (requeued,)
    run = story.run("send-1")
    assert (run.status, run.worker_id, run.error) == (RunStatus.PENDING, None, "no route")


def attempts(story, report):
    """Fail attempt after attempt; the delays between them, and the run as it ended."""
    delays = []
    while "send-1" in story.state.spaces[DEFAULT].runs:
        (task,) = story.tell(CLAIM).reply.tasks
        (event,) = story.tell(report(task)).events
        if isinstance(event, RunRequeued):
            delays.append(event.ready_at_ms - event.at_ms)
            story.tell(Later(delays[-1]), Tick())
    return delays, story.run("send-1")


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
    story = given(
        RegisterAction(
            name="send", timeout_ms=0, max_retries=max_retries, retry_delay_ms=retry_delay_ms
        ),
        INVOKE,
    )

    waited, run = attempts(story, failing)

    assert waited == delays
    assert (run.status, run.attempt) == (RunStatus.FAILED, max_retries + 1)
    assert [attempt.number for attempt in run.attempts] == list(range(1, max_retries + 2))


def test_the_failure_that_uses_up_the_retries_is_dead_lettered():
    story = given(RegisterAction(name="send", max_retries=0), INVOKE, CLAIM)

    decision = story.tell(FAIL)

    failed = RunFailed(
        namespace=DEFAULT, run_id="send-1", at_ms=NOON_MS, error="no route", dead_lettered=True
    )
    assert decision.reply == Accepted(run_id="send-1", status=RunStatus.FAILED)
    assert decision.events == (failed,)
    assert story.run("send-1").dead_lettered


def test_a_failure_without_retry_ends_the_run_at_once_as_a_dead_letter():
    story = given(SEND, INVOKE, CLAIM)

    story.tell(GIVE_UP)

    run = story.run("send-1")
    assert (run.status, run.attempt, run.dead_lettered) == (RunStatus.FAILED, 1, True)
    assert (run.error, run.finished_at_ms) == ("no such user", NOON_MS)


@pytest.mark.parametrize(("retry", "max_retries"), [(False, 3), (True, 0)])
def test_a_failure_that_wants_no_dead_letter_leaves_none(retry, max_retries):
    story = given(RegisterAction(name="send", max_retries=max_retries), INVOKE, CLAIM)

    story.tell(Fail(run_id="send-1", worker_id=ANNA, retry=retry, dead_letter=False))

    run = story.run("send-1")
    assert (run.status, run.dead_lettered) == (RunStatus.FAILED, False)


def test_with_no_retry_delay_the_run_is_ready_at_once():
    story = given(RegisterAction(name="send", retry_delay_ms=0), INVOKE, CLAIM, FAIL)

    assert claimed(story) == ["send-1"]


def test_a_run_keeps_its_priority_and_labels_through_a_retry():
    story = given(
        RegisterAction(name="send", retry_delay_ms=0),
        RegisterWorker(worker_id=ANNA, actions=["send"], labels={"gpu": True}),
        Invoke(action="send", priority=200, labels={"gpu": True}),
        CLAIM,
        INVOKE,
        FAIL,
    )

    assert claimed(story, BORIS) == ["send-2"]
    assert claimed(story, ANNA) == ["send-1"]


def test_a_very_long_error_is_cut_and_still_known_when_it_comes_again():
    shout = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="x" * 100_000)
    story = given(SEND, INVOKE, CLAIM, shout)

    run = story.run("send-1")
    assert (len(run.error), len(run.attempts[0].error)) == (65_536, 4_096)
    assert story.tell(shout).events == ()


def test_of_very_many_attempts_the_last_hundred_are_kept():
    story = given(
        RegisterAction(name="send", max_retries=120, retry_delay_ms=0, timeout_ms=0), INVOKE
    )

    _, run = attempts(story, failing)

    assert [attempt.number for attempt in run.attempts] == list(range(22, 122))


# Leases


def test_a_run_whose_lease_ended_is_tried_again_after_the_retry_delay():
    story = given(RegisterAction(name="send", timeout_ms=700), INVOKE, CLAIM, Later(699))
    assert story.tell(Tick()).events == ()

    (event,) = story.tell(Later(1), Tick()).events

    assert isinstance(event, RunRequeued)
    assert event.ready_at_ms == NOON_MS + 700 + 1_000
    assert event.error == "no result from worker 'anna' within its lease (timeout_ms 700)"
    assert story.run("send-1").attempts[0].number == 1


def test_a_run_whose_last_lease_ended_has_timed_out():
    story = given(
        RegisterAction(name="send", timeout_ms=700, max_retries=0), INVOKE, CLAIM, Later(700)
    )

    decision = story.tell(Tick())

    error = "no result from worker 'anna' within its lease (timeout_ms 700)"
    assert decision.events == (
        RunTimedOut(namespace=DEFAULT, run_id="send-1", at_ms=NOON_MS + 700, error=error),
    )
    run = story.run("send-1")
    assert (run.status, run.error, run.dead_lettered) == (RunStatus.TIMED_OUT, error, True)


def test_a_lost_lease_counts_as_an_attempt():
    def waiting_in_vain(task):
        story.now_ms = task.lease_expires_at_ms
        return Tick()

    story = given(RegisterAction(name="send", timeout_ms=700, max_retries=2), INVOKE)

    delays, run = attempts(story, waiting_in_vain)

    assert delays == [1_000, 2_000]
    assert (run.status, run.attempt) == (RunStatus.TIMED_OUT, 3)


def test_a_lease_without_a_timeout_never_ends():
    story = given(RegisterAction(name="send", timeout_ms=0), INVOKE)

    (task,) = story.tell(CLAIM).reply.tasks

    assert task.lease_expires_at_ms is None
    assert story.tell(Later(DURATION_MS_MAX), Tick()).events == ()
    assert story.state.due.next_at_ms() is None


@pytest.mark.parametrize("report", [COMPLETE, GIVE_UP], ids=name_of)
def test_a_run_that_ended_in_time_does_not_fall_due(report):
    story = given(SEND, INVOKE, CLAIM, report)

    assert len(story.state.due) == 0
    assert story.tell(Later(60_000), Tick()).events == ()


def test_a_report_that_beats_the_tick_is_taken_in_though_the_lease_is_over():
    story = given(SEND, INVOKE, CLAIM, Later(30_001))

    assert story.tell(COMPLETE).reply.status is RunStatus.COMPLETED


def test_a_tick_does_no_more_than_its_share_and_says_that_there_is_more():
    story = given(SEND, *[Invoke(action="send", delay_ms=1)] * (DUE_PER_TICK_MAX + 1), Later(1))

    first, second = story.tell(Tick()), story.tell(Tick())

    assert (len(first.events), first.reply) == (DUE_PER_TICK_MAX, Ticked(more=True))
    assert (len(second.events), second.reply) == (1, Ticked(more=False))


# Touch


def test_a_touch_extends_the_lease():
    story = given(RegisterAction(name="send", timeout_ms=700), INVOKE, CLAIM, Later(600))

    decision = story.tell(Touch(run_id="send-1", worker_id=ANNA, attempt=1, extend_ms=5_000))

    assert decision.reply == Touched(run_id="send-1", lease_expires_at_ms=NOON_MS + 5_600)
    assert decision.events == (
        RunTouched(
            namespace=DEFAULT,
            run_id="send-1",
            lease_expires_at_ms=NOON_MS + 5_600,
            at_ms=NOON_MS + 600,
        ),
    )
    assert story.tell(Later(4_999), Tick()).events == ()
    assert len(story.tell(Later(1), Tick()).events) == 1


def test_a_lease_that_never_ends_needs_no_touch():
    story = given(RegisterAction(name="send", timeout_ms=0), INVOKE, CLAIM)

    decision = story.tell(Touch(run_id="send-1", worker_id=ANNA))

    assert decision.reply == Touched(run_id="send-1", lease_expires_at_ms=None)
    assert decision.events == ()


@pytest.mark.parametrize("extend_ms", [-1, 0, 3_600_001])
def test_a_touch_past_its_bounds_is_refused(extend_ms):
    with pytest.raises(Invalid):
        given(SEND, INVOKE, CLAIM).tell(Touch(run_id="send-1", worker_id=ANNA, extend_ms=extend_ms))


# Idempotency


KEYED = Invoke(action="send", idempotency_key="order-7")
SAME_RUN = Invoked(run_id="send-1", duplicate=True)


@pytest.mark.parametrize(
    "since",
    [
        [],
        [CLAIM],
        [CLAIM, COMPLETE],
        [CLAIM, GIVE_UP],
        [CLAIM, FAIL],
        [CLAIM, Later(30_000), Tick()],
        [Cancel(run_id="send-1")],
        [CLAIM, Cancel(run_id="send-1")],
    ],
)
def test_the_same_key_gives_the_same_run_whatever_became_of_it(since):
    story = given(SEND, KEYED, *since)

    decision = story.tell(KEYED)

    assert decision.reply == SAME_RUN
    assert decision.events == ()


def test_a_key_counts_for_one_action_in_one_namespace():
    story = given(
        SEND, RegisterAction(name="print"), RegisterAction(name="send", namespace="prod"), KEYED
    )

    for other in (
        Invoke(action="print", idempotency_key="order-7"),
        Invoke(action="send", idempotency_key="order-7", namespace="prod"),
        Invoke(action="send", idempotency_key="order-8"),
    ):
        assert not story.tell(other).reply.duplicate


def test_an_invocation_that_comes_again_is_the_same_whatever_else_it_says():
    story = given(SEND, KEYED)

    other = Invoke(action="send", idempotency_key="order-7", input=b"other", priority=99)

    assert story.tell(other).reply == SAME_RUN


def finish_keyed_runs(story, count):
    for _ in range(count):
        key = f"another-{len(story.events)}"
        invoked = story.tell(Invoke(action="send", idempotency_key=key)).reply
        story.tell(CLAIM, Complete(run_id=invoked.run_id, worker_id=ANNA))


def test_a_key_that_memory_has_forgotten_is_recalled_from_the_archive(monkeypatch):
    monkeypatch.setattr("flo.core.runs.KEYS_REMEMBERED_MAX", 3)
    story = given(SEND, KEYED, CLAIM, COMPLETE)
    space = story.state.spaces[DEFAULT]

    finish_keyed_runs(story, 2)
    assert ("send", "order-7") in space.keys

    finish_keyed_runs(story, 1)
    assert ("send", "order-7") not in space.keys
    assert (len(space.keys), len(space.keys_finished)) == (3, 3)
    assert story.tell(KEYED).reply == SAME_RUN


def test_the_key_of_a_live_run_is_never_forgotten(monkeypatch):
    monkeypatch.setattr("flo.core.runs.KEYS_REMEMBERED_MAX", 3)
    story = given(SEND, KEYED, Claim(worker_id=BORIS, actions=["send"]))

    finish_keyed_runs(story, 10)
    story.ended.clear()

    assert story.tell(KEYED).reply == SAME_RUN


def test_a_key_that_the_archive_has_forgotten_too_may_be_used_again(monkeypatch):
    monkeypatch.setattr("flo.core.runs.KEYS_REMEMBERED_MAX", 3)
    story = given(SEND, KEYED, CLAIM, COMPLETE)
    finish_keyed_runs(story, 4)
    story.ended.clear()

    assert story.tell(KEYED).reply == Invoked(run_id="send-6", duplicate=False)

    story.tell(Claim(worker_id=BORIS, actions=["send"]))
    finish_keyed_runs(story, 3)
    assert story.tell(KEYED).reply == Invoked(run_id="send-6", duplicate=True)


def test_memory_keeps_ten_thousand_keys_of_ended_runs():
    assert KEYS_REMEMBERED_MAX == 10_000


# Workers that leave


def test_what_a_worker_leaves_undone_is_given_up_at_once():
    story = given(SEND, RegisterWorker(worker_id=ANNA, actions=["send"]), *[INVOKE] * 3)
    claimed(story, ANNA, max_tasks=2)
    claimed(story, BORIS, max_tasks=1)

    _, *given_up = story.tell(DeregisterWorker(worker_id=ANNA)).events

    assert [event.run_id for event in given_up] == ["send-1", "send-2"]
    assert {event.error for event in given_up} == {"worker 'anna' left"}
    assert {event.ready_at_ms for event in given_up} == {NOON_MS + 1_000}
    assert story.run("send-3").worker_id == BORIS


def test_the_last_attempt_of_a_worker_that_leaves_has_timed_out():
    story = given(
        RegisterAction(name="send", max_retries=0),
        RegisterWorker(worker_id=ANNA, actions=["send"]),
        INVOKE,
        CLAIM,
    )

    decision = story.tell(DeregisterWorker(worker_id=ANNA))

    assert story.run("send-1").status is RunStatus.TIMED_OUT
    assert len(decision.archived) == 1


def test_who_holds_what_is_known_as_long_as_it_is_held():
    story = given(SEND, *[INVOKE] * 3)
    space = story.state.spaces[DEFAULT]

    claimed(story, ANNA, max_tasks=2)
    claimed(story, BORIS)
    assert {worker: list(runs) for worker, runs in space.held.items()} == {
        ANNA: ["send-1", "send-2"],
        BORIS: ["send-3"],
    }

    story.tell(COMPLETE, Fail(run_id="send-3", worker_id=BORIS, retry=True))
    assert {worker: list(runs) for worker, runs in space.held.items()} == {ANNA: ["send-2"]}


def test_when_every_run_has_ended_nothing_of_them_is_left_in_memory():
    story = given(SEND, *[INVOKE] * 20)
    for run_id in claimed(story):
        story.tell(Complete(run_id=run_id, worker_id=ANNA))
    story.tell(DeleteAction(name="send"))

    space = story.state.spaces[DEFAULT]
    assert not space.runs
    assert not any(space.queues.values())
    assert not space.held
    assert not space.keys
    assert len(story.state.due) == 0


def test_a_worker_holds_no_more_than_it_could_give_up_in_one_commit(monkeypatch):
    monkeypatch.setattr("flo.core.runs.HELD_PER_WORKER_MAX", 2)
    story = given(RegisterAction(name="send"), *[Invoke(action="send")] * 3)

    first = story.tell(Claim(worker_id=ANNA, actions=["send"], max_tasks=3))
    second = story.tell(Claim(worker_id=ANNA, actions=["send"], max_tasks=3))

    assert len(first.reply.tasks) == 2
    assert second.reply.tasks == []
