"""A coordinator and two workers as FlowKit has them; the server is inside this process."""

import asyncio

from flowkit import Coordinator, open_db
from flowkit.worker.handlers.base import Batch, BatchResult, RoleHandler
from flowkit.worker.runner import Worker, WorkerConfig

GRAPH = {
    "nodes": [
        {"node_id": "index", "type": "indexer"},
        {
            "node_id": "enrich",
            "type": "enricher",
            "depends_on": ["index"],
            "io": {
                "start_when": "first_batch",
                "input_inline": {
                    "input_adapter": "pull.from_artifacts.rechunk:size",
                    "input_args": {"from_node": "index", "size": 2, "meta_list_key": "skus"},
                },
            },
        },
    ]
}


class Indexer(RoleHandler):
    role = "indexer"

    async def iter_batches(self, loaded):
        yield Batch(batch_uid="b1", payload={"skus": ["a", "b", "c"]})

    async def process_batch(self, batch, ctx):
        return BatchResult(success=True, metrics={"skus": batch.payload["skus"]})


class Enricher(RoleHandler):
    role = "enricher"

    async def process_batch(self, batch, ctx):
        return BatchResult(success=True, metrics={"enriched": len(batch.payload["items"])})


async def main():
    db = open_db()  # open_db("127.0.0.1:9000") is a server elsewhere
    coordinator = Coordinator(db=db)
    workers = [
        Worker(db=db, cfg=WorkerConfig(roles=[handler.role]), handlers={handler.role: handler})
        for handler in (Indexer(), Enricher())
    ]
    for part in (coordinator, *workers):
        await part.start()

    task_id = await coordinator.create_task(params={}, graph=GRAPH)
    while (task := await db.tasks.find_one({"id": task_id}))["status"] != "finished":
        await asyncio.sleep(0.01)
    print("The task is", task["status"].value)
    async for artifact in db.artifacts.find({"task_id": task_id, "status": "partial"}):
        print(artifact["node_id"], artifact["meta"])

    for part in (*workers, coordinator):
        await part.stop()
    await db.close()


asyncio.run(main())
