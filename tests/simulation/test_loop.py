"""The virtual loop and its clocks."""

import asyncio
import time

import pytest

from flo.testing.clock import NOON_MS
from simulator.faults.loop import LoopClock, Stuck, WallTime, run_virtual

DAY_S = 86_400.0


def test_a_day_of_sleeping_takes_no_time():
    async def sleep_for_a_day():
        await asyncio.sleep(DAY_S)
        return asyncio.get_running_loop().time()

    started = time.perf_counter()

    assert run_virtual(sleep_for_a_day()) == pytest.approx(DAY_S)
    assert time.perf_counter() - started < 1.0


def test_timers_go_off_in_order_at_their_time():
    async def go_off():
        loop = asyncio.get_running_loop()
        heard = []
        for delay_s in (3.0, 1.0, 2.0):
            loop.call_later(delay_s, lambda: heard.append(round(loop.time(), 6)))
        await asyncio.sleep(5.0)
        return heard

    assert run_virtual(go_off()) == [1.0, 2.0, 3.0]


def test_the_time_stands_still_while_something_is_ready():
    async def work():
        loop = asyncio.get_running_loop()
        loop.call_later(0.001, lambda: None)
        before_s = loop.time()
        for _ in range(1_000):
            await asyncio.sleep(0)
        return loop.time() - before_s

    assert run_virtual(work()) == 0.0


def test_a_timeout_goes_by_virtual_time():
    async def wait():
        async with asyncio.timeout(3_600.0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run_virtual(wait())


def test_a_loop_in_which_nothing_can_ever_happen_says_so():
    async def wait_for_ever():
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        run_virtual(wait_for_ever())


def test_two_runs_go_the_same_way():
    async def race():
        heard = []

        async def branch(name, step_s):
            for _ in range(50):
                await asyncio.sleep(step_s)
                heard.append(name)

        await asyncio.gather(*(branch(name, 0.1 + name % 3 / 10) for name in range(10)))
        return heard

    assert run_virtual(race()) == run_virtual(race())


def test_the_clock_shows_every_millisecond_of_the_loop():
    async def look():
        clock = LoopClock()
        shown = []
        for _ in range(2_000):
            await asyncio.sleep(0.001)
            shown.append(clock.now_ms() - NOON_MS)
        return shown

    assert run_virtual(look()) == list(range(1, 2_001))


def test_an_alarm_rings_when_the_clock_shows_its_time():
    async def ring():
        clock = LoopClock()
        heard = []
        clock.call_at(NOON_MS + 1_500, lambda: heard.append(clock.now_ms()))
        clock.call_at(NOON_MS - 1, lambda: heard.append(clock.now_ms()))
        await asyncio.sleep(10.0)
        return heard

    assert run_virtual(ring()) == [NOON_MS, NOON_MS + 1_500]


def test_an_alarm_that_was_called_off_does_not_ring():
    async def call_off():
        clock = LoopClock()
        heard = []
        clock.call_at(NOON_MS + 10, lambda: heard.append("rung")).cancel()
        await asyncio.sleep(1.0)
        return heard

    assert run_virtual(call_off()) == []


def test_the_clock_follows_the_wall_forward():
    async def put_forward():
        wall = WallTime()
        clock = LoopClock(wall)
        wall.put(5_000)
        return clock.now_ms()

    assert run_virtual(put_forward()) == NOON_MS + 5_000


def test_the_clock_never_goes_back_but_goes_on():
    async def put_back():
        wall = WallTime()
        clock = LoopClock(wall)
        wall.put(-5_000)
        shown = [clock.now_ms()]
        await asyncio.sleep(1.0)
        shown.append(clock.now_ms())
        return shown, LoopClock(wall).now_ms()

    shown, after_a_restart = run_virtual(put_back())

    assert shown == [NOON_MS, NOON_MS + 1_000]
    assert after_a_restart == NOON_MS - 4_000
