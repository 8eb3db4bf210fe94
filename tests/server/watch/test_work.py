"""What becomes of work is counted by action and workflow, of a shard that does it."""

import pytest

from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.namespaces import CreateNamespace, DeleteNamespace
from flo.model.runs import Cancel, Claim, Complete, Fail, Invoke
from flo.model.workflows import CreateWorkflow, SignalWorkflow, StartWorkflow
from flo.server.metrics import Metrics
from flo.server.watch.series import BoundedCounts, BoundedDurations
from flo.shard.loop import Shard
from flo.testing.clock import ManualClock
from given import ANNA

ORDER = """
kind: Workflow
name: order
version: "1"
start:
  waitForSignal: {type: approval, timeoutMs: 3600000}
  transitions: {success: flo.Completed}
"""


class World:
    def __init__(self):
        self.clock, self.metrics = ManualClock(), Metrics()
        self.shard = Shard(State(), MemoryLog(), self.clock, watcher=self.metrics)
        self.metrics.work.begin(lambda: self.shard.state)

    async def ask(self, *messages):
        for message in messages:
            reply = await self.shard.ask(message)
        return reply

    def value(self, name, **labels):
        """The value of the series with these labels."""
        for family in self.metrics.registry.collect():
            for sample in family.samples:
                if sample.name == name and sample.labels == {"namespace": "default", **labels}:
                    return sample.value
        return None


@pytest.fixture
async def world():
    world = World()
    await world.shard.start()
    await world.ask(RegisterAction(name="send", max_retries=1))
    yield world
    await world.shard.stop()


async def claimed(world):
    return (await world.ask(Claim(worker_id=ANNA, actions=["send"]))).tasks[0].task_id


async def test_waiting_and_executing_are_timed_by_action(world):
    await world.ask(Invoke(action="send"))
    world.clock.advance(2_000)
    run_id = await claimed(world)
    await world.ask(Complete(run_id=run_id, worker_id=ANNA, took_ms=30))

    assert world.value("flo_runs_queued_total", action="send") == 1
    assert world.value("flo_runs_ended_total", action="send", status="completed") == 1
    assert world.value("flo_run_queue_seconds_sum", action="send") == 2
    assert world.value("flo_run_execution_seconds_sum", action="send") == 0.03
    bucket = "flo_run_execution_seconds_bucket"
    assert world.value(bucket, action="send", le="0.05") == 1
    assert world.value(bucket, action="send", le="0.01") == 0


async def test_every_way_to_end_is_counted(world):
    await world.ask(*[Invoke(action="send")] * 3)
    await world.ask(Fail(run_id=await claimed(world), worker_id=ANNA, error="no", retry=True))
    await world.ask(Fail(run_id=await claimed(world), worker_id=ANNA, error="no", retry=False))
    await world.ask(Cancel(run_id="send-3"))

    assert world.value("flo_runs_retried_total", action="send") == 1
    assert world.value("flo_runs_ended_total", action="send", status="failed") == 1
    assert world.value("flo_runs_ended_total", action="send", status="cancelled") == 1


async def test_runs_and_steps_of_workflows_are_counted_and_timed(world):
    await world.ask(CreateWorkflow(text=ORDER), StartWorkflow(name="order"))
    assert world.metrics.work.live_workflow_runs() == 1
    world.clock.advance(5_000)
    await world.ask(SignalWorkflow(run_id="wfrun-1", type="approval"))

    of_order = {"workflow": "order"}
    assert world.value("flo_workflow_runs_started_total", **of_order, by="manual") == 1
    assert world.value("flo_workflow_runs_ended_total", **of_order, status="completed") == 1
    assert world.value("flo_workflow_run_seconds_sum", **of_order) == 5
    assert world.value("flo_workflow_steps_ended_total", **of_order, outcome="success") == 1
    assert world.metrics.work.live_workflow_runs() == 0


async def test_what_was_there_before_the_start_is_timed_too(world):
    await world.ask(CreateWorkflow(text=ORDER), StartWorkflow(name="order"))

    later = Metrics()
    later.work.begin(lambda: world.shard.state)

    assert later.work.live_workflow_runs() == 1


async def test_a_deleted_namespace_leaves_nothing_behind(world):
    await world.ask(
        CreateNamespace(name="shop"),
        CreateWorkflow(text=ORDER, namespace="shop"),
        StartWorkflow(name="order", namespace="shop"),
        DeleteNamespace(name="shop", force=True),
    )

    assert world.metrics.work.live_workflow_runs() == 0


def test_names_beyond_the_bound_count_as_one():
    counts = BoundedCounts("flo_x", "x", ("action",), series_max=2)
    for name in ("a", "b", "c", "d", "a"):
        counts.add(name)
    durations = BoundedDurations("flo_y", "y", ("action",), (1.0,), series_max=1)
    for name in ("a", "b", "c"):
        durations.observe(0.5, name)

    (counted,), (timed,) = counts.collect(), durations.collect()
    assert {one.labels["action"]: one.value for one in counted.samples} == {
        "a": 2,
        "b": 1,
        "(other)": 2,
    }
    totals = {one.labels["action"]: one.value for one in timed.samples if one.name == "flo_y_count"}
    assert totals == {"a": 1, "(other)": 2}
