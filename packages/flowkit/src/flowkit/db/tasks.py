"""db.tasks: the task documents."""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flo.model.pipelines.pipelines import PatchPipeline, SubmitPipeline
from flowkit.db.collection import Collection, InsertOneResult, UpdateResult
from flowkit.db.documents import IDLE_NODE, json_plain, plain, task_document
from flowkit.db.query import Document, Filter
from flowkit.db.reading import pipeline, task_ids

if TYPE_CHECKING:
    from flowkit.db.handle import FlowDb

NODE_ID_KEYS = ("graph.nodes.node_id", "graph.nodes.$.node_id")
POSITIONAL = "graph.nodes.$."
NODES = "graph.nodes."
VARS = "coordinator.vars"


class Tasks(Collection):
    def __init__(self, db: "FlowDb") -> None:
        self._db = db

    async def insert_one(self, document: Document, **_: Any) -> InsertOneResult:
        """Make a task of a document; one without nodes waits until it is cancelled."""
        task_id = str(document.get("id") or document.get("pipeline_id") or uuid.uuid4())
        graph = dict(json_plain(document.get("graph") or {}))
        if not graph.get("nodes"):
            graph["nodes"] = [idle_node()]
        await self._db.call(
            SubmitPipeline(
                id=task_id,
                graph=graph,
                params=plain(document.get("params") or {}),
                lenient=True,
                functions_outside=True,
            )
        )
        variables = (document.get("coordinator") or {}).get("vars")
        if variables:
            await self._db.call(
                PatchPipeline(
                    id=task_id,
                    set={f"{VARS}.{name}": plain(value) for name, value in variables.items()},
                )
            )
        return InsertOneResult(task_id)

    async def update_one(
        self, query: Filter, update: Mapping[str, Any], *, upsert: bool = False, **_: Any
    ) -> UpdateResult:
        """Set, unset or add to fields by their paths; `graph.nodes.$` is the node that the filter
        names.
        """
        rows = await self._matching(query)
        if not rows:
            if upsert:
                await self.insert_one({"id": query.get("id"), **(update.get("$set") or {})})
                return UpdateResult(upserted_id=query.get("id"))
            return UpdateResult()
        document = rows[0]
        patch = PatchPipeline(
            id=document["id"],
            set=dict(_sets(document, query, update)),
            unset=[_path(document, query, path) for path in update.get("$unset") or {}],
            inc={
                _path(document, query, path): by for path, by in (update.get("$inc") or {}).items()
            },
        )
        await self._db.call(patch)
        return UpdateResult(1, 1)

    async def _documents(self, query: Filter) -> list[Document]:
        found = []
        for task_id in await task_ids(self._db, query, "id", "pipeline_id"):
            view = await pipeline(self._db, task_id)
            if view is not None:
                found.append(task_document(view))
        return found


def idle_node() -> Document:
    """A node that never becomes ready."""
    return {"node_id": IDLE_NODE, "type": IDLE_NODE, "depends_on": [f"{IDLE_NODE}never"]}


def _sets(document: Document, query: Filter, update: Mapping[str, Any]) -> list[tuple[str, Any]]:
    sets: list[tuple[str, Any]] = []
    for path, value in (update.get("$set") or {}).items():
        if path == VARS and isinstance(value, Mapping):
            sets += [(f"{VARS}.{name}", plain(one)) for name, one in value.items()]
        else:
            sets.append((_path(document, query, path), plain(value)))
    return sets


def _path(document: Document, query: Filter, path: str) -> str:
    """The path as the server knows it: nodes by their ids."""
    if path.startswith(POSITIONAL):
        return f"nodes.{_named_node(document, query)}.{path.removeprefix(POSITIONAL)}"
    if path.startswith(NODES):
        place, _, field = path.removeprefix(NODES).partition(".")
        if place.isdigit():
            return f"nodes.{document['graph']['nodes'][int(place)]['node_id']}.{field}"
    return path


def _named_node(document: Document, query: Filter) -> str:
    for key in NODE_ID_KEYS:
        if isinstance(query.get(key), str):
            return str(query[key])
    matched = query.get("graph.nodes")
    if isinstance(matched, Mapping) and isinstance(matched.get("$elemMatch"), Mapping):
        return str(matched["$elemMatch"]["node_id"])
    raise ValueError("expected the filter to name the node: graph.nodes.node_id")
