"""Tests of role handlers: one over given batches, and two in a graph."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from flo import Batch, BatchResult, RoleHandler, RunContext
from flo.testing.handlers import run_handler
from flo.testing.pipelines import run_graph

ROUTE = {
    "input_adapter": "pull.from_artifacts.rechunk:size",
    "input_args": {"from_node": "index", "size": 2, "meta_list_key": "skus"},
}
GRAPH: dict[str, Any] = {
    "nodes": [
        {"node_id": "index", "type": "indexer"},
        {
            "node_id": "enrich",
            "type": "enricher",
            "depends_on": ["index"],
            "retry_policy": {"max": 2, "backoff_sec": 60},
            "io": {"start_when": "first_batch", "input_inline": ROUTE},
        },
    ]
}


class Index(RoleHandler):
    role = "indexer"

    async def iter_batches(self, loaded: Any) -> AsyncIterator[Batch]:
        yield Batch(batch_uid="b1", payload={"skus": ["a", "b", "c"]})

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        return BatchResult(success=True, metrics={"skus": batch.payload["skus"]})


class Enrich(RoleHandler):
    role = "enricher"
    refusals = 0

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        if self.refusals:
            self.refusals -= 1
            return BatchResult(success=False, reason_code="rate_limit")
        return BatchResult(success=True, metrics={"count": len(batch.payload["items"])})


async def test_a_handler_over_given_batches() -> None:
    sources = {"index": [{"skus": ["a", "b", "c"]}, {"skus": []}]}

    run = await run_handler(Enrich(), sources=sources, input_inline=ROUTE)

    assert run.status == "finished"
    assert [result.metrics for result in run.results] == [{"count": 2}, {"count": 1}]


async def test_a_failure_has_a_reason() -> None:
    enrich = Enrich()
    enrich.refusals = 1

    run = await run_handler(enrich, sources={"index": [{"skus": ["a"]}]}, input_inline=ROUTE)

    assert (run.status, run.reason_code, run.permanent) == ("failed", "rate_limit", False)


async def test_a_graph_waits_for_its_retry_and_nobody_sleeps() -> None:
    enrich = Enrich()
    enrich.refusals = 1

    done = await run_graph(GRAPH, Index(), enrich)

    assert done.status == "finished"
    assert done.metas("enrich") == [{"count": 2}, {"count": 1}]
    assert done.took == timedelta(minutes=1)
