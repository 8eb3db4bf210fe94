import asyncio

import pytest

from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.errors import NotFound
from flo.model.runs import Claim, Complete, Invoke
from flo.server.inside.gather import Gatherer
from flo.shard.loop import Shard
from flo.testing.clock import ManualClock
from given import ANNA


class Counted:
    """A shard, and how many words each submission had."""

    def __init__(self, shard):
        self._shard = shard
        self.lengths = []

    def submit(self, messages, done):
        self.lengths.append(len(messages))
        return self._shard.submit(messages, done)


@pytest.fixture
async def shard():
    """Five runs are under way."""
    shard = Shard(State(), MemoryLog(), ManualClock())
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    for _ in range(5):
        await shard.ask(Invoke(action="send"))
    await shard.ask(Claim(worker_id=ANNA, actions=["send"], max_tasks=5))
    yield shard
    await shard.stop()


def report(number):
    return Complete(run_id=f"send-{number}", worker_id=ANNA, attempt=1)


async def test_an_urgent_report_does_not_wait(shard):
    counted = Counted(shard)

    accepted = await Gatherer(counted).hand_in(report(1), is_urgent=True)

    assert accepted.run_id == "send-1"
    assert counted.lengths == [1]


async def test_reports_of_one_context_are_handed_in_together(shard):
    counted = Counted(shard)
    gatherer = Gatherer(counted)

    reports = [gatherer.hand_in(report(number), is_urgent=False) for number in (1, 2, 3)]
    accepted = await asyncio.gather(*reports)

    assert [one.run_id for one in accepted] == ["send-1", "send-2", "send-3"]
    assert counted.lengths == [3]


async def test_an_urgent_one_takes_along_those_that_wait(shard):
    counted = Counted(shard)
    gatherer = Gatherer(counted)

    first = asyncio.ensure_future(gatherer.hand_in(report(1), is_urgent=False))
    await asyncio.sleep(0)
    await gatherer.hand_in(report(2), is_urgent=True)
    await first

    assert counted.lengths == [2]


async def test_a_refusal_is_for_the_one_that_it_concerns(shard):
    gatherer = Gatherer(shard)

    reports = [gatherer.hand_in(report(number), is_urgent=False) for number in (1, 9)]
    accepted, refused = await asyncio.gather(*reports, return_exceptions=True)

    assert accepted.run_id == "send-1"
    assert isinstance(refused, NotFound)
