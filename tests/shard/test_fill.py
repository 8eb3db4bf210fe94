"""Replies are filled with what the store has, after all that they are made of is durable."""

import asyncio

import pytest

from flo.engine.state import State
from flo.log.memory import MemoryPayloads
from flo.model.actions import RegisterAction
from flo.model.errors import Corrupt, NotFound, Unavailable
from flo.model.runs import Claim, Fail, GetRun, Invoke, ListRuns, PurgeDeadRuns, RunStatus
from flo.model.storage.archive import ArchiveAddress
from flo.model.storage.payloads import SPILL_BYTES, LargePayload
from flo.shard.fill import RECENT_MAX, RecentPayloads
from flo.shard.loop import Shard
from flo.shard.replay import recover
from given import ANNA, BORIS
from settled import begun, settled

LARGE = b"x" * (SPILL_BYTES + 1)
HUGE = b"y" * (RECENT_MAX * SPILL_BYTES + 1)
"""It is not kept in memory."""
CLAIM = Claim(worker_id=ANNA, actions=["send"], block_ms=30_000)
ADDRESS = ArchiveAddress("run", "default", "send", 1)


class CountingPayloads(MemoryPayloads):
    """It can be made to fail, and to wait."""

    def __init__(self):
        super().__init__()
        self.asked = []
        self.error = None
        self.open = asyncio.Event()
        self.open.set()

    async def find(self, address):
        self.asked.append(address.number)
        await self.open.wait()
        found = await super().find(address)
        if self.error is not None:
            raise self.error
        return found


@pytest.fixture
def payloads(log):
    log.payloads = CountingPayloads()
    return log.payloads


@pytest.mark.parametrize("body", [LARGE, HUGE], ids=["in memory", "in the store"])
async def test_a_parked_claim_gets_a_large_input_once_it_is_durable(payloads, log, shard, body):
    parked = await begun(shard.ask(CLAIM))
    log.gate.shut()
    invoked = await begun(shard.ask(Invoke(action="send", input=body)))
    await settled()
    assert not parked.done()

    log.gate.open()

    (task,) = (await parked).tasks
    assert task.payload == body
    await invoked
    assert payloads.asked == ([] if body is LARGE else [1])


async def test_state_holds_none_of_it(payloads, shard):
    await shard.ask(Invoke(action="send", input=HUGE))

    assert len(shard.state.spaces["default"].runs["send-1"].input.digest) == 32
    assert shard._filler.recent.get(ADDRESS) is None


async def test_replies_are_filled_one_after_the_other(payloads, shard):
    for _ in range(3):
        await shard.ask(Invoke(action="send", input=HUGE))
    payloads.open.clear()

    claims = [await begun(shard.ask(CLAIM)) for _ in range(3)]
    await settled()
    assert payloads.asked == [1]
    payloads.open.set()

    assert [(await claim).tasks[0].task_id for claim in claims] == ["send-1", "send-2", "send-3"]


async def test_who_has_gone_is_not_filled(payloads, shard):
    for _ in range(2):
        await shard.ask(Invoke(action="send", input=HUGE))
    payloads.open.clear()
    first, second = [await begun(shard.ask(CLAIM)) for _ in range(2)]

    second.cancel()
    await settled()
    payloads.open.set()
    await first
    await settled()

    assert payloads.asked == [1]


@pytest.mark.parametrize("loss", ["missing", "damaged"])
async def test_a_run_whose_input_is_lost_fails_and_others_are_handed_out(payloads, shard, loss):
    await shard.ask(RegisterAction(name="send", max_retries=0))
    await shard.ask(Invoke(action="send", input=HUGE))
    await shard.ask(Invoke(action="send", input=b"small"))
    if loss == "missing":
        payloads.bodies.clear()
    else:
        payloads.error = Corrupt("damaged")

    claim = Claim(worker_id=ANNA, actions=["send"], max_tasks=2)
    first = await shard.ask(claim)
    second = await shard.ask(claim)

    assert [task.task_id for task in (*first.tasks, *second.tasks)] == ["send-2"]
    payloads.error = None
    payloads.bodies[ADDRESS] = HUGE
    view = await shard.ask(GetRun(run_id="send-1"))
    assert (view.status, view.error_code) == (RunStatus.FAILED, "input_lost")
    assert view.dead_lettered


async def test_a_query_of_what_is_lost_is_refused(payloads, shard):
    await shard.ask(Invoke(action="send", input=HUGE))
    payloads.bodies.clear()

    with pytest.raises(Corrupt, match="payload of run send-1 is missing in the store"):
        await shard.ask(GetRun(run_id="send-1"))
    with pytest.raises(Corrupt):
        await shard.ask(ListRuns(action="send"))


async def test_a_query_of_what_is_let_go_of_meanwhile_is_asked_again(payloads, log, shard):
    await shard.ask(RegisterAction(name="send", max_retries=0))
    await shard.ask(Invoke(action="send", input=HUGE))
    await shard.ask(Claim(worker_id=ANNA, actions=["send"]))
    await shard.ask(Fail(run_id="send-1", worker_id=ANNA))
    await shard.ask(Invoke(action="send", input=HUGE))
    payloads.open.clear()
    before = await begun(shard.ask(GetRun(run_id="send-2")))
    asked = await begun(shard.ask(GetRun(run_id="send-1")))
    await shard.ask(PurgeDeadRuns(action="send"))

    payloads.open.set()

    assert (await before).input == HUGE
    with pytest.raises(NotFound, match="send-1"):
        await asked


async def test_a_list_of_what_is_let_go_of_meanwhile_is_asked_again_of_the_archive(payloads, shard):
    await shard.ask(RegisterAction(name="send", max_retries=0))
    await shard.ask(Invoke(action="send", input=HUGE))
    await shard.ask(Claim(worker_id=ANNA, actions=["send"]))
    await shard.ask(Fail(run_id="send-1", worker_id=ANNA))
    payloads.open.clear()
    asked = await begun(shard.ask(ListRuns(action="send")))
    await settled()
    assert payloads.asked == [1, 1]
    await shard.ask(PurgeDeadRuns(action="send"))

    payloads.open.set()

    assert (await asked).items == []


async def test_a_disk_that_fails_refuses_the_query(payloads, shard):
    await shard.ask(Invoke(action="send", input=HUGE))
    payloads.error = Unavailable("no disk", code="log_failed")

    with pytest.raises(Unavailable, match="no disk"):
        await shard.ask(GetRun(run_id="send-1"))


async def test_a_shard_that_stops_tells_those_it_has_promised(payloads, log, clock):
    shard = Shard(State(), log, clock)
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    await shard.ask(Invoke(action="send", input=HUGE))
    payloads.open.clear()
    claim = await begun(shard.ask(CLAIM))
    stopping = await begun(shard.stop())
    assert not stopping.done()

    payloads.open.set()
    await stopping

    assert (await claim).tasks[0].payload == HUGE


async def test_without_waiting_for_the_log_a_claim_still_has_its_input(payloads, log, clock):
    shard = Shard(State(), log, clock, wait_for_log=False)
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    await settled()
    log.gate.shut()
    await shard.ask(Invoke(action="send", input=HUGE))

    claim = await begun(shard.ask(CLAIM))
    await settled()
    assert not claim.done()
    log.gate.open()

    assert (await claim).tasks[0].payload == HUGE
    await shard.stop()


async def test_all_is_there_after_a_restart(payloads, log, clock, shard):
    await shard.ask(Invoke(action="send", input=LARGE))
    await shard.ask(Claim(worker_id=BORIS, actions=["send"]))
    await shard.stop()

    again = Shard(recover(log.read).state, log, clock)
    await again.start()

    assert (await again.ask(GetRun(run_id="send-1"))).input == LARGE
    assert payloads.asked == [1]
    await again.stop()


def test_the_oldest_payloads_leave_memory_first():
    recent = RecentPayloads(10)
    addresses = [ADDRESS._replace(number=number) for number in range(4)]
    for address in addresses[:3]:
        recent.add_all([LargePayload(address, b"1234")])

    assert [recent.get(address) for address in addresses] == [None, b"1234", b"1234", None]
    recent.add_all([LargePayload(addresses[3], bytes(11))])
    assert [recent.get(address) for address in addresses] == [None] * 4
