"""Triggers: a workflow run for each record of a stream, as long as the workflow wants them."""

import asyncio

import pytest

from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.groups import GetGroup
from flo.model.namespaces import DeleteNamespace, ListNamespaces
from flo.model.runs import Claim
from flo.model.streams import Append, DeleteStream, NewRecord
from flo.model.workflows import (
    CreateWorkflow,
    DeleteWorkflow,
    DisableWorkflow,
    EnableWorkflow,
    GetWorkflowRun,
    SignalWorkflow,
)
from flo.server.inside.triggers import Triggers
from flo.server.router import Router
from flo.shard.loop import Shard
from flo.testing.clock import ManualClock

TEXT = """\
kind: Workflow
name: ship
version: "%(version)s"
trigger: {stream: %(stream)s, max_concurrent: 3, batch_size: %(batch)s, batch_timeout_ms: 5000}
start:
  waitForSignal: {type: done}
  transitions: {success: flo.Completed}
"""


class World:
    """A shard, its triggers, and the router that tells them of changes."""

    def __init__(self):
        self.clock, self.log = ManualClock(), MemoryLog()
        self.shard = Shard(State(), self.log, self.clock)
        self.triggers = Triggers(self.shard)
        self.router = Router(self.shard, triggers=self.triggers)

    async def deploy(self, version=1, stream="orders", batch=1, namespace="default"):
        text = TEXT % {"version": version, "stream": stream, "batch": batch}
        await self.router.ask(CreateWorkflow(text=text, namespace=namespace))

    async def append(self, *payloads, stream="orders", namespace="default"):
        records = [NewRecord(payload=payload) for payload in payloads]
        await self.shard.ask(Append(stream=stream, records=records, namespace=namespace))

    async def inputs(self, count):
        """The inputs of the first runs, once there are so many; no more may follow."""
        await self.until(lambda: self.space.workflow_number >= count)
        await self.rest()
        assert self.space.workflow_number == count
        runs = [
            await self.shard.ask(GetWorkflowRun(run_id=f"wfrun-{number + 1}"))
            for number in range(count)
        ]
        assert {run.triggered_by for run in runs} <= {"trigger"}
        return [run.input for run in runs]

    @property
    def space(self):
        return self.shard.state.space("default")

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 (nobody would set the event)
                await asyncio.sleep(0)

    async def until_parked(self, count=1):
        await self.until(lambda: len(self.shard._polls.everyone()) == count)

    async def rest(self):
        for _ in range(200):
            await asyncio.sleep(0)


@pytest.fixture
async def world():
    world = World()
    await world.shard.start()
    await world.triggers.start()
    yield world
    await world.triggers.stop()
    await world.shard.stop()


async def test_every_record_starts_one_run(world):
    await world.deploy()
    await world.until_parked()

    await world.append(b"1", b"2")
    await world.append(b"3")

    assert await world.inputs(3) == [b"1", b"2", b"3"]


async def test_a_worker_that_waits_is_given_the_task_of_a_triggered_run_at_once(world):
    await world.shard.ask(RegisterAction(name="pack"))
    await world.router.ask(
        CreateWorkflow(
            text='{kind: Workflow, name: ship, version: "1", trigger: {stream: orders}, '
            'start: {run: "@actions/pack", transitions: {success: flo.Completed}}}'
        )
    )
    claim = Claim(worker_id="anna", actions=["pack"], block_ms=30_000)
    claiming = asyncio.create_task(world.shard.ask(claim))
    await world.until_parked(2)

    await world.append(b"1")

    await world.until(claiming.done)
    assert [task.payload for task in claiming.result().tasks] == [b"1"]


async def test_records_that_were_there_before_start_runs_too(world):
    await world.append(b"1", b"2")
    await world.deploy()
    assert await world.inputs(2) == [b"1", b"2"]


async def test_no_more_runs_are_live_than_the_trigger_allows(world):
    await world.deploy()
    await world.append(b"1", b"2", b"3", b"4")
    assert await world.inputs(3) == [b"1", b"2", b"3"]

    await world.shard.ask(SignalWorkflow(run_id="wfrun-2", type="done"))

    assert await world.inputs(4) == [b"1", b"2", b"3", b"4"]


async def test_a_full_batch_starts_one_run_and_a_short_one_after_its_time(world):
    await world.deploy(batch=2)
    await world.append(b"1", b"2", b"words")
    assert await world.inputs(1) == [b"[1,2]"]

    await world.until_parked()
    world.clock.advance(5_000)

    assert await world.inputs(2) == [b"[1,2]", b'["words"]']


async def test_a_short_batch_waits_from_its_first_record_on_and_no_longer(world):
    await world.deploy(batch=2)
    await world.until_parked()
    world.clock.advance(4_000)
    await world.append(b"1")
    await world.until_parked()

    world.clock.advance(4_999)
    assert await world.inputs(0) == []
    world.clock.advance(1)

    assert await world.inputs(1) == [b"[1]"]


async def test_a_short_batch_that_fills_up_waits_no_longer(world):
    await world.deploy(batch=2)
    await world.append(b"1")
    assert await world.inputs(0) == []
    await world.append(b"2")
    assert await world.inputs(1) == [b"[1,2]"]


async def test_while_a_workflow_is_disabled_nothing_is_started_and_nothing_lost(world):
    await world.deploy()
    await world.until_parked()
    await world.router.ask(DisableWorkflow(name="ship"))
    await world.append(b"1")
    assert await world.inputs(0) == []
    assert world.shard._polls.everyone() == []

    await world.router.ask(EnableWorkflow(name="ship"))

    assert await world.inputs(1) == [b"1"]


async def test_a_workflow_that_is_deleted_pulls_no_longer(world):
    await world.deploy()
    await world.until_parked()
    await world.router.ask(DeleteWorkflow(name="ship"))
    await world.append(b"1")
    assert await world.inputs(0) == []
    assert world.shard._polls.everyone() == []


async def test_a_new_version_may_listen_to_another_stream(world):
    await world.deploy()
    await world.until_parked()
    await world.deploy(version=2, stream="parcels")
    await world.append(b"1")
    await world.append(b"2", stream="parcels")
    assert await world.inputs(1) == [b"2"]


async def test_a_stream_that_is_deleted_is_made_again(world):
    await world.deploy()
    await world.until_parked()
    await world.shard.ask(DeleteStream(stream="orders"))
    await world.until_parked()
    await world.append(b"1")
    assert await world.inputs(1) == [b"1"]


async def test_a_namespace_that_is_deleted_stays_so(world):
    await world.deploy(namespace="prod")
    await world.until_parked()

    await world.router.ask(DeleteNamespace(name="prod", force=True))
    await world.rest()

    page = await world.shard.ask(ListNamespaces())
    assert [one.name for one in page.items] == ["default"]
    assert world.shard._polls.everyone() == []


async def test_triggers_go_on_after_a_restart_where_they_were(world):
    await world.deploy()
    await world.append(b"1")
    assert await world.inputs(1) == [b"1"]
    await world.triggers.stop()
    await world.append(b"2")
    assert await world.inputs(1) == [b"1"]

    world.triggers = Triggers(world.shard)
    await world.triggers.start()

    assert await world.inputs(2) == [b"1", b"2"]


async def test_what_has_started_a_run_is_settled(world):
    await world.deploy()
    await world.append(b"1")
    await world.inputs(1)
    group = await world.shard.ask(GetGroup(stream="orders", group="wf-ship"))
    assert (group.lag, group.pending, group.waiting) == (0, 0, 0)
