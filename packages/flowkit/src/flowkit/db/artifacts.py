"""db.artifacts and db.metrics_raw: what nodes have made."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from flo.model.pipelines.pipelines import CallPipelineFunction
from flo.model.pipelines.work import PutArtifact
from flowkit.db.collection import Collection, UpdateResult
from flowkit.db.documents import artifact_document, plain
from flowkit.db.query import Document, Filter
from flowkit.db.reading import artifacts, task_ids
from flowkit.db.updates import changed, of_query

if TYPE_CHECKING:
    from flowkit.db.handle import FlowDb

COMPLETE = "complete"
FINAL_UID = "__final__"


class Artifacts(Collection):
    def __init__(self, db: "FlowDb") -> None:
        self._db = db

    async def update_one(
        self, query: Filter, update: Mapping[str, Any], *, upsert: bool = False, **_: Any
    ) -> UpdateResult:
        """Make or change an artifact: a batch of a node, or with the status `complete` the node."""
        if "batch_uid" not in query and (update.get("$set") or {}).get("status") == COMPLETE:
            query = {**query, "batch_uid": None}  # what is complete is the node, and no batch
        known = await self._matching(query)
        if not known and not upsert:
            return UpdateResult()
        before = known[0] if known else of_query(query)
        after = changed(before, update, inserted=not known)
        await self._put(after)
        return UpdateResult(1, 1) if known else UpdateResult(upserted_id=after.get("batch_uid"))

    async def insert_one(self, document: Document, **_: Any) -> None:
        await self._put(document)

    async def _put(self, document: Document) -> None:
        meta = msgspec.json.encode(plain(document.get("meta") or {}))
        uid = document.get("batch_uid")
        is_complete = document.get("status") == COMPLETE
        if not uid and not is_complete:
            raise ValueError("expected an artifact with a batch_uid, or with the status complete")
        if not uid:
            arguments = {"from_nodes": [], "target": {"node_id": document["node_id"]}}
            await self._db.call(
                CallPipelineFunction(
                    id=document["task_id"], function="merge.generic", arguments=arguments
                )
            )
            return
        await self._db.call(
            PutArtifact(
                id=document["task_id"],
                node=document["node_id"],
                batch_uid=uid,
                meta=meta,
                worker_id=document.get("worker_id"),
            )
        )

    async def _documents(self, query: Filter) -> list[Document]:
        node = query.get("node_id")
        node_id = node if isinstance(node, str) else None
        return [
            artifact_document(task_id, view)
            for task_id in await task_ids(self._db, query, "task_id")
            for view in await artifacts(self._db, task_id, node_id)
        ]


class MetricsRaw(Collection):
    """One row for each batch that has a result, and one for the end of each node."""

    def __init__(self, db: "FlowDb") -> None:
        self._db = db

    async def _documents(self, query: Filter) -> list[Document]:
        rows = []
        for task_id in await task_ids(self._db, query, "task_id"):
            for view in await artifacts(self._db, task_id, None):
                row: Document = {
                    "task_id": task_id,
                    "node_id": view.node_id,
                    "batch_uid": view.batch_uid or FINAL_UID,
                    "metrics": msgspec.json.decode(view.meta),
                    "attempt_epoch": view.attempt_epoch,
                    "ts_ms": view.created_at_ms,
                }
                if view.status == COMPLETE:
                    row["final"] = True
                if view.error is not None:
                    row["failed"], row["reason"] = True, view.error
                rows.append(row)
        return rows
