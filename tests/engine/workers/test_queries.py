import pytest

from flo.engine.volatile import VolatileState
from flo.model.actions import RegisterAction
from flo.model.errors import Invalid, NotFound
from flo.model.runs import (
    Cancel,
    Claim,
    Invoke,
)
from flo.model.workers import (
    AwaitNotifications,
    DrainWorker,
    Notifications,
    RegisterWorker,
)
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send")


def claim_all(worker_id=ANNA, **settings):
    return Claim(worker_id=worker_id, actions=["send"], **{"max_tasks": 1_000, **settings})


# Notifications


ANNA_WORKS = RegisterWorker(worker_id=ANNA, processes=["send"])
NUMBER = NOON_MS * 1_000


def notifications(engine, after=0, worker_id=ANNA):
    return engine.query(AwaitNotifications(worker_id=worker_id, after=after))


def test_a_worker_that_nothing_happened_to_has_no_notifications():
    assert notifications(given(ANNA_WORKS)) == Notifications(last=NUMBER)


def test_a_worker_hears_once_of_every_task_that_was_cancelled():
    engine = given(SEND, ANNA_WORKS, *[INVOKE] * 3, claim_all())
    engine.execute(Cancel(run_id="send-1"), Cancel(run_id="send-3"))

    first = notifications(engine)
    assert first == Notifications(last=NUMBER + 2, cancelled=["send-1", "send-3"])
    assert notifications(engine, after=NUMBER + 1) == Notifications(
        last=NUMBER + 2, cancelled=["send-3"]
    )
    assert notifications(engine, after=first.last) == Notifications(last=first.last)

    engine.execute(Cancel(run_id="send-2"))
    assert notifications(engine, after=first.last) == Notifications(
        last=NUMBER + 3, cancelled=["send-2"]
    )


def test_a_worker_does_not_hear_of_the_tasks_of_others_or_of_runs_that_waited():
    boris = RegisterWorker(worker_id=BORIS, processes=["send"])
    engine = given(SEND, ANNA_WORKS, boris, *[INVOKE] * 2, claim_all(BORIS, max_tasks=1))

    engine.execute(Cancel(run_id="send-1"), Cancel(run_id="send-2"))

    assert notifications(engine).cancelled == []
    assert notifications(engine, worker_id=BORIS).cancelled == ["send-1"]


def test_a_drain_is_notifications_and_true_from_then_on():
    engine = given(ANNA_WORKS, DrainWorker(worker_id=ANNA))

    assert notifications(engine) == Notifications(last=NUMBER + 1, draining=True)
    assert notifications(engine, after=NUMBER + 1) == Notifications(last=NUMBER + 1, draining=True)


@pytest.mark.parametrize("later_ms", [1, -60_000])
def test_notifications_are_heard_after_a_restart_of_the_server_whatever_its_clock_says(later_ms):
    engine = given(SEND, ANNA_WORKS, *[INVOKE] * 2, claim_all(), Cancel(run_id="send-1"))
    last = notifications(engine).last

    engine.volatile = VolatileState(NOON_MS + later_ms)
    begin = notifications(engine, after=last)
    engine.execute(Cancel(run_id="send-2"))

    assert begin == Notifications(last=(NOON_MS + later_ms) * 1_000)
    assert notifications(engine, after=last).cancelled == ["send-2"]
    assert notifications(engine, after=begin.last).cancelled == ["send-2"]
    assert notifications(engine, after=begin.last + 1).cancelled == []


@pytest.mark.parametrize("settings", [{"block_ms": -1}, {"block_ms": 300_001}])
def test_a_wait_for_notifications_past_its_bounds_is_refused(settings):
    with pytest.raises(Invalid):
        given(ANNA_WORKS).query(AwaitNotifications(worker_id=ANNA, **settings))


def test_a_worker_nobody_registered_has_no_notifications():
    with pytest.raises(NotFound) as refusal:
        given(ANNA_WORKS).query(AwaitNotifications(worker_id=BORIS))

    assert refusal.value.code == "worker_not_found"
