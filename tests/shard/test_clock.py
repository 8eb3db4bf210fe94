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


class Machine:
    """A machine whose time can be put forward and back while it goes on."""

    def __init__(self, monkeypatch):
        self.told_ms, self.elapsed_ms = 1_000_000, 50
        monkeypatch.setattr("flo.shard.clock.time", self)

    def time_ns(self):
        return self.told_ms * 1_000_000

    def monotonic_ns(self):
        return self.elapsed_ms * 1_000_000

    def goes_on(self, by_ms):
        self.told_ms += by_ms
        self.elapsed_ms += by_ms


def test_time_that_is_put_back_goes_on_at_its_pace_until_it_is_overtaken(monkeypatch):
    machine = Machine(monkeypatch)
    clock, shown = SystemClock(), []

    for put_ms in (0, -5_000, 0, 0, 7_000, 0):
        machine.told_ms += put_ms
        machine.goes_on(100)
        shown.append(clock.now_ms() - 1_000_000)

    assert shown == [100, 200, 300, 400, 2_500, 2_600]


def test_time_that_is_put_forward_is_followed(monkeypatch):
    machine = Machine(monkeypatch)
    clock = SystemClock()

    machine.told_ms += 3_600_000

    assert clock.now_ms() == 4_600_000


async def test_it_shows_milliseconds_since_the_epoch():
    assert abs(SystemClock().now_ms() - time.time() * 1_000) < 1_000
