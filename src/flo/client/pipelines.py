"""Pipelines: submit, watch, cancel, retry, read their artifacts and events; stored graphs."""

# ruff: noqa: ASYNC109 -- here a timeout is the server's business too

import asyncio
from collections.abc import AsyncGenerator, Mapping
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from flo.client.arguments.choices import one_if_any
from flo.client.arguments.durations import ms_if_any, ms_of
from flo.client.handles.pipeline import PipelineHandle, result_of
from flo.client.noun import Noun
from flo.client.session.long_polls import may_poll_again, poll_times
from flo.model.errors import Invalid, TimedOut, Unavailable
from flo.model.ids import LIST_LIMIT_DEFAULT
from flo.model.pipelines.names import (
    CANCEL_GRACE_MS_DEFAULT,
    CANCEL_REASON_DEFAULT,
    EVENTS_PER_READ_DEFAULT,
    PipelineStatus,
    Reported,
)
from flo.model.pipelines.pipelines import (
    CallPipelineFunction,
    CancelPipeline,
    ConfigurePipelines,
    DeletePipelineGraph,
    GetPipeline,
    GetPipelineGraph,
    GetPipelineSettings,
    GraphPublished,
    ListArtifacts,
    ListPipelineGraphs,
    ListPipelines,
    PatchPipeline,
    PipelineAffected,
    PipelineEnded,
    PipelineSettings,
    PublishPipeline,
    ReadPipelineEvents,
    RetryPipeline,
    SubmitPipeline,
    WaitPipeline,
)
from flo.model.pipelines.views import (
    ArtifactPage,
    ArtifactView,
    PipelineEventPage,
    PipelineEventView,
    PipelinePage,
    PipelineView,
    StoredGraphPage,
    StoredGraphView,
)
from flo.model.pipelines.work import RecordPipelineEvent

GraphSource: TypeAlias = Mapping[str, Any] | Path
"""A graph, or a JSON file that holds it."""

FOLLOW_BLOCK_MS = 20_000
READ_LIMIT = 1_000


class Pipelines(Noun):
    async def submit(
        self,
        graph: GraphSource | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        id: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        cancel_grace: float = CANCEL_GRACE_MS_DEFAULT / 1_000,
        backlog_max: int | None = None,
        soft: float | None = None,
        hard: float | None = None,
        lenient: bool = False,
        functions_outside: bool = False,
    ) -> PipelineHandle:
        """Start a pipeline: of a graph, or of the one that is stored under `name`.

        A mistake in the graph refuses it; with `lenient`, what can never become ready is let pass
        with a warning. With an `idempotency_key` or an `id`, the same pipeline is started once.
        `timeout` is how many seconds it may take, `cancel_grace` how long its nodes may take to
        stop, `soft` and `hard` after how much silence it is deferred and given up. A node waits
        while a consumer is `backlog_max` batches behind.
        """
        submission = SubmitPipeline(
            graph=None if graph is None else await _document_of(graph),
            name=name,
            params=dict(params or {}),
            id=id,
            idempotency_key=idempotency_key,
            lenient=lenient,
            functions_outside=functions_outside,
            timeout_ms=ms_if_any(timeout, "timeout", SubmitPipeline),
            soft_ms=ms_if_any(soft, "soft", SubmitPipeline),
            hard_ms=ms_if_any(hard, "hard", SubmitPipeline),
            cancel_grace_ms=ms_of(cancel_grace, "cancel_grace", SubmitPipeline),
            backlog_max=backlog_max,
        )
        submitted = await self._call(submission)
        return PipelineHandle(self, submitted.id, submitted.duplicate, tuple(submitted.warnings))

    def run(self, id: str) -> PipelineHandle:
        """The pipeline with this id, without asking whether there is one."""
        return PipelineHandle(self, id)

    async def status(self, id: str) -> PipelineView:
        """A pipeline as it is now, with its nodes, variables and result."""
        return await self._call(GetPipeline(id=id))

    async def list(
        self,
        *,
        status: PipelineStatus | str | None = None,
        name: str | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
    ) -> PipelinePage:
        """Pipelines, the newest first; only in this status, only of this stored graph."""
        return await self._call(
            ListPipelines(
                status=one_if_any(PipelineStatus, status, "status"),
                name=name,
                limit=limit,
                cursor=cursor,
            )
        )

    async def wait(self, id: str, timeout: float | None = None) -> PipelineView:
        """The pipeline, once it has ended; TimedOut if it takes more than `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline_s = inf if timeout is None else loop.time() + timeout
        while True:
            problem: Exception | None = None
            try:
                pipeline = (await self._poll(id, deadline_s)).pipeline
            except Unavailable as error:
                if not may_poll_again(error, deadline_s):
                    raise
                problem = error
            else:
                if pipeline is not None:
                    return pipeline
            if loop.time() >= deadline_s:
                raise problem or TimedOut(f"pipeline {id!r} has not ended in time")

    async def result(self, id: str, timeout: float | None = None) -> dict[str, Any]:
        """The result of the pipeline once it has finished: `nodes`, each with its `stats`.

        PipelineUnsuccessful if it failed or was cancelled.
        """
        return result_of(await self.wait(id, timeout))

    async def cancel(self, id: str, reason: str = CANCEL_REASON_DEFAULT) -> PipelineAffected:
        """Close nodes that wait, and tell those that run to stop."""
        return await self._call(CancelPipeline(id=id, reason=reason))

    async def retry(self, id: str, node: str | None = None) -> PipelineAffected:
        """Run what failed or was cancelled again, or only `node`; a deferred one is run now.

        Batches that have a result are not processed again.
        """
        return await self._call(RetryPipeline(id=id, node=node))

    async def artifacts(
        self,
        id: str,
        node: str | None = None,
        *,
        after: int = 0,
        limit: int = EVENTS_PER_READ_DEFAULT,
        block_ms: int = 0,
    ) -> ArtifactPage:
        """A page of artifacts, in the order in which they were made; ask on after its `last`."""
        query = ListArtifacts(id=id, node=node, after=after, limit=limit, block_ms=block_ms)
        return await self._call(query)

    async def each_artifact(
        self, id: str, node: str | None = None, *, after: int = 0, follow: bool = False
    ) -> AsyncGenerator[ArtifactView, None]:
        """All artifacts so far; with `follow` also those to come, until the pipeline ends."""
        block_ms = FOLLOW_BLOCK_MS if follow else 0
        while True:
            page = await self.artifacts(id, node, after=after, limit=READ_LIMIT, block_ms=block_ms)
            for artifact in page.items:
                yield artifact
            if page.ended or (not follow and page.last == after):
                return
            after = page.last

    async def events(
        self,
        id: str,
        *,
        after: int = 0,
        limit: int = EVENTS_PER_READ_DEFAULT,
        block_ms: int = 0,
    ) -> PipelineEventPage:
        """A page of what has happened in a pipeline; ask on after its `last`."""
        query = ReadPipelineEvents(id=id, after=after, limit=limit, block_ms=block_ms)
        return await self._call(query)

    async def each_event(
        self, id: str, *, after: int = 0, follow: bool = False
    ) -> AsyncGenerator[PipelineEventView, None]:
        """All events so far; with `follow` also those to come, until the pipeline ends."""
        block_ms = FOLLOW_BLOCK_MS if follow else 0
        while True:
            page = await self.events(id, after=after, limit=READ_LIMIT, block_ms=block_ms)
            for event in page.items:
                yield event
            if page.ended or (not follow and page.last == after):
                return
            after = page.last

    async def publish(self, name: str, graph: GraphSource) -> GraphPublished:
        """Store a graph under a name: `submit(name=…)` and the step `@pipelines/name` start it."""
        return await self._call(PublishPipeline(name=name, graph=await _document_of(graph)))

    async def graph(self, name: str) -> StoredGraphView:
        """The graph that is stored under a name."""
        return await self._call(GetPipelineGraph(name=name))

    async def graphs(
        self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> StoredGraphPage:
        """The stored graphs, by name."""
        return await self._call(ListPipelineGraphs(limit=limit, cursor=cursor))

    async def delete_graph(self, name: str) -> None:
        """Delete a stored graph; pipelines of it go on."""
        await self._call(DeletePipelineGraph(name=name))

    async def settings(self) -> PipelineSettings:
        """What holds for all pipelines of the namespace."""
        return await self._call(GetPipelineSettings())

    async def configure(
        self,
        *,
        max_global_running: int | None = None,
        max_type_concurrency: Mapping[str, int] | None = None,
        event_stream: str | None = None,
    ) -> None:
        """Set what holds for all pipelines of the namespace; what is left out does not hold.

        The most nodes that run at a time, altogether and of each type; a stream that gets every
        event of every pipeline.
        """
        settings = PipelineSettings(
            max_global_running=max_global_running,
            max_type_concurrency=dict(max_type_concurrency or {}),
            event_stream=event_stream,
        )
        await self._call(ConfigurePipelines(settings=settings))

    async def call(
        self,
        id: str,
        function: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        node: str | None = None,
    ) -> dict[str, Any]:
        """Run a coordinator function of the server: `vars.set`, `metrics.aggregate` and so on."""
        command = CallPipelineFunction(
            id=id, function=function, arguments=dict(arguments or {}), node=node
        )
        return (await self._call(command)).result

    async def patch(
        self,
        id: str,
        *,
        set: Mapping[str, Any] | None = None,
        unset: tuple[str, ...] = (),
        inc: Mapping[str, float | int] | None = None,
    ) -> PipelineAffected:
        """Set, remove or add to fields of the task document by dotted paths, in one change."""
        command = PatchPipeline(id=id, set=dict(set or {}), unset=[*unset], inc=dict(inc or {}))
        return await self._call(command)

    async def record_event(
        self,
        id: str,
        node: str,
        kind: str,
        attempt_epoch: int,
        payload: Mapping[str, Any] | None = None,
        *,
        dedup_id: str = "",
    ) -> Reported:
        """Take in an event that came from elsewhere, in FlowKit's words: fenced, counted once."""
        return await self._call(
            RecordPipelineEvent(
                id=id,
                node=node,
                kind=kind,
                attempt_epoch=attempt_epoch,
                payload=dict(payload or {}),
                dedup_id=dedup_id,
            )
        )

    def _poll(self, id: str, deadline_s: float) -> asyncio.Future[PipelineEnded]:
        block_ms, timeout_s = poll_times(deadline_s)
        return self._call(WaitPipeline(id=id, block_ms=block_ms), timeout_s)


async def _document_of(graph: GraphSource) -> dict[str, Any]:
    if not isinstance(graph, Path):
        return dict(graph)
    content = await asyncio.to_thread(graph.read_bytes)
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Invalid(
            f"expected a graph as JSON in {graph}: {error}", code="invalid_graph"
        ) from error
