import asyncio
import time

from flo.engine.codec import EVENT_CODEC
from flo.log.sqlite.entries import read_log
from flo.model.kv import PutKey
from flo.model.streams import Append, NewRecord
from flo.shard.clock import SystemClock
from flo.testing.clock import NOON_MS, ManualClock
from flo.testing.local import local_server
from simulator.faults.loop import LoopClock, WallTime


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


def test_a_clock_that_is_put_forward_goes_on_at_its_pace_until_it_is_overtaken(monkeypatch):
    machine = Machine(monkeypatch)
    clock, shown = SystemClock(), []

    clock.put_forward(1_005_000)
    for put_ms in (0, 0, 10_000, 0):
        machine.told_ms += put_ms
        machine.goes_on(100)
        shown.append(clock.now_ms() - 1_000_000)

    assert shown == [5_100, 5_200, 10_300, 10_400]


def test_a_clock_is_never_put_back(monkeypatch):
    Machine(monkeypatch)
    clock, manual = SystemClock(), ManualClock()

    clock.put_forward(999_999)
    manual.put_forward(NOON_MS - 1)

    assert (clock.now_ms(), manual.now_ms()) == (1_000_000, NOON_MS)


async def test_a_loop_clock_is_put_forward_as_the_systems_is():
    wall = WallTime()
    clock = LoopClock(wall)
    before = clock.now_ms()

    clock.put_forward(before + 5_000)
    assert clock.now_ms() >= before + 5_000

    wall.put(60_000)
    assert clock.now_ms() >= before + 60_000


async def test_alarms_of_a_clock_that_was_put_forward_go_by_the_time_it_shows():
    clock, rung = SystemClock(), asyncio.Event()
    clock.put_forward(clock.now_ms() + 3_600_000)

    clock.call_at(clock.now_ms() + 2, rung.set)

    await asyncio.wait_for(rung.wait(), 5)


async def test_a_server_on_a_machine_whose_time_was_put_back_goes_on_from_its_log(tmp_path):
    times = []
    for hour in (0, -3, -1, 2):
        clock = ManualClock(NOON_MS + hour * 3_600_000)
        async with local_server(tmp_path, clock) as server:
            await server.shard.ask(PutKey(key="a", value=b"1"))
            await server.shard.ask(Append(stream="orders", records=[NewRecord(payload=b"")]))
            clock.advance(1_000)
            await server.shard.ask(PutKey(key="a", value=b"2"))
            middle = await server.shard.log.position_at(NOON_MS + 1_500)
        times = [entry.at_ms for entry in read_log(tmp_path / "flo.db", EVENT_CODEC, 0)]
        assert times == sorted(times)
        entries = list(read_log(tmp_path / "flo.db", EVENT_CODEC, 0))
        assert middle == sum(
            len(entry.events) for entry in entries if entry.at_ms < NOON_MS + 1_500
        )

    assert times[-1] == NOON_MS + 2 * 3_600_000 + 1_000


async def test_it_shows_milliseconds_since_the_epoch():
    assert abs(SystemClock().now_ms() - time.time() * 1_000) < 1_000
