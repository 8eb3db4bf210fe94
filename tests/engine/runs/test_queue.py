import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flo.engine.runs import queue as queue_module
from flo.engine.runs.queue import CALLED_OFF_MAX, LANES_EMPTY_MAX, Queue, lane_key

GPU = {"gpu": True, "vram_gb": 24}


def waiting(queue, labels=None):
    """The numbers that a worker with these labels would be given, in order, lane by lane."""
    return [number for lane in queue.open_to(lane_key(labels)) for number in lane]


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


def test_what_was_taken_is_gone_and_its_lane_stays_open_for_the_next():
    queue = Queue()
    queue.push(None, 10, 1)
    queue.push(GPU, 10, 2)

    queue.take(None, 10, 1)
    assert waiting(queue, GPU) == [2]
    assert len(queue) == 1

    queue.take(GPU, 10, 2)
    assert waiting(queue, GPU) == []
    assert len(queue) == 0

    queue.push(GPU, 10, 3)
    assert waiting(queue, GPU) == [3]


def test_what_comes_back_goes_before_what_is_later():
    queue = Queue()
    for priority, number in [(10, 2), (10, 4), (10, 6), (255, 9)]:
        queue.push(None, priority, number)
    queue.call_off(None, 10, 4)

    for number in (7, 5, 4, 1):
        queue.push_before(None, 10, number, lambda other, number=number: other > number)
    queue.push_before(None, 5, 3, lambda other: False)

    assert waiting(queue) == [9, 1, 2, 4, 5, 6, 7, 3]
    assert len(queue) == 8


def test_a_part_of_a_lane_is_what_has_the_same_priority():
    queue = Queue()
    for priority, number in [(10, 1), (255, 2), (10, 3)]:
        queue.push(None, priority, number)

    (lane,) = queue.open_to(())

    assert [(priority, list(numbers)) for priority, numbers in lane.parts()] == [
        (255, [2]),
        (10, [1, 3]),
    ]


# What is called off


@pytest.mark.parametrize(
    ("called_off", "left"),
    [([1], [2, 3, 4]), ([2, 3], [1, 4]), ([4, 1], [2, 3]), ([1, 2, 3, 4], [])],
)
def test_what_was_called_off_is_no_longer_seen_wherever_it_stood(called_off, left):
    queue = Queue()
    for number in (1, 2, 3, 4):
        queue.push(None, 10, number)

    for number in called_off:
        queue.call_off(None, 10, number)

    assert waiting(queue) == left
    assert len(queue) == len(left)
    for number in left:
        queue.take(None, 10, number)
    assert len(queue) == 0
    assert waiting(queue) == []


def test_what_was_called_off_in_one_lane_stands_in_another():
    queue = Queue()
    queue.push(None, 10, 1)
    queue.push(GPU, 10, 2)

    queue.call_off(None, 10, 1)

    assert waiting(queue, GPU) == [2]


def test_behind_what_was_called_off_a_higher_priority_still_goes_ahead():
    queue = Queue()
    for priority, number in [(255, 1), (10, 2), (255, 3), (10, 4)]:
        queue.push(None, priority, number)

    queue.call_off(None, 255, 1)
    queue.call_off(None, 10, 2)

    assert waiting(queue) == [3, 4]
    queue.take(None, 255, 3)
    queue.take(None, 10, 4)
    assert waiting(queue) == []


class CountingDeque(queue_module.deque):
    """Counts every number that is looked at."""

    steps = 0

    def __iter__(self):
        for number in super().__iter__():
            CountingDeque.steps += 1
            yield number

    def __getitem__(self, place):
        CountingDeque.steps += 1
        return super().__getitem__(place)

    def popleft(self):
        CountingDeque.steps += 1
        return super().popleft()


@pytest.fixture
def steps_of(monkeypatch):
    """How many numbers are looked at while something is done."""
    monkeypatch.setattr(queue_module, "deque", CountingDeque)

    def count(do):
        CountingDeque.steps = 0
        do()
        return CountingDeque.steps

    return count


CROWD = 100_000


@pytest.mark.parametrize(
    ("order", "priority"), [(range(CROWD), 10), (range(CROWD - 1, -1, -1), 255)]
)
def test_a_hundred_thousand_called_off_at_the_front_of_a_lane_are_never_looked_at_again(
    steps_of, order, priority
):
    queue = Queue()
    for number in range(CROWD):
        queue.push(None, priority, number)
    for number in range(CROWD, 2 * CROWD):
        queue.push(None, 10, number)

    def call_off():
        for number in order:
            queue.call_off(None, priority, number)

    def look():
        (lane,) = queue.open_to(())
        assert next(iter(lane)) == CROWD

    assert steps_of(call_off) <= 4 * CROWD
    assert steps_of(look) == 1
    assert steps_of(lambda: queue.take(None, 10, CROWD)) <= 3


def test_those_called_off_in_the_middle_of_a_lane_are_passed_over_once(steps_of):
    queue = Queue()
    for number in range(2 * CROWD):
        queue.push(None, 10, number)
    for number in range(1, CROWD):
        queue.call_off(None, 10, number)

    queue.take(None, 10, 0)

    (lane,) = queue.open_to(())
    assert steps_of(lambda: next(iter(lane))) == 1
    assert next(iter(lane)) == CROWD


def test_a_few_that_were_called_off_are_not_looked_for_at_once(steps_of):
    queue = Queue()
    for number in range(1_000):
        queue.push(None, 10, number)

    def call_off():
        for number in range(500, 500 + CALLED_OFF_MAX):
            queue.call_off(None, 10, number)

    assert steps_of(call_off) == CALLED_OFF_MAX  # the front, each time


def test_what_was_called_off_is_forgotten_when_little_else_is_left():
    queue = Queue()
    for number in range(1_000):
        queue.push(None, 10, number)

    for number in range(1, 1_000):
        queue.call_off(None, 10, number)

    (lane,) = queue.open_to(())
    assert len(lane._called_off) <= CALLED_OFF_MAX
    assert sum(map(len, lane._by_priority.values())) <= 1 + CALLED_OFF_MAX


# Labels


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
        ({"disk": {"gb": 1}}, {"disk": {"gb": 2}}, True),  # nested values are not compared
        ({"disk": {"gb": 1}}, {"disk": [1]}, True),
        ({"disk": {"gb": 1}}, {"disk": "sda"}, True),
        ({"disk": {"gb": 1}}, {"gpu": True}, False),
        ({"disk": [1], "gpu": True}, {"disk": [], "gpu": False}, False),
        ({"disk": "sda"}, {"disk": ["sda"]}, False),
        ({"gpu": True}, {"gpu": True, "disk": {}}, True),
    ],
)
def test_a_worker_needs_every_label_that_is_required(required, offered, matches):
    queue = Queue()
    queue.push(required, 10, 1)

    assert waiting(queue, offered) == ([1] if matches else [])


def test_labels_in_another_order_share_a_lane():
    assert lane_key({"a": 1, "b": "x"}) == lane_key({"b": "x", "a": 1})


@pytest.mark.parametrize(
    ("number", "written"), [(1, "1"), (1.0, "1"), (-0.0, "0"), (1.5, "1.5"), (1e300, "1e+300")]
)
def test_equal_numbers_have_lanes_that_are_written_alike(number, written):
    ((_, _, value),) = lane_key({"n": number})

    assert str(value) == written


LABELS = st.dictionaries(
    st.sampled_from("abcd"), st.sampled_from([True, False, 0, 1, 1.0, 0.5, "", "1", "eu"])
)


@given(st.lists(LABELS, max_size=12), st.lists(LABELS, max_size=6))
def test_the_lanes_that_are_open_are_those_that_a_look_at_every_run_would_find(required, offered):
    queue = Queue()
    for number, labels in enumerate(required):
        queue.push(labels, 10, number)
        for has in offered:  # whatever is remembered of an earlier look, it is not stale
            seen = sorted(waiting(queue, has))
            assert seen == [n for n, asked in enumerate(required[: number + 1]) if fits(asked, has)]


def fits(required, offered):
    """The rule as it is written down: every key is there, with an equal value of the same kind."""
    return all(
        key in offered
        and isinstance(offered[key], bool) == isinstance(value, bool)
        and offered[key] == value
        for key, value in required.items()
    )


def test_a_lane_that_is_opened_after_a_look_is_seen_by_the_next_look():
    queue = Queue()
    assert waiting(queue, GPU) == []

    queue.push({"gpu": True}, 10, 1)
    queue.push({"gpu": False}, 10, 2)

    assert waiting(queue, GPU) == [1]


def test_a_lane_is_seen_again_after_it_was_closed_for_being_empty():
    queue = Queue()
    queue.push(GPU, 10, 0)
    assert waiting(queue, GPU) == [0]
    queue.take(GPU, 10, 0)

    for number in range(1, LANES_EMPTY_MAX + 2):
        queue.push({"n": number}, 10, number)
        queue.take({"n": number}, 10, number)
    assert lane_key(GPU) not in queue.lanes
    queue.push(GPU, 10, 0)

    assert waiting(queue, GPU) == [0]


def test_empty_lanes_are_not_kept_for_ever():
    queue = Queue()
    for number in range(5 * LANES_EMPTY_MAX):
        queue.push({"n": number}, 10, number)
        queue.take({"n": number}, 10, number)

    assert len(queue.lanes) <= LANES_EMPTY_MAX


def test_lanes_in_which_something_stands_are_kept_however_many_and_are_not_counted_every_time(
    monkeypatch,
):
    queue, sweeps = Queue(), []
    drop = Queue._drop_empty_lanes
    monkeypatch.setattr(Queue, "_drop_empty_lanes", lambda self: (sweeps.append(1), drop(self)))

    for number in range(20 * LANES_EMPTY_MAX):
        queue.push({"n": number}, 10, number)

    assert len(queue.lanes) == 20 * LANES_EMPTY_MAX
    assert len(sweeps) <= 5


def test_workers_of_very_many_kinds_are_not_remembered_for_ever():
    queue = Queue()
    queue.push({"n": 7}, 10, 1)

    for number in range(3 * queue_module.LABELS_REMEMBERED_MAX):
        assert waiting(queue, {"n": number}) == ([1] if number == 7 else [])

    assert len(queue._open_to) <= queue_module.LABELS_REMEMBERED_MAX


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

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def call_one_off(self, data):
        called_off = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(called_off)
        self.queue.call_off(*called_off)

    @rule()
    def close_empty_lanes(self):
        self.queue._drop_empty_lanes()

    @rule(offered=labels)
    def a_worker_sees_what_it_may_have(self, offered):
        lanes = [list(lane) for lane in self.queue.open_to(lane_key(offered))]
        expected = [item for item in self.waiting if may_have(offered, item[0])]
        assert sorted(number for lane in lanes for number in lane) == [n for *_, n in expected]
        for lane in filter(None, lanes):
            labels = next(labels for labels, _, number in self.waiting if number == lane[0])
            assert lane == [number for *_, number in self.in_lane(labels)]

    @invariant()
    def it_knows_how_many_stand_where(self):
        assert len(self.queue) == len(self.waiting)
        assert all(len(lane) == len(list(lane)) for lane in self.queue.lanes.values())

    def in_lane(self, labels):
        """What waits with the same labels: the highest priority first, then the oldest."""
        same = [item for item in self.waiting if typed(item[0]) == typed(labels)]
        return sorted(same, key=lambda item: (-item[1], item[2]))


def typed(labels):
    return {key: (isinstance(value, bool), value) for key, value in labels.items()}


def may_have(offered, required):
    return all(typed(offered).get(key) == value for key, value in typed(required).items())


TestQueueAgainstAList = QueueAgainstAList.TestCase
TestQueueAgainstAList.settings = settings(max_examples=50, stateful_step_count=30)


def test_what_was_called_off_and_comes_again_stands_where_it_came_last():
    queue = Queue()
    for number in (1, 2, 3):
        queue.push(None, 10, number)

    queue.call_off(None, 10, 2)
    queue.push(None, 10, 2)

    (lane,) = queue.open_to(())
    assert (list(lane), len(lane), len(queue)) == ([1, 3, 2], 3, 3)
    for number in (1, 3, 2):
        queue.take(None, 10, number)
    assert (list(lane), len(lane), len(queue)) == ([], 0, 0)


def test_what_was_called_off_alone_may_come_again_too():
    queue = Queue()
    queue.push(None, 10, 1)
    queue.call_off(None, 10, 1)

    queue.push(None, 10, 1)

    assert [list(lane) for lane in queue.open_to(())] == [[1]]
