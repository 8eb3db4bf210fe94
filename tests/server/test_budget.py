import pytest

from flo.model.actions import RegisterAction
from flo.model.declare.catalog import OPERATIONS
from flo.model.errors import Overloaded
from flo.model.kv import DeleteKey, PutKey
from flo.model.runs import Claim, Complete, GetRun, Invoke
from flo.model.workflows import StartWorkflow
from flo.server.budget import (
    NEW_WORK,
    SENT_LATELY_MS,
    STATE_AGE_MS_MAX,
    MemoryBudget,
    Part,
    SentLately,
    length_of,
)
from flo.testing.clock import ManualClock

TOTAL = 8_000_000
INVOKE = Invoke(action="send")
COMPLETE = Complete(run_id="send-1", worker_id="anna")


class Scene:
    """A budget, and a state that is as large as the test says."""

    def __init__(self):
        self.clock = ManualClock()
        self.state_length = 0
        self.budget = MemoryBudget(
            TOTAL,
            own_length=1_000_000,
            state_length=lambda: self.state_length,
            space_length=lambda namespace: self.state_length if namespace == "large" else 0,
            now_ms=self.clock.now_ms,
            watcher=self,
        )
        self.codes = []

    def refused(self, code):
        self.codes.append(code)

    def grow(self, length):
        self.state_length = length
        self.budget.look()


@pytest.fixture
def scene():
    return Scene()


def test_while_there_is_room_nothing_is_refused(scene):
    assert scene.budget.refusal([INVOKE], 1_000) is None


def test_new_work_is_refused_before_the_total_is_reached(scene):
    scene.grow(5_999_000)

    assert scene.budget.refusal([INVOKE], 1_000) is None
    refusal = scene.budget.refusal([INVOKE], 1_001)

    assert isinstance(refusal, Overloaded)
    assert refusal.code == "overloaded"
    assert refusal.retry_after_ms == refusal.details["retry_after_ms"] == 1_000
    assert scene.codes == ["overloaded"]


def test_a_namespace_that_has_much_of_the_state_is_refused_first(scene):
    scene.grow(5_500_000)

    assert scene.budget.refusal([INVOKE], 0) is None
    assert scene.budget.refusal([Invoke(action="send", namespace="large")], 0) is not None


IN_LARGE = Invoke(action="send", namespace="large")


def test_in_a_large_namespace_who_has_sent_much_is_refused_before_who_has_sent_little(scene):
    light, flooder = SentLately(), SentLately()
    scene.budget.refusal([IN_LARGE], 1_000_000, flooder)
    scene.grow(5_100_000)

    assert scene.budget.refusal([IN_LARGE], 0, flooder) is not None
    assert scene.budget.refusal([IN_LARGE], 0, light) is None

    scene.grow(5_600_000)
    assert scene.budget.refusal([IN_LARGE], 0, light) is not None
    assert scene.budget.refusal([INVOKE], 0, flooder) is None, "another namespace has more room"


def test_who_is_refused_and_goes_on_is_not_one_who_sends_little(scene):
    flooder = SentLately()
    scene.budget.refusal([IN_LARGE], 1_000_000, flooder)
    scene.grow(5_100_000)

    for _ in range(100):
        scene.clock.advance(SENT_LATELY_MS // 10)
        assert scene.budget.refusal([IN_LARGE], 4_000, flooder) is not None

    scene.clock.advance(2 * SENT_LATELY_MS)
    assert scene.budget.refusal([IN_LARGE], 4_000, flooder) is None


def test_what_is_in_the_budget_already_counts_for_its_caller(scene):
    flooder = SentLately()
    scene.budget.refusal([IN_LARGE], 0, flooder, 1_000_000)
    scene.grow(5_100_000)

    assert scene.budget.refusal([IN_LARGE], 0, flooder) is not None


@pytest.mark.parametrize(
    "message",
    [
        COMPLETE,
        Claim(worker_id="anna", actions=["send"]),
        DeleteKey(key="a"),
        GetRun(run_id="send-1"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_frees_memory_is_let_in_although_the_state_is_too_large(scene, message):
    scene.grow(2 * TOTAL)

    assert scene.budget.refusal([INVOKE], 0) is not None
    assert scene.budget.refusal([message], 1_000) is None


def test_when_too_much_is_in_passing_everything_is_refused(scene):
    scene.budget.change(Part.REQUESTS, TOTAL // 2)

    refusal = scene.budget.refusal([COMPLETE], 1)

    assert refusal.retry_after_ms == 200


def test_new_work_is_let_in_again_once_the_state_is_smaller(scene):
    scene.grow(TOTAL)
    assert scene.budget.refusal([INVOKE], 0) is not None

    scene.state_length = 0
    scene.clock.advance(STATE_AGE_MS_MAX)

    assert scene.budget.refusal([INVOKE], 0) is None


def test_a_state_that_grows_is_noticed_after_so_many_bytes_whatever_the_clock_shows(scene):
    assert scene.budget.refusal([INVOKE], 0) is None
    scene.state_length = TOTAL

    answers = [scene.budget.refusal([INVOKE], 100_000) for _ in range(12)]

    assert answers[0] is None
    assert isinstance(answers[-1], Overloaded)


def test_frames_and_replies_have_a_part_each(scene):
    for part in (Part.FRAMES, Part.REPLIES):
        assert scene.budget.has_room(part, TOTAL // 4)
        assert not scene.budget.has_room(part, TOTAL // 4 + 1)


def test_what_is_used_is_the_sum_of_its_parts(scene):
    scene.grow(300)
    scene.budget.change(Part.FRAMES, 20)
    scene.budget.change(Part.REPLIES, 4)
    scene.budget.change(Part.FRAMES, -20)

    assert scene.budget.used == 1_000_304
    assert scene.budget.lengths() == {
        "total": TOTAL,
        "server": 1_000_000,
        "state": 300,
        "frames": 0,
        "requests": 0,
        "replies": 4,
    }


def test_more_than_was_taken_cannot_be_given_back(scene):
    with pytest.raises(AssertionError):
        scene.budget.change(Part.FRAMES, -1)


def test_a_message_takes_more_than_its_bytes():
    assert length_of([INVOKE] * 3, 1_000) > 3_000


def test_what_adds_to_the_state_is_new_work():
    assert {Invoke, StartWorkflow, PutKey, RegisterAction} <= NEW_WORK
    names = {one.name for one in OPERATIONS if one.message in NEW_WORK}
    assert not {name for name in names if name.startswith(("delete", "get", "list", "purge"))}
