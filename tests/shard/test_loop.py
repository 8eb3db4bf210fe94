import asyncio

import pytest
from structlog.testing import capture_logs

from flo.engine.machine import FOLDS, RULES
from flo.engine.runs.events import RunQueued
from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import DeleteAction, GetAction, RegisterAction
from flo.model.errors import Conflict, Corrupt, Invalid, NotFound, Unavailable, Unexpected
from flo.model.runs import (
    Accepted,
    Assigned,
    Claim,
    Complete,
    Ended,
    Fail,
    GetRun,
    Invoke,
    Invoked,
    ListRuns,
    RunStatus,
    WaitForRuns,
)
from flo.model.workers import DeregisterWorker, DrainWorker, Heartbeat, RegisterWorker, WorkerStatus
from flo.shard.batch import MESSAGES_MAX, SMALL_EVENTS, SMALL_LENGTH, SMALL_MESSAGES
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT
from settled import begun, settled

INVOKE = Invoke(action="send")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
PATIENT = Claim(worker_id=ANNA, actions=["send"], block_ms=30_000)
COMPLETE = Complete(run_id="send-1", worker_id=ANNA, attempt=1, output=b"sent")
ONE, TWO = Invoked(run_id="send-1"), Invoked(run_id="send-2")


def patient(worker_id, *actions, max_tasks=1, block_ms=30_000):
    return Claim(
        worker_id=worker_id,
        actions=[*actions] or ["send"],
        max_tasks=max_tasks,
        block_ms=block_ms,
    )


def tasks_of(assigned):
    return [task.task_id for task in assigned.tasks]


async def finish(shard, count=1, **invocation):
    """Invoke, claim and complete some runs; their ids."""
    run_ids = []
    for _ in range(count):
        run_id = (await shard.ask(Invoke(action="send", **invocation))).run_id
        await shard.ask(CLAIM)
        await shard.ask(Complete(run_id=run_id, worker_id=ANNA))
        run_ids.append(run_id)
    return run_ids


def forget_recent(shard):
    shard._prefetch.recent._rows.clear()


# A reply is a promise


async def test_a_command_is_answered_with_its_reply(shard):
    assert await shard.ask(INVOKE) == ONE


async def test_a_refused_command_is_answered_with_the_refusal(shard, log):
    with pytest.raises(NotFound, match="'print' is not registered"):
        await shard.ask(Invoke(action="print"))

    assert log.begun == []


async def test_a_reply_leaves_only_when_its_facts_are_durable(shard, log):
    log.gate.shut()

    invoking = await begun(shard.ask(INVOKE))

    assert len(log.begun) == 1
    assert not invoking.done()

    log.gate.open()
    assert await invoking == ONE
    assert log.position == 4


async def test_what_arrives_during_an_append_shares_the_next_one(shard, log):
    log.gate.shut()
    first = await begun(shard.ask(INVOKE))
    others = [await begun(shard.ask(INVOKE)) for _ in range(5)]
    assert [len(events) for events in log.begun] == [1]

    log.gate.open()

    assert [(await task).run_id for task in [first, *others]] == [f"send-{n}" for n in range(1, 7)]
    assert [len(events) for events in log.begun] == [1, 5]


async def test_what_arrives_during_an_append_is_decided_meanwhile(shard, log):
    log.gate.shut()
    await begun(shard.ask(INVOKE))

    await begun(shard.ask(INVOKE))

    assert [type(event).__name__ for event in shard.ahead] == ["CallerNoted", "RunQueued"]
    assert len(log.begun) == 1


async def test_the_first_of_two_appends_is_answered_while_the_second_is_under_way(shard, log):
    log.gate.shut()
    first = await begun(shard.ask(INVOKE))
    second = await begun(shard.ask(INVOKE))

    log.gate.pass_one()
    await settled()

    assert first.done()
    assert not second.done()
    assert len(log.begun) == 2


async def test_a_question_hears_nothing_of_what_is_not_durable(shard, log):
    log.gate.shut()
    await begun(shard.ask(INVOKE))

    asking = await begun(shard.ask(GetRun(run_id="send-1")))
    assert not asking.done()

    log.gate.open()
    assert (await asking).status is RunStatus.PENDING


async def test_an_answer_is_made_of_the_state_as_its_batch_leaves_it(shard, log):
    await shard.ask(INVOKE)
    log.gate.shut()
    await begun(shard.ask(RegisterAction(name="print")))
    asking = await begun(shard.ask(GetRun(run_id="send-1")))
    log.gate.pass_one()
    await settled()
    assert (await asking).status is RunStatus.PENDING

    claiming = await begun(shard.ask(CLAIM))
    asking = await begun(shard.ask(GetRun(run_id="send-1")))
    await begun(shard.ask(COMPLETE))
    log.gate.pass_one()
    await settled()

    assert tasks_of(await claiming) == ["send-1"]
    assert not asking.done()  # it came after the claim: it hears of the batch that it shares
    log.gate.open()
    assert (await asking).status is RunStatus.COMPLETED


async def test_a_wait_that_is_over_during_an_append_is_answered_after_it(shard, log, clock):
    await shard.ask(INVOKE)
    waiting = await begun(shard.ask(WaitForRuns(run_ids=["send-1"], block_ms=700)))
    log.gate.shut()
    await begun(shard.ask(INVOKE))

    clock.advance(700)
    await settled()
    assert not waiting.done()

    log.gate.open()
    assert await waiting == Ended()


async def test_all_that_was_decided_is_written_before_anybody_is_told_so(shard, log):
    log.gate.shut()
    await begun(shard.ask(INVOKE))
    await begun(shard.ask(INVOKE))

    written = await begun(shard.written())
    log.gate.pass_one()
    await settled()
    assert not written.done()

    log.gate.open()
    await written
    assert log.position == 6


async def test_the_answers_come_in_the_order_of_the_words(shard):
    answers = []

    shard.submit([INVOKE, Invoke(action="print"), INVOKE], answers.extend)
    await settled()

    assert [answers[0], answers[2]] == [ONE, TWO]
    assert isinstance(answers[1], NotFound)


async def test_a_command_that_changes_nothing_is_not_appended(shard, log):
    await shard.ask(RegisterWorker(worker_id=ANNA, processes=["send"]))
    log.begun.clear()

    await shard.ask(Heartbeat(worker_id=ANNA))
    await shard.ask(CLAIM)
    await shard.ask(RegisterAction(name="send", if_changed=True))

    assert log.begun == []


async def test_a_large_crowd_is_served_batch_by_batch(shard, log):
    answers = []
    log.gate.shut()
    shard.submit([INVOKE], answers.extend)
    await settled()
    for _ in range(MESSAGES_MAX + 500):
        shard.submit([INVOKE], answers.extend)
    await settled()
    log.gate.open()
    await settled()

    _, first, *others = (len(events) for events in log.begun)
    assert (first, sum(others)) == (MESSAGES_MAX, 500)
    assert len(answers) == MESSAGES_MAX + 501


async def test_large_payloads_are_spread_over_several_appends(shard, log, monkeypatch):
    monkeypatch.setattr("flo.shard.batch.LENGTH_MAX", 100)
    answers = []
    for _ in range(5):
        shard.submit([Invoke(action="send", input=bytes(60))], answers.extend)
    await settled()
    assert [len(events) for events in log.begun] == [2, 2, 1]

    await shard.ask(Claim(worker_id=ANNA, actions=["send"], max_tasks=5))
    log.begun.clear()
    for number in range(1, 6):
        report = Complete(run_id=f"send-{number}", worker_id=ANNA, output=bytes(100))
        shard.submit([report], answers.extend)
    await settled()

    assert [len(events) for events in log.begun] == [1, 1, 1, 1, 1]
    assert len(answers) == 10


async def test_an_asker_that_has_gone_is_not_called_but_its_facts_stand(shard):
    answers = []
    submission = shard.submit([INVOKE], answers.extend)

    submission.withdraw()
    await settled()

    assert answers == []
    assert await shard.ask(INVOKE) == TWO


async def test_an_asker_that_is_cancelled_as_its_answer_comes_disturbs_nobody(shard, log):
    log.gate.shut()
    holding_up = await begun(shard.ask(INVOKE))
    shard.submit([INVOKE], lambda answers: asking.cancel())
    asking = await begun(shard.ask(INVOKE))

    log.gate.open()

    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await holding_up == ONE
    assert (await shard.ask(INVOKE)).run_id == "send-4"


# Questions


async def test_a_question_is_shown_only_what_is_durable(shard, log):
    log.gate.shut()
    invoking = await begun(shard.ask(INVOKE))
    asking = await begun(shard.ask(GetRun(run_id="send-1")))
    assert not asking.done()

    log.gate.open()

    assert (await asking).status is RunStatus.PENDING
    assert invoking.done()


async def test_a_question_in_the_same_batch_waits_for_the_batch_to_be_durable(shard, log):
    log.gate.shut()
    invoking = asyncio.ensure_future(shard.ask(INVOKE))
    asking = await begun(shard.ask(GetRun(run_id="send-1")))
    assert not asking.done()

    log.gate.open()

    assert (await asking).run_id == (await invoking).run_id


async def test_a_question_about_nothing_is_refused(shard):
    for query in (GetRun(run_id="send-1"), GetAction(name="print")):
        with pytest.raises(NotFound):
            await shard.ask(query)


@pytest.mark.parametrize(
    "query",
    [
        ListRuns(action="send", limit=0),
        ListRuns(action="send", cursor="9" * 5_000),
        WaitForRuns(run_ids=[]),
        WaitForRuns(run_ids=["send-1"], block_ms=-1),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused_and_the_shard_goes_on(shard, query):
    with pytest.raises(Invalid):
        await shard.ask(query)

    assert await shard.ask(INVOKE) == ONE


# When the log fails


async def failing_shard(log, clock):
    shard = Shard(State(), log, clock)
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    await shard.ask(RegisterAction(name="print"))
    await shard.ask(Invoke(action="print"))
    log.gate.shut()
    return shard


async def test_when_an_append_fails_everyone_who_waits_is_told(log, clock):
    shard = await failing_shard(log, clock)
    await finish_in_the_dark(shard, log)
    parked = await begun(shard.ask(patient(BORIS, "fold")))
    waiting = await begun(shard.ask(WaitForRuns(run_ids=["print-1"])))
    log.archive.gate.shut()
    recalling = await begun(shard.ask(Invoke(action="send", idempotency_key="k")))
    log.gate.shut()
    in_batch = await begun(shard.ask(INVOKE))
    in_inbox = await begun(shard.ask(INVOKE))
    query = await begun(shard.ask(GetAction(name="send")))

    with capture_logs() as lines:
        log.gate.open(OSError("disk full"))
        everyone = [parked, waiting, recalling, in_batch, in_inbox, query]
        outcomes = await asyncio.gather(*everyone, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 6
    assert {outcome.code for outcome in outcomes} == {"log_failed"}
    assert all("disk full" in outcome.message for outcome in outcomes)
    assert [line["event"] for line in lines] == ["shard_failed"]
    log.archive.gate.open()
    await shard.stop()


async def finish_in_the_dark(shard, log):
    """One run has ended, and only the archive knows of it."""
    log.gate.open()
    await finish(shard)
    forget_recent(shard)


async def test_after_a_failed_append_everyone_is_told_at_once_and_nothing_is_appended(log, clock):
    shard = await failing_shard(log, clock)
    invoking = await begun(shard.ask(INVOKE))
    with capture_logs():
        log.gate.open(OSError("disk full"))
        with pytest.raises(Unavailable):
            await invoking
    begun_before = len(log.begun)

    for message in (INVOKE, GetAction(name="send"), CLAIM):
        with pytest.raises(Unavailable, match="can write no more: disk full"):
            await shard.ask(message)

    assert shard.closed.code == "log_failed"
    assert len(log.begun) == begun_before
    await shard.stop()


async def test_after_a_failed_append_queries_are_answered_of_what_was_written(log, clock):
    shard = await failing_shard(log, clock)
    invoking = await begun(shard.ask(INVOKE))
    with capture_logs():
        log.gate.open(OSError("disk full"))
        with pytest.raises(Unavailable):
            await invoking
    assert shard.failed.is_set()
    log.gate.open()

    await shard.restore(recover(log.read).state)

    with pytest.raises(NotFound):
        await shard.ask(GetRun(run_id="send-1"))
    assert (await shard.ask(GetRun(run_id="print-1"))).run_id == "print-1"
    with pytest.raises(Unavailable, match="disk full"):
        await shard.ask(INVOKE)

    shard.resume()
    await shard.ask(INVOKE)
    assert (await shard.ask(GetRun(run_id="send-1"))).run_id == "send-1"
    assert shard.closed is None
    assert not shard.failed.is_set()
    await shard.stop()


async def test_a_shard_that_only_answers_queries_can_be_stopped(log, clock):
    shard = await failing_shard(log, clock)
    with capture_logs():
        shard.fail(Unavailable("gone", code="data_folder_gone"))
    log.gate.open()
    await shard.restore(recover(log.read).state)

    await shard.stop()

    with pytest.raises(Unavailable):
        await shard.ask(GetRun(run_id="print-1"))


async def test_a_claim_that_was_served_from_its_parking_place_is_told_of_the_failed_append(
    log, clock
):
    shard = await failing_shard(log, clock)
    parked = await begun(shard.ask(PATIENT))
    invoking = await begun(shard.ask(INVOKE))

    with capture_logs():
        log.gate.open(OSError("disk full"))
        for task in (parked, invoking):
            with pytest.raises(Unavailable):
                await task
    await shard.stop()


async def test_a_broken_fold_ends_the_shard_before_anything_is_appended(log, clock, monkeypatch):
    shard = await failing_shard(log, clock)
    log.gate.open()

    def broken(state, event):
        raise AssertionError("this cannot be")

    monkeypatch.setitem(FOLDS, RunQueued, broken)
    with capture_logs(), pytest.raises(Unavailable, match="this cannot be"):
        await shard.ask(INVOKE)

    assert shard.closed is not None
    assert log.position == 6
    await shard.stop()


async def test_a_broken_rule_is_refused_and_written_down_and_the_shard_goes_on(shard, monkeypatch):
    def broken(state, command, context):
        raise ZeroDivisionError

    monkeypatch.setitem(RULES, DeleteAction, broken)

    with capture_logs() as lines, pytest.raises(Unexpected):
        await shard.ask(DeleteAction(name="send"))

    assert [(line["event"], line["message"]) for line in lines] == [("rule_broken", "DeleteAction")]
    assert await shard.ask(INVOKE) == ONE


# Durability async


@pytest.fixture
async def hasty(log, clock):
    """A shard that does not wait for its log."""
    shard = Shard(State(), log, clock, wait_for_log=False)
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    await settled()
    log.begun.clear()
    yield shard
    with capture_logs():
        log.gate.open()
        await shard.stop()


async def test_a_hasty_shard_answers_while_the_append_is_under_way(hasty, log):
    log.gate.shut()

    assert await hasty.ask(INVOKE) == ONE
    assert (await hasty.ask(GetRun(run_id="send-1"))).status is RunStatus.PENDING

    assert log.position == 2


async def test_a_hasty_shard_is_never_more_than_one_append_ahead(hasty, log):
    log.gate.shut()
    assert await hasty.ask(INVOKE) == ONE

    second = await begun(hasty.ask(INVOKE))

    assert not second.done()
    assert len(log.begun) == 1
    log.gate.open()
    assert await second == TWO


async def test_a_hasty_shard_is_done_with_its_append_before_it_stops(hasty, log):
    log.gate.shut()
    await hasty.ask(INVOKE)

    stopping = await begun(hasty.stop())
    assert not stopping.done()

    log.gate.open()
    await stopping
    assert log.position == 4


async def test_a_hasty_shard_takes_nothing_more_after_a_failed_append(hasty, log):
    log.gate.shut()
    await hasty.ask(INVOKE)

    with capture_logs() as lines:
        log.gate.open(OSError("disk full"))
        await settled()

    with pytest.raises(Unavailable, match="disk full"):
        await hasty.ask(INVOKE)
    assert [line["event"] for line in lines] == ["shard_failed"]
    with pytest.raises(Unavailable):
        await hasty.ask(GetAction(name="send"))
    assert log.position == 2


async def test_a_hasty_shard_that_stops_after_a_failed_append_says_so(hasty, log):
    log.gate.shut()
    await hasty.ask(INVOKE)
    log.gate.open(OSError("disk full"))

    with capture_logs() as lines:
        await hasty.stop()

    assert [line["event"] for line in lines] == ["shard_failed"]


# Parked claims


async def test_a_claim_that_may_not_wait_is_answered_at_once(shard):
    assert await shard.ask(CLAIM) == Assigned()


async def test_a_claim_that_finds_something_does_not_wait(shard):
    await shard.ask(INVOKE)

    assert tasks_of(await shard.ask(PATIENT)) == ["send-1"]


async def test_work_goes_to_a_parked_claim_in_the_same_append(shard, log):
    parked = await begun(shard.ask(PATIENT))
    assert not parked.done()

    assert await shard.ask(INVOKE) == ONE

    assert tasks_of(await parked) == ["send-1"]
    (events,) = log.begun
    assert [type(event).__name__ for event in events] == ["RunQueued", "RunClaimed"]


async def test_a_parked_claim_hears_of_its_task_only_when_that_is_durable(shard, log):
    parked = await begun(shard.ask(PATIENT))
    log.gate.shut()

    invoking = await begun(shard.ask(INVOKE))
    assert not parked.done()

    log.gate.open()
    assert tasks_of(await parked) == ["send-1"]
    await invoking


async def test_a_parked_claim_is_let_go_when_its_time_is_over(shard, clock):
    parked = await begun(shard.ask(patient(ANNA, block_ms=5_000)))

    clock.advance(4_999)
    await settled()
    assert not parked.done()

    clock.advance(1)
    assert await parked == Assigned()


async def test_a_claim_that_was_let_go_gets_nothing_more(shard, clock):
    parked = await begun(shard.ask(patient(ANNA, block_ms=5_000)))
    clock.advance(5_000)
    await parked

    await shard.ask(INVOKE)

    assert (await shard.ask(GetRun(run_id="send-1"))).status is RunStatus.PENDING


async def test_a_claim_that_was_withdrawn_gets_nothing_more(shard):
    submission = shard.submit([PATIENT], lambda answers: None)
    await settled()

    submission.withdraw()
    await shard.ask(INVOKE)

    assert (await shard.ask(GetRun(run_id="send-1"))).status is RunStatus.PENDING


async def test_a_claim_that_was_withdrawn_before_it_was_looked_at_takes_nothing(shard):
    await shard.ask(INVOKE)
    shard.submit([CLAIM], lambda answers: None).withdraw()
    await settled()

    assert (await shard.ask(GetRun(run_id="send-1"))).status is RunStatus.PENDING


async def test_a_parked_claim_waits_for_all_its_actions(shard, log):
    await shard.ask(RegisterAction(name="print"))
    parked = await begun(shard.ask(patient(ANNA, "send", "print")))

    await shard.ask(Invoke(action="print"))

    assert tasks_of(await parked) == ["print-1"]
    await shard.ask(INVOKE)
    assert (await shard.ask(GetRun(run_id="send-1"))).status is RunStatus.PENDING


async def test_a_parked_claim_for_two_actions_may_find_work_for_both_in_one_batch(shard):
    await shard.ask(RegisterAction(name="print"))
    parked = await begun(shard.ask(patient(ANNA, "send", "print", max_tasks=10)))

    shard.submit([INVOKE, Invoke(action="print")], lambda answers: None)

    assert tasks_of(await parked) == ["send-1", "print-1"]
    assert await shard.ask(INVOKE) == TWO


async def test_of_two_parked_claims_each_gets_its_share(shard):
    first = await begun(shard.ask(patient(ANNA, max_tasks=10)))
    second = await begun(shard.ask(patient(BORIS, max_tasks=10)))

    shard.submit([INVOKE] * 5, lambda answers: None)

    assert tasks_of(await first) == ["send-1", "send-2", "send-3"]
    assert tasks_of(await second) == ["send-4", "send-5"]


async def test_who_has_waited_comes_before_a_claim_of_the_same_batch(shard):
    parked = await begun(shard.ask(patient(ANNA, max_tasks=10)))
    late = patient(BORIS, max_tasks=10, block_ms=0)
    _, nothing = await asyncio.gather(shard.ask(INVOKE), shard.ask(late))

    assert tasks_of(await parked) == ["send-1"]
    assert tasks_of(nothing) == []


async def test_what_some_wait_for_may_be_written_at_once_and_what_many_wait_for_may_not(shard, log):
    await shard.ask(INVOKE)
    await asyncio.gather(*(shard.ask(INVOKE) for _ in range(SMALL_MESSAGES)))
    await asyncio.gather(*(shard.ask(INVOKE) for _ in range(SMALL_MESSAGES + 1)))

    assert log.here == [True, True, False]


async def test_what_is_long_is_not_written_at_once_however_few_wait_for_it(shard, log):
    await shard.ask(Invoke(action="send", input=bytes(SMALL_LENGTH + 1)))
    await asyncio.gather(*(shard.ask(INVOKE) for _ in range(SMALL_EVENTS + 1)))
    await shard.ask(patient(ANNA, max_tasks=SMALL_EVENTS + 1))  # one word, and so many events

    assert not any(log.here)


@pytest.mark.parametrize("is_written_here", [False, True])
async def test_a_log_that_takes_nothing_more_is_told_to_whoever_waits(
    shard, log, monkeypatch, is_written_here
):
    async def broken(*_, **__):
        raise Unavailable("the disk is full", code="log_failed")

    def broken_at_once(*_, **__):
        raise Unavailable("the disk is full", code="log_failed")

    monkeypatch.setattr(log, "append", broken_at_once if is_written_here else broken)

    for _ in range(2):
        with pytest.raises(Unavailable, match="the disk is full"):
            await shard.ask(INVOKE)


async def test_no_parked_claim_gets_more_than_it_asked_for(shard):
    first = await begun(shard.ask(patient(ANNA, max_tasks=1)))
    second = await begun(shard.ask(patient(BORIS, max_tasks=2)))

    shard.submit([INVOKE] * 5, lambda answers: None)

    assert (len(tasks_of(await first)), len(tasks_of(await second))) == (1, 2)


async def test_the_least_busy_worker_is_served_first(shard):
    for worker_id in (ANNA, BORIS):
        await shard.ask(RegisterWorker(worker_id=worker_id, processes=["send"], max_concurrency=4))
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    busy = await begun(shard.ask(patient(ANNA)))
    idle = await begun(shard.ask(patient(BORIS)))

    await shard.ask(INVOKE)

    assert tasks_of(await idle) == ["send-2"]
    assert not busy.done()


async def test_a_worker_is_as_busy_as_its_share_of_what_it_can_hold(shard):
    await shard.ask(RegisterWorker(worker_id=ANNA, processes=["send"], max_concurrency=100))
    await shard.ask(RegisterWorker(worker_id=BORIS, processes=["send"], max_concurrency=1))
    shard.submit([INVOKE] * 3, lambda answers: None)
    await shard.ask(Claim(worker_id=ANNA, actions=["send"], max_tasks=2))
    await shard.ask(Claim(worker_id=BORIS, actions=["send"], max_tasks=1))
    small = await begun(shard.ask(patient(BORIS)))
    large = await begun(shard.ask(patient(ANNA)))

    await shard.ask(INVOKE)

    assert tasks_of(await large) == ["send-4"]
    assert not small.done()


async def test_a_parked_claim_that_lacks_the_labels_goes_on_waiting(shard):
    await shard.ask(RegisterWorker(worker_id=BORIS, processes=["send"], labels={"gpu": True}))
    plain = await begun(shard.ask(patient(ANNA)))
    gpu = await begun(shard.ask(patient(BORIS)))

    await shard.ask(Invoke(action="send", labels={"gpu": True}))

    assert tasks_of(await gpu) == ["send-1"]
    assert not plain.done()


async def test_a_retry_without_delay_wakes_a_parked_claim(shard):
    await shard.ask(RegisterAction(name="send", retry_delay_ms=0))
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    parked = await begun(shard.ask(patient(BORIS)))

    await shard.ask(Fail(run_id="send-1", worker_id=ANNA, retry=True))

    assert tasks_of(await parked) == ["send-1"]


async def test_what_a_worker_left_undone_wakes_a_parked_claim(shard, clock):
    await shard.ask(RegisterAction(name="send", retry_delay_ms=0))
    await shard.ask(RegisterWorker(worker_id=ANNA, processes=["send"]))
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    parked = await begun(shard.ask(patient(BORIS)))

    await shard.ask(DeregisterWorker(worker_id=ANNA))

    assert tasks_of(await parked) == ["send-1"]


async def test_a_drained_worker_is_let_go_from_its_parking_place(shard):
    await shard.ask(RegisterWorker(worker_id=ANNA, processes=["send"]))
    parked = await begun(shard.ask(patient(ANNA)))
    other = await begun(shard.ask(patient(BORIS)))

    await shard.ask(DrainWorker(worker_id=ANNA))

    assert await parked == Assigned(draining=True)
    assert not other.done()


# Time


async def test_a_delayed_run_reaches_a_parked_claim_at_its_time(shard, clock):
    await shard.ask(Invoke(action="send", delay_ms=10_000))
    parked = await begun(shard.ask(patient(ANNA)))

    clock.advance(9_999)
    await settled()
    assert not parked.done()

    clock.advance(1)
    await settled()
    clock.advance(0)
    assert tasks_of(await parked) == ["send-1"]


async def test_a_lease_that_ends_sends_the_run_to_the_next_worker(shard, clock):
    await shard.ask(RegisterAction(name="send", timeout_ms=5_000, retry_delay_ms=0))
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    parked = await begun(shard.ask(patient(BORIS)))

    for _ in range(6):
        clock.advance(1_000)
        await settled()

    (task,) = (await parked).tasks
    assert (task.task_id, task.attempt) == ("send-1", 2)
    with pytest.raises(Conflict, match="held by 'boris'"):
        await shard.ask(COMPLETE)


async def test_when_very_much_falls_due_at_once_all_of_it_is_done(shard, clock, monkeypatch):
    monkeypatch.setattr("flo.engine.ticks.DUE_PER_TICK_MAX", 3)
    shard.submit([Invoke(action="send", delay_ms=1_000)] * 10, lambda answers: None)
    await settled()

    clock.advance(2_000)
    await settled()

    claimed = await shard.ask(Claim(worker_id=ANNA, actions=["send"], max_tasks=100))
    assert len(claimed.tasks) == 10


async def test_what_fell_due_while_nobody_was_there_is_done_at_the_start(log, clock):
    before = Shard(State(), log, clock)
    await before.start()
    await before.ask(RegisterAction(name="send"))
    await before.ask(Invoke(action="send", delay_ms=1_000))
    await before.stop()
    clock.advance(60_000)

    after = Shard(before.state, log, clock)
    await after.start()
    clock.advance(0)
    await settled()

    assert tasks_of(await after.ask(CLAIM)) == ["send-1"]
    await after.stop()


async def test_time_never_goes_back_for_the_shard(shard, clock, log):
    clock.advance(10_000)
    await shard.ask(INVOKE)
    clock.set_back(5_000)

    await shard.ask(INVOKE)
    (task,) = (await shard.ask(CLAIM)).tasks

    entries = [entry.at_ms for entry in log.read(0)]
    assert entries == sorted(entries)
    assert task.lease_expires_at_ms == NOON_MS + 40_000
    second = await shard.ask(GetRun(run_id="send-2"))
    assert second.created_at_ms == NOON_MS + 10_000


async def test_a_worker_heard_of_again_is_healthy_again(shard, clock):
    await shard.ask(RegisterWorker(worker_id=ANNA, processes=["send"]))
    clock.advance(90_001)

    known = await shard.ask(Heartbeat(worker_id=ANNA, current_load=1))

    assert known.status is WorkerStatus.ACTIVE


# Waiting for runs


async def test_a_wait_is_answered_when_one_of_its_runs_has_ended(shard):
    await shard.ask(INVOKE)
    await shard.ask(INVOKE)
    await shard.ask(Claim(worker_id=ANNA, actions=["send"], max_tasks=2))
    waiting = await begun(shard.ask(WaitForRuns(run_ids=["send-1", "send-2"])))
    assert not waiting.done()

    await shard.ask(Complete(run_id="send-2", worker_id=ANNA, output=b"sent"))

    (result,) = (await waiting).results
    assert (result.run_id, result.status, result.output) == ("send-2", "completed", b"sent")


async def test_a_wait_hears_at_once_of_all_its_runs_that_ended_together(shard):
    shard.submit([INVOKE] * 3, lambda answers: None)
    await shard.ask(Claim(worker_id=ANNA, actions=["send"], max_tasks=3))
    waiting = await begun(shard.ask(WaitForRuns(run_ids=["send-1", "send-2", "send-3"])))

    ends = [Complete(run_id=run_id, worker_id=ANNA) for run_id in ("send-1", "send-3")]
    shard.submit(ends, lambda answers: None)

    assert [result.run_id for result in (await waiting).results] == ["send-1", "send-3"]


async def test_a_wait_hears_of_an_end_only_when_that_is_durable(shard, log):
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    waiting = await begun(shard.ask(WaitForRuns(run_ids=["send-1"])))
    log.gate.shut()

    completing = await begun(shard.ask(COMPLETE))
    assert not waiting.done()

    log.gate.open()
    assert len((await waiting).results) == 1
    await completing


async def test_a_wait_in_the_batch_that_ends_its_run_is_answered(shard):
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    waiting = asyncio.ensure_future(shard.ask(WaitForRuns(run_ids=["send-1"])))
    await shard.ask(COMPLETE)

    assert len((await waiting).results) == 1


async def test_a_wait_for_a_run_that_never_was_is_answered_at_once(shard):
    await shard.ask(INVOKE)

    ended = await shard.ask(WaitForRuns(run_ids=["send-1", "send-7", "what"]))

    assert ended == Ended(unknown=["send-7", "what"])


async def test_a_wait_ends_empty_when_its_time_is_over(shard, clock):
    await shard.ask(INVOKE)
    waiting = await begun(shard.ask(WaitForRuns(run_ids=["send-1"], block_ms=700)))

    clock.advance(699)
    await settled()
    assert not waiting.done()

    clock.advance(1)
    assert await waiting == Ended()


async def test_a_wait_that_may_not_wait_is_a_look(shard):
    await shard.ask(INVOKE)

    assert await shard.ask(WaitForRuns(run_ids=["send-1"], block_ms=0)) == Ended()


async def test_a_wait_that_was_withdrawn_is_forgotten(shard):
    await shard.ask(INVOKE)
    waiting = await begun(shard.ask(WaitForRuns(run_ids=["send-1"])))

    waiting.cancel()
    await settled()

    assert shard._polls.everyone() == []


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (Fail(run_id="send-1", worker_id=ANNA, error="no"), RunStatus.FAILED),
        (COMPLETE, RunStatus.COMPLETED),
    ],
)
async def test_a_wait_tells_how_its_run_ended(shard, end, status):
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    waiting = await begun(shard.ask(WaitForRuns(run_ids=["send-1"])))

    await shard.ask(end)

    assert (await waiting).results[0].status is status


# What has ended is recalled


async def test_a_run_that_ended_just_now_is_known_without_asking_the_archive(shard, log):
    await finish(shard)

    assert (await shard.ask(GetRun(run_id="send-1"))).status is RunStatus.COMPLETED
    assert log.archive.asked == []


async def test_a_run_that_ended_long_ago_is_read_from_the_archive(shard, log):
    await finish(shard)
    forget_recent(shard)

    assert (await shard.ask(GetRun(run_id="send-1"))).status is RunStatus.COMPLETED
    assert log.archive.asked == [("find", "send", 1)]


async def test_nobody_waits_for_the_archive_but_who_asked_it(shard, log):
    await finish(shard)
    forget_recent(shard)
    log.archive.gate.shut()

    asking = await begun(shard.ask(GetRun(run_id="send-1")))
    assert await shard.ask(INVOKE) == TWO
    assert not asking.done()

    log.archive.gate.open()
    assert (await asking).status is RunStatus.COMPLETED


async def test_a_report_that_comes_again_long_after_is_still_taken_in_once(shard, log):
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    await shard.ask(COMPLETE)
    forget_recent(shard)

    again = await shard.ask(COMPLETE)

    assert again == Accepted(run_id="send-1", status=RunStatus.COMPLETED)
    assert log.archive.asked == [("find", "send", 1)]


async def test_a_report_that_comes_again_in_the_same_batch_is_taken_in_once(shard, log):
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    answers = []
    for _ in range(2):
        shard.submit([COMPLETE], answers.extend)
    await settled()

    assert answers == [Accepted(run_id="send-1", status=RunStatus.COMPLETED)] * 2
    assert len(log.begun[-1]) == 1


async def test_a_report_that_comes_twice_in_one_breath_is_taken_in_once(shard, log):
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    answers = []

    shard.submit([COMPLETE, COMPLETE], answers.extend)
    await settled()

    assert answers == [Accepted(run_id="send-1", status=RunStatus.COMPLETED)] * 2
    assert len(log.begun[-1]) == 1


async def test_the_same_key_in_one_batch_makes_one_run(shard):
    keyed = Invoke(action="send", idempotency_key="order-7")
    answers = []
    for _ in range(3):
        shard.submit([keyed], answers.extend)
    shard.submit([keyed, keyed], answers.extend)
    await settled()

    assert [answer.run_id for answer in answers] == ["send-1"] * 5
    assert sorted(answer.duplicate for answer in answers) == [False, True, True, True, True]


async def test_a_key_is_looked_up_in_the_archive_once_memory_has_forgotten_it(
    shard, log, monkeypatch
):
    monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 1)
    await finish(shard, idempotency_key="order-7")
    await finish(shard, idempotency_key="order-8")

    again = await shard.ask(Invoke(action="send", idempotency_key="order-7"))

    assert again == Invoked(run_id="send-1", duplicate=True)


async def test_a_key_that_came_and_went_while_the_archive_was_asked_is_asked_for_again(
    shard, log, monkeypatch
):
    for module in ("flo.engine.idempotency", "flo.shard.prefetch"):
        monkeypatch.setattr(f"{module}.KEYS_REMEMBERED_MAX", 2)
    keyed = Invoke(action="send", idempotency_key="order-7")
    archive_before, log.archive.gate = log.archive.gate, type(log.archive.gate)()
    log.archive.gate.shut()
    slow = await begun(shard.ask(keyed))
    shut, log.archive.gate = log.archive.gate, archive_before
    for key in ("order-7", "order-8", "order-9"):
        await finish(shard, idempotency_key=key)
    assert ("send", "order-7") not in shard.state.spaces[DEFAULT].run_keys.run_ids

    shut.open()

    assert await slow == Invoked(run_id="send-1", duplicate=True)


async def test_a_run_that_ends_while_the_archive_is_asked_about_another_is_not_unknown(shard, log):
    await finish(shard)
    forget_recent(shard)
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    log.archive.gate.shut()
    waiting = await begun(shard.ask(WaitForRuns(run_ids=["send-1", "send-2"])))

    await shard.ask(Complete(run_id="send-2", worker_id=ANNA))
    log.archive.gate.open()

    ended = await waiting
    assert ended.unknown == []
    assert [result.run_id for result in ended.results] == ["send-1", "send-2"]


async def test_a_list_merges_what_lives_with_what_has_ended(shard):
    await finish(shard, count=2)
    await shard.ask(INVOKE)

    page = await shard.ask(ListRuns(action="send"))

    assert [(run.run_id, run.status) for run in page.items] == [
        ("send-3", "pending"),
        ("send-2", "completed"),
        ("send-1", "completed"),
    ]


async def test_an_archive_that_cannot_be_read_refuses_the_question_and_nothing_else(shard, log):
    await finish(shard)
    forget_recent(shard)
    log.archive.gate.open(Corrupt("a damaged row"))

    for message in (GetRun(run_id="send-1"), Invoke(action="send", idempotency_key="k")):
        with pytest.raises(Corrupt):
            await shard.ask(message)

    assert await shard.ask(INVOKE) == TWO


async def test_a_mistake_of_ours_in_the_archive_refuses_the_question_and_nothing_else(shard, log):
    await finish(shard)
    forget_recent(shard)
    log.archive.gate.open(ZeroDivisionError())

    with capture_logs() as lines, pytest.raises(Unexpected):
        await shard.ask(GetRun(run_id="send-1"))

    assert [line["event"] for line in lines] == ["lookup_failed"]
    assert await shard.ask(INVOKE) == TWO


# Start and stop


async def test_a_shard_that_stops_first_commits_what_was_submitted(log, clock):
    shard = Shard(State(), log, clock)
    await shard.start()
    answers = []
    shard.submit([RegisterAction(name="send")], answers.extend)
    shard.submit([INVOKE], answers.extend)

    await shard.stop()

    assert answers[1] == ONE
    assert log.position == 3


async def test_a_shard_that_stops_lets_go_of_everyone_who_waits(log, clock):
    shard = Shard(State(), log, clock)
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    await finish(shard)
    await shard.ask(INVOKE)
    forget_recent(shard)
    parked = await begun(shard.ask(patient(ANNA, "print")))
    waiting = await begun(shard.ask(WaitForRuns(run_ids=["send-2"])))
    late = asyncio.ensure_future(shard.ask(GetRun(run_id="send-1")))
    await asyncio.sleep(0)

    await shard.stop()

    for task in (parked, waiting):
        with pytest.raises(Unavailable) as refusal:
            await task
        assert refusal.value.code == "server_stopping"
    (outcome,) = await asyncio.gather(late, return_exceptions=True)
    assert isinstance(outcome, Unavailable) or outcome.status is RunStatus.COMPLETED


async def test_a_stopped_shard_takes_nothing_more(log, clock):
    shard = Shard(State(), log, clock)
    await shard.start()
    await shard.stop()

    with pytest.raises(Unavailable, match="is stopping"):
        await shard.ask(RegisterAction(name="send"))


async def test_a_shard_may_be_stopped_twice_or_before_it_was_started(log, clock):
    shard = Shard(State(), log, clock)
    await shard.stop()

    other = Shard(State(), log, clock)
    await other.start()
    await other.stop()
    await other.stop()


async def test_a_stopped_shard_leaves_no_alarm_behind(log, clock):
    shard = Shard(State(), log, clock)
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    await shard.ask(Invoke(action="send", delay_ms=1_000))
    parked = await begun(shard.ask(PATIENT))
    await shard.stop()
    with pytest.raises(Unavailable):
        await parked

    clock.advance(100_000)
    await settled()

    assert log.position == 4


async def test_a_new_shard_on_the_same_log_goes_on_where_the_old_one_stopped(log, clock):
    shard = Shard(State(), log, clock)
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    await finish(shard, count=2, idempotency_key=None)
    await shard.ask(Invoke(action="send", idempotency_key="order-7"))
    await shard.stop()

    recovered = recover(log.read)
    after = Shard(recovered.state, log, clock)
    await after.start()

    assert fingerprint(recovered.state) == fingerprint(shard.state)
    assert (await after.ask(Invoke(action="send", idempotency_key="order-7"))).duplicate
    assert tasks_of(await after.ask(CLAIM)) == ["send-3"]
    assert (await after.ask(GetRun(run_id="send-1"))).status is RunStatus.COMPLETED
    await after.stop()


# Who watches


class Watcher:
    def __init__(self):
        self.commits = []
        self.refusals = []

    def committed(self, events, archived, seconds):
        self.commits.append((len(events), archived))

    def refused(self, code):
        self.refusals.append(code)


async def test_a_watcher_hears_of_commits_and_refusals(clock):
    watcher = Watcher()
    shard = Shard(State(), MemoryLog(), clock, watcher=watcher)
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    await finish(shard)
    with pytest.raises(NotFound):
        await shard.ask(Invoke(action="print"))
    await shard.stop()

    assert watcher.commits == [(2, 0), (2, 0), (2, 0), (2, 1)]
    assert watcher.refusals == ["action_not_found"]


# A worker inside the server


async def test_a_worker_inside_the_server_hears_what_was_decided_before_it_is_durable(shard, log):
    await shard.ask(INVOKE)
    log.gate.shut()
    heard = []

    shard.submit([CLAIM], heard.extend, is_early=True)
    await settled()

    assert [task.task_id for task in heard[0].tasks] == ["send-1"]
    assert log.position == 4


async def test_what_it_reports_leads_to_the_next_claim_while_the_append_is_under_way(shard, log):
    await shard.ask(RegisterAction(name="send", wasm_module=b"module"))
    await shard.ask(INVOKE)
    await shard.ask(INVOKE)
    written = log.position
    log.gate.shut()
    first, second, reported = [], [], []
    claim = Claim(worker_id=ANNA, actions=["send"], block_ms=1_000, held_max=1)
    shard.submit([claim], first.extend, is_early=True)
    shard.submit([claim], second.extend, is_early=True)
    await settled()
    assert (len(first), len(second)) == (1, 0)

    shard.submit([Complete(run_id="send-1", worker_id=ANNA)], reported.extend, is_early=True)
    await settled()

    assert [task.task_id for task in second[0].tasks] == ["send-2"]
    assert log.position == written
