"""db.worker_events and db.worker_registry: what workers have said, and which there are."""

from typing import TYPE_CHECKING

from flo import WorkerStatus, WorkerType
from flo.model.pipelines.names import COORDINATOR_ROLE
from flowkit.db.collection import Collection
from flowkit.db.documents import event_document
from flowkit.db.query import Document, Filter
from flowkit.db.reading import events, task_ids

if TYPE_CHECKING:
    from flowkit.db.handle import FlowDb

COMMANDS = {"TASK_START", "CANCEL"}
"""What the coordinator says; the collection has what workers say."""
GONE = {WorkerStatus.UNHEALTHY, WorkerStatus.DRAINING}


class WorkerEvents(Collection):
    def __init__(self, db: "FlowDb") -> None:
        self._db = db

    async def _documents(self, query: Filter) -> list[Document]:
        return [
            event_document(view)
            for task_id in await task_ids(self._db, query, "task_id")
            for view in await events(self._db, task_id)
            if view.kind not in COMMANDS and view.step_type != COORDINATOR_ROLE
        ]


class WorkerRegistry(Collection):
    def __init__(self, db: "FlowDb") -> None:
        self._db = db

    async def _documents(self, query: Filter) -> list[Document]:
        found: list[Document] = []
        cursor: str | None = None
        while True:
            page = await self._db.client.workers.list(cursor=cursor)
            for worker in page.items:
                if worker.worker_type is not WorkerType.PIPELINE:
                    continue
                roles = [process.name for process in worker.processes]
                found.append(
                    {
                        "worker_id": worker.worker_id,
                        "type": ",".join(roles),
                        "capabilities": {"roles": roles},
                        "version": worker.build_id,
                        "status": "offline" if worker.status in GONE else "online",
                        "last_seen": worker.last_heartbeat_ms,
                        "capacity": {"tasks": worker.max_concurrency},
                    }
                )
            cursor = page.cursor
            if cursor is None:
                return found
