import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flo.core.queue import Queue, lane_key

GPU = {"gpu": True, "vram_gb": 24}


def waiting(queue, labels=None):
    """The numbers that a worker with these labels would be given, in order, lane by lane."""
    return [number for lane in queue.open_to(labels) for number in lane]


def test_within_a_priority_the_first_comes_first():
    queue = Queue()
    for number in (1, 2, 3):
        queue.push(None, 10, number)

    assert waiting(queue) == [1, 2, 3]


def test_a_higher_priority_goes_ahead():
    queue = Queue()
    for priority, number in [(10, 1), (255, 2), (0, 3), (10, 4), (255, 5)]:
        queue.push(None, priority, number)

    assert waiting(queue) == [2, 5, 1, 4, 3]


def test_what_was_taken_is_gone_and_an_empty_queue_has_no_lanes():
    queue = Queue()
    queue.push(None, 10, 1)
    queue.push(GPU, 10, 2)

    queue.take(None, 10, 1)
    assert waiting(queue, GPU) == [2]

    queue.take(GPU, 10, 2)
    assert queue.lanes == {}


def test_what_was_called_off_goes_with_the_first_taken_behind_it():
    queue = Queue()
    for number in (1, 2, 3):
        queue.push(None, 10, number)

    queue.take(None, 10, 2)

    assert waiting(queue) == [3]


@pytest.mark.parametrize(
    ("required", "offered", "matches"),
    [
        (None, None, True),
        (None, GPU, True),
        ({}, None, True),
        (GPU, {"gpu": True, "vram_gb": 24, "region": "us-east"}, True),
        (GPU, {"gpu": True, "vram_gb": 16}, False),
        (GPU, {"gpu": True}, False),
        (GPU, None, False),
        ({"gpu": True}, {"gpu": 1}, False),
        ({"gpu": 1}, {"gpu": True}, False),
        ({"gpu": False}, {"gpu": 0}, False),
        ({"gpu": "true"}, {"gpu": True}, False),
        ({"vram_gb": 24}, {"vram_gb": 24.0}, True),
        ({"vram_gb": 24}, {"vram_gb": "24"}, False),
        ({"vram_gb": 24}, {"vram_gb": 25}, False),
        ({"vram_gb": 2**53 + 1}, {"vram_gb": float(2**53)}, False),
        ({"region": ""}, {"region": ""}, True),
        ({"region": ""}, {}, False),
        ({"region": "us"}, {"Region": "us"}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ],
)
def test_a_worker_needs_every_label_that_is_required(required, offered, matches):
    queue = Queue()
    queue.push(required, 10, 1)

    assert waiting(queue, offered) == ([1] if matches else [])


def test_labels_in_another_order_share_a_lane():
    assert lane_key({"a": 1, "b": "x"}) == lane_key({"b": "x", "a": 1})


class QueueAgainstAList(RuleBasedStateMachine):
    """A list that is sorted at every look is slow, and obviously right."""

    labels = st.dictionaries(
        st.sampled_from(["gpu", "region"]), st.sampled_from([True, False, 0, 1, 1.0, "eu", "1"])
    )

    def __init__(self):
        super().__init__()
        self.queue = Queue()
        self.waiting = []
        self.last = 0

    @rule(labels=labels, priority=st.sampled_from([0, 10, 255]))
    def push(self, labels, priority):
        self.last += 1
        self.waiting.append((labels, priority, self.last))
        self.queue.push(labels, priority, self.last)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def take_the_first_of_a_lane(self, data):
        labels, _, _ = data.draw(st.sampled_from(self.waiting))
        first = self.in_lane(labels)[0]
        self.waiting.remove(first)
        self.queue.take(*first)

    @rule(offered=labels)
    def a_worker_sees_what_it_may_have(self, offered):
        lanes = [list(lane) for lane in self.queue.open_to(offered)]
        expected = [item for item in self.waiting if may_have(offered, item[0])]
        assert sorted(number for lane in lanes for number in lane) == [n for *_, n in expected]
        for lane in lanes:
            labels = next(labels for labels, _, number in self.waiting if number == lane[0])
            assert lane == [number for *_, number in self.in_lane(labels)]

    @invariant()
    def no_lane_is_empty(self):
        assert all(list(lane) for lane in self.queue.lanes.values())

    def in_lane(self, labels):
        """What waits with the same labels: the highest priority first, then the oldest."""
        same = [item for item in self.waiting if typed(item[0]) == typed(labels)]
        return sorted(same, key=lambda item: (-item[1], item[2]))


def typed(labels):
    return {key: (isinstance(value, bool), value) for key, value in labels.items()}


def may_have(offered, required):
    return all(typed(offered).get(key) == value for key, value in typed(required).items())


TestQueueAgainstAList = QueueAgainstAList.TestCase
TestQueueAgainstAList.settings = settings(max_examples=60, stateful_step_count=30)
