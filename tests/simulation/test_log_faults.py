"""The log that takes its time, fills up and loses power."""

import asyncio
import random
from contextlib import suppress

import pytest

from flo.engine.actions.events import ActionDeleted
from log.suite import LogSuite
from simulator.faults.log import DiskQuality, FaultyLog
from simulator.faults.loop import run_virtual

EVENTS = [ActionDeleted(namespace="default", name="bake", at_ms=1)]


class Observer:
    """Hears what becomes durable, and what fails."""

    def __init__(self):
        self.durable = []
        self.failures = 0

    def hear(self, events, *_):
        self.durable += events

    def fail(self):
        self.failures += 1


def faulty(observer, seed=1, **quality):
    return FaultyLog(
        random.Random(seed), DiskQuality(**quality), durable=observer.hear, failed=observer.fail
    )


class TestFaultyLog(LogSuite):
    """Without a fault it is a log like any other."""

    @pytest.fixture
    def log(self):
        return FaultyLog(random.Random(1))


def test_an_append_takes_time_and_is_then_durable():
    async def append():
        observer = Observer()
        log = faulty(observer, append_ms_max=1_000.0)
        assert await log.append(EVENTS, (), 1) == 1
        assert asyncio.get_running_loop().time() > 0.0
        assert observer.durable == EVENTS
        assert log.unwritten == ()

    run_virtual(append())


def test_a_crash_loses_what_was_not_durable_and_keeps_what_was():
    async def crash(seed):
        observer = Observer()
        log = faulty(observer, seed, append_ms_max=100.0)
        appending = asyncio.ensure_future(log.append(EVENTS, (), 1))
        await asyncio.sleep(0.05)
        log.disk.crash()
        await asyncio.wait({appending})
        assert log.position == len(observer.durable) == 1 - len(log.unwritten)
        return appending.cancelled(), log.position

    outcomes = {run_virtual(crash(seed)) for seed in range(50)}

    assert outcomes == {(True, 0), (True, 1), (False, 1)}


def test_after_a_crash_the_log_goes_on():
    async def go_on():
        observer = Observer()
        log = faulty(observer, append_ms_max=100.0)
        await log.append(EVENTS, (), 1)
        log.disk.crash()
        assert await log.append(EVENTS, (), 2) == 2

    run_virtual(go_on())


def test_a_full_disk_stays_full_and_keeps_what_it_has():
    async def fill():
        observer = Observer()
        log = faulty(observer, full_chance=0.2)
        while not log.disk.is_full:
            with suppress(OSError):
                await log.append(EVENTS, (), 1)
        position = log.position
        with pytest.raises(OSError, match="no space left"):
            await log.append(EVENTS, (), 1)
        assert log.position == position == len(observer.durable)
        assert observer.failures == 2

    run_virtual(fill())


def test_what_the_archive_finds_takes_time():
    async def find():
        log = faulty(Observer(), find_ms_max=1_000.0)
        assert await log.archive.find("run", "default", "bake", 1) is None
        return asyncio.get_running_loop().time()

    assert run_virtual(find()) > 0.0
