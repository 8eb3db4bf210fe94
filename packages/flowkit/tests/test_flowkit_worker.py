"""Worker: started, stopped, started again; its adapters, its logs."""

import asyncio
import re

import pytest

from flo import Invalid
from flowkit import Worker, WorkerConfig
from flowkit.worker.handlers.base import Batch, BatchResult, RoleHandler


class Sleepy(RoleHandler):
    role = "sleepy"

    def __init__(self):
        self.started = asyncio.Event()
        self.wake = asyncio.Event()
        self.ended = 0

    async def process_batch(self, batch, ctx):
        self.started.set()
        await self.wake.wait()
        self.ended += 1
        return BatchResult(success=True)


SLEEPY = {"nodes": [{"node_id": "s", "type": "sleepy"}]}


def test_what_a_worker_is_made_of(db):
    cfg = WorkerConfig(roles=["echo", "x"])

    worker = Worker(db=db, cfg=cfg, roles=["echo"])

    assert re.fullmatch(r"w-[0-9a-f]{8}", worker.worker_id)
    assert (worker.cfg.roles, cfg.roles) == (["echo"], ["echo", "x"])
    assert set(worker.handlers) == {"echo"}
    assert worker.active is None
    assert set(worker.input_adapters) == {
        "pull.from_artifacts",
        "pull.from_artifacts.rechunk:size",
    }


async def test_a_worker_without_a_configuration(db, coord, until):
    worker = Worker(db=db, roles=["echo"])
    await worker.start()

    task = await until.ended(
        await coord.create_task(params={}, graph={"nodes": [{"node_id": "e", "type": "echo"}]})
    )
    await worker.stop()

    assert task["status"] == "finished"


async def test_workers_may_start_before_any_coordinator_and_twice(db, coord, until):
    worker = Worker(db=db, roles=["echo"])

    for _ in range(2):
        await worker.start()
        await worker.start()
        await worker.stop()
        await worker.stop()


async def test_the_same_worker_goes_on_under_the_same_epoch(coord, start_worker, until, node, db):
    sleepy = Sleepy()
    first = await start_worker(sleepy, worker_id="w-resume")
    task_id = await coord.create_task(params={}, graph=SLEEPY)
    await asyncio.wait_for(sleepy.started.wait(), 20)
    assert (first.active.task_id, first.active.node_id) == (task_id, "s")

    await first.stop()
    between = await db.tasks.find_one({"id": task_id})
    sleepy.wake.set()
    await first.start()
    task = await until.ended(task_id)

    assert node(between, "s")["status"] == "running"
    assert (task["status"], node(task, "s")["attempt_epoch"], sleepy.ended) == ("finished", 1, 1)
    events = db.worker_events.find({"task_id": task_id})
    kinds = {event["payload"]["kind"] async for event in events}
    assert "TASK_RESUMED" not in kinds


async def test_a_node_whose_worker_is_gone_goes_on_elsewhere(coord, start_worker, until, node):
    sleepy, other = Sleepy(), Sleepy()
    other.wake.set()
    first = await start_worker(sleepy, worker_id="w-gone", lease_ttl_sec=1.0)
    task_id = await coord.create_task(params={}, graph=SLEEPY)
    await asyncio.wait_for(sleepy.started.wait(), 20)
    await first.stop()
    await start_worker(other, worker_id="w-other")

    task = await until.ended(task_id)

    assert task["status"] == "finished"
    assert node(task, "s")["attempt_epoch"] >= 2
    assert node(task, "s")["lease"]["worker_id"] == "w-other"


async def test_heartbeats_show_in_the_document(coord, start_worker, until, node):
    sleepy = Sleepy()
    await start_worker(sleepy, hb_interval_sec=0.02)
    task_id = await coord.create_task(params={}, graph=SLEEPY)

    def deadline(task):
        return node(task, "s")["lease"].get("deadline_ts_ms", 0)

    first = deadline(await until.that(task_id, deadline))
    later = deadline(await until.that(task_id, lambda task: deadline(task) > first))
    sleepy.wake.set()
    task = await until.ended(task_id)

    assert deadline(task) >= later > first  # a finished node keeps its lease


async def test_adapters_of_ones_own_and_logs_in_flowkits_tree(coord, start_worker, until, caplog):
    caplog.set_level("DEBUG")
    seen = []

    class Probe(RoleHandler):
        role = "probe"

        async def process_batch(self, batch, ctx):
            seen.append(batch.payload["n"])
            return BatchResult(success=True)

    async def numbers(*, task_id, consumer_node, cancel_flag, most):
        for number in range(most):
            yield Batch(batch_uid=str(number), payload={"n": number})

    worker = await start_worker(Probe())
    await worker.stop()
    worker.input_adapters["numbers"] = numbers
    await worker.start()
    graph = {
        "nodes": [
            {
                "node_id": "p",
                "type": "probe",
                "io": {
                    "input_inline": {"input_adapter": "numbers", "input_args": {"most": 2}},
                },
            }
        ]
    }
    await until.ended(await coord.create_task(params={}, graph=graph))

    assert seen == [0, 1]
    selected = [
        record
        for record in caplog.records
        if getattr(record, "event", "") == "worker.adapter.selected"
    ]
    assert [record.name.split(".")[0] for record in selected] == ["flowkit"]
    assert (selected[0].adapter, selected[0].io_source) == ("numbers", "cmd")
    assert selected[0].worker_id == worker.worker_id


async def test_a_worker_that_cannot_be_says_so(db, caplog):
    worker = Worker(db=db, cfg=WorkerConfig(roles=["no spaces, please"]))

    with pytest.raises(Invalid):
        await worker.start()

    assert [one for one in caplog.records if getattr(one, "event", "") == "worker.task.crashed"]
