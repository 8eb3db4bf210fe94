"""A program as it is written for FlowKit: nothing in it says where the server is, or that there is
one.
"""

import asyncio
import json

from flowkit import Coordinator, CoordinatorConfig, open_db
from flowkit.coordinator.runner import RunState
from flowkit.worker.handlers.base import Batch, BatchResult, RoleHandler
from flowkit.worker.runner import Worker, WorkerConfig

GRAPH = {
    "schema_version": "1.0",
    "nodes": [
        {"node_id": "w1", "type": "indexer", "depends_on": [], "fan_in": "all"},
        {
            "node_id": "w2",
            "type": "enricher",
            "depends_on": ["w1"],
            "fan_in": "all",
            "io": {
                "start_when": "first_batch",
                "input_inline": {
                    "input_adapter": "pull.from_artifacts.rechunk:size",
                    "input_args": {"from_nodes": ["w1"], "size": 3, "meta_list_key": "skus"},
                },
            },
        },
        {
            "node_id": "sum",
            "type": "coordinator_fn",
            "depends_on": ["w2"],
            "fan_in": "all",
            "io": {"fn": "metrics.aggregate", "fn_args": {"node_id": "w2", "mode": "sum"}},
        },
    ],
    "edges": [["w1", "w2"], ["w2", "sum"]],
    "edges_ex": [{"from": "w1", "to": "w2", "mode": "async", "trigger": "on_batch"}],
}


class Indexer(RoleHandler):
    role = "indexer"

    async def iter_batches(self, loaded):
        for number in range(4):
            skus = [f"sku-{number}-{index}" for index in range(5)]
            yield Batch(batch_uid=f"idx-{number}", payload={"skus": skus})

    async def process_batch(self, batch, ctx):
        return BatchResult(success=True, metrics=batch.payload)


class Enricher(RoleHandler):
    role = "enricher"

    async def process_batch(self, batch, ctx):
        return BatchResult(success=True, metrics={"enriched": len(batch.payload["items"])})


async def main() -> None:
    db = open_db()
    coordinator = Coordinator(db=db, cfg=CoordinatorConfig.load())
    workers = [
        Worker(db=db, cfg=WorkerConfig(roles=[one.role]), handlers={one.role: one})
        for one in (Indexer(), Enricher())
    ]
    for one in (coordinator, *workers):
        await one.start()
    task_id = await coordinator.create_task(params={}, graph=GRAPH)
    while True:
        task = await db.tasks.find_one({"id": task_id})
        if task["status"] in (RunState.finished, RunState.failed):
            break
        await asyncio.sleep(0.01)
    for one in (*workers, coordinator):
        await one.stop()
    print(json.dumps({"id": task_id, "status": task["status"].value, "result": task["result"]}))
    await db.close()


if __name__ == "__main__":
    asyncio.run(main())
