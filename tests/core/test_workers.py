import pytest

from flo.core.moment import Moment
from flo.core.workers import decide_register
from flo.model.actions import RegisterAction
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.runs import Claim, Complete, Fail, Invoke, Nothing, Tick
from flo.model.workers import (
    WORKERS_MAX,
    DeregisterWorker,
    DrainWorker,
    GetWorker,
    Heartbeat,
    RegisterWorker,
    Worker,
    WorkerDeregistered,
    WorkerDrained,
    WorkerHeard,
    WorkerKnown,
    WorkerLeft,
    WorkerRegistered,
    WorkerStatus,
)
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, given

REGISTER = RegisterWorker(worker_id=ANNA, actions=["send", "print"])
DRAIN = DrainWorker(worker_id=ANNA)
LEAVE = DeregisterWorker(worker_id=ANNA)
SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send")
CLAIM = Claim(worker_id=ANNA, actions=["send"])


def status(story):
    return story.ask(GetWorker(worker_id=ANNA)).status


# Registration


def test_a_worker_is_registered_with_what_it_says_of_itself():
    decision = given().tell(
        RegisterWorker(
            worker_id=ANNA,
            actions=["send", "print", "send"],
            max_concurrency=4,
            machine_id="host-01",
            labels={"gpu": True},
        )
    )

    worker = Worker(
        worker_id=ANNA,
        actions=("send", "print"),
        registered_at_ms=NOON_MS,
        max_concurrency=4,
        machine_id="host-01",
        labels={"gpu": True},
    )
    assert decision.reply == WorkerKnown(worker_id=ANNA, status=WorkerStatus.IDLE)
    assert decision.events == (WorkerRegistered(namespace=DEFAULT, worker=worker),)
    assert decision.signs == (WorkerHeard(namespace=DEFAULT, worker_id=ANNA, current_load=0),)


def test_the_same_id_again_replaces_the_registration_and_ends_a_drain():
    story = given(REGISTER, DRAIN, Later(500))

    story.tell(RegisterWorker(worker_id=ANNA, actions=["send"], max_concurrency=1))

    view = story.ask(GetWorker(worker_id=ANNA))
    assert (view.status, view.max_concurrency) == (WorkerStatus.IDLE, 1)
    assert view.registered_at_ms == NOON_MS + 500


def test_a_worker_that_registers_again_keeps_its_counts_for_the_actions_it_still_names():
    story = given(SEND, REGISTER, INVOKE, CLAIM, Complete(run_id="send-1", worker_id=ANNA))

    story.tell(RegisterWorker(worker_id=ANNA, actions=["fold", "send"]))

    processes = story.ask(GetWorker(worker_id=ANNA)).processes
    assert [(process.name, process.run_count) for process in processes] == [
        ("fold", 0),
        ("send", 1),
    ]


def test_the_same_id_in_another_namespace_is_another_worker():
    story = given(REGISTER)

    with pytest.raises(NotFound):
        story.tell(DrainWorker(worker_id=ANNA, namespace="prod"))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"worker_id": ""}, Invalid),
        ({"worker_id": "w" * 257}, Invalid),
        ({"worker_id": "an na"}, Invalid),
        ({"namespace": ""}, Invalid),
        ({"actions": ["send", "p rint"]}, Invalid),
        ({"actions": ["send"] * 1_001}, TooLarge),
        ({"max_concurrency": 0}, Invalid),
        ({"max_concurrency": 100_001}, Invalid),
        ({"machine_id": "m" * 4_097}, TooLarge),
        ({"labels": {"disks": [1]}}, Invalid),
    ],
)
def test_a_registration_past_its_bounds_is_refused(settings, error):
    with pytest.raises(error):
        given().tell(RegisterWorker(**{"worker_id": ANNA, "actions": ["send"], **settings}))


def test_there_is_room_for_ten_thousand_workers_and_each_of_them_may_register_again():
    story = given()
    for number in range(WORKERS_MAX):
        story.tell(RegisterWorker(worker_id=f"w-{number}", actions=["send"]))

    with pytest.raises(Conflict) as refusal:
        story.tell(REGISTER)
    assert refusal.value.code == "too_many_workers"

    again = RegisterWorker(worker_id="w-0", actions=["send"])
    assert decide_register(story.state, again, Moment(NOON_MS, float, story.live)).events

    story.tell(DeregisterWorker(worker_id="w-0"))
    assert story.tell(REGISTER).reply.status is WorkerStatus.IDLE


# Presence


def test_a_heartbeat_is_a_sign_and_not_an_event():
    story = given(REGISTER)

    decision = story.tell(Heartbeat(worker_id=ANNA, current_load=3))

    assert decision.reply == WorkerKnown(worker_id=ANNA, status=WorkerStatus.ACTIVE)
    assert decision.events == ()
    assert decision.signs == (WorkerHeard(namespace=DEFAULT, worker_id=ANNA, current_load=3),)


@pytest.mark.parametrize(("load", "status"), [(0, WorkerStatus.IDLE), (1, WorkerStatus.ACTIVE)])
def test_a_worker_with_something_to_do_is_active(load, status):
    story = given(REGISTER, Heartbeat(worker_id=ANNA, current_load=load))

    view = story.ask(GetWorker(worker_id=ANNA))
    assert (view.status, view.current_load) == (status, load)


@pytest.mark.parametrize(
    ("silence_ms", "status_after"),
    [(90_000, WorkerStatus.IDLE), (90_001, WorkerStatus.UNHEALTHY)],
)
def test_a_worker_that_is_silent_for_more_than_ninety_seconds_is_unhealthy(
    silence_ms, status_after
):
    story = given(REGISTER, Later(silence_ms))

    assert status(story) is status_after


@pytest.mark.parametrize("sign_of_life", [Heartbeat(worker_id=ANNA), CLAIM, REGISTER])
def test_an_unhealthy_worker_recovers_with_any_sign_of_life(sign_of_life):
    story = given(REGISTER, Later(90_001))

    story.tell(sign_of_life)

    assert status(story) is WorkerStatus.IDLE
    assert story.ask(GetWorker(worker_id=ANNA)).last_heartbeat_ms == NOON_MS + 90_001


def test_a_claim_says_nothing_about_the_load():
    story = given(SEND, REGISTER, Heartbeat(worker_id=ANNA, current_load=7), CLAIM)

    assert story.ask(GetWorker(worker_id=ANNA)).current_load == 7


def test_a_claim_of_a_worker_nobody_registered_is_not_a_sign_of_life_of_any_worker():
    story = given(SEND)

    assert story.tell(CLAIM).signs == ()
    assert story.live.presence == {}


@pytest.mark.parametrize("load", [-1, 100_001])
def test_a_load_past_its_bounds_is_refused(load):
    with pytest.raises(Invalid):
        given(REGISTER).tell(Heartbeat(worker_id=ANNA, current_load=load))


# Drain


def test_a_drained_worker_is_told_so_by_everything_it_says():
    story = given(SEND, REGISTER, INVOKE)

    decision = story.tell(DRAIN)

    assert decision.reply == WorkerKnown(worker_id=ANNA, status=WorkerStatus.DRAINING)
    assert decision.events == (WorkerDrained(namespace=DEFAULT, worker_id=ANNA),)
    heartbeat = Heartbeat(worker_id=ANNA, current_load=2)
    assert story.tell(heartbeat).reply.status is WorkerStatus.DRAINING
    assert story.tell(CLAIM).reply.draining


def test_a_drain_that_comes_again_changes_nothing():
    story = given(REGISTER, DRAIN)

    assert story.tell(DRAIN).reply.status is WorkerStatus.DRAINING
    assert story.tell(DRAIN).events == ()


def test_a_draining_worker_may_finish_what_it_holds():
    story = given(SEND, REGISTER, INVOKE, CLAIM, DRAIN)

    assert story.tell(Complete(run_id="send-1", worker_id=ANNA)).events


def test_a_draining_worker_stays_draining_however_silent_it_is():
    story = given(REGISTER, DRAIN, Later(1_000_000))

    assert status(story) is WorkerStatus.DRAINING


# Departure


def test_a_worker_that_leaves_is_forgotten():
    story = given(SEND, REGISTER)

    decision = story.tell(LEAVE)

    left = WorkerDeregistered(namespace=DEFAULT, worker_id=ANNA, at_ms=NOON_MS)
    assert decision.reply == Nothing()
    assert decision.events == (left,)
    assert decision.signs == (WorkerLeft(namespace=DEFAULT, worker_id=ANNA),)
    space = story.state.spaces[DEFAULT]
    assert (space.workers, space.processes, story.live.presence) == ({}, {}, {})


def test_a_worker_that_has_left_may_leave_again():
    decision = given().tell(LEAVE)

    assert decision.reply == Nothing()
    assert decision.events == ()


@pytest.mark.parametrize("word", [Heartbeat(worker_id=BORIS), DrainWorker(worker_id=BORIS)])
def test_a_worker_nobody_registered_is_told_so(word):
    with pytest.raises(NotFound, match="'boris' is not registered") as refusal:
        given(REGISTER).tell(word)

    assert refusal.value.code == "worker_not_found"


# Counters


def test_a_worker_is_credited_with_every_attempt_it_ended():
    story = given(
        RegisterAction(name="send", timeout_ms=700, retry_delay_ms=0), REGISTER, *[INVOKE] * 4
    )
    story.tell(Claim(worker_id=ANNA, actions=["send"], max_tasks=4), Later(10))
    story.tell(
        Complete(run_id="send-1", worker_id=ANNA),
        Fail(run_id="send-2", worker_id=ANNA, retry=True),
        Fail(run_id="send-3", worker_id=ANNA),
    )
    story.tell(Later(690), Tick())

    view = story.ask(GetWorker(worker_id=ANNA))

    assert (view.tasks_completed, view.tasks_failed) == (1, 3)
    (sent, printed) = view.processes
    assert (sent.name, sent.kind, sent.run_count, sent.fail_count) == ("send", "action", 1, 3)
    assert sent.last_run_at_ms == NOON_MS + 700
    assert (printed.name, printed.run_count, printed.last_run_at_ms) == ("print", 0, None)


def test_an_action_the_worker_never_named_is_counted_all_the_same():
    story = given(SEND, RegisterWorker(worker_id=ANNA, actions=[]), INVOKE, CLAIM)

    story.tell(Complete(run_id="send-1", worker_id=ANNA))

    (process,) = story.ask(GetWorker(worker_id=ANNA)).processes
    assert (process.name, process.run_count) == ("send", 1)


def test_nothing_is_counted_for_a_worker_nobody_registered():
    story = given(SEND, INVOKE, CLAIM, Complete(run_id="send-1", worker_id=ANNA))

    assert story.state.spaces[DEFAULT].processes == {}
