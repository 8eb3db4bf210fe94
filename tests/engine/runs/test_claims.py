import pytest

from flo.engine.long_poll import LEASE, RUN
from flo.engine.machine import LONG_POLLS
from flo.engine.runs.claims import (
    PAYLOADS_PER_CLAIM_LENGTH_MAX,
    free_at_ms,
)
from flo.engine.runs.events import RunClaimed
from flo.engine.ticks import Tick
from flo.model.actions import RegisterAction
from flo.model.errors import Conflict, Invalid
from flo.model.ids import PAYLOAD_LENGTH_MAX
from flo.model.runs import Assigned, Claim, Fail, Invoke, Task
from flo.model.workers import DrainWorker, RegisterWorker
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, CLARA, DEFAULT, Later, claimed, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send", input=b"{}")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
FAIL = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no route", retry=True)


# Order


def test_runs_are_claimed_by_priority_and_then_by_age():
    priorities = [10, 255, 0, 10, 255]
    engine = given(SEND, *(Invoke(action="send", priority=priority) for priority in priorities))

    assert claimed(engine) == ["send-2", "send-5", "send-1", "send-4", "send-3"]


def test_a_claim_for_several_actions_brings_the_most_urgent_of_them_all():
    engine = given(SEND, RegisterAction(name="print"))
    for action, priority in [("print", 5), ("send", 9), ("print", 9), ("send", 5)]:
        engine.execute(Later(1), Invoke(action=action, priority=priority))

    assert claimed(engine, ANNA, "print", "send") == ["send-1", "print-2", "print-1", "send-2"]


def test_an_action_named_twice_in_a_claim_is_one_action():
    engine = given(SEND, INVOKE, INVOKE)

    assert claimed(engine, ANNA, "send", "send") == ["send-1", "send-2"]


def test_runs_that_ask_for_different_labels_keep_their_order_for_a_worker_that_has_them_all():
    labels = [None, {"gpu": True}, None, {"region": "eu"}, {"gpu": True}]
    engine = given(
        SEND,
        RegisterWorker(worker_id=ANNA, processes=["send"], labels={"gpu": True, "region": "eu"}),
        *(Invoke(action="send", labels=asked) for asked in labels),
    )

    assert claimed(engine) == ["send-1", "send-2", "send-3", "send-4", "send-5"]


def test_a_retry_waits_behind_those_who_came_before_it_was_ready_again():
    engine = given(SEND, INVOKE, CLAIM, Later(10), FAIL, Later(500), INVOKE, Later(500), Tick())

    assert claimed(engine) == ["send-2", "send-1"]


# Claim


def test_a_claim_gives_the_worker_a_lease():
    engine = given(
        RegisterAction(name="send", timeout_ms=700), Invoke(action="send", input=b"hi"), Later(50)
    )

    decision = engine.execute(CLAIM)

    task = Task(
        task_id="send-1",
        task_type="send",
        payload=b"hi",
        created_at_ms=NOON_MS,
        attempt=1,
        lease_expires_at_ms=NOON_MS + 750,
        timeout_ms=700,
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
    engine = given(SEND, INVOKE)

    assert claimed(engine, ANNA) == ["send-1"]
    assert claimed(engine, BORIS) == []


def test_a_claim_brings_no_more_than_it_asks_for():
    engine = given(SEND, *[INVOKE] * 5)

    assert len(claimed(engine, max_tasks=3)) == 3
    assert len(claimed(engine, max_tasks=3)) == 2


def test_a_claim_for_an_unknown_action_brings_nothing():
    assert given().execute(CLAIM).reply == Assigned()


def test_large_payloads_are_spread_over_several_claims():
    half = bytes(PAYLOADS_PER_CLAIM_LENGTH_MAX // 2)
    engine = given(SEND, *[Invoke(action="send", input=half)] * 5)

    assert [len(claimed(engine)) for _ in range(3)] == [3, 2, 0]


def test_a_payload_larger_than_a_claim_may_carry_comes_alone():
    engine = given(SEND, *[Invoke(action="send", input=bytes(PAYLOAD_LENGTH_MAX))] * 2)

    assert [len(claimed(engine)) for _ in range(3)] == [1, 1, 0]


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
        given().execute(Claim(**{"worker_id": ANNA, "actions": ["send"], **settings}))


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
    worker = RegisterWorker(worker_id=ANNA, processes=["send"], labels=offered)
    engine = given(SEND, worker, Invoke(action="send", labels=required))

    assert claimed(engine) == (["send-1"] if fits else [])


def test_a_worker_nobody_registered_may_claim_runs_that_ask_for_no_labels():
    engine = given(SEND, INVOKE, Invoke(action="send", labels={"gpu": True}), INVOKE)

    assert claimed(engine, CLARA) == ["send-1", "send-3"]


def test_a_run_passed_over_for_its_labels_waits_for_a_worker_that_has_them():
    engine = given(SEND, Invoke(action="send", labels={"gpu": True}), INVOKE)
    assert claimed(engine, BORIS) == ["send-2"]

    engine.execute(RegisterWorker(worker_id=ANNA, processes=["send"], labels={"gpu": True}))

    assert claimed(engine, ANNA) == ["send-1"]


def test_a_draining_worker_gets_nothing_more():
    engine = given(
        SEND,
        RegisterWorker(worker_id=ANNA, processes=["send"]),
        DrainWorker(worker_id=ANNA),
        INVOKE,
    )

    decision = engine.execute(CLAIM)

    assert decision.reply == Assigned(draining=True)
    assert decision.events == ()


def test_a_worker_holds_no_more_than_it_could_give_up_in_one_commit(monkeypatch):
    monkeypatch.setattr("flo.engine.runs.claims.HELD_PER_WORKER_MAX", 2)
    engine = given(RegisterAction(name="send"), *[Invoke(action="send")] * 3)

    first = engine.execute(Claim(worker_id=ANNA, actions=["send"], max_tasks=3))
    second = engine.execute(Claim(worker_id=ANNA, actions=["send"], max_tasks=3))

    assert len(first.reply.tasks) == 2
    assert second.reply.tasks == []


# What a worker registered


def test_a_registered_worker_is_given_no_more_than_it_carries_out_at_a_time():
    engine = given(SEND, worker(max_concurrency=2), *[INVOKE] * 4)

    assert claimed(engine) == ["send-1", "send-2"]
    assert claimed(engine) == []
    engine.execute(Fail(run_id="send-1", worker_id=ANNA))

    assert claimed(engine) == ["send-3"]


def test_a_claim_of_a_worker_that_is_full_waits_for_the_end_of_what_it_holds():
    engine = given(SEND, worker(max_concurrency=1), INVOKE, INVOKE, CLAIM)
    poll = LONG_POLLS[Claim]

    subjects = [(RUN, DEFAULT, "send-1"), (LEASE, DEFAULT, "send-1")]
    assert poll.subjects_now(engine.state, CLAIM) == subjects
    assert free_at_ms(engine.state, CLAIM, NOON_MS, engine.volatile) is None
    engine.execute(Fail(run_id="send-1", worker_id=ANNA))
    assert poll.subjects_now(engine.state, CLAIM) == ()


def test_a_claim_of_an_action_that_the_worker_did_not_register_is_refused():
    engine = given(SEND, RegisterAction(name="print"), worker(), INVOKE)
    claim = Claim(worker_id=ANNA, actions=["send", "print"])

    with pytest.raises(Conflict, match="registered for 'send', and not for 'print'") as refusal:
        engine.execute(claim)

    assert refusal.value.code == "action_not_registered"
    assert refusal.value.details == {"registered": ["send"], "others": ["print"]}
    engine.execute(RegisterWorker(worker_id=ANNA, processes=["print", "fold", "send"]))
    assert [task.task_id for task in engine.execute(claim).reply.tasks] == ["send-1"]


def test_of_very_many_registered_actions_a_refusal_names_a_few():
    engine = given(RegisterWorker(worker_id=ANNA, processes=[f"a{n}" for n in range(12)]))

    with pytest.raises(Conflict, match=r"'a9' and 2 more, and not for 'send'"):
        engine.execute(CLAIM)


def worker(**settings):
    return RegisterWorker(worker_id=ANNA, processes=["send"], **settings)
