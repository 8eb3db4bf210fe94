"""Reading whole lists of the server, page by page."""

from typing import TYPE_CHECKING

from flo.model.errors import NotFound
from flo.model.pipelines.pipelines import (
    GetPipeline,
    ListArtifacts,
    ListPipelines,
    ReadPipelineEvents,
)
from flo.model.pipelines.views import ArtifactView, PipelineEventView, PipelineView
from flowkit.db.query import Filter

if TYPE_CHECKING:
    from flowkit.db.handle import FlowDb

PAGE = 1_000
LIST_PAGE = 100
COORDINATOR_PREFIX = "coord."
"""The ids of coordinators begin so."""


async def task_ids(db: "FlowDb", query: Filter, *names: str) -> list[str]:
    """The ids that a filter can be about: the one that it names, or all."""
    for name in names:
        wanted = query.get(name)
        if isinstance(wanted, str):
            return [wanted]
        if isinstance(wanted, dict) and isinstance(wanted.get("$in"), list | tuple):
            return [str(one) for one in wanted["$in"]]
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await db.call(ListPipelines(limit=LIST_PAGE, cursor=cursor))
        found += [item.id for item in page.items]
        cursor = page.cursor
        if cursor is None:
            return found[::-1]


async def pipeline(db: "FlowDb", task_id: str) -> PipelineView | None:
    try:
        return await db.call(GetPipeline(id=task_id))
    except NotFound:
        return None


async def artifacts(db: "FlowDb", task_id: str, node_id: str | None) -> list[ArtifactView]:
    """The artifacts of a task; of a batch that was reported twice, the last one."""
    found: dict[tuple[str, str | None], ArtifactView] = {}
    after = 0
    while True:
        try:
            page = await db.call(ListArtifacts(id=task_id, node=node_id, after=after, limit=PAGE))
        except NotFound:
            return []
        for item in page.items:
            if not _is_bare_end_of_function(item):
                found[item.node_id, item.batch_uid] = item
        if page.last <= after:
            return list(found.values())
        after = page.last


def _is_bare_end_of_function(artifact: ArtifactView) -> bool:
    """A coordinator function leaves an artifact only if it makes one."""
    is_function = (artifact.worker_id or "").startswith(COORDINATOR_PREFIX)
    return is_function and artifact.batch_uid is None and artifact.meta == b"{}"


async def events(db: "FlowDb", task_id: str) -> list[PipelineEventView]:
    found: list[PipelineEventView] = []
    after = 0
    while True:
        try:
            page = await db.call(ReadPipelineEvents(id=task_id, after=after, limit=PAGE))
        except NotFound:
            return found
        found += page.items
        if page.last <= after:
            return found
        after = page.last
