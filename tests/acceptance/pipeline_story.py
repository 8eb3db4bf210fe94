"""Pipelines with all that a pipeline has, and a driver that takes them to their end.

    first    batches ─▸ a reader that fails once ─▸ fan-in `any` ─▸ a variable is counted up
                     └▸ another reader           ─┘   and a sum of what the first reader has read
    second   one node that runs until it is cancelled, one that waits for it, one that has failed
             and waits for its next attempt; then it is cancelled
    step     a workflow run starts the first graph again, and waits for its result

Everything that the driver does may be done again, so that it goes on wherever a server was killed.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from flo import (
    Batch,
    BatchResult,
    Conflict,
    Flo,
    NodeStatus,
    PipelineStatus,
    PipelineView,
    PipelineWorker,
    RoleHandler,
    RunContext,
)

FIRST, SECOND, STEP = "first", "second", "step"
WORKFLOW = """
kind: Workflow
name: step
version: "1"
start:
  run: "@pipelines/first"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
END_TIMEOUT_S = 60.0
LEASE_S = 1.0
ENDED = (PipelineStatus.FINISHED, PipelineStatus.CANCELLED, PipelineStatus.FAILED)


def _pull(source: str) -> dict[str, Any]:
    args = {"from_nodes": [source]}
    return {"input_adapter": "pull.from_artifacts", "input_args": args}


def _function(name: str, after: list[str], function: str, **arguments: Any) -> dict[str, Any]:
    io = {"fn": function, "fn_args": arguments}
    return {"node_id": name, "type": "coordinator_fn", "depends_on": after, "io": io}


GRAPHS: dict[str, dict[str, Any]] = {
    FIRST: {
        "nodes": [
            {"node_id": "make", "type": "maker"},
            {
                "node_id": "flaky",
                "type": "flaky",
                "depends_on": ["make"],
                "retry_policy": {"max": 50, "backoff_sec": 0.02},
                "io": {"start_when": "first_batch", "input_inline": _pull("make")},
            },
            {
                "node_id": "steady",
                "type": "steady",
                "depends_on": ["make"],
                "io": {"input_inline": _pull("make")},
            },
            {
                "node_id": "join",
                "type": "joiner",
                "depends_on": ["flaky", "steady"],
                "fan_in": "any",
            },
            _function("count", ["join"], "vars.incr", key="ends"),
            _function("sum", ["flaky"], "metrics.aggregate", node_id="flaky"),
        ]
    },
    SECOND: {
        "nodes": [
            {"node_id": "endless", "type": "endless"},
            {"node_id": "never", "type": "joiner", "depends_on": ["endless"]},
            {
                "node_id": "failed",
                "type": "failing",
                "retry_policy": {"max": 5, "backoff_sec": 300},
            },
        ]
    },
}


class Make(RoleHandler):
    async def iter_batches(self, loaded: Any) -> AsyncIterator[Batch]:
        for number in range(4):
            yield Batch(batch_uid=f"b{number}", payload={"number": number})

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        return BatchResult(success=True, metrics={"number": batch.payload["number"]})


class Read(RoleHandler):
    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        return BatchResult(success=True, metrics={"read": batch.payload["meta"]["number"] + 1})


class Flaky(Read):
    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        if ctx.attempt_epoch == 1 and batch.batch_uid == "b2":
            return BatchResult(success=False, reason_code="not_today")
        return await super().process_batch(batch, ctx)


class Endless(RoleHandler):
    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        await ctx.cancellable(asyncio.sleep(3_600))
        raise AssertionError("it was to be cancelled")


class Failing(RoleHandler):
    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        return BatchResult(success=False, reason_code="broken")


class StoryEnd(NamedTuple):
    """All of a pipeline that must be the same, however often the server was killed."""

    status: str
    vars: dict[str, Any]
    nodes: dict[str, str]
    stats: dict[str, Any]
    results: dict[str, list[tuple[str, str]]]
    """For each node its results, by uid."""


@asynccontextmanager
async def working(address: str, worker_id: str) -> AsyncIterator[None]:
    handlers = {
        "maker": Make(),
        "flaky": Flaky(),
        "steady": Read(),
        "joiner": RoleHandler(),
        "endless": Endless(),
        "failing": Failing(),
    }
    worker = PipelineWorker(
        address,
        handlers=handlers,
        worker_id=worker_id,
        concurrency=8,
        lease=LEASE_S,
        lease_heartbeat=LEASE_S / 3,
    )
    serving = asyncio.create_task(worker.serve())
    try:
        yield
    finally:
        worker.stop(at_once=True)
        await serving


async def drive(flo: Flo) -> dict[str, StoryEnd]:
    """Take both pipelines to their end, from wherever they are."""
    async with asyncio.timeout(END_TIMEOUT_S):
        for name, graph in GRAPHS.items():
            await flo.pipelines.submit(graph, id=name, cancel_grace=5)
        await flo.pipelines.wait(FIRST)
        second = await flo.pipelines.status(SECOND)
        while second.status not in ENDED and not _is_ready_to_be_cancelled(second):
            await asyncio.sleep(0.01)
            second = await flo.pipelines.status(SECOND)
        if second.status not in ENDED:
            await flo.pipelines.cancel(SECOND, "enough")
            await flo.pipelines.wait(SECOND)
        started = await _step(flo)
        names = {FIRST: FIRST, SECOND: SECOND, STEP: started}
        return {name: await _end_of(flo, pipeline_id) for name, pipeline_id in names.items()}


async def _step(flo: Flo) -> str:
    """The pipeline that a workflow run has waited for."""
    await flo.pipelines.publish(FIRST, GRAPHS[FIRST])
    await flo.workflows.create(WORKFLOW)
    with suppress(Conflict):  # it was started before
        await flo.workflows.start(STEP, {"day": 1}, run_id=STEP)
    output = await flo.workflows.result(STEP)
    assert output["vars"] == {"ends": 1}
    of_step = (await flo.pipelines.list(name=FIRST)).items
    assert [one.id for one in of_step] == [output["pipeline_id"]]
    return str(output["pipeline_id"])


def _is_ready_to_be_cancelled(pipeline: PipelineView) -> bool:
    """Or it is being cancelled, which may be said again."""
    statuses = {node.node_id: node.status for node in pipeline.nodes}
    is_set = statuses["endless"] is NodeStatus.RUNNING and statuses["failed"] is NodeStatus.DEFERRED
    return is_set or pipeline.status is PipelineStatus.CANCELLING


async def _end_of(flo: Flo, name: str) -> StoryEnd:
    view = await flo.pipelines.status(name)
    results: dict[str, dict[str, str]] = {}
    repeated = []
    async for artifact in flo.pipelines.each_artifact(name):
        if artifact.status == "partial" and artifact.batch_uid is not None:
            of_node = results.setdefault(artifact.node_id, {})
            if artifact.batch_uid in of_node:
                repeated.append((artifact.node_id, artifact.batch_uid))
            of_node[artifact.batch_uid] = json.dumps(json.loads(artifact.meta), sort_keys=True)
    assert repeated == [], "results that were recorded twice"
    return StoryEnd(
        status=view.status,
        vars=view.vars,
        nodes={node.node_id: node.status for node in view.nodes},
        stats={node.node_id: node.stats for node in view.nodes},
        results={node: sorted(found.items()) for node, found in results.items()},
    )
