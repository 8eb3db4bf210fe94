"""Explain a run: each cause has a code, a sentence, its facts and its times."""

import pytest

from flo.engine.workers.presence import Disconnect, LoseWorker
from flo.model.actions import ActionLimits, DeleteAction, DisableAction, RegisterAction
from flo.model.errors import NotFound
from flo.model.explain import CauseCode
from flo.model.runs import Cancel, Claim, Complete, ExplainRun, Fail, Invoke, RunStatus
from flo.model.workers import (
    INLINE_WORKER_ID,
    SILENCE_MS_MAX,
    DeregisterWorker,
    DrainWorker,
    Heartbeat,
    RegisterWorker,
)
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, given

SEND = RegisterAction(name="send", retry_delay_ms=1_000)
INVOKE = Invoke(action="send", input=b'{"who": "p"}')
CLAIM = Claim(worker_id=ANNA, actions=["send"])
REGISTER = RegisterWorker(worker_id=ANNA, processes=["send"], max_concurrency=1)


def explained(engine, run_id="send-1"):
    return engine.query(ExplainRun(run_id=run_id))


def cause_of(engine, run_id="send-1"):
    """The only cause there is."""
    (cause,) = explained(engine, run_id).causes
    return cause


# Who could take it


def test_no_worker_has_ever_been_there():
    cause = cause_of(given(SEND, INVOKE))

    assert cause.code is CauseCode.NO_WORKER
    assert cause.since_at_ms == NOON_MS
    assert cause.facts == {"action": "send"}


def test_the_last_worker_has_left():
    engine = given(SEND, INVOKE, REGISTER, Later(5), DeregisterWorker(worker_id=ANNA))

    cause = cause_of(engine)

    assert (cause.code, cause.facts["worker_id"], cause.facts["how"]) == (
        CauseCode.WORKER_GONE,
        ANNA,
        "left",
    )
    assert cause.since_at_ms == NOON_MS + 5


def test_a_worker_has_fallen_silent():
    cause = cause_of(given(SEND, INVOKE, REGISTER, Later(SILENCE_MS_MAX + 1)))

    assert (cause.code, cause.facts["how"], cause.since_at_ms) == (
        CauseCode.WORKER_GONE,
        "silent",
        NOON_MS,
    )


def test_a_worker_is_draining():
    cause = cause_of(given(SEND, INVOKE, REGISTER, DrainWorker(worker_id=ANNA)))

    assert (cause.code, cause.facts["worker_id"]) == (CauseCode.WORKER_DRAINING, ANNA)


def test_a_worker_is_stuck():
    stuck = Heartbeat(worker_id=ANNA, current_load=1, abandoned=1)
    cause = cause_of(given(SEND, INVOKE, REGISTER, stuck))

    assert (cause.code, cause.facts["worker_id"]) == (CauseCode.WORKER_STUCK, ANNA)


def test_a_worker_whose_places_are_held_by_handlers_that_do_not_stop_is_busy():
    two = RegisterWorker(worker_id=ANNA, processes=["send"], max_concurrency=2)
    held = Heartbeat(worker_id=ANNA, current_load=2, abandoned=1)
    engine = given(SEND, INVOKE, two, CLAIM, INVOKE, held)

    assert cause_of(engine, "send-2").code is CauseCode.WORKERS_BUSY


def test_nobody_has_the_labels_and_the_nearest_worker_is_named_with_what_differs():
    far = RegisterWorker(worker_id=BORIS, processes=["send"])
    near = RegisterWorker(worker_id=ANNA, processes=["send"], labels={"gpu": True, "zone": "eu"})
    asking = Invoke(action="send", labels={"gpu": True, "zone": "us"})

    cause = cause_of(given(SEND, far, near, asking))

    assert cause.code is CauseCode.LABELS_UNMATCHED
    assert cause.facts["nearest"] == ANNA
    assert cause.facts["differing"] == {"zone": {"asked": "us", "has": "eu"}}
    assert "whose zone is 'eu' and not 'us'" in cause.text


def test_a_lost_worker_is_not_the_nearest_while_another_is_there():
    there = RegisterWorker(worker_id=BORIS, processes=["send"])
    lost = RegisterWorker(
        worker_id=ANNA, processes=["send"], incarnation="a", connection_bound=True, labels={"a": 1}
    )
    connection = {"worker_id": ANNA, "namespace": DEFAULT, "incarnation": "a"}
    asking = Invoke(action="send", labels={"a": 1, "b": 2})

    engine = given(
        SEND,
        there,
        lost,
        Disconnect(**connection, since_ms=NOON_MS),
        LoseWorker(**connection, since_ms=NOON_MS),
        asking,
    )

    assert cause_of(engine).facts["nearest"] == BORIS


def test_draining_workers_and_those_with_other_labels_are_both_named():
    other = RegisterWorker(worker_id=BORIS, processes=["send"])
    fit = RegisterWorker(worker_id=ANNA, processes=["send"], labels={"gpu": True})
    asking = Invoke(action="send", labels={"gpu": True})

    causes = explained(given(SEND, other, fit, DrainWorker(worker_id=ANNA), asking)).causes

    assert [cause.code for cause in causes] == ["worker_draining", "labels_unmatched"]


def test_every_worker_is_busy():
    cause = cause_of(given(SEND, REGISTER, INVOKE, CLAIM, INVOKE), "send-2")

    assert cause.code is CauseCode.WORKERS_BUSY
    assert cause.facts["workers"] == [{"worker_id": ANNA, "tasks": 1, "max_concurrency": 1}]


def test_a_worker_with_room_is_about_to_take_it():
    cause = cause_of(given(SEND, REGISTER, INVOKE))

    assert (cause.code, cause.facts) == (CauseCode.READY, {"worker_id": ANNA})


def test_a_run_without_a_place_to_be_executed_in_the_server():
    wasm = RegisterAction(name="send", wasm_module=b"module")
    inside = Claim(worker_id=INLINE_WORKER_ID, actions=["send"], held_max=1)
    engine = given(wasm, INVOKE)
    assert cause_of(engine).code is CauseCode.READY
    engine.execute(inside, INVOKE)

    assert cause_of(engine).code is CauseCode.EXECUTED_BY_SERVER
    cause = cause_of(engine, "send-2")
    assert (cause.code, cause.facts["runs"]) == (CauseCode.EXECUTION_PLACES_TAKEN, ["send-1"])


# What holds it back


def test_a_worker_has_it_until_its_lease_ends():
    cause = cause_of(given(SEND, INVOKE, CLAIM))

    assert (cause.code, cause.facts["worker_id"]) == (CauseCode.HELD_BY_WORKER, ANNA)
    assert (cause.since_at_ms, cause.next_at_ms) == (NOON_MS, NOON_MS + 30_000)


def test_its_delay_is_not_over():
    cause = cause_of(given(SEND, Invoke(action="send", delay_ms=700)))

    assert (cause.code, cause.next_at_ms) == (CauseCode.DELAYED, NOON_MS + 700)


def test_it_waits_for_the_next_attempt():
    fail = Fail(run_id="send-1", worker_id=ANNA, error="no route", retry=True)

    cause = cause_of(given(SEND, INVOKE, CLAIM, Later(3), fail))

    assert (cause.code, cause.facts["error"]) == (CauseCode.RETRY_BACKOFF, "no route")
    assert (cause.since_at_ms, cause.next_at_ms) == (NOON_MS + 3, NOON_MS + 1_003)


def test_the_limit_of_its_key_is_reached():
    limits = ActionLimits(concurrency_max=1, concurrency_key="{input.who}")
    limited = RegisterAction(name="send", limits=limits)

    cause = cause_of(given(limited, INVOKE, INVOKE), "send-2")

    assert cause.code is CauseCode.CONCURRENCY_LIMIT
    assert (cause.facts["key"], cause.facts["limit"]) == ("p", 1)
    assert cause.facts["holders"] == ["send-1"]


@pytest.mark.parametrize(
    ("limits", "name", "length_ms"),
    [
        (ActionLimits(max_per_second=1), "a second", 1_000),
        (ActionLimits(max_per_second=5, max_per_hour=1), "an hour", 3_600_000),
    ],
)
def test_the_rate_is_used_up(limits, name, length_ms):
    limited = RegisterAction(name="send", limits=limits)

    cause = cause_of(given(limited, INVOKE, INVOKE, CLAIM), "send-2")

    assert (cause.code, cause.next_at_ms) == (CauseCode.RATE_LIMIT, NOON_MS + length_ms)
    assert f"begin in {name}" in cause.text


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (DisableAction(name="send"), CauseCode.ACTION_DISABLED),
        (DeleteAction(name="send"), CauseCode.ACTION_DELETED),
    ],
)
def test_what_happened_to_its_action_is_told_too(change, code):
    causes = explained(given(SEND, INVOKE, change)).causes

    assert [cause.code for cause in causes] == [CauseCode.NO_WORKER, code]


# Ended


def test_a_run_that_has_ended_says_how():
    complete = Complete(run_id="send-1", worker_id=ANNA, outcome="sold_out")

    answer = explained(given(SEND, INVOKE, CLAIM, complete))

    assert answer.status is RunStatus.COMPLETED
    assert answer.causes[0].code is CauseCode.ENDED
    assert answer.summary == "It has ended and is completed with the outcome 'sold_out'."


def test_a_dead_letter_says_how_to_requeue_it():
    fail = Fail(run_id="send-1", worker_id=ANNA, error="no such user")

    answer = explained(given(SEND, INVOKE, CLAIM, fail))

    assert answer.summary == "It has ended and is failed: no such user"
    assert "flo action dlq requeue send send-1" in answer.advice


def test_a_cancelled_run_says_so():
    answer = explained(given(SEND, INVOKE, Cancel(run_id="send-1", reason="too late")))

    assert answer.summary == "It has ended and is cancelled: too late"


def test_a_run_that_never_was_is_not_found():
    with pytest.raises(NotFound):
        explained(given(SEND))


# Workers whose connection is their sign of life


BOUND = RegisterWorker(
    worker_id=ANNA, processes=["send"], max_concurrency=1, incarnation="a", connection_bound=True
)
BREAK = Disconnect(worker_id=ANNA, namespace=DEFAULT, incarnation="a", since_ms=NOON_MS + 1)
LOSE = LoseWorker(worker_id=ANNA, namespace=DEFAULT, incarnation="a", since_ms=NOON_MS + 1)


def test_the_worker_that_has_it_is_disconnected_and_is_given_up_after_the_grace_period():
    engine = given(SEND, BOUND, INVOKE, CLAIM, Later(1), BREAK)

    causes = explained(engine).causes

    assert [cause.code for cause in causes] == ["worker_disconnected", "held_by_worker"]
    assert (causes[0].since_at_ms, causes[0].next_at_ms) == (NOON_MS + 1, NOON_MS + 3_001)


def test_the_worker_that_could_take_it_is_disconnected():
    cause = cause_of(given(SEND, BOUND, INVOKE, Later(1), BREAK))

    assert (cause.code, cause.facts["worker_id"]) == (CauseCode.WORKER_DISCONNECTED, ANNA)


def test_the_worker_that_could_take_it_is_lost():
    engine = given(SEND, BOUND, INVOKE, Later(1), BREAK, Later(3_000), LOSE)

    cause = cause_of(engine)

    assert (cause.code, cause.facts["how"]) == (CauseCode.WORKER_GONE, "lost")
    assert cause.since_at_ms == NOON_MS + 3_001
