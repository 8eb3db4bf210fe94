"""What connections may take of the memory, and how fast they must bring it."""

import asyncio

import pytest

from flo.model.base import Nothing
from flo.model.errors import Overloaded, TimedOut
from flo.model.runs import Claim, Complete, Invoke, Invoked
from flo.server.budget import MemoryBudget, Part
from flo.server.metrics import Metrics
from flo.server.rpc.connection import (
    REQUESTS_AT_ONCE,
    UNDECIDED_LENGTH_MAX,
    UNDECIDED_MESSAGES_MAX,
    UNREAD_LENGTH_MAX,
    RpcConnection,
)
from flo.server.rpc.frame_watch import FRAME_MS_FIRST, RATE_MIN
from flo.server.rpc.presence import WorkerConnections
from flo.server.rpc.refusal_pace import PAUSE_MS_MAX
from flo.shard.submission import Submission
from flo.testing.clock import ManualClock
from flo.wire.codec import encode_request
from flo.wire.connection import ClientEnd
from flo.wire.opcodes import BY_NAME
from rpc import opened_door
from settled import settled

TOTAL = 2_000_000
FRAMES_MOST = TOTAL // 4
INVOKE = Invoke(action="send")
LARGE = Invoke(action="send", input=bytes(FRAMES_MOST + 100_000))


class StateLength:
    value = 0

    def __call__(self):
        return self.value


@pytest.fixture
def state_length():
    return StateLength()


@pytest.fixture
def budget(state_length):
    return MemoryBudget(TOTAL, state_length=state_length)


@pytest.fixture
async def door(budget):
    async with opened_door(budget) as door:
        yield door
    assert set(budget.parts.values()) == {0}, "all that was taken has been given back"


@pytest.fixture
async def anna(door):
    return await door.call()


@pytest.fixture
async def boris(door):
    return await door.call()


async def passing(budget, condition):
    """Wait until the budget is so; the server needs no time that could be waited for."""
    while not condition(budget.parts):
        await settled(1)


# Frames


async def test_a_frame_without_room_is_refused_and_the_connection_goes_on(anna):
    refused = await anna.call("invoke", LARGE)

    assert isinstance(refused, Overloaded)
    assert refused.retry_after_ms == 200
    assert await anna.ping() == Nothing()
    assert await anna.call("invoke", INVOKE) == Invoked(run_id="send-1")


async def test_without_a_budget_the_same_frame_is_taken_in():
    async with opened_door() as door:
        anna = await door.call()

        assert await anna.call("invoke", LARGE) == Invoked(run_id="send-1")


async def test_half_a_frame_is_counted_until_its_client_leaves(door, budget, anna):
    anna.write(encode_request(7, BY_NAME["invoke"], [LARGE])[:300_000])
    await passing(budget, lambda parts: parts[Part.FRAMES] == 300_000)

    await anna.close()

    await passing(budget, lambda parts: parts[Part.FRAMES] == 0)


async def test_many_half_frames_hold_no_more_than_their_part_and_others_are_served(
    door, budget, boris
):
    half = encode_request(7, BY_NAME["invoke"], [LARGE])[:300_000]
    for _ in range(5):
        caller = await door.call()
        caller.write(half)
        assert budget.parts[Part.FRAMES] <= FRAMES_MOST

    assert await boris.call("invoke", INVOKE) == Invoked(run_id="send-1")
    assert budget.parts[Part.FRAMES] <= FRAMES_MOST


async def test_a_frame_that_comes_too_slowly_ends_its_connection(door, budget, anna):
    anna.write(encode_request(7, BY_NAME["invoke"], [LARGE])[:1_000])
    await passing(budget, lambda parts: parts[Part.FRAMES])

    door.clock.advance(FRAME_MS_FIRST)
    reason = await anna.reason()

    assert isinstance(reason, TimedOut)
    assert reason.code == "frame_too_slow"


async def test_a_frame_that_is_dropped_must_come_as_fast_as_others(door, budget, anna):
    frame = encode_request(7, BY_NAME["invoke"], [LARGE])
    anna.write(frame[: FRAMES_MOST + 1])
    assert isinstance(await anna.answers(7), Overloaded)

    door.clock.advance(FRAME_MS_FIRST)

    assert (await anna.reason()).code == "frame_too_slow"


async def test_a_frame_that_comes_fast_enough_may_take_long():
    wire = Wire()
    connection, _, desk = opened(wire, budget=None)
    large = Invoke(action="send", input=bytes(4 * RATE_MIN * FRAME_MS_FIRST))
    frame = encode_request(7, BY_NAME["invoke"], [large])
    piece = RATE_MIN * FRAME_MS_FIRST
    for start in range(0, len(frame), piece):
        connection.data_received(frame[start : start + piece])
        wire.clock.advance(FRAME_MS_FIRST - 1)

    assert len(desk.taken) == 1
    assert not wire.is_closed


# New work and what frees memory


async def test_new_work_is_refused_when_the_state_is_too_large_and_reports_are_not(
    anna, state_length, budget
):
    await anna.call("invoke_many", *[INVOKE] * 3)
    assigned = await anna.call("claim", Claim(worker_id="anna", actions=["send"], max_tasks=1))
    state_length.value = TOTAL
    budget.look()

    refused = await anna.call("invoke", INVOKE)
    completed = await anna.call(
        "complete", Complete(run_id=assigned.tasks[0].task_id, worker_id="anna")
    )

    assert isinstance(refused, Overloaded)
    assert refused.retry_after_ms == 1_000
    assert not isinstance(completed, Exception)


async def test_a_refused_batch_is_refused_as_a_whole(anna, state_length, budget):
    state_length.value = TOTAL
    budget.look()

    assert isinstance(await anna.call("invoke_many", *[INVOKE] * 500), Overloaded)

    state_length.value = 0
    budget.look()
    assert await anna.call("invoke", INVOKE) == Invoked(run_id="send-1")


async def test_long_polls_are_counted_while_they_wait(door, budget, anna):
    patient = Claim(worker_id="anna", actions=["send"], block_ms=30_000)
    waiting = [anna.send("claim", patient) for _ in range(10)]
    await anna.ping()
    assert budget.parts[Part.REQUESTS] > 10 * 512

    door.clock.advance(30_000)
    for number in waiting:
        await anna.answers(number)

    assert budget.parts[Part.REQUESTS] == 0


async def test_long_polls_of_a_connection_that_has_ended_are_not_counted(door, budget, anna):
    anna.send("claim", Claim(worker_id="anna", actions=["send"], block_ms=30_000))
    await anna.ping()

    await anna.close()

    await passing(budget, lambda parts: parts[Part.REQUESTS] == 0)


async def test_a_large_batch_is_answered_in_order(anna):
    answers = await anna.call("invoke_many", *[INVOKE] * 777)

    assert [one.run_id for one in answers] == [f"send-{number}" for number in range(1, 778)]


# How fast a connection is read


class Desk:
    """Takes requests, and answers them when it is told to."""

    def __init__(self):
        self.taken = []

    def submit(self, messages, done, caller=None, keys=None):
        self.taken.append((messages, done))
        return Submission(messages, done)

    def answer_all(self):
        for messages, done in self.taken:
            done([Invoked(run_id="send-1")] * len(messages))
        self.taken.clear()


class Wire(asyncio.Transport):
    """A transport whose other end reads only what the test lets it."""

    def __init__(self):
        super().__init__()
        self.clock = ManualClock()
        self.is_reading = True
        self.is_closed = False
        self.unread = 0

    def write(self, data):
        self.unread += len(data)

    def get_write_buffer_size(self):
        return self.unread

    def pause_reading(self):
        self.is_reading = False

    def resume_reading(self):
        self.is_reading = True

    def close(self):
        self.is_closed = True

    abort = close


def opened(wire, budget):
    desk, end = Desk(), ClientEnd("test")
    workers = WorkerConnections(desk, wire.clock, 0)
    connection = RpcConnection(desk, wire.clock, Metrics(), set(), workers, budget)
    connection.connection_made(wire)
    connection.data_received(end.hello()[1])
    return connection, end, desk


@pytest.mark.parametrize(
    ("messages", "count"),
    [
        ([INVOKE] * 1_000, UNDECIDED_MESSAGES_MAX // 1_000),
        ([Invoke(action="send", input=bytes(UNDECIDED_LENGTH_MAX // 4))], 4),
    ],
    ids=["many", "long"],
)
async def test_a_connection_with_much_that_is_undecided_is_not_read_from(messages, count):
    wire = Wire()
    connection, end, desk = opened(wire, None)
    form = BY_NAME["invoke_many"]
    for _ in range(count - 1):
        connection.data_received(end.request(form, messages)[1])
    assert wire.is_reading

    connection.data_received(end.request(form, messages)[1])
    assert not wire.is_reading

    desk.answer_all()
    assert wire.is_reading


async def test_who_goes_on_sending_although_it_is_refused_is_read_from_more_slowly(
    budget, state_length
):
    state_length.value = TOTAL
    budget.look()
    wire = Wire()
    connection, end, desk = opened(wire, budget)
    large = Invoke(action="send", input=bytes(100_000))
    count = 0
    while wire.is_reading:
        connection.data_received(end.request(BY_NAME["invoke"], [large])[1])
        count += 1
    assert count < 100

    state_length.value = 0
    budget.look()
    wire.clock.advance(PAUSE_MS_MAX)

    assert wire.is_reading
    connection.data_received(end.request(BY_NAME["invoke"], [large])[1])
    assert len(desk.taken) == 1


async def test_many_requests_that_come_in_one_piece_are_taken_in_some_at_a_time():
    wire = Wire()
    connection, end, desk = opened(wire, None)
    count = 3 * REQUESTS_AT_ONCE
    piece = b"".join(end.request(BY_NAME["invoke"], [INVOKE])[1] for _ in range(count))

    connection.data_received(piece)

    assert len(desk.taken) == REQUESTS_AT_ONCE
    assert not wire.is_reading
    await settled()
    assert len(desk.taken) == count
    assert wire.is_reading


async def test_what_came_in_one_piece_waits_until_there_is_less_to_decide():
    wire = Wire()
    connection, end, desk = opened(wire, None)
    form, many = BY_NAME["invoke_many"], [INVOKE] * (UNDECIDED_MESSAGES_MAX // 2)
    piece = b"".join(end.request(form, many)[1] for _ in range(3))

    connection.data_received(piece)
    await settled()
    assert sum(len(messages) for messages, _ in desk.taken) == UNDECIDED_MESSAGES_MAX

    desk.answer_all()
    await settled()
    assert sum(len(messages) for messages, _ in desk.taken) == UNDECIDED_MESSAGES_MAX // 2
    assert wire.is_reading


async def test_requests_that_came_and_are_not_taken_in_yet_are_counted(budget):
    wire = Wire()
    connection, end, _ = opened(wire, budget)
    count = REQUESTS_AT_ONCE + 10
    frames = [end.request(BY_NAME["invoke"], [INVOKE])[1] for _ in range(count)]

    connection.data_received(b"".join(frames))

    assert budget.parts[Part.FRAMES] == len(b"".join(frames[-10:]))
    connection.connection_lost(None)
    await settled()
    assert budget.parts[Part.FRAMES] == 0


async def test_long_polls_do_not_keep_a_connection_from_being_read():
    wire = Wire()
    connection, end, _ = opened(wire, None)
    patient = Claim(worker_id="anna", actions=["send"], block_ms=30_000)

    for _ in range(UNDECIDED_MESSAGES_MAX + 1):
        connection.data_received(end.request(BY_NAME["claim"], [patient])[1])

    assert wire.is_reading


async def test_what_is_undecided_when_its_client_leaves_is_counted_until_it_is_decided(budget):
    wire = Wire()
    connection, end, desk = opened(wire, budget)
    connection.data_received(end.request(BY_NAME["invoke"], [INVOKE])[1])

    connection.connection_lost(None)
    assert budget.parts[Part.REQUESTS] > 0

    desk.answer_all()
    assert budget.parts[Part.REQUESTS] == 0


async def test_a_client_that_reads_nothing_is_cut_off(budget):
    wire = Wire()
    connection, end, desk = opened(wire, None)
    connection.pause_writing()
    assert not wire.is_reading
    connection.data_received(end.request(BY_NAME["invoke"], [INVOKE])[1])
    wire.unread = UNREAD_LENGTH_MAX

    desk.answer_all()

    assert wire.is_closed


async def test_unread_replies_are_counted_until_they_are_read(budget):
    wire = Wire()
    connection, end, desk = opened(wire, budget)
    connection.pause_writing()
    connection.data_received(end.request(BY_NAME["invoke"], [INVOKE])[1])
    wire.unread = 100_000

    desk.answer_all()
    assert budget.parts[Part.REPLIES] > 100_000

    wire.unread = 0
    connection.resume_writing()
    assert budget.parts[Part.REPLIES] == 0
    assert wire.is_reading


async def test_without_room_for_more_replies_who_does_not_read_is_cut_off(budget):
    wire = Wire()
    connection, end, desk = opened(wire, budget)
    connection.pause_writing()
    connection.data_received(end.request(BY_NAME["invoke"], [INVOKE])[1])
    wire.unread = TOTAL // 4

    desk.answer_all()

    assert wire.is_closed
    connection.connection_lost(None)
    assert set(budget.parts.values()) == {0}
