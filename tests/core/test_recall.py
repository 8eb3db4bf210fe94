import pytest

from flo.core.moment import Recalled
from flo.core.recall import RecallKey, RecallPage, RecallRun, is_recalled, recalls_for
from flo.model.actions import GetAction, RegisterAction
from flo.model.errors import Invalid
from flo.model.runs import (
    Claim,
    Complete,
    Fail,
    GetRun,
    Invoke,
    ListRuns,
    RunStatus,
    Touch,
    WaitForRuns,
)
from given import ANNA, DEFAULT, given

ENDED = RecallRun(DEFAULT, "send-1", "send", 1)
KEY = RecallKey((DEFAULT, "send", "new"))


def page(below, limit=50, status=None, live=()):
    return RecallPage(DEFAULT, "send", below, limit, status, live)


STATE = given(
    RegisterAction(name="send"),
    Invoke(action="send", idempotency_key="one"),
    Claim(worker_id=ANNA, actions=["send"]),
    Complete(run_id="send-1", worker_id=ANNA),
    Invoke(action="send", idempotency_key="two"),
).state
"""Run 1 has completed with a key, run 2 has a key and waits."""
WAITING = STATE.spaces[DEFAULT].runs["send-2"]


@pytest.mark.parametrize(
    ("word", "recalls"),
    [
        (Invoke(action="send"), []),
        (Invoke(action="send", idempotency_key="one"), []),
        (Invoke(action="send", idempotency_key="two"), []),
        (Invoke(action="send", idempotency_key="new"), [KEY]),
        (Complete(run_id="send-1", worker_id=ANNA), [ENDED]),
        (Complete(run_id="send-2", worker_id=ANNA), []),
        (Complete(run_id="send-3", worker_id=ANNA), []),
        (Fail(run_id="send-1", worker_id=ANNA), [ENDED]),
        (Fail(run_id="send-2", worker_id=ANNA), []),
        (Touch(run_id="send-1", worker_id=ANNA), []),
        (GetRun(run_id="send-1"), [ENDED]),
        (GetRun(run_id="send-2"), []),
        (GetRun(run_id="send-3"), []),
        (GetRun(run_id="print-1"), []),
        (GetRun(run_id="nonsense"), []),
        (GetRun(run_id="send-1", namespace="prod"), []),
        (WaitForRuns(run_ids=["send-2", "send-1", "send-3", "what"]), [ENDED]),
        (ListRuns(action="send"), [page(below=3, live=(WAITING,))]),
        (ListRuns(action="send", cursor="2", limit=7), [page(2, limit=7)]),
        (ListRuns(action="send", cursor="99"), [page(below=3, live=(WAITING,))]),
        (
            ListRuns(action="send", status=RunStatus.FAILED),
            [page(3, status=RunStatus.FAILED)],
        ),
        (GetAction(name="send"), []),
        (Claim(worker_id=ANNA, actions=["send"]), []),
    ],
)
def test_the_archive_is_asked_for_what_the_state_cannot_know_and_for_nothing_else(word, recalls):
    assert [*recalls_for(STATE, word)] == recalls


def test_a_question_that_makes_no_sense_is_refused_before_the_archive_is_asked():
    with pytest.raises(Invalid):
        recalls_for(STATE, ListRuns(action="send", limit=0))


@pytest.mark.parametrize(
    ("recalled", "recall", "known"),
    [
        (Recalled(), KEY, False),
        (Recalled(keys={KEY.key: None}), KEY, True),
        (Recalled(keys={KEY.key: "send-1"}), KEY, True),
        (Recalled(), ENDED, False),
        (Recalled(runs={(DEFAULT, "send-1"): None}), ENDED, True),
        (Recalled(), RecallPage(DEFAULT, "send", 3, 50, None, ()), False),
        (Recalled(page=()), RecallPage(DEFAULT, "send", 3, 50, None, ()), True),
    ],
)
def test_no_such_is_an_answer_too(recalled, recall, known):
    assert is_recalled(recalled, recall) is known
