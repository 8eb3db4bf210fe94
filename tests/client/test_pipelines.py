"""Pipelines as a client sees them, and as a step of a workflow."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from flo import (
    Batch,
    BatchResult,
    Conflict,
    Flo,
    Invalid,
    NotFound,
    PipelineStatus,
    PipelineUnsuccessful,
    PipelineWorker,
    RoleHandler,
    RunContext,
    TimedOut,
)
from flo.engine.pipelines.container import ENDED_KEPT_MAX
from flo.testing.local import local_server

NOOP = {"nodes": [{"node_id": "end", "type": "coordinator_fn", "io": {"fn": "noop"}}]}
ALONE = {"nodes": [{"node_id": "only", "type": "counter"}]}
GRAPH = {
    "nodes": [
        {"node_id": "count", "type": "counter"},
        {
            "node_id": "double",
            "type": "doubler",
            "depends_on": ["count"],
            "io": {
                "start_when": "first_batch",
                "input_inline": {
                    "input_adapter": "pull.from_artifacts.rechunk:size",
                    "input_args": {"from_nodes": ["count"], "size": 2, "meta_list_key": "items"},
                },
            },
        },
        {
            "node_id": "sum",
            "type": "coordinator_fn",
            "depends_on": ["double"],
            "io": {"fn": "metrics.aggregate", "fn_args": {"node_id": "double"}},
        },
    ]
}
STEP = """
kind: Workflow
name: nightly
version: "1"
start:
  run: "@pipelines/index"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""


class Counter(RoleHandler):
    role = "counter"

    async def iter_batches(self, loaded: Any) -> AsyncIterator[Batch]:
        for number in range(3):
            yield Batch(batch_uid=f"b{number}", payload={"number": number})

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        first = batch.payload["number"] * 3
        return BatchResult(success=True, metrics={"items": [first, first + 1, first + 2]})


class Doubler(RoleHandler):
    role = "doubler"

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        return BatchResult(success=True, metrics={"count": len(batch.payload["items"])})


class Failing(RoleHandler):
    role = "counter"

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        return BatchResult(success=False, reason_code="bad_input", permanent=True, error="no")


@pytest.fixture
async def flo(tmp_path: Path) -> AsyncIterator[Flo]:
    async with local_server(tmp_path) as server, Flo(server.address) as flo:
        yield flo


@pytest.fixture
async def working(flo: Flo) -> AsyncIterator[Flo]:
    worker = PipelineWorker(flo.address, handlers=[Counter(), Doubler()], concurrency=2)
    async with running(worker):
        yield flo


class running:
    """A worker for as long as this lasts."""

    def __init__(self, worker: PipelineWorker) -> None:
        self._worker = worker

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._worker.serve())

    async def __aexit__(self, *_: object) -> None:
        self._worker.stop()
        await self._task


async def test_a_pipeline_runs_to_its_result(working: Flo) -> None:
    pipeline = await working.pipelines.submit(GRAPH, {"day": "monday"}, idempotency_key="k")

    result = await pipeline.result(timeout=20)

    stats = {node["node_id"]: node["stats"] for node in result["nodes"]}
    assert stats["double"] == {"count": 9.0}
    again = await working.pipelines.submit(GRAPH, {"day": "monday"}, idempotency_key="k")
    assert (again.id, again.duplicate) == (pipeline.id, True)


async def test_artifacts_and_events_can_be_followed_to_the_end(working: Flo) -> None:
    pipeline = await working.pipelines.submit(GRAPH)

    artifacts = [one async for one in pipeline.artifacts(follow=True)]

    metas = [json.loads(one.meta) for one in artifacts if one.node_id == "count"][:3]
    assert [meta["items"] for meta in metas] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert sum(one.node_id == "double" and one.status == "partial" for one in artifacts) == 6
    of_double = [one async for one in pipeline.artifacts("double")]
    assert {one.node_id for one in of_double} == {"double"}
    events = [one.kind async for one in pipeline.events()]
    assert events.count("BATCH_OK") == 9
    assert events.count("TASK_DONE") == 2


async def test_nodes_that_start_at_once_are_all_in_the_journal(working: Flo) -> None:
    nodes = [{"node_id": f"n{number}", "type": "counter"} for number in range(3)]
    pipeline = await working.pipelines.submit({"nodes": nodes})
    await pipeline.wait(timeout=20)

    events = [event async for event in pipeline.events()]

    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert sum(event.kind == "TASK_START" for event in events) == 3


async def test_a_pipeline_that_is_not_waited_for_long_enough(flo: Flo) -> None:
    pipeline = await flo.pipelines.submit(ALONE)
    with pytest.raises(TimedOut, match="has not ended in time"):
        await pipeline.wait(timeout=0.01)


async def test_a_failed_pipeline_says_which_node_failed_and_can_be_retried(flo: Flo) -> None:
    pipeline = await flo.pipelines.submit(ALONE)
    async with running(PipelineWorker(flo.address, handlers=[Failing()])):
        with pytest.raises(PipelineUnsuccessful, match="'only' failed with bad_input") as caught:
            await pipeline.result(timeout=20)
    assert caught.value.code == "pipeline_failed"
    assert caught.value.details["failed_nodes"] == {"only": "bad_input"}

    assert (await pipeline.retry()).status is PipelineStatus.RUNNING
    async with running(PipelineWorker(flo.address, handlers=[Counter()])):
        assert (await pipeline.wait(timeout=20)).status is PipelineStatus.FINISHED


async def test_a_cancelled_pipeline_says_why(flo: Flo) -> None:
    pipeline = await flo.pipelines.submit(ALONE)
    assert (await pipeline.cancel("enough")).status is PipelineStatus.CANCELLED
    with pytest.raises(PipelineUnsuccessful, match="been cancelled: enough"):
        await pipeline.result()
    with pytest.raises(Conflict, match="has ended already"):
        await pipeline.cancel()


async def test_a_mistake_in_a_graph_refuses_it_unless_it_is_lenient(flo: Flo) -> None:
    graph = {"nodes": [{"node_id": "a", "type": "x", "depends_on": ["gone"]}]}
    with pytest.raises(Invalid, match="'gone', which is no node") as caught:
        await flo.pipelines.submit(graph)
    assert caught.value.code == "invalid_graph"
    pipeline = await flo.pipelines.submit(graph, lenient=True)
    assert "which is no node" in pipeline.warnings[0]


async def test_a_graph_in_a_file(flo: Flo, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(NOOP))
    pipeline = await flo.pipelines.submit(tmp_path / "graph.json")
    assert (await pipeline.wait()).status is PipelineStatus.FINISHED
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(Invalid, match="expected a graph as JSON"):
        await flo.pipelines.submit(tmp_path / "bad.json")


async def test_stored_graphs(flo: Flo) -> None:
    assert (await flo.pipelines.publish("index", ALONE)).version == 1
    assert (await flo.pipelines.publish("index", NOOP)).version == 2
    assert (await flo.pipelines.graph("index")).graph == NOOP
    assert [one.name for one in (await flo.pipelines.graphs()).items] == ["index"]
    pipeline = await flo.pipelines.submit(name="index")
    assert (await pipeline.wait()).graph_name == "index"
    assert [one.id for one in (await flo.pipelines.list(name="index")).items] == [pipeline.id]
    await flo.pipelines.delete_graph("index")
    with pytest.raises(NotFound, match="no graph is stored"):
        await flo.pipelines.submit(name="index")


async def test_functions_patches_settings_and_events_from_elsewhere(flo: Flo) -> None:
    pipeline = await flo.pipelines.submit(ALONE)
    called = await flo.pipelines.call(pipeline.id, "vars.set", {"region": "eu"})
    assert called == {"ok": True, "touched": 1}
    await flo.pipelines.patch(pipeline.id, inc={"coordinator.vars.count": 2})
    assert (await pipeline.status()).vars == {"region": "eu", "count": 2}
    await flo.pipelines.configure(max_global_running=3, max_type_concurrency={"counter": 1})
    settings = await flo.pipelines.settings()
    assert (settings.max_global_running, settings.max_type_concurrency) == (3, {"counter": 1})
    fenced = await flo.pipelines.record_event(pipeline.id, "only", "BATCH_OK", 7, dedup_id="d")
    assert fenced.verdict == "fenced"


async def test_a_journal_that_is_no_longer_kept_is_refused(flo: Flo) -> None:
    pipeline = await flo.pipelines.submit(ALONE)
    await flo.pipelines.record_event(pipeline.id, "only", "BATCH_OK", 7, dedup_id="d")
    await pipeline.cancel()
    assert len((await flo.pipelines.events(pipeline.id)).items) == 1
    for _ in range(0, ENDED_KEPT_MAX + 1, 500):
        await asyncio.gather(*(flo.pipelines.submit(NOOP) for _ in range(500)))

    with pytest.raises(NotFound, match="ended too long ago") as caught:
        await flo.pipelines.events(pipeline.id)
    assert caught.value.code == "pipeline_forgotten"
    assert (await pipeline.status()).status is PipelineStatus.CANCELLED


async def test_a_step_of_a_workflow_runs_a_pipeline(working: Flo) -> None:
    await working.pipelines.publish("index", GRAPH)
    await working.workflows.create(STEP)
    run = await working.workflows.start("nightly", {"day": "monday"})

    output = await run.result(timeout=20)

    assert output["nodes"][1] == {"node_id": "double", "stats": {"count": 9.0}}
    pipeline = await working.pipelines.status(output["pipeline_id"])
    assert pipeline.params == {"day": "monday"}
    kinds = [entry.type async for entry in run.history()]
    assert [kind for kind in kinds if "pipeline" in kind] == [
        "pipeline_started",
        "awaiting_pipeline",
        "pipeline_completed",
    ]


async def test_a_pipeline_of_a_step_that_has_nothing_to_do_ends_at_once(flo: Flo) -> None:
    await flo.pipelines.publish("index", NOOP)
    await flo.workflows.create(STEP)
    run = await flo.workflows.start("nightly")
    assert (await run.result(timeout=20))["nodes"] == [{"node_id": "end", "stats": {}}]


async def test_a_step_whose_pipeline_fails_has_failed(flo: Flo) -> None:
    await flo.pipelines.publish("index", ALONE)
    await flo.workflows.create(STEP)
    run = await flo.workflows.start("nightly")
    async with running(PipelineWorker(flo.address, handlers=[Failing()])):
        ended = await run.wait(timeout=20)
    assert (ended.status, ended.error_code) == ("failed", "pipeline_failed")
    assert ended.error == "node 'only' of pipeline 'pipe-1' failed with bad_input: no"


async def test_a_cancelled_workflow_cancels_its_pipeline(flo: Flo) -> None:
    await flo.pipelines.publish("index", ALONE)
    await flo.workflows.create(STEP)
    run = await flo.workflows.start("nightly")
    explained = await run.explain()
    assert "waits for pipeline pipe-1" in explained.causes[0].text

    await run.cancel()

    pipeline = await flo.pipelines.wait("pipe-1", timeout=20)
    assert pipeline.status is PipelineStatus.CANCELLED
    assert "does not wait for it" in (pipeline.cancel_reason or "")


async def test_a_step_for_which_no_graph_is_stored_has_no_target(flo: Flo) -> None:
    await flo.workflows.create(STEP)
    ended = await (await flo.workflows.start("nightly")).wait(timeout=20)
    assert ended.error_code == "target_not_found"
    assert "no graph is stored under 'index'" in (ended.error or "")


async def test_the_input_of_a_pipeline_is_an_object(flo: Flo) -> None:
    await flo.pipelines.publish("index", NOOP)
    await flo.workflows.create(STEP)
    ended = await (await flo.workflows.start("nightly", [1, 2])).wait(timeout=20)
    assert ended.error_code == "invalid_params"
