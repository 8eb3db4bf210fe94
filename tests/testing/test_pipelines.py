"""Graphs in tests: real handlers on the engine, and nobody sleeps."""

from datetime import timedelta

import pytest

from flo import Batch, BatchResult, RoleHandler
from flo.testing.handlers import run_handler
from flo.testing.pipelines import run_graph


class Index(RoleHandler):
    role = "indexer"

    async def iter_batches(self, loaded):
        for number in range(3):
            yield Batch(batch_uid=f"b{number}", payload={"number": number})

    async def process_batch(self, batch, ctx):
        return BatchResult(success=True, metrics={"skus": list(range(batch.payload["number"]))})


class Enrich(RoleHandler):
    role = "enricher"

    def __init__(self, fails=0):
        self._fails = fails

    async def process_batch(self, batch, ctx):
        if self._fails:
            self._fails -= 1
            return BatchResult(success=False, reason_code="rate_limit")
        return BatchResult(success=True, metrics={"count": len(batch.payload["items"])})


ROUTE = {
    "input_adapter": "pull.from_artifacts.rechunk:size",
    "input_args": {"from_node": "index", "size": 1, "meta_list_key": "skus"},
}
GRAPH = {
    "nodes": [
        {"node_id": "index", "type": "indexer"},
        {
            "node_id": "enrich",
            "type": "enricher",
            "depends_on": ["index"],
            "io": {"start_when": "first_batch", "input_inline": ROUTE},
        },
        {
            "node_id": "sum",
            "type": "coordinator_fn",
            "depends_on": ["enrich"],
            "io": {"fn": "metrics.aggregate", "fn_args": {"node_id": "enrich"}},
        },
    ]
}


async def test_a_graph_runs_to_its_end():
    done = await run_graph(GRAPH, Index(), Enrich())

    assert done.status == "finished"
    assert done.metas("index") == [{"skus": []}, {"skus": [0]}, {"skus": [0, 1]}]
    assert done.metas("enrich") == [{"count": 1}] * 3
    assert done.node("enrich").stats == {"count": 3.0}
    assert done.took == timedelta(0)


async def test_a_retry_waits_for_its_backoff_and_nobody_sleeps():
    done = await run_graph(GRAPH, Index(), Enrich(fails=2))

    assert done.status == "finished"
    assert done.node("enrich").attempt_epoch == 3
    assert done.took == timedelta(minutes=10)  # twice the default backoff
    assert done.metas("enrich") == [{"count": 1}] * 3


async def test_a_graph_that_fails():
    done = await run_graph(GRAPH, Index(), Enrich(fails=100))

    assert done.status == "failed"
    assert done.node("enrich").last_error == "rate_limit"


async def test_functions_of_ones_own():
    calls = []

    async def note(pipeline_id, *, text):
        calls.append((pipeline_id, text))

    graph = {
        "nodes": [
            {
                "node_id": "f",
                "type": "coordinator_fn",
                "io": {"fn": "my.note", "fn_args": {"text": "hello"}},
            }
        ]
    }

    done = await run_graph(graph, functions={"my.note": note})

    assert (done.status, calls) == ("finished", [("pipe-1", "hello")])


async def test_a_graph_whose_handler_is_missing_says_so():
    with pytest.raises(AssertionError, match="enrich"):
        await run_graph(GRAPH, Index())


async def test_one_handler_over_given_batches():
    run = await run_handler(Enrich(), sources={"index": [{"skus": [1, 2, 3]}]}, input_inline=ROUTE)

    assert run.status == "finished"
    assert [result.metrics for result in run.results] == [{"count": 1}] * 3
