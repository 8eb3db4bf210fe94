"""Replies lack large inputs until they are filled in."""

import pytest

from engine.runs.inputs.large import FAIL, INVOKE, LARGE, SEND, SMALL, stored
from flo.engine.decision import Unfilled
from flo.engine.machine import execute, query
from flo.engine.ticks import Tick
from flo.model.actions import RegisterAction
from flo.model.runs import Assigned, Claim, Complete, Fail, GetRun, ListDeadRuns, ListRuns
from given import ANNA, Later, given

CLAIM = Claim(worker_id=ANNA, actions=["send"], max_tasks=9)


def unfilled_claim(engine):
    reply = execute(engine.state, CLAIM, engine.context(CLAIM)).reply
    assert isinstance(reply, Unfilled)
    return reply


def test_a_claim_of_small_inputs_is_whole_at_once():
    engine = given(SEND, SMALL)

    reply = execute(engine.state, CLAIM, engine.context(CLAIM)).reply

    assert isinstance(reply, Assigned)
    assert [task.payload for task in reply.tasks] == [SMALL.input]


def test_a_claim_wants_the_large_inputs_and_hands_them_out_in_order():
    engine = given(SEND, INVOKE, SMALL, INVOKE)

    reply = unfilled_claim(engine)

    assert reply.wants == (stored(1), stored(3))
    filled = reply.fill({stored(3): b"three", stored(1): b"one"})
    assert [(one.task_id, one.payload) for one in filled.tasks] == [
        ("send-1", b"one"),
        ("send-2", SMALL.input),
        ("send-3", b"three"),
    ]


def test_a_run_whose_input_is_lost_is_reported_as_failed_and_not_handed_out():
    engine = given(SEND, INVOKE, SMALL, INVOKE)

    reply = unfilled_claim(engine)
    filled, amends = reply.fill({stored(1): LARGE}), reply.amends([stored(3)])

    assert [task.task_id for task in filled.tasks] == ["send-1", "send-2"]
    assert [(one.run_id, one.worker_id, one.attempt, one.code, one.retry) for one in amends] == [
        ("send-3", ANNA, 1, "input_lost", True)
    ]


@pytest.mark.parametrize(
    ("steps", "asked"),
    [
        ([], GetRun(run_id="send-1")),
        ([CLAIM, Complete(run_id="send-1", worker_id=ANNA)], GetRun(run_id="send-1")),
        ([], ListRuns(action="send")),
        ([CLAIM, Complete(run_id="send-1", worker_id=ANNA)], ListRuns()),
        ([CLAIM, FAIL], ListDeadRuns(action="send")),
    ],
    ids=["live", "ended", "live in a list", "ended in a list", "dead"],
)
def test_whoever_looks_at_a_run_sees_its_large_input(steps, asked):
    engine = given(SEND, INVOKE, *steps)

    reply = query(engine.state, asked, engine.context(asked))

    assert isinstance(reply, Unfilled)
    assert reply.wants == (stored(1),)
    assert reply.amends is None
    shown = engine.query(asked)
    views = [shown] if isinstance(asked, GetRun) else shown.items
    assert [view.input for view in views] == [LARGE]


def test_a_failed_attempt_is_followed_by_one_with_the_same_input():
    engine = given(RegisterAction(name="send", max_retries=1), INVOKE, CLAIM)
    engine.execute(Fail(run_id="send-1", worker_id=ANNA, retry=True), Later(60_000), Tick())

    (task,) = engine.execute(CLAIM).reply.tasks

    assert (task.attempt, task.payload) == (2, LARGE)
