"""A shard whose log, archive and clock are in the test's hand."""

import asyncio

import pytest

from flo.engine.callers import CallerNoted
from flo.engine.state import State
from flo.log.memory import MemoryArchive, MemoryLog, MemoryRecords
from flo.model.actions import RegisterAction
from flo.shard.loop import Shard
from flo.testing.clock import ManualClock


class Gate:
    """What comes through waits while the gate is shut; who opens it may send an error along."""

    def __init__(self):
        self._error = None
        self._is_open = True
        self._waiting = []

    def shut(self):
        self._is_open = False

    def open(self, error=None):
        self._error = error
        self._is_open = True
        while self._waiting:
            self.pass_one()

    def pass_one(self):
        """Let the first one through that waits."""
        self._waiting.pop(0).set()

    async def passed(self):
        if not self._is_open:
            self._waiting.append(asyncio.Event())
            await self._waiting[-1].wait()
        if self._error is not None:
            raise self._error


class GatedArchive(MemoryArchive):
    def __init__(self):
        super().__init__()
        self.gate = Gate()
        self.asked = []

    async def find(self, kind, namespace, name, number):
        self.asked.append(("find", name, number))
        return await self._passed(super().find(kind, namespace, name, number))

    async def find_keys(self, kind, keys):
        self.asked.append(("find_keys", *keys))
        return await self._passed(super().find_keys(kind, keys))

    async def page(self, kind, namespace, name, *, below, limit, **more):
        self.asked.append(("page", name, below, limit))
        page = super().page(kind, namespace, name, below=below, limit=limit, **more)
        return await self._passed(page)

    async def _passed(self, looking):
        """What was there when the archive was asked, however long the answer takes."""
        found = await looking
        await self.gate.passed()
        return found


class GatedRecords(MemoryRecords):
    """It answers with what there was when it was asked."""

    def __init__(self):
        super().__init__()
        self.gate = Gate()
        self.asked = []

    async def read(self, stream, sequence, count, length_max):
        self.asked.append((stream, sequence, count))
        found = await super().read(stream, sequence, count, length_max)
        await self.gate.passed()
        return found


class GatedLog(MemoryLog):
    def __init__(self):
        super().__init__()
        self.archive = GatedArchive()
        self.records = GatedRecords()
        self.gate = Gate()
        self.begun = []
        """The events of every append, from the moment it begins, without who caused them."""
        self.callers = []
        """Who caused the events of every append."""
        self.filed = []
        """The numbers of the archive rows that every append adds, and of those it removes."""
        self.here = []
        """Which of them might have been written at once."""

    async def append(self, events, archived, at_ms, *, removed=(), here=False, **stored):
        self.begun.append([one for one in events if not isinstance(one, CallerNoted)])
        self.callers.append([one for one in events if isinstance(one, CallerNoted)])
        self.here.append(here)
        self.filed.append(([row.number for row in archived], [one.number for one in removed]))
        await self.gate.passed()
        return await super().append(events, archived, at_ms, removed=removed, **stored)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def log():
    return GatedLog()


@pytest.fixture
async def shard(log, clock):
    """A shard that knows one action, `send`."""
    shard = Shard(State(), log, clock)
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    log.begun.clear()
    log.filed.clear()
    log.here.clear()
    yield shard
    log.gate.open()
    log.archive.gate.open()
    log.records.gate.open()
    await shard.stop()
