import asyncio
import threading

import pytest

from flo.model.errors import Unavailable
from flo.wasm.slots import ExecutionSlots


class Gate:
    """A job that says when it begins, and ends when it is let go."""

    def __init__(self):
        self.begun = []
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        self._open = threading.Event()
        self.entered = threading.Semaphore(0)

    def job(self, name):
        def pass_through():
            with self._lock:
                self.begun.append(name)
                self._now += 1
                self.most = max(self.most, self._now)
            self.entered.release()
            self._open.wait()
            with self._lock:
                self._now -= 1
            return name

        return pass_through

    def open(self):
        self._open.set()


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
async def slots(gate):
    slots = ExecutionSlots("guest", running_max=2, waiting_max=3)
    yield slots
    gate.open()
    await slots.stop()


async def test_so_many_run_and_so_many_wait_and_the_next_is_refused(slots, gate):
    taken = [slots.do("lane", gate.job(number)) for number in range(5)]

    with pytest.raises(Unavailable, match="2 WASM guests are running and 3 are waiting") as refusal:
        slots.do("another lane", gate.job(5))
    assert refusal.value.code == "wasm_busy"
    assert (slots.running_count, slots.waiting_count) == (2, 3)

    for _ in range(2):
        await asyncio.to_thread(gate.entered.acquire)
    gate.open()

    assert await asyncio.gather(*taken) == [0, 1, 2, 3, 4]
    assert gate.most == 2
    assert (slots.running_count, slots.waiting_count) == (0, 0)


async def test_control_more_slots_run_more_at_a_time(gate):
    slots = ExecutionSlots("guest", running_max=5, waiting_max=0)
    taken = [slots.do("lane", gate.job(number)) for number in range(5)]
    for _ in range(5):
        await asyncio.to_thread(gate.entered.acquire)
    gate.open()
    await asyncio.gather(*taken)
    await slots.stop()

    assert gate.most == 5


async def test_the_lanes_take_turns():
    order = await order_of(["a", "a", "a", "b", "b", "c"])

    assert order == ["a1", "b4", "c6", "a2", "b5", "a3"]


async def test_a_lane_is_served_in_the_order_of_coming():
    assert await order_of(["a"] * 5) == ["a1", "a2", "a3", "a4", "a5"]


async def order_of(lanes):
    """In which order jobs begin that have waited in these lanes."""
    gate, begun = Gate(), []
    slots = ExecutionSlots("guest", running_max=1, waiting_max=10)
    first = slots.do("first", gate.job("first"))
    taken = [
        slots.do(lane, lambda name=f"{lane}{number}": begun.append(name))
        for number, lane in enumerate(lanes, 1)
    ]
    gate.open()
    await asyncio.gather(first, *taken)
    await slots.stop()
    return begun


async def test_what_is_cancelled_while_it_waits_is_never_begun_and_gives_up_its_place(slots, gate):
    taken = [slots.do("lane", gate.job(number)) for number in range(5)]
    taken[3].cancel()
    await asyncio.sleep(0)
    late = slots.do("lane", gate.job("late"))
    gate.open()

    assert await asyncio.gather(*taken[:3], taken[4], late) == [0, 1, 2, 4, "late"]
    assert sorted(map(str, gate.begun)) == ["0", "1", "2", "4", "late"]


async def test_what_is_cancelled_while_it_runs_keeps_its_slot_until_it_ends(slots, gate):
    taken = [slots.do("lane", gate.job(number)) for number in range(3)]
    taken[0].cancel()
    await asyncio.sleep(0)
    assert (slots.running_count, slots.waiting_count) == (2, 1)
    gate.open()

    assert await asyncio.gather(*taken[1:]) == [1, 2]


async def test_what_a_job_raises_comes_back_and_its_slot_is_free_again(slots):
    for _ in range(4):
        with pytest.raises(ZeroDivisionError):
            await slots.do("lane", lambda: 1 // 0)

    assert await slots.do("lane", lambda: "still here") == "still here"


async def test_stopping_refuses_what_waits_and_waits_for_what_runs(slots, gate):
    taken = [slots.do("lane", gate.job(number)) for number in range(4)]
    stopping = asyncio.ensure_future(slots.stop())
    refused = await asyncio.gather(*taken[2:], return_exceptions=True)

    assert [error.code for error in refused] == ["wasm_stopped"] * 2
    assert not stopping.done()
    with pytest.raises(Unavailable, match="no WASM guest is taken any more"):
        slots.do("lane", gate.job("late"))

    gate.open()
    await stopping
    await slots.stop()

    assert await asyncio.gather(*taken[:2]) == [0, 1]


def test_a_loop_that_is_gone_does_not_hurt_the_thread():
    gate = Gate()
    others = threading.enumerate()
    before = threading.active_count()

    async def leave_a_job_behind():
        slots = ExecutionSlots("guest", running_max=1, waiting_max=0)
        slots.do("lane", gate.job("left behind"))
        return slots

    asyncio.run(leave_a_job_behind())
    left = [each for each in threading.enumerate() if each not in others]
    left = [each for each in left if each.name == "flo-wasm-guest-1"]
    gate.open()

    assert len(left) == 1
    assert left[0].daemon
    assert threading.active_count() == before + 1
