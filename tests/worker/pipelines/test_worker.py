"""PipelineWorker on a real server: nodes, leases, cancellation, shutdown, takeover."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from flo import Batch, BatchResult, Invalid, PipelineWorker, RoleHandler
from flo.model.pipelines.names import NodeStatus, PipelineStatus
from flo.model.pipelines.pipelines import SubmitPipeline
from flo.worker.pipelines.input.adapters import PULL, RECHUNK
from flo.worker.pipelines.input.pulled import PulledInput


class Source(RoleHandler):
    """Makes as many batches as its node says."""

    role = "source"

    async def iter_batches(self, loaded):
        for number in range(loaded["input_inline"]["count"]):
            yield Batch(batch_uid=f"b{number}", payload={"number": number})

    async def process_batch(self, batch, ctx):
        number = batch.payload["number"]
        return BatchResult(success=True, metrics={"items": [number, number], "made": 1})


class Sink(RoleHandler):
    role = "sink"

    def __init__(self):
        self.seen = []

    async def process_batch(self, batch, ctx):
        self.seen.append(batch)
        return BatchResult(success=True, metrics={"count": len(batch.payload.get("items", "x"))})


class Gate(RoleHandler):
    """Its batches wait until they are let through, or the run is cancelled."""

    role = "gate"

    def __init__(self):
        self.started = asyncio.Event()
        self.open = asyncio.Event()
        self.epochs = []
        self.reasons = []
        self.seen = []

    async def iter_batches(self, loaded):
        for number in range(3):
            yield Batch(batch_uid=f"g{number}")

    async def process_batch(self, batch, ctx):
        self.epochs.append(ctx.attempt_epoch)
        if batch.batch_uid == "g1":
            self.started.set()
            try:
                await ctx.cancellable(self.open.wait())
            finally:
                self.reasons.append(ctx.cancel_reason)
        self.seen.append(batch.batch_uid)
        return BatchResult(success=True)


def source(count=5):
    return {"node_id": "u", "type": "source", "io": {"input_inline": {"count": count}}}


def consumer(node_id="c", adapter=PULL, start_when="first_batch", **args):
    args = {"from_nodes": ["u"], **args}
    return {
        "node_id": node_id,
        "type": "sink",
        "depends_on": ["u"],
        "io": {
            "start_when": start_when,
            "input_inline": {"input_adapter": adapter, "input_args": args},
        },
    }


GATE = {"nodes": [{"node_id": "g", "type": "gate"}]}


@asynccontextmanager
async def serving(*workers):
    tasks = [asyncio.create_task(worker.serve()) for worker in workers]
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.gather(*tasks)


def node(view, node_id):
    return next(one for one in view.nodes if one.node_id == node_id)


async def test_batches_stream_from_node_to_node(server, flo):
    sink = Sink()
    graph = {"nodes": [source(300), consumer(adapter=RECHUNK, size=1, meta_list_key="items")]}

    async with serving(
        PipelineWorker(server.address, handlers=[Source()]),
        PipelineWorker(server.address, handlers=[sink]),
    ):
        run = await flo.pipelines.submit(graph)
        view = await run.wait(20)

    assert view.status is PipelineStatus.FINISHED
    assert [batch.payload["items"] for batch in sink.seen] == [[n // 2] for n in range(600)]
    assert (node(view, "u").batches, node(view, "c").batches) == (300, 600)
    assert (node(view, "c").batches_in, node(view, "c").in_progress) == (300, 0)


async def test_a_consumer_with_several_roles_runs_one_node_at_a_time_unless_told(server, flo):
    sink = Sink()
    graph = {"nodes": [source(3), consumer("c1", start_when="ready"), consumer("c2")]}

    async with serving(PipelineWorker(server.address, handlers=[Source(), sink])):
        view = await (await flo.pipelines.submit(graph)).wait(20)

    assert view.status is PipelineStatus.FINISHED
    assert len(sink.seen) == 6


async def test_several_nodes_at_once(server, flo):
    gates = [Gate(), Gate()]
    first, second = gates
    second.role = "gate2"
    graph = {
        "nodes": [{"node_id": "g", "type": "gate"}, {"node_id": "h", "type": "gate2"}],
    }

    async with serving(PipelineWorker(server.address, handlers=gates, concurrency=2)):
        run = await flo.pipelines.submit(graph)
        await asyncio.wait_for(asyncio.gather(first.started.wait(), second.started.wait()), 20)
        first.open.set()
        second.open.set()
        assert (await run.wait(20)).status is PipelineStatus.FINISHED


async def test_a_source_that_is_no_node_fails_for_good(server, flo):
    graph = {"nodes": [consumer(start_when="ready", from_nodes=["nobody"])]}
    graph["nodes"][0]["depends_on"] = []

    async with serving(PipelineWorker(server.address, handlers=[Sink()])):
        run = await flo.call(_lenient(graph))
        view = await flo.pipelines.wait(run.id, 20)

    assert view.status is PipelineStatus.FAILED
    assert node(view, "c").last_error == "bad_input_args"
    assert node(view, "c").attempt_epoch == 1


class Flaky(Sink):
    """Its second batch fails in the first attempt."""

    async def process_batch(self, batch, ctx):
        result = await super().process_batch(batch, ctx)
        if batch.batch_uid == "b1" and ctx.attempt_epoch == 1:
            return BatchResult(success=False, reason_code="rate_limit")
        return result


async def run_flaky(server, flo):
    """What the consumer of four batches has seen, and its node in the end."""
    flaky = Flaky()
    graph = {"nodes": [source(4), {**consumer(), "retry_policy": {"max": 2, "backoff_sec": 0}}]}
    async with serving(PipelineWorker(server.address, handlers=[Source(), flaky], concurrency=2)):
        view = await (await flo.pipelines.submit(graph)).wait(20)
    assert view.status is PipelineStatus.FINISHED
    return [batch.batch_uid for batch in flaky.seen], node(view, "c")


async def test_a_failed_batch_is_processed_again_and_no_other(server, flo):
    seen, ended = await run_flaky(server, flo)

    assert seen == ["b0", "b1", "b1", "b2", "b3"]
    assert (ended.attempt_epoch, ended.batches, ended.batches_in) == (2, 4, 4)


async def test_control_a_batch_that_is_done_before_it_is_processed_is_lost(
    server, flo, monkeypatch
):
    """As FlowKit claims them: the test above would find it."""
    batches = PulledInput.batches

    async def done_first(pulled):
        async for claimed in batches(pulled):
            await pulled._node.finish_input([claimed.claim])
            yield claimed

    monkeypatch.setattr(PulledInput, "batches", done_first)

    seen, ended = await run_flaky(server, flo)

    assert seen.count("b1") == 1
    assert ended.batches < 4


async def test_cancelling_a_pipeline_reaches_the_handler(server, flo):
    gate = Gate()

    async with serving(PipelineWorker(server.address, handlers=[gate])):
        run = await flo.pipelines.submit(GATE)
        await asyncio.wait_for(gate.started.wait(), 20)
        await run.cancel("not needed")
        view = await run.wait(20)

    assert view.status is PipelineStatus.CANCELLED
    assert (gate.reasons, gate.seen) == (["not needed"], ["g0"])


async def test_a_cancel_flag_in_the_document_reaches_the_handler(server, flo):
    gate = Gate()

    async with serving(PipelineWorker(server.address, handlers=[gate])):
        run = await flo.pipelines.submit(GATE)
        await asyncio.wait_for(gate.started.wait(), 20)
        await flo.pipelines.patch(run.id, set={"coordinator.cancelled": True})
        view = await run.wait(20)

    assert view.status is PipelineStatus.CANCELLED
    assert gate.reasons == ["db_flag"]


async def test_a_handler_that_does_not_heed_the_flag_is_stopped_at_the_deadline(server, flo):
    class Deaf(RoleHandler):
        role = "gate"
        started = asyncio.Event()

        async def process_batch(self, batch, ctx):
            self.started.set()
            await asyncio.Event().wait()

    async with serving(PipelineWorker(server.address, handlers=[Deaf()])):
        run = await flo.pipelines.submit(GATE, cancel_grace=0.1)
        await asyncio.wait_for(Deaf.started.wait(), 20)
        await run.cancel()
        view = await run.wait(20)

    assert view.status is PipelineStatus.CANCELLED


async def test_a_worker_with_an_id_goes_on_with_its_node_under_the_same_epoch(server, flo):
    gate = Gate()

    async with serving(PipelineWorker(server.address, handlers=[gate], worker_id="anna")):
        run = await flo.pipelines.submit(GATE)
        await asyncio.wait_for(gate.started.wait(), 20)
    between = await run.status()
    gate.open.set()
    async with serving(PipelineWorker(server.address, handlers=[gate], worker_id="anna")):
        view = await run.wait(20)

    assert node(between, "g").status is NodeStatus.RUNNING
    assert (view.status, node(view, "g").attempt_epoch) == (PipelineStatus.FINISHED, 1)
    assert gate.reasons[0] == "shutdown"


async def test_the_node_of_a_worker_without_an_id_goes_to_another_at_once(server, flo):
    gate = Gate()

    async with serving(PipelineWorker(server.address, handlers=[gate])):
        run = await flo.pipelines.submit(GATE)
        await asyncio.wait_for(gate.started.wait(), 20)
    gate.open.set()
    async with serving(PipelineWorker(server.address, handlers=[gate])):
        view = await run.wait(20)

    assert (view.status, node(view, "g").attempt_epoch) == (PipelineStatus.FINISHED, 2)


async def test_a_batch_that_is_under_way_ends_before_the_worker_leaves(server, flo):
    class Slow(Gate):
        async def process_batch(self, batch, ctx):
            if batch.batch_uid == "g1":
                self.started.set()
                await self.open.wait()
            self.seen.append(batch.batch_uid)
            return BatchResult(success=True)

    slow = Slow()
    worker = PipelineWorker(server.address, handlers=[slow])
    serving_it = asyncio.create_task(worker.serve())
    run = await flo.pipelines.submit(GATE)
    await asyncio.wait_for(slow.started.wait(), 20)
    worker.stop()
    slow.open.set()
    await asyncio.wait_for(serving_it, 20)
    view = await run.status()
    await run.cancel()

    assert slow.seen == ["g0", "g1"]
    assert node(view, "g").batches == 2
    assert node(view, "g").status is NodeStatus.QUEUED


async def test_a_lost_lease_stops_the_run_and_another_worker_goes_on(server, flo):
    gate, other = Gate(), Gate()
    other.open.set()
    deaf = PipelineWorker(
        server.address, handlers=[gate], worker_id="anna", lease=1.0, lease_heartbeat=60.0
    )

    async with serving(deaf):
        run = await flo.pipelines.submit(GATE)
        await asyncio.wait_for(gate.started.wait(), 20)
        async with serving(PipelineWorker(server.address, handlers=[other])):
            view = await run.wait(20)

    assert view.status is PipelineStatus.FINISHED
    assert node(view, "g").attempt_epoch >= 2
    assert other.epochs == [node(view, "g").attempt_epoch] * 3
    assert set(gate.seen) == {"g0"}
    assert "attempt" in gate.reasons[0] or "node" in gate.reasons[0]


async def test_a_role_without_a_handler_fails_for_good(server, flo):
    worker = PipelineWorker(server.address, handlers=[Sink()], roles=["sink", "gate"])

    async with serving(worker):
        view = await (await flo.pipelines.submit(GATE)).wait(20)

    assert view.status is PipelineStatus.FAILED
    assert node(view, "g").last_error == "no_handler"
    assert node(view, "g").attempt_epoch == 1


async def test_a_meta_that_is_too_large_fails_for_good_with_its_code(server, flo):
    class Large(RoleHandler):
        role = "gate"

        async def process_batch(self, batch, ctx):
            return BatchResult(success=True, metrics={"x": "y" * 2_000_000})

    async with serving(PipelineWorker(server.address, handlers=[Large()])):
        view = await (await flo.pipelines.submit(GATE)).wait(20)

    assert view.status is PipelineStatus.FAILED
    assert "large" in node(view, "g").last_error
    assert "1048576" in node(view, "g").error


async def test_a_producer_waits_for_consumers_that_are_behind(server, flo):
    class Slow(Sink):
        def __init__(self):
            super().__init__()
            self.go = asyncio.Semaphore(0)

        async def process_batch(self, batch, ctx):
            await self.go.acquire()
            return await super().process_batch(batch, ctx)

    slow = Slow()
    graph = {"nodes": [source(400), consumer()]}
    workers = [PipelineWorker(server.address, handlers=[one]) for one in (Source(), slow)]

    async with serving(*workers):
        run = await flo.pipelines.submit(graph, backlog_max=10)
        for _ in range(50):
            made = node(await run.status(), "u").batches
            await asyncio.sleep(0.01)
        for _ in range(400):
            slow.go.release()
        view = await run.wait(20)

    assert made < 400
    assert (view.status, len(slow.seen)) == (PipelineStatus.FINISHED, 400)


async def test_the_server_shows_the_worker_and_its_roles(server, flo):
    async with serving(PipelineWorker(server.address, handlers=[Sink()], worker_id="anna")):
        for _ in range(1_000):
            if (await flo.workers.list()).items:
                break
            await asyncio.sleep(0.01)
        worker = await flo.workers.get("anna")

    assert (worker.worker_type, [one.name for one in worker.processes]) == ("pipeline", ["sink"])
    assert worker.processes[0].kind == "role"


def test_what_a_worker_cannot_be_made_with():
    class Nameless(RoleHandler):
        pass

    with pytest.raises(Invalid, match="role"):
        PipelineWorker(handlers=[Nameless()])
    with pytest.raises(Invalid, match="already"):
        PipelineWorker(handlers=[Sink(), Sink()])
    with pytest.raises(Invalid, match="lease"):
        PipelineWorker(handlers=[Sink()], lease=0)


async def test_a_worker_without_handlers_does_not_start(server):
    with pytest.raises(Invalid, match="no handlers"):
        await PipelineWorker(server.address).serve()


def test_a_handler_by_decorator():
    worker = PipelineWorker()

    @worker.role("index")
    class Index(RoleHandler):
        pass

    assert worker.roles == ["index"]
    assert isinstance(worker.handlers["index"], Index)


def _lenient(graph):
    return SubmitPipeline(graph=graph, lenient=True)
