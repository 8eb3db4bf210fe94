"""Every code block of the page "FlowKit Workers", as it stands there."""

import ast
import inspect
import json
from pathlib import Path

import pytest

import flowkit
from flowkit import Coordinator
from flowkit.worker.handlers.base import Batch, BatchResult, FinalizeResult, RoleHandler

SEED = Path(__file__).parent / "seed"


async def run_block(name, **names):
    """Run a block that may await at its top level; returns the names that it has made."""
    code = compile((SEED / name).read_text(), name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = dict(names)
    running = eval(code, made)
    if inspect.isawaitable(running):
        await running
    return made


def route(name):
    return json.loads((SEED / name).read_text())["io"]


class Source(RoleHandler):
    role = "source"

    async def iter_batches(self, loaded):
        for number, skus in enumerate(([1, 2, 3, 4], [5])):
            yield Batch(batch_uid=f"b{number}", payload={"skus": skus})

    async def process_batch(self, batch, ctx):
        return BatchResult(success=True, metrics={"skus": batch.payload["skus"]})


class Probe(RoleHandler):
    role = "probe"

    def __init__(self):
        self.payloads = []

    async def load_input(self, input_ref, input_inline):
        return {
            "input_inline": {
                "input_adapter": "pull.from_artifacts",
                "input_args": {"from_nodes": ["nobody"]},
            }
        }

    async def process_batch(self, batch, ctx):
        self.payloads.append(batch.payload)
        return BatchResult(success=True)


async def test_the_quick_start(until, node):
    my_db = flowkit.open_db(namespace="quick-start")
    made = await run_block("quick_start.py.txt", my_db=my_db)
    coordinator = Coordinator(db=my_db)
    try:
        graph = {"nodes": [{"node_id": "p", "type": "processor"}]}
        task_id = await coordinator.create_task(params={}, graph=graph)
        async for _ in _polls(my_db, task_id):
            pass
        artifact = await my_db.artifacts.find_one({"task_id": task_id, "batch_uid": "b1"})
    finally:
        await made["worker"].stop()
        await my_db.close()

    assert artifact["meta"] == {"count": 3}


async def test_the_quick_start_without_a_db():
    made = await run_block("quick_start.py.txt", my_db=None)

    await made["worker"].stop()
    await made["worker"].db.close()


async def test_the_handler_interface(coord, start_worker, until, db):
    made = await run_block("handler_interface.py.txt")
    handler = made["MyRole"]()
    await start_worker(handler)

    task_id = await coord.create_task(
        params={}, graph={"nodes": [{"node_id": "p", "type": "probe"}]}
    )
    task = await until.ended(task_id)

    assert task["status"] == "finished"
    artifact = await db.artifacts.find_one({"task_id": task_id, "status": "partial"})
    assert artifact["meta"] == {"count": 2}
    assert handler.classify_error(ValueError()) == ("bad_input", True)
    assert made["FinalizeResult"] is FinalizeResult


@pytest.mark.parametrize(
    ("block", "items"),
    [
        ("coordinator_wins.json", [[1, 2], [3, 4], [5]]),
        ("pull.json", [None, None]),
        ("rechunk.json", [[1, 2, 3], [4], [5]]),
    ],
)
async def test_the_routes(block, items, coord, start_worker, until):
    probe = Probe()
    await start_worker(Source())
    await start_worker(probe)
    graph = {
        "nodes": [
            {"node_id": "u", "type": "source"},
            {"node_id": "p", "type": "probe", "depends_on": ["u"], "io": route(block)},
        ]
    }

    task = await until.ended(await coord.create_task(params={}, graph=graph))

    assert task["status"] == "finished"
    assert [payload.get("items") for payload in probe.payloads] == items
    assert {payload["from_node"] for payload in probe.payloads} == {"u"}


async def test_the_configuration():
    made = await run_block("configuration.py.txt")
    loaded = await run_block("load_with_overrides.py.txt", WorkerConfig=made["WorkerConfig"])

    assert made["cfg"].roles == ["indexer", "probe"]
    assert made["cfg"].lease_ttl_ms == 60_000
    assert loaded


async def _polls(db, task_id):
    while (await db.tasks.find_one({"id": task_id}))["status"] != "finished":
        yield
