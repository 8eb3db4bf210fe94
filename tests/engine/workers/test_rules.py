import msgspec
import pytest

from flo.engine.context import Context
from flo.engine.ticks import Tick
from flo.engine.workers.events import (
    LoadReported,
    WorkerAskedToDrain,
    WorkerDeregistered,
    WorkerDrained,
    WorkerLeft,
    WorkerRegistered,
)
from flo.engine.workers.records import Worker
from flo.engine.workers.rules import decide_register
from flo.model.actions import RegisterAction
from flo.model.base import Nothing
from flo.model.declare.operation import needs_key
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.groups import ReadGroup
from flo.model.runs import Claim, Complete, Fail, Invoke
from flo.model.streams import Append, NewRecord
from flo.model.workers import (
    METADATA_LENGTH_MAX,
    WORKERS_MAX,
    AwaitNotifications,
    DeregisterWorker,
    DrainWorker,
    GetWorker,
    Heartbeat,
    RegisterWorker,
    WorkerKnown,
    WorkerStatus,
    WorkerType,
)
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, given

REGISTER = RegisterWorker(worker_id=ANNA, processes=["send", "print"])
DRAIN = DrainWorker(worker_id=ANNA)
LEAVE = DeregisterWorker(worker_id=ANNA)
SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
HEARTBEAT = Heartbeat(worker_id=ANNA)


def status(engine):
    return engine.query(GetWorker(worker_id=ANNA)).status


def load(engine):
    return engine.query(GetWorker(worker_id=ANNA)).current_load


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"in": value}
    return value


# Registration


def test_a_worker_is_registered_with_what_it_says_of_itself():
    decision = given().execute(
        RegisterWorker(
            worker_id=ANNA,
            processes=["send", "print", "send"],
            max_concurrency=4,
            machine_id="host-01",
            labels={"gpu": True},
            metadata={"version": "1.2", "disks": ["sda"]},
            worker_type=WorkerType.STREAM,
            incarnation="a1b2",
        )
    )

    worker = Worker(
        worker_id=ANNA,
        actions=("send", "print"),
        registered_at_ms=NOON_MS,
        max_concurrency=4,
        machine_id="host-01",
        labels={"gpu": True},
        metadata={"version": "1.2", "disks": ["sda"]},
        worker_type=WorkerType.STREAM,
        incarnation="a1b2",
        began_at_ms=NOON_MS,
    )
    assert decision.reply == WorkerKnown(worker_id=ANNA, status=WorkerStatus.ACTIVE)
    assert decision.events == (WorkerRegistered(namespace=DEFAULT, worker=worker),)
    assert decision.observations == (LoadReported(namespace=DEFAULT, worker_id=ANNA, load=None),)


def test_the_same_id_again_replaces_the_registration_and_ends_a_drain():
    engine = given(REGISTER, DRAIN, Later(500))

    engine.execute(RegisterWorker(worker_id=ANNA, processes=["send"], max_concurrency=1))

    view = engine.query(GetWorker(worker_id=ANNA))
    assert (view.status, view.max_concurrency) == (WorkerStatus.ACTIVE, 1)
    assert view.registered_at_ms == NOON_MS  # when it first registered


def test_a_worker_that_registers_again_keeps_its_counts_for_the_actions_it_still_names():
    engine = given(SEND, REGISTER, INVOKE, CLAIM, Complete(run_id="send-1", worker_id=ANNA))

    engine.execute(RegisterWorker(worker_id=ANNA, processes=["fold", "send"]))

    processes = engine.query(GetWorker(worker_id=ANNA)).processes
    assert [(process.name, process.run_count) for process in processes] == [
        ("fold", 0),
        ("send", 1),
    ]


def test_the_same_id_in_another_namespace_is_another_worker():
    engine = given(REGISTER)

    with pytest.raises(NotFound):
        engine.execute(DrainWorker(worker_id=ANNA, namespace="prod"))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"worker_id": "w" * 257}, Invalid),
        ({"worker_id": "", "machine_id": "my host"}, Invalid),
        ({"worker_id": "an na"}, Invalid),
        ({"namespace": ""}, Invalid),
        ({"processes": ["send", "p rint"]}, Invalid),
        ({"processes": ["events/processors"]}, Invalid),
        ({"processes": ["events/a/b"], "worker_type": WorkerType.STREAM}, Invalid),
        ({"processes": ["send"] * 1_001}, TooLarge),
        ({"max_concurrency": 0}, Invalid),
        ({"max_concurrency": 100_001}, Invalid),
        ({"machine_id": "m" * 4_097}, TooLarge),
        ({"labels": {"disk": None}}, Invalid),
        ({"labels": {"disks": [float("nan")]}}, Invalid),
        ({"labels": {"disks": ["x" * 4_097]}}, TooLarge),
        ({"metadata": "gpu"}, Invalid),
        ({"metadata": "[1]"}, Invalid),
        ({"metadata": "null"}, Invalid),
        ({"metadata": "[" * 5_000}, Invalid),
        ({"metadata": '{"note": "' + "x" * METADATA_LENGTH_MAX + '"}'}, TooLarge),
        ({"metadata": {"note": "x" * METADATA_LENGTH_MAX}}, TooLarge),
        ({"metadata": {"id": 2**64}}, Invalid),
        ({"metadata": {"id": -(2**63) - 1}}, Invalid),
        ({"metadata": {"share": float("nan")}}, Invalid),
        ({"metadata": {"deep": {"share": [float("inf")]}}}, Invalid),
        ({"metadata": {"raw": b"bytes"}}, Invalid),
        ({"metadata": {"ext": msgspec.msgpack.Ext(5, b"ext")}}, Invalid),
        ({"metadata": {"inner": {1: 2}}}, Invalid),
        ({"metadata": {"deep": [[[[]]] * 3]} | nested(200)}, TooLarge),
        ({"incarnation": "i" * 4_097}, TooLarge),
    ],
)
def test_a_registration_past_its_bounds_is_refused(settings, error):
    with pytest.raises(error):
        given().execute(RegisterWorker(**{"worker_id": ANNA, "processes": ["send"], **settings}))


def test_a_worker_shows_all_that_it_said_of_itself():
    engine = given(
        RegisterWorker(
            worker_id=ANNA,
            processes=["events/processors"],
            metadata={"version": "1.2"},
            machine_id="host-01",
            worker_type=WorkerType.STREAM,
        )
    )

    view = engine.query(GetWorker(worker_id=ANNA))

    assert (view.worker_type, view.machine_id) == (WorkerType.STREAM, "host-01")
    assert view.metadata == {"version": "1.2"}
    assert [process.kind for process in view.processes] == ["stream_consumer"]


def test_a_worker_without_an_id_is_given_one_that_nobody_has():
    engine = given()

    first = engine.execute(RegisterWorker(processes=["send"], machine_id="host-01")).reply
    second = engine.execute(RegisterWorker(processes=["send"], machine_id="host-01")).reply

    assert (first.worker_id, second.worker_id) == ("host-01-80000000", "host-01-80000001")
    assert engine.query(GetWorker(worker_id="host-01-80000000")).machine_id == "host-01"
    assert needs_key(RegisterWorker(processes=["send"]))


def test_metadata_may_be_the_text_of_an_object():
    engine = given(RegisterWorker(worker_id=ANNA, processes=[], metadata='{"gpu":true,"a":[1]}'))

    view = engine.query(GetWorker(worker_id=ANNA))
    assert (view.metadata, view.labels) == ({"gpu": True, "a": [1]}, {"gpu": True})


# Labels


@pytest.mark.parametrize(
    ("labels", "metadata", "counts"),
    [
        (None, None, None),
        (None, {}, None),
        ({"gpu": True}, None, {"gpu": True}),
        (
            None,
            {"gpu": True, "zone": "eu", "n": 1, "x": 0.5},
            {"gpu": True, "zone": "eu", "n": 1, "x": 0.5},
        ),
        (
            None,
            {"gpu": True, "disks": ["sda"], "host": {"os": "linux"}, "none": None},
            {"gpu": True},
        ),
        (None, {"disks": []}, None),
        ({"gpu": False}, {"gpu": True, "zone": "eu"}, {"gpu": False}),
        ({}, {"gpu": True}, {}),
    ],
)
def test_the_flat_values_of_the_metadata_are_the_labels_unless_there_are_labels(
    labels, metadata, counts
):
    engine = given(
        RegisterWorker(worker_id=ANNA, processes=["send"], labels=labels, metadata=metadata)
    )

    assert engine.state.spaces[DEFAULT].workers[ANNA].labels == counts


def test_a_worker_gets_runs_for_the_labels_in_its_metadata():
    engine = given(
        SEND,
        RegisterWorker(worker_id=ANNA, processes=["send"], metadata={"gpu": True, "os": ["linux"]}),
        Invoke(action="send", labels={"gpu": True}),
    )

    assert [task.task_id for task in engine.execute(CLAIM).reply.tasks] == ["send-1"]


# A full registry


def full(steps=()):
    """Ten thousand workers, each heard of a millisecond after the one before."""
    engine = given(*steps)
    for number in range(WORKERS_MAX - len(engine.state.space(DEFAULT).workers)):
        engine.execute(RegisterWorker(worker_id=f"w-{number}", processes=["send"]), Later(1))
    return engine


def test_there_is_room_for_ten_thousand_workers_and_each_of_them_may_register_again():
    engine = full()

    with pytest.raises(Conflict) as refusal:
        engine.execute(REGISTER)
    assert refusal.value.code == "too_many_workers"

    again = RegisterWorker(worker_id="w-0", processes=["send"])
    assert decide_register(engine.state, again, Context(NOON_MS, float, engine.volatile)).events

    engine.execute(DeregisterWorker(worker_id="w-0"))
    assert engine.execute(REGISTER).reply.status is WorkerStatus.ACTIVE


def test_when_the_registry_is_full_the_worker_that_was_silent_for_longest_makes_room():
    engine = full([SEND, REGISTER, INVOKE, CLAIM])
    engine.execute(Heartbeat(worker_id="w-0"), Later(90_000))
    heard = engine.volatile.presence[DEFAULT, ANNA]

    decision = engine.execute(RegisterWorker(worker_id=BORIS, processes=["send"]))

    left, requeued, registered = decision.events
    assert left == WorkerDeregistered(
        namespace=DEFAULT, worker_id=ANNA, at_ms=heard.heard_at_ms + WORKERS_MAX - 1 + 90_000
    )
    assert registered.worker.worker_id == BORIS
    assert (requeued.run_id, requeued.error) == ("send-1", "worker 'anna' left")
    assert (DEFAULT, ANNA) not in engine.volatile.presence
    assert len(engine.state.spaces[DEFAULT].workers) == WORKERS_MAX
    assert len(engine.volatile.presence) == WORKERS_MAX

    engine.execute(RegisterWorker(worker_id="clara", processes=["send"]))
    assert "w-1" not in engine.state.spaces[DEFAULT].workers  # w-0 was heard of again


def test_a_worker_that_died_while_it_drained_makes_room_too():
    engine = full([REGISTER, DRAIN])
    engine.execute(Later(90_002 - WORKERS_MAX))

    engine.execute(RegisterWorker(worker_id=BORIS, processes=["send"]))

    assert ANNA not in engine.state.spaces[DEFAULT].workers


def test_a_worker_that_registers_again_makes_nobody_leave():
    engine = full()
    engine.execute(Later(1_000_000))

    assert len(engine.execute(RegisterWorker(worker_id="w-0", processes=["send"])).events) == 1


def test_a_full_namespace_leaves_room_in_others():
    engine = full()

    elsewhere = RegisterWorker(worker_id=ANNA, processes=["send"], namespace="prod")

    assert engine.execute(elsewhere).reply.status is WorkerStatus.ACTIVE


# Presence


def test_a_heartbeat_is_a_sign_and_not_an_event():
    engine = given(REGISTER)

    decision = engine.execute(Heartbeat(worker_id=ANNA, current_load=3))

    assert decision.reply == WorkerKnown(worker_id=ANNA, status=WorkerStatus.ACTIVE)
    assert decision.events == ()
    heard = LoadReported(namespace=DEFAULT, worker_id=ANNA, load=3, position=engine.state.position)
    assert decision.observations == (heard,)


def test_a_worker_is_active_until_a_heartbeat_says_that_it_has_no_load():
    engine = given(REGISTER)
    assert status(engine) is WorkerStatus.ACTIVE

    assert engine.execute(HEARTBEAT).reply.status is WorkerStatus.IDLE
    assert status(engine) is WorkerStatus.IDLE

    engine.execute(Heartbeat(worker_id=ANNA, current_load=1))
    assert status(engine) is WorkerStatus.ACTIVE


def test_handlers_that_do_not_stop_are_load_and_make_a_full_worker_unhealthy():
    engine = given(RegisterWorker(worker_id=ANNA, processes=["send"], max_concurrency=2))
    some = Heartbeat(worker_id=ANNA, current_load=1, abandoned=1)

    assert engine.execute(some).reply.status is WorkerStatus.ACTIVE
    assert (status(engine), load(engine)) == (WorkerStatus.ACTIVE, 1)

    every = Heartbeat(worker_id=ANNA, current_load=2, abandoned=2)
    assert engine.execute(every).reply.status is WorkerStatus.UNHEALTHY
    assert (status(engine), load(engine)) == (WorkerStatus.UNHEALTHY, 2)

    engine.execute(Claim(worker_id=ANNA, actions=["send"]))
    assert status(engine) is WorkerStatus.UNHEALTHY
    engine.execute(DrainWorker(worker_id=ANNA))
    assert status(engine) is WorkerStatus.DRAINING


def test_the_load_is_what_the_worker_has_in_hand_whatever_it_said():
    engine = given(SEND, REGISTER, INVOKE, INVOKE, HEARTBEAT)

    engine.execute(Claim(worker_id=ANNA, actions=["send"], max_tasks=2))
    assert (status(engine), load(engine)) == (WorkerStatus.ACTIVE, 2)
    assert engine.execute(HEARTBEAT).reply.status is WorkerStatus.ACTIVE

    engine.execute(Complete(run_id="send-1", worker_id=ANNA))
    assert (status(engine), load(engine)) == (WorkerStatus.ACTIVE, 1)

    engine.execute(Complete(run_id="send-2", worker_id=ANNA))
    assert (status(engine), load(engine)) == (WorkerStatus.IDLE, 0)


@pytest.mark.parametrize(("consumer", "counted"), [(ANNA, 2), ("other", 1)])
def test_the_load_of_a_stream_worker_is_its_records_or_what_it_says(consumer, counted):
    engine = given(
        RegisterWorker(worker_id=ANNA, processes=["events/mailers"], worker_type=WorkerType.STREAM),
        Append(stream="events", records=[NewRecord(payload=b"1"), NewRecord(payload=b"2")]),
        Heartbeat(worker_id=ANNA, current_load=1),
    )
    engine.execute(ReadGroup(stream="events", group="mailers", consumer=consumer, limit=2))
    engine.execute(ReadGroup(stream="events", group="mailers", consumer=consumer, limit=2))

    assert load(engine) == counted


@pytest.mark.parametrize(
    ("silence_ms", "status_after"),
    [(90_000, WorkerStatus.ACTIVE), (90_001, WorkerStatus.UNHEALTHY)],
)
def test_a_worker_that_is_silent_for_more_than_ninety_seconds_is_unhealthy(
    silence_ms, status_after
):
    engine = given(REGISTER, Later(silence_ms))

    assert status(engine) is status_after


@pytest.mark.parametrize("sign_of_life", [HEARTBEAT, CLAIM, REGISTER])
def test_an_unhealthy_worker_is_active_with_any_sign_of_life(sign_of_life):
    engine = given(REGISTER, HEARTBEAT, Later(90_001))

    reply = engine.execute(sign_of_life).reply

    assert getattr(reply, "status", WorkerStatus.ACTIVE) is WorkerStatus.ACTIVE
    assert status(engine) is WorkerStatus.ACTIVE
    assert engine.query(GetWorker(worker_id=ANNA)).last_heartbeat_ms == NOON_MS + 90_001


def test_a_claim_that_brings_nothing_leaves_an_idle_worker_idle():
    engine = given(SEND, REGISTER, HEARTBEAT, CLAIM)

    assert status(engine) is WorkerStatus.IDLE


def test_after_a_restart_a_worker_is_active_until_it_says_otherwise():
    engine = given(REGISTER, HEARTBEAT)
    engine.volatile.presence.clear()

    assert status(engine) is WorkerStatus.ACTIVE


def test_a_claim_of_a_worker_nobody_registered_is_not_a_sign_of_life_of_any_worker():
    engine = given(SEND)

    assert engine.execute(CLAIM).observations == ()
    assert engine.volatile.presence == {}


@pytest.mark.parametrize("load", [-1, 100_001])
def test_a_load_past_its_bounds_is_refused(load):
    with pytest.raises(Invalid):
        given(REGISTER).execute(Heartbeat(worker_id=ANNA, current_load=load))


# Drain


def test_a_drained_worker_is_told_so_by_everything_it_says():
    engine = given(SEND, REGISTER, INVOKE)

    decision = engine.execute(DRAIN)

    assert decision.reply == WorkerKnown(worker_id=ANNA, status=WorkerStatus.DRAINING)
    assert decision.events == (WorkerDrained(namespace=DEFAULT, worker_id=ANNA),)
    assert decision.observations == (WorkerAskedToDrain(namespace=DEFAULT, worker_id=ANNA),)
    heartbeat = Heartbeat(worker_id=ANNA, current_load=2)
    assert engine.execute(heartbeat).reply.status is WorkerStatus.DRAINING
    assert engine.execute(CLAIM).reply.draining


def test_a_drain_that_comes_again_changes_nothing():
    engine = given(REGISTER, DRAIN)

    again = engine.execute(DRAIN)

    assert again.reply.status is WorkerStatus.DRAINING
    assert (again.events, again.observations) == ((), ())


def test_a_draining_worker_may_finish_what_it_holds():
    engine = given(SEND, REGISTER, INVOKE, CLAIM, DRAIN)

    assert engine.execute(Complete(run_id="send-1", worker_id=ANNA)).events


def test_a_draining_worker_stays_draining_however_silent_it_is():
    engine = given(REGISTER, DRAIN, Later(1_000_000))

    assert status(engine) is WorkerStatus.DRAINING


@pytest.mark.parametrize(
    ("before", "after", "still"),
    [
        ("a1", "a1", True),
        ("a1", "b2", False),
        ("a1", "", False),
        ("", "a1", False),
        ("", "", False),
    ],
)
def test_a_drain_lasts_as_long_as_the_process_that_was_drained(before, after, still):
    def register(incarnation):
        return RegisterWorker(worker_id=ANNA, processes=["send"], incarnation=incarnation)

    engine = given(SEND, register(before), DRAIN, INVOKE)

    known = engine.execute(register(after)).reply

    assert known.status is (WorkerStatus.DRAINING if still else WorkerStatus.ACTIVE)
    assert engine.execute(CLAIM).reply.draining is still
    assert engine.query(AwaitNotifications(worker_id=ANNA)).draining is still


# Departure


def test_a_worker_that_leaves_is_forgotten():
    engine = given(SEND, REGISTER)

    decision = engine.execute(LEAVE)

    left = WorkerDeregistered(namespace=DEFAULT, worker_id=ANNA, at_ms=NOON_MS)
    assert decision.reply == Nothing()
    assert decision.events == (left,)
    assert decision.observations == (WorkerLeft(namespace=DEFAULT, worker_id=ANNA),)
    space = engine.state.spaces[DEFAULT]
    assert (space.workers, space.processes, engine.volatile.presence) == ({}, {}, {})


def test_a_worker_that_has_left_may_leave_again():
    decision = given().execute(LEAVE)

    assert decision.reply == Nothing()
    assert decision.events == ()


@pytest.mark.parametrize("message", [Heartbeat(worker_id=BORIS), DrainWorker(worker_id=BORIS)])
def test_a_worker_nobody_registered_is_told_so(message):
    with pytest.raises(NotFound, match="'boris' is not registered") as refusal:
        given(REGISTER).execute(message)

    assert refusal.value.code == "worker_not_found"


# Counters


def test_a_worker_is_credited_with_every_attempt_it_ended():
    engine = given(
        RegisterAction(name="send", timeout_ms=700, retry_delay_ms=0), REGISTER, *[INVOKE] * 4
    )
    engine.execute(Claim(worker_id=ANNA, actions=["send"], max_tasks=4), Later(10))
    engine.execute(
        Complete(run_id="send-1", worker_id=ANNA),
        Fail(run_id="send-2", worker_id=ANNA, retry=True),
        Fail(run_id="send-3", worker_id=ANNA),
    )
    engine.execute(Later(690), Tick())

    view = engine.query(GetWorker(worker_id=ANNA))

    assert (view.tasks_completed, view.tasks_failed) == (1, 3)
    (sent, printed) = view.processes
    assert (sent.name, sent.kind, sent.run_count, sent.fail_count) == ("send", "action", 1, 3)
    assert sent.last_run_at_ms == NOON_MS + 700
    assert (printed.name, printed.run_count, printed.last_run_at_ms) == ("print", 0, None)


def test_an_action_the_worker_no_longer_names_is_counted_all_the_same():
    engine = given(SEND, REGISTER, INVOKE, CLAIM, RegisterWorker(worker_id=ANNA, processes=[]))

    engine.execute(Complete(run_id="send-1", worker_id=ANNA))

    (process,) = engine.query(GetWorker(worker_id=ANNA)).processes
    assert (process.name, process.run_count) == ("send", 1)


def test_nothing_is_counted_for_a_worker_nobody_registered():
    engine = given(SEND, INVOKE, CLAIM, Complete(run_id="send-1", worker_id=ANNA))

    assert engine.state.spaces[DEFAULT].processes == {}
