"""What takes a while to work out is worked out elsewhere, and the loop goes on meanwhile."""

import asyncio

import pytest

from flo.engine.actions.schemas import SchemaCheck
from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.errors import Invalid, Overloaded, TooLarge
from flo.model.runs import Invoke
from flo.shard.loop import Shard
from flo.testing.clock import ManualClock
from settled import begun
from shard.conftest import Gate

SLOW = {"pattern": "(a{100}){50}b"}
LONG = b'"' + b"a" * 5_000 + b'b"'


class GatedElsewhere:
    def __init__(self):
        self.gate = Gate()
        self.asked = []

    async def work_out(self, lookups):
        self.asked += lookups
        await self.gate.passed()
        return [lookup.work() for lookup in lookups]


@pytest.fixture
def elsewhere():
    return GatedElsewhere()


@pytest.fixture
async def shard(elsewhere):
    shard = Shard(State(), MemoryLog(), ManualClock(), elsewhere=elsewhere)
    await shard.start()
    await shard.ask(RegisterAction(name="slow", input_schema=SLOW))
    await shard.ask(RegisterAction(name="light", input_schema={"type": "integer"}))
    yield shard
    elsewhere.gate.open()
    await shard.stop()


async def test_others_are_served_while_a_check_goes_on(shard, elsewhere):
    elsewhere.gate.shut()
    slow = await begun(shard.ask(Invoke(action="slow", input=LONG)))

    assert (await shard.ask(Invoke(action="light", input=b"7"))).run_id == "light-1"
    assert not slow.done()

    elsewhere.gate.open()
    assert (await slow).run_id == "slow-1"
    assert [(type(one), one.payload) for one in elsewhere.asked] == [(SchemaCheck, LONG)]


async def test_what_is_cheap_is_not_sent_there(shard, elsewhere):
    await asyncio.gather(*(shard.ask(Invoke(action="light", input=b"7")) for _ in range(10)))

    assert elsewhere.asked == []


async def test_what_does_not_fit_is_refused(shard):
    with pytest.raises(Invalid) as refusal:
        await shard.ask(Invoke(action="slow", input=LONG.replace(b"b", b"c")))

    assert refusal.value.code == "input_invalid"


async def test_a_schema_that_changes_meanwhile_is_the_one_that_counts(shard, elsewhere):
    elsewhere.gate.shut()
    slow = await begun(shard.ask(Invoke(action="slow", input=LONG)))
    await shard.ask(RegisterAction(name="slow", input_schema={"pattern": "(a{100}){49}c"}))

    elsewhere.gate.open()

    with pytest.raises(Invalid, match="does not fit its schema"):
        await slow
    assert len({one.schema for one in elsewhere.asked}) == 2


@pytest.mark.parametrize("error", [Overloaded("too many wait"), RuntimeError("a mistake")])
async def test_an_error_there_is_told_to_who_asked_and_to_nobody_else(shard, elsewhere, error):
    elsewhere.gate.shut()
    slow = await begun(shard.ask(Invoke(action="slow", input=LONG)))

    elsewhere.gate.open(error)

    assert (await asyncio.gather(slow, return_exceptions=True))[0].code in (
        "overloaded",
        "unexpected",
    )
    assert (await shard.ask(Invoke(action="light", input=b"7"))).run_id == "light-1"


async def test_what_is_given_up_there_is_refused(shard, elsewhere):
    async def give_up(lookups):
        return [lookup.given_up("it takes more than 2 s") for lookup in lookups]

    elsewhere.work_out = give_up

    with pytest.raises(TooLarge) as refusal:
        await shard.ask(Invoke(action="slow", input=LONG))

    assert refusal.value.code == "schema_too_costly"
