import pytest
from msgspec.structs import replace

from flo.engine.runs import dead_letters as dead
from flo.engine.runs.events import RunPurged, RunRequeued, RunRevived, RunTimedOut
from flo.engine.ticks import Tick
from flo.model.actions import DeleteAction, DisableAction, GetAction, RegisterAction
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.runs import (
    Accepted,
    Cancel,
    Claim,
    Complete,
    DeadRunsChanged,
    Fail,
    GetRun,
    Invoke,
    Invoked,
    ListDeadRuns,
    ListRuns,
    PurgeDeadRuns,
    RequeueDeadRuns,
    RunStatus,
    Touch,
)
from flo.model.storage.archive import ArchiveAddress
from flo.model.workers import RegisterWorker
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, given

SEND = RegisterAction(name="send", max_retries=1, retry_delay_ms=100)
INVOKE = Invoke(action="send")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
REQUEUE = RequeueDeadRuns(action="send", ids=["send-1"])
PURGE = PurgeDeadRuns(action="send", ids=["send-1"])


def given_dead(*numbers, before=(SEND,), **invocation):
    """Runs 1 to the highest of these numbers have ended; these are dead letters."""
    engine = given(*before)
    for number in range(1, max(numbers, default=0) + 1):
        engine.execute(Invoke(action="send", **invocation), CLAIM)
        run_id = f"send-{number}"
        if number in numbers:
            engine.execute(Fail(run_id=run_id, worker_id=ANNA, attempt=1, error="no"))
        else:
            engine.execute(Complete(run_id=run_id, worker_id=ANNA))
    return engine


def listed(engine, **settings):
    """The numbers on every page of dead letters."""
    query = ListDeadRuns(action="send", **settings)
    page = engine.query(query)
    pages = [[run.run_id.removeprefix("send-") for run in page.items]]
    while page.cursor is not None:
        page = engine.query(replace(query, cursor=page.cursor))
        pages.append([run.run_id.removeprefix("send-") for run in page.items])
    return [[int(number) for number in numbers] for numbers in pages]


def tally(engine):
    counts = engine.query(GetAction(name="send")).runs
    return {status: count for status, count in counts.items() if count}


# The list


@pytest.mark.parametrize(
    ("settings", "pages"),
    [
        ({}, [[9, 7, 4, 2, 1]]),
        ({"limit": 5}, [[9, 7, 4, 2, 1]]),
        ({"limit": 4}, [[9, 7, 4, 2], [1]]),
        ({"limit": 2}, [[9, 7], [4, 2], [1]]),
        ({"limit": 1}, [[9], [7], [4], [2], [1]]),
        ({"cursor": "4"}, [[2, 1]]),
        ({"cursor": "1"}, [[]]),
        ({"namespace": "prod"}, [[]]),
    ],
)
def test_dead_letters_are_listed_the_newest_first(settings, pages):
    assert listed(given_dead(1, 2, 4, 7, 9), **settings) == pages


def test_a_list_of_dead_letters_shows_what_became_of_them():
    engine = given_dead(1, input=b"{}")

    (run,) = engine.query(ListDeadRuns(action="send")).items

    assert run == engine.query(GetRun(run_id="send-1"))
    assert (run.status, run.error, run.dead_lettered) == (RunStatus.FAILED, "no", True)


def test_a_page_of_large_dead_letters_is_shorter_than_its_limit(monkeypatch):
    monkeypatch.setattr("flo.engine.runs.queries.PAYLOADS_PER_PAGE_LENGTH_MAX", 100)

    assert listed(given_dead(1, 2, 3, 4, 5, input=bytes(60))) == [[5, 4], [3, 2], [1]]


@pytest.mark.parametrize(
    "settings", [{"limit": 0}, {"limit": 1_001}, {"cursor": "x"}, {"cursor": "-1"}]
)
def test_a_list_past_its_bounds_is_refused(settings):
    with pytest.raises(Invalid):
        given(SEND).query(ListDeadRuns(action="send", **settings))


def test_what_ended_in_other_ways_is_no_dead_letter():
    engine = given(SEND, *[INVOKE] * 4, Claim(worker_id=ANNA, actions=["send"], max_tasks=3))
    engine.execute(
        Complete(run_id="send-1", worker_id=ANNA),
        Fail(run_id="send-2", worker_id=ANNA, dead_letter=False),
        Cancel(run_id="send-3"),
        Cancel(run_id="send-4"),
    )

    assert listed(engine) == [[]]


def test_a_run_that_timed_out_is_a_dead_letter():
    engine = given(RegisterAction(name="send", timeout_ms=100, max_retries=0), INVOKE, CLAIM)

    engine.execute(Later(100), Tick())

    assert listed(engine) == [[1]]


# Requeue


def test_a_requeued_run_is_pending_again_and_the_archive_lets_go_of_it():
    engine = given_dead(1, input=b"{}", priority=7)
    engine.execute(Later(5_000))
    died = engine.run("send-1")

    decision = engine.execute(REQUEUE)

    run = replace(
        died,
        status=RunStatus.PENDING,
        ready_at_ms=NOON_MS + 5_000,
        attempts_before=1,
        worker_id=None,
        started_at_ms=None,
        lease_expires_at_ms=None,
        finished_at_ms=None,
        dead_lettered=False,
    )
    assert decision.reply == DeadRunsChanged(ids=["send-1"])
    assert decision.events == (RunRevived(namespace=DEFAULT, run=run, was=RunStatus.FAILED),)
    assert decision.beside.removed == [ArchiveAddress("run", DEFAULT, "send", 1)]
    assert decision.archived == ()
    assert engine.ended == {}
    assert listed(engine) == [[]]
    assert engine.query(GetRun(run_id="send-1")).status is RunStatus.PENDING


def test_a_requeued_run_waits_behind_those_that_were_there_before_it():
    engine = given_dead(1)

    engine.execute(INVOKE, REQUEUE, INVOKE)

    claim = Claim(worker_id=ANNA, actions=["send"], max_tasks=3)
    assert [task.task_id for task in engine.execute(claim).reply.tasks] == [
        "send-2",
        "send-1",
        "send-3",
    ]


def test_a_requeued_run_keeps_its_input_its_priority_and_its_labels():
    gpu = RegisterWorker(worker_id=ANNA, processes=["send"], labels={"gpu": True})
    engine = given_dead(1, before=(SEND, gpu), labels={"gpu": True}, input=b"x", priority=200)

    engine.execute(Invoke(action="send", labels={"gpu": True}), REQUEUE)

    assert engine.execute(Claim(worker_id=BORIS, actions=["send"])).reply.tasks == []
    (task,) = engine.execute(CLAIM).reply.tasks
    assert (task.task_id, task.payload, task.attempt) == ("send-1", b"x", 2)


def test_attempts_are_numbered_on_while_the_retries_begin_anew():
    engine = given(SEND, INVOKE)
    numbers, delays = [], []
    for _ in range(2):
        for _ in range(2):
            (task,) = engine.execute(CLAIM).reply.tasks
            numbers.append(task.attempt)
            fail = Fail(
                run_id="send-1", worker_id=ANNA, attempt=task.attempt, error="no", retry=True
            )
            (event,) = engine.execute(fail).events
            if isinstance(event, RunRequeued):
                delays.append(event.ready_at_ms - event.at_ms)
                engine.execute(Later(delays[-1]), Tick())
        assert engine.run("send-1").dead_lettered
        engine.execute(REQUEUE)

    assert numbers == [1, 2, 3, 4]
    assert delays == [100, 100]
    run = engine.run("send-1")
    assert (run.attempts_before, run.attempt) == (4, 4)
    assert [attempt.number for attempt in run.attempts] == [1, 2, 3, 4]


def test_a_requeued_run_may_complete_and_remembers_how_it_once_failed():
    engine = given_dead(1)
    engine.execute(
        REQUEUE, CLAIM, Complete(run_id="send-1", worker_id=ANNA, attempt=2, output=b"ok")
    )

    run = engine.run("send-1")

    assert (run.status, run.output, run.error, run.dead_lettered) == (
        RunStatus.COMPLETED,
        b"ok",
        None,
        False,
    )
    assert [attempt.error for attempt in run.attempts] == ["no"]


def test_a_requeued_run_that_is_cancelled_is_no_dead_letter_any_more():
    engine = given_dead(1)
    engine.execute(REQUEUE, Cancel(run_id="send-1"))

    assert engine.run("send-1").status is RunStatus.CANCELLED
    assert listed(engine) == [[]]
    with pytest.raises(Conflict) as refusal:
        engine.execute(REQUEUE)
    assert refusal.value.code == "not_dead"


def test_a_requeued_run_whose_lease_ends_after_its_last_retry_has_timed_out_again():
    once = RegisterAction(name="send", max_retries=0, timeout_ms=100)
    engine = given(once, INVOKE, CLAIM, Later(100), Tick(), REQUEUE, CLAIM, Later(100))

    (event,) = engine.execute(Tick()).events

    assert isinstance(event, RunTimedOut)
    assert listed(engine) == [[1]]
    assert tally(engine) == {"timed_out": 1}


@pytest.mark.parametrize(
    "report",
    [
        Complete(run_id="send-1", worker_id=ANNA, attempt=1, output=b"late"),
        Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="another"),
        Touch(run_id="send-1", worker_id=ANNA, attempt=1),
    ],
    ids=lambda report: type(report).__name__,
)
@pytest.mark.parametrize("since", [[], [CLAIM]], ids=["pending", "running"])
def test_a_late_report_of_an_earlier_life_is_refused(report, since):
    engine = given_dead(1)
    engine.execute(REQUEUE, *since)

    with pytest.raises(Conflict, match="of attempt 1 is lost") as refusal:
        engine.execute(report)

    assert refusal.value.code == "lease_lost"


def test_a_failure_of_an_earlier_life_that_comes_again_changes_nothing():
    engine = given_dead(1)
    engine.execute(REQUEUE, CLAIM)

    again = engine.execute(Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no"))

    assert again.reply == Accepted(run_id="send-1", status=RunStatus.RUNNING)
    assert again.events == ()


def test_all_dead_letters_are_requeued_the_newest_first_a_portion_at_a_time():
    engine = given_dead(1, 2, 4, 5, 6)
    portion = RequeueDeadRuns(action="send", limit=2)

    replies = [engine.execute(portion).reply for _ in range(4)]

    assert replies == [
        DeadRunsChanged(ids=["send-6", "send-5"], more=True),
        DeadRunsChanged(ids=["send-4", "send-2"], more=True),
        DeadRunsChanged(ids=["send-1"], more=False),
        DeadRunsChanged(ids=[], more=False),
    ]
    assert tally(engine) == {"pending": 5, "completed": 1}


def test_exactly_as_many_as_asked_for_are_all_there_were():
    engine = given_dead(1, 2)

    assert engine.execute(RequeueDeadRuns(action="send", limit=2)).reply == DeadRunsChanged(
        ids=["send-2", "send-1"], more=False
    )


def test_several_dead_letters_are_requeued_by_name():
    engine = given_dead(1, 2, 3)

    decision = engine.execute(RequeueDeadRuns(action="send", ids=["send-3", "send-1", "send-3"]))

    assert decision.reply == DeadRunsChanged(ids=["send-3", "send-1"])
    assert listed(engine) == [[2]]


@pytest.mark.parametrize("command", [RequeueDeadRuns, PurgeDeadRuns])
@pytest.mark.parametrize(
    ("run_id", "error", "code"),
    [
        ("send-9", NotFound, "run_not_found"),
        ("print-1", NotFound, "run_not_found"),
        ("nonsense", NotFound, "run_not_found"),
        ("", NotFound, "run_not_found"),
        ("send-2", Conflict, "not_dead"),
        ("send-3", Conflict, "not_dead"),
        ("send-4", Conflict, "not_dead"),
    ],
)
def test_if_one_that_is_named_is_no_dead_letter_none_is_touched(command, run_id, error, code):
    engine = given_dead(1, before=(SEND, RegisterAction(name="print"), Invoke(action="print")))
    engine.execute(Claim(worker_id=ANNA, actions=["print"]))
    engine.execute(Fail(run_id="print-1", worker_id=ANNA))
    engine.execute(INVOKE, CLAIM, Complete(run_id="send-2", worker_id=ANNA), INVOKE, CLAIM, INVOKE)

    with pytest.raises(error) as refusal:
        engine.execute(command(action="send", ids=["send-1", run_id]))

    assert refusal.value.code == code
    assert listed(engine) == [[1]]


@pytest.mark.parametrize("command", [RequeueDeadRuns, PurgeDeadRuns])
@pytest.mark.parametrize(
    "settings",
    [{"limit": 0}, {"limit": -1}, {"limit": 1_001}, {"ids": []}, {"ids": ["x"] * 1_001}],
)
def test_a_portion_past_its_bounds_is_refused(command, settings):
    with pytest.raises(Invalid):
        given_dead(1).execute(command(action="send", **settings))


def test_a_run_that_was_requeued_cannot_be_requeued_again_before_it_dies_again():
    engine = given_dead(1)
    engine.execute(REQUEUE)

    with pytest.raises(Conflict, match="has not ended"):
        engine.execute(REQUEUE)


def test_what_is_requeued_at_once_is_bounded_by_its_length(monkeypatch):
    monkeypatch.setattr(dead, "INPUTS_PER_REQUEUE_LENGTH_MAX", 100)
    engine = given_dead(1, 2, 3, input=bytes(60))

    with pytest.raises(TooLarge, match="name fewer"):
        engine.execute(RequeueDeadRuns(action="send", ids=["send-1", "send-2", "send-3"]))
    assert listed(engine) == [[3, 2, 1]]

    assert engine.execute(RequeueDeadRuns(action="send")).reply == DeadRunsChanged(
        ids=["send-3", "send-2"], more=True
    )
    assert engine.execute(RequeueDeadRuns(action="send")).reply == DeadRunsChanged(ids=["send-1"])


def test_a_dead_letter_of_an_action_that_is_deleted_cannot_be_requeued_but_purged():
    engine = given_dead(1)
    engine.execute(DeleteAction(name="send"))

    with pytest.raises(NotFound) as refusal:
        engine.execute(REQUEUE)

    assert refusal.value.code == "action_not_found"
    assert listed(engine) == [[1]]
    assert engine.execute(PURGE).reply == DeadRunsChanged(ids=["send-1"])
    assert listed(engine) == [[]]


def test_a_dead_letter_of_an_action_that_is_disabled_may_be_requeued():
    engine = given_dead(1)
    engine.execute(DisableAction(name="send"))

    assert engine.execute(REQUEUE).reply == DeadRunsChanged(ids=["send-1"])


def test_a_requeued_run_outlives_its_action_like_any_other():
    engine = given_dead(1)
    engine.execute(REQUEUE, DeleteAction(name="send"))

    assert engine.execute(CLAIM).reply.tasks[0].task_id == "send-1"


# Purge


def test_a_purged_dead_letter_is_forgotten():
    engine = given_dead(1, 2)

    decision = engine.execute(PURGE)

    purged = RunPurged(namespace=DEFAULT, action="send", number=1, was=RunStatus.FAILED, key=None)
    assert decision.reply == DeadRunsChanged(ids=["send-1"])
    assert decision.events == (purged,)
    assert decision.beside.removed == [ArchiveAddress("run", DEFAULT, "send", 1)]
    assert listed(engine) == [[2]]
    with pytest.raises(NotFound):
        engine.query(GetRun(run_id="send-1"))
    with pytest.raises(NotFound):
        engine.execute(PURGE)
    assert [run.run_id for run in engine.query(ListRuns(action="send")).items] == ["send-2"]


def test_all_dead_letters_are_purged_a_portion_at_a_time():
    engine = given_dead(1, 2, 4)
    portion = PurgeDeadRuns(action="send", limit=2)

    assert engine.execute(portion).reply == DeadRunsChanged(ids=["send-4", "send-2"], more=True)
    assert engine.execute(portion).reply == DeadRunsChanged(ids=["send-1"], more=False)
    assert engine.execute(portion).reply == DeadRunsChanged(ids=[], more=False)
    assert tally(engine) == {"completed": 1}


def test_a_run_id_that_was_purged_is_never_given_again():
    engine = given_dead(1)

    engine.execute(PURGE)

    assert engine.execute(INVOKE).reply.run_id == "send-2"


# Counts


def test_the_counts_follow_a_run_through_its_lives():
    engine = given_dead(1)
    assert tally(engine) == {"failed": 1}

    engine.execute(REQUEUE)
    assert tally(engine) == {"pending": 1}

    engine.execute(CLAIM, Fail(run_id="send-1", worker_id=ANNA, attempt=2))
    assert tally(engine) == {"failed": 1}

    engine.execute(PURGE)
    assert tally(engine) == {}


# Idempotency


KEYED = Invoke(action="send", idempotency_key="order-7")
SAME_RUN = Invoked(run_id="send-1", duplicate=True)


@pytest.mark.parametrize("remembered", [True, False])
def test_a_requeued_run_keeps_its_idempotency_key(remembered, monkeypatch):
    monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 100 if remembered else 0)
    engine = given(SEND, KEYED, CLAIM, Fail(run_id="send-1", worker_id=ANNA))
    assert (("send", "order-7") in engine.state.spaces[DEFAULT].run_keys.run_ids) is remembered
    assert engine.execute(KEYED).reply == SAME_RUN

    for since in (REQUEUE, CLAIM, Complete(run_id="send-1", worker_id=ANNA)):
        engine.execute(since)
        assert engine.execute(KEYED).reply == SAME_RUN


def test_a_key_is_remembered_from_the_last_end_of_its_run(monkeypatch):
    monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 2)
    engine = given(SEND, KEYED, CLAIM, Fail(run_id="send-1", worker_id=ANNA))
    other = Invoke(action="send", idempotency_key="other")
    engine.execute(other, CLAIM, Complete(run_id="send-2", worker_id=ANNA))

    engine.execute(REQUEUE, CLAIM, Complete(run_id="send-1", worker_id=ANNA))
    assert list(engine.state.spaces[DEFAULT].run_keys.finished) == [
        ("send", "other"),
        ("send", "order-7"),
    ]

    third = Invoke(action="send", idempotency_key="third")
    engine.execute(third, CLAIM, Complete(run_id="send-3", worker_id=ANNA))
    assert set(engine.state.spaces[DEFAULT].run_keys.run_ids) == {
        ("send", "order-7"),
        ("send", "third"),
    }


@pytest.mark.parametrize("remembered", [True, False])
def test_the_key_of_a_purged_run_may_be_used_again(remembered, monkeypatch):
    monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 100 if remembered else 0)
    engine = given(SEND, KEYED, CLAIM, Fail(run_id="send-1", worker_id=ANNA))

    engine.execute(PURGE)

    assert engine.execute(KEYED).reply == Invoked(run_id="send-2", duplicate=False)
    assert engine.execute(KEYED).reply == Invoked(run_id="send-2", duplicate=True)
