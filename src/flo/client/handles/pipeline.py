"""The handle of a pipeline."""

# ruff: noqa: ASYNC109 -- here a timeout is the server's business too

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from flo.model.errors import FloError
from flo.model.pipelines.names import CANCEL_REASON_DEFAULT, NodeStatus, PipelineStatus
from flo.model.pipelines.pipelines import PipelineAffected
from flo.model.pipelines.views import ArtifactView, PipelineEventView, PipelineView

if TYPE_CHECKING:
    from flo.client.pipelines import Pipelines


class PipelineUnsuccessful(FloError):
    """The pipeline has ended, but has not finished; `code` is pipeline_failed or
    pipeline_cancelled, and `pipeline` tells the rest.
    """

    kind = "unsuccessful"
    code = "pipeline_failed"

    def __init__(self, pipeline: PipelineView) -> None:
        failed = [node for node in pipeline.nodes if node.status is NodeStatus.FAILED]
        super().__init__(
            f"pipeline {pipeline.id!r} has {_ENDED[pipeline.status]}: {_reason(pipeline)}",
            code=f"pipeline_{pipeline.status}",
            details={
                "id": pipeline.id,
                "status": str(pipeline.status),
                "reason": pipeline.cancel_reason,
                "failed_nodes": {node.node_id: node.last_error for node in failed},
            },
        )
        self.pipeline = pipeline


class PipelineHandle:
    """What a submission gives back. `duplicate` says that it was submitted before."""

    __slots__ = ("_pipelines", "duplicate", "id", "warnings")

    def __init__(
        self,
        pipelines: "Pipelines",
        pipeline_id: str,
        duplicate: bool = False,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self._pipelines = pipelines
        self.id = pipeline_id
        self.duplicate = duplicate
        self.warnings = warnings
        """What is wrong with its graph, and was let pass."""

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"PipelineHandle(id={self.id!r}, duplicate={self.duplicate})"

    async def status(self) -> PipelineView:
        return await self._pipelines.status(self.id)

    async def wait(self, timeout: float | None = None) -> PipelineView:
        return await self._pipelines.wait(self.id, timeout)

    async def result(self, timeout: float | None = None) -> dict[str, Any]:
        return await self._pipelines.result(self.id, timeout)

    async def cancel(self, reason: str = CANCEL_REASON_DEFAULT) -> PipelineAffected:
        return await self._pipelines.cancel(self.id, reason)

    async def retry(self, node: str | None = None) -> PipelineAffected:
        return await self._pipelines.retry(self.id, node)

    async def artifacts(
        self, node: str | None = None, *, follow: bool = False
    ) -> AsyncGenerator[ArtifactView, None]:
        """All artifacts so far; with `follow` also those to come, until the pipeline ends."""
        async for artifact in self._pipelines.each_artifact(self.id, node, follow=follow):
            yield artifact

    async def events(self, *, follow: bool = False) -> AsyncGenerator[PipelineEventView, None]:
        """All events so far; with `follow` also those to come, until the pipeline ends."""
        async for event in self._pipelines.each_event(self.id, follow=follow):
            yield event


def result_of(pipeline: PipelineView) -> dict[str, Any]:
    """The result document of a pipeline that has ended: the statistics of its nodes."""
    if pipeline.status is not PipelineStatus.FINISHED:
        raise PipelineUnsuccessful(pipeline)
    return pipeline.result or {"nodes": []}


_ENDED = {PipelineStatus.FAILED: "failed", PipelineStatus.CANCELLED: "been cancelled"}


def _reason(pipeline: PipelineView) -> str:
    for node in pipeline.nodes:
        if node.status is NodeStatus.FAILED:
            error = f": {node.error}" if node.error else ""
            return f"node {node.node_id!r} failed with {node.last_error}{error}"
    return pipeline.cancel_reason or "no reason was given"
