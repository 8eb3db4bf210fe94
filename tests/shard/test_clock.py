import asyncio
import time

from flo.shard.clock import SystemClock


async def test_an_alarm_never_rings_before_its_time():
    clock, rung = SystemClock(), asyncio.get_running_loop().create_future()
    at_ms = clock.now_ms() + 5

    clock.call_at(at_ms, lambda: rung.set_result(time.time_ns() / 1_000_000))

    assert await rung >= at_ms


async def test_an_alarm_set_for_the_past_rings_at_once():
    rung = asyncio.Event()

    SystemClock().call_at(0, rung.set)

    await asyncio.wait_for(rung.wait(), 5)


async def test_an_alarm_that_was_called_off_does_not_ring():
    clock, called_off, other = SystemClock(), asyncio.Event(), asyncio.Event()
    alarm = clock.call_at(0, called_off.set)
    clock.call_at(clock.now_ms() + 2, other.set)

    alarm.cancel()
    await other.wait()

    assert not called_off.is_set()


async def test_it_shows_milliseconds_since_the_epoch():
    assert abs(SystemClock().now_ms() - time.time() * 1_000) < 1_000
