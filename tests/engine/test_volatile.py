from flo.engine.groups.events import ConsumerHeard
from flo.engine.kv.events import TransactionClosed, TransactionFilled, TransactionOpened
from flo.engine.machine import OBSERVATIONS
from flo.engine.volatile import Notification, Presence, VolatileState
from flo.engine.workers.events import (
    LoadReported,
    TaskCancelled,
    WorkerAskedToDrain,
    WorkerHeard,
    WorkerLeft,
)
from flo.engine.workers.observations import NOTIFICATIONS_MAX
from flo.model.kv import Check, Delete, Put
from given import ANNA, BORIS, DEFAULT


def observe(volatile, observation, now_ms):
    OBSERVATIONS[type(observation)](volatile, observation, now_ms)


HEARD = WorkerHeard(namespace=DEFAULT, worker_id=ANNA)


def said(load):
    return LoadReported(namespace=DEFAULT, worker_id=ANNA, load=load)


def cancelled(run_id, worker_id=ANNA, namespace=DEFAULT):
    return TaskCancelled(namespace=namespace, worker_id=worker_id, run_id=run_id)


def test_a_worker_is_present_since_it_was_last_heard_of():
    volatile = VolatileState(1_000)

    observe(volatile, said(3), 2_000)
    observe(volatile, said(5), 3_000)

    assert volatile.heard(DEFAULT, ANNA) == Presence(heard_at_ms=3_000, reported_load=5)


def test_a_sign_of_life_without_a_load_leaves_the_load_as_it_was():
    volatile = VolatileState(1_000)

    observe(volatile, said(3), 2_000)
    observe(volatile, HEARD, 3_000)

    assert volatile.heard(DEFAULT, ANNA) == Presence(heard_at_ms=3_000, reported_load=3)


def test_after_too_long_a_silence_the_load_is_not_known():
    volatile = VolatileState(1_000)

    observe(volatile, said(0), 2_000)
    observe(volatile, HEARD, 92_001)

    assert volatile.heard(DEFAULT, ANNA) == Presence(heard_at_ms=92_001, reported_load=None)


def test_after_a_restart_every_worker_has_time_to_speak_up():
    assert VolatileState(7_000).heard(DEFAULT, BORIS) == Presence(7_000, None)


def test_a_worker_that_left_is_no_longer_present():
    volatile = VolatileState(1_000)
    observe(volatile, said(3), 2_000)

    observe(volatile, WorkerLeft(namespace=DEFAULT, worker_id=ANNA), 3_000)
    observe(volatile, WorkerLeft(namespace=DEFAULT, worker_id=ANNA), 3_000)

    assert volatile.presence == {}


def test_notifications_are_numbered_and_kept_for_whom_they_concern():
    volatile = VolatileState(7)
    for observation in (
        cancelled("send-1"),
        cancelled("send-2", worker_id=BORIS),
        WorkerAskedToDrain(namespace=DEFAULT, worker_id=ANNA),
        cancelled("send-3", namespace="prod"),
    ):
        observe(volatile, observation, 8)

    assert volatile.notifications_after(DEFAULT, ANNA, 0) == [
        Notification(7_001, "send-1"),
        Notification(7_003),
    ]
    assert volatile.notifications_after(DEFAULT, ANNA, 7_001) == [Notification(7_003)]
    assert volatile.notifications_after(DEFAULT, ANNA, 7_003) == []
    assert volatile.notifications_after(DEFAULT, BORIS, 0) == [Notification(7_002, "send-2")]
    assert volatile.notifications_after("prod", ANNA, 0) == [Notification(7_004, "send-3")]


def test_the_numbers_of_notifications_go_on_after_a_restart():
    before, after = VolatileState(1_000), VolatileState(1_001)
    for number in range(500):
        observe(before, cancelled(f"send-{number}"), 1_000)

    observe(after, cancelled("send-501"), 1_001)

    assert [
        one.cancelled for one in after.notifications_after(DEFAULT, ANNA, before.notifications_last)
    ] == ["send-501"]


def test_of_very_much_notifications_the_last_is_kept():
    volatile = VolatileState(1_000)
    for number in range(NOTIFICATIONS_MAX + 5):
        observe(volatile, cancelled(f"send-{number}"), 2_000)

    notifications = volatile.notifications_after(DEFAULT, ANNA, 0)

    assert (len(notifications), notifications[0].cancelled) == (NOTIFICATIONS_MAX, "send-5")


def spoke(consumer, until_ms):
    return ConsumerHeard(
        namespace=DEFAULT, stream="orders", group="billing", consumer=consumer, until_ms=until_ms
    )


def test_a_consumer_is_taken_to_be_there_until_a_time():
    volatile = VolatileState(1_000)
    observe(volatile, spoke(ANNA, 5_000), 2_000)
    observe(volatile, spoke(ANNA, 4_000), 3_000)

    assert volatile.consumer_until_ms(DEFAULT, "orders", "billing", ANNA) == 4_000
    assert volatile.consumer_until_ms(DEFAULT, "orders", "billing", BORIS) is None
    assert volatile.consumer_until_ms("prod", "orders", "billing", ANNA) is None


def test_of_very_many_consumers_those_are_forgotten_who_have_been_silent(monkeypatch):
    monkeypatch.setattr("flo.engine.groups.observations.CONSUMERS_REMEMBERED_MAX", 10)
    volatile = VolatileState(1_000)
    for number in range(11):
        observe(volatile, spoke(f"c{number}", 2_000 + number), 1_000)

    observe(volatile, spoke(ANNA, 9_000), 2_006)

    names = [consumer for *_, consumer in volatile.consumers]
    assert names == ["c6", "c7", "c8", "c9", "c10", ANNA]


def test_a_transaction_keeps_what_is_put_into_it_until_it_is_closed():
    volatile = VolatileState(1_000)
    number = 1_000_001
    put, delete = Put(key="a", value=b"1"), Delete(key="b")
    for now_ms, observation in enumerate(
        [
            TransactionOpened(transaction=number, namespace=DEFAULT),
            TransactionFilled(transaction=number, change=put),
            TransactionFilled(transaction=number, read=Check(key="a", version=1)),
            TransactionFilled(transaction=number, read=Check(key="a", version=2)),
            TransactionFilled(transaction=number, change=delete),
        ]
    ):
        observe(volatile, observation, now_ms)

    transaction = volatile.transactions[number]
    assert transaction.changes == [put, delete]
    assert transaction.reads == {"a": Check(key="a", version=1)}
    assert (transaction.namespace, transaction.touched_at_ms) == (DEFAULT, 4)

    observe(volatile, TransactionClosed(transaction=number), 9)
    observe(volatile, TransactionClosed(transaction=number), 9)
    assert volatile.transactions == {}
    assert volatile.transactions_opened == number


def test_the_notifications_of_a_worker_that_left_are_forgotten():
    volatile = VolatileState(1_000)
    observe(volatile, cancelled("send-1"), 2_000)

    observe(volatile, WorkerLeft(namespace=DEFAULT, worker_id=ANNA), 3_000)

    assert volatile.notifications == {}
