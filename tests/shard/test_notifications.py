"""What a worker hears at once: that a task of its own is cancelled, that it is to drain."""

import asyncio

import pytest

from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.errors import Conflict, Invalid, NotFound, Unavailable
from flo.model.runs import (
    Accepted,
    Assigned,
    Cancel,
    Claim,
    Complete,
    GetRun,
    Invoke,
    RunStatus,
    Touch,
    WaitForRuns,
)
from flo.model.workers import (
    AwaitNotifications,
    DeregisterWorker,
    DrainWorker,
    Heartbeat,
    Notifications,
    RegisterWorker,
    WorkerStatus,
)
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS
from settled import begun, settled

INVOKE = Invoke(action="send")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
LISTEN = AwaitNotifications(worker_id=ANNA)
CANCEL = Cancel(run_id="send-1")
NUMBER = NOON_MS * 1_000


@pytest.fixture
async def busy(shard):
    """Anna and Boris are registered; Anna holds run 1, Boris holds run 2."""
    for worker_id in (ANNA, BORIS):
        await shard.ask(RegisterWorker(worker_id=worker_id, processes=["send"]))
        await shard.ask(INVOKE)
        await shard.ask(Claim(worker_id=worker_id, actions=["send"]))
    return shard


# Cancel


async def test_a_worker_that_listens_hears_of_a_cancelled_task_when_that_is_durable(busy, log):
    listening = await begun(busy.ask(LISTEN))
    assert not listening.done()
    log.gate.shut()

    cancelling = await begun(busy.ask(CANCEL))
    assert not listening.done()

    log.gate.open()
    assert await listening == Notifications(last=NUMBER + 1, cancelled=["send-1"])
    assert await cancelling == Accepted(run_id="send-1", status=RunStatus.CANCELLED)


async def test_a_cancel_and_its_notifications_are_one_commit(busy, log):
    log.begun.clear()
    listening = await begun(busy.ask(LISTEN))

    await busy.ask(CANCEL)

    assert (await listening).cancelled == ["send-1"]
    assert [len(events) for events in log.begun] == [1]


async def test_a_question_for_notifications_in_the_batch_of_the_cancel_is_answered(busy):
    listening = asyncio.ensure_future(busy.ask(LISTEN))
    await busy.ask(CANCEL)

    assert (await listening).cancelled == ["send-1"]


async def test_of_several_tasks_cancelled_together_a_worker_hears_together(busy):
    await busy.ask(INVOKE)
    await busy.ask(CLAIM)
    listening = await begun(busy.ask(LISTEN))

    busy.submit([CANCEL, Cancel(run_id="send-3")], lambda answers: None)

    assert await listening == Notifications(last=NUMBER + 2, cancelled=["send-1", "send-3"])


async def test_notifications_that_came_while_nobody_listened_are_heard_at_the_next_question(busy):
    first = await busy.ask(AwaitNotifications(worker_id=ANNA, block_ms=0))
    await busy.ask(CANCEL)

    second = await busy.ask(AwaitNotifications(worker_id=ANNA, after=first.last))

    assert second.cancelled == ["send-1"]
    third = await begun(busy.ask(AwaitNotifications(worker_id=ANNA, after=second.last)))
    assert not third.done()


async def test_a_worker_does_not_hear_of_the_tasks_of_another(busy):
    listening = await begun(busy.ask(LISTEN))

    await busy.ask(Cancel(run_id="send-2"))
    await busy.ask(INVOKE)
    await busy.ask(Cancel(run_id="send-3"))

    assert not listening.done()


async def test_a_question_for_notifications_ends_with_none_when_its_time_is_over(busy, clock):
    listening = await begun(busy.ask(AwaitNotifications(worker_id=ANNA, after=7, block_ms=700)))

    clock.advance(699)
    await settled()
    assert not listening.done()

    clock.advance(1)
    assert await listening == Notifications(last=NUMBER)


async def test_a_question_for_notifications_that_was_withdrawn_is_forgotten(busy):
    listening = await begun(busy.ask(LISTEN))

    listening.cancel()
    await settled()
    await busy.ask(CANCEL)

    assert busy._polls.everyone() == []


async def test_everyone_who_listens_for_a_worker_hears_of_it(busy):
    both = [await begun(busy.ask(LISTEN)) for _ in range(2)]

    await busy.ask(CANCEL)

    assert [(await one).cancelled for one in both] == [["send-1"]] * 2


async def test_a_worker_hears_of_a_task_cancelled_as_it_was_claimed(shard):
    await shard.ask(RegisterWorker(worker_id=ANNA, processes=["send"]))
    claiming = await begun(shard.ask(Claim(worker_id=ANNA, actions=["send"], block_ms=5_000)))
    listening = await begun(shard.ask(LISTEN))
    await shard.ask(INVOKE)
    assert [task.task_id for task in (await claiming).tasks] == ["send-1"]

    await shard.ask(CANCEL)

    assert (await listening).cancelled == ["send-1"]


async def test_a_run_invoked_and_cancelled_in_one_batch_goes_to_nobody(shard, log):
    claiming = await begun(shard.ask(Claim(worker_id=ANNA, actions=["send"], block_ms=5_000)))

    shard.submit([INVOKE, CANCEL], lambda answers: None)
    await settled()

    assert not claiming.done()
    assert [type(event).__name__ for event in log.begun[-1]] == ["RunQueued", "RunCancelled"]
    assert log.filed[-1] == ([1], [])
    claiming.cancel()


async def test_who_waits_for_a_run_hears_that_it_is_cancelled(busy):
    waiting = await begun(busy.ask(WaitForRuns(run_ids=["send-1"])))

    await busy.ask(Cancel(run_id="send-1", reason="not needed"))

    (result,) = (await waiting).results
    assert (result.status, result.error) == (RunStatus.CANCELLED, "not needed")


@pytest.mark.parametrize("together", [True, False])
async def test_a_report_that_comes_after_the_cancel_is_refused(busy, together):
    answers = []
    messages = [
        Complete(run_id="send-1", worker_id=ANNA, attempt=1),
        Touch(run_id="send-1", worker_id=ANNA, attempt=1),
    ]
    busy.submit([CANCEL], lambda answers: None)
    if not together:
        await settled()
    for message in messages:
        busy.submit([message], answers.extend)
    await settled()

    assert [(type(answer), answer.code) for answer in answers] == [
        (Conflict, "lease_lost"),
        (NotFound, "run_not_found"),
    ]


async def test_a_cancel_that_comes_after_the_end_is_refused(busy):
    answers = []
    busy.submit([Complete(run_id="send-1", worker_id=ANNA)], lambda answers: None)
    for message in (CANCEL, CANCEL):
        busy.submit([message], answers.extend)
    await settled()
    busy._prefetch.recent._rows.clear()
    busy.submit([CANCEL], answers.extend)
    await settled()

    assert [answer.code for answer in answers] == ["run_has_ended"] * 3
    assert (await busy.ask(GetRun(run_id="send-1"))).status is RunStatus.COMPLETED


# Drain


async def test_a_worker_that_listens_is_told_at_once_to_drain(busy):
    listening = await begun(busy.ask(LISTEN))

    known = await busy.ask(DrainWorker(worker_id=ANNA))

    assert known.status is WorkerStatus.DRAINING
    assert await listening == Notifications(last=NUMBER + 1, draining=True)


async def test_a_draining_worker_that_knows_it_waits_for_what_else_there_is(busy):
    await busy.ask(DrainWorker(worker_id=ANNA))
    told = await busy.ask(LISTEN)
    assert told.draining

    listening = await begun(busy.ask(AwaitNotifications(worker_id=ANNA, after=told.last)))
    assert not listening.done()
    await busy.ask(DrainWorker(worker_id=ANNA))
    assert not listening.done()
    await busy.ask(CANCEL)

    assert await listening == Notifications(last=NUMBER + 2, cancelled=["send-1"], draining=True)


async def test_a_worker_that_was_drained_before_a_restart_is_told_after_it(clock):
    log = MemoryLog()
    before = Shard(State(), log, clock)
    await before.start()
    await before.ask(RegisterWorker(worker_id=ANNA, processes=["send"], incarnation="a1"))
    await before.ask(DrainWorker(worker_id=ANNA))
    heard = await before.ask(LISTEN)
    await before.stop()
    clock.advance(1)

    after = Shard(recover(log.read).state, log, clock)
    await after.start()

    told = await after.ask(AwaitNotifications(worker_id=ANNA, after=heard.last))
    assert told.draining
    again = await after.ask(RegisterWorker(worker_id=ANNA, processes=["send"], incarnation="a1"))
    assert again.status is WorkerStatus.DRAINING
    assert (await after.ask(CLAIM)) == Assigned(draining=True)
    await after.stop()


# Restart, departure, stop


async def test_notifications_go_on_after_a_restart(clock):
    log = MemoryLog()
    before = Shard(State(), log, clock)
    await before.start()
    await before.ask(RegisterAction(name="send"))
    await before.ask(RegisterWorker(worker_id=ANNA, processes=["send"]))
    for _ in range(2):
        await before.ask(INVOKE)
        await before.ask(CLAIM)
    await before.ask(CANCEL)
    heard = await before.ask(LISTEN)
    await before.stop()
    clock.advance(1)

    after = Shard(recover(log.read).state, log, clock)
    await after.start()
    listening = await begun(after.ask(AwaitNotifications(worker_id=ANNA, after=heard.last)))
    assert not listening.done()
    await after.ask(Cancel(run_id="send-2"))

    notifications = await listening
    assert notifications.cancelled == ["send-2"]
    assert notifications.last > heard.last
    await after.stop()


async def test_a_worker_that_leaves_is_told_that_nobody_knows_it(busy):
    listening = await begun(busy.ask(LISTEN))

    await busy.ask(DeregisterWorker(worker_id=ANNA))

    with pytest.raises(NotFound) as refusal:
        await listening
    assert refusal.value.code == "worker_not_found"


async def test_a_worker_that_made_room_for_another_is_told_that_nobody_knows_it(
    busy, clock, monkeypatch
):
    monkeypatch.setattr("flo.engine.workers.rules.WORKERS_MAX", 2)
    clock.advance(90_001)
    await busy.ask(Heartbeat(worker_id=BORIS))
    listening = await begun(busy.ask(LISTEN))

    await busy.ask(RegisterWorker(worker_id="clara", processes=["send"]))

    with pytest.raises(NotFound):
        await listening
    assert (await busy.ask(GetRun(run_id="send-1"))).status is RunStatus.PENDING


async def test_a_task_of_a_worker_that_has_gone_can_be_cancelled(busy):
    await busy.ask(DeregisterWorker(worker_id=ANNA))

    assert (await busy.ask(CANCEL)).status is RunStatus.CANCELLED
    await busy.ask(RegisterWorker(worker_id=ANNA, processes=["send"]))
    assert (await busy.ask(AwaitNotifications(worker_id=ANNA, block_ms=0))).cancelled == []


async def test_a_worker_nobody_knows_hears_nothing(shard):
    with pytest.raises(NotFound):
        await shard.ask(LISTEN)


async def test_a_question_for_notifications_past_its_bounds_is_refused(busy):
    with pytest.raises(Invalid):
        await busy.ask(AwaitNotifications(worker_id=ANNA, block_ms=300_001))


async def test_a_shard_that_stops_lets_go_of_those_who_listen(busy):
    listening = await begun(busy.ask(LISTEN))

    await busy.stop()

    with pytest.raises(Unavailable):
        await listening
