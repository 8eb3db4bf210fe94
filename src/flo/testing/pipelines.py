"""Run a graph with real handlers, its time in the test's hands.

    done = await run_graph(GRAPH, Index(), Enrich())
    assert done.status == "finished"
    assert done.metas("enrich") == [{"count": 2}, {"count": 1}]
    assert done.took == timedelta(minutes=5)    # a retry has waited; nobody slept

It is the engine itself, on a log in memory and without sockets. Every node that is ready runs at
once. When nothing runs, time moves on to the next moment at which something falls due.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import msgspec

from flo.client.handles.leased_node import LeasedNode, NodeFenced
from flo.log.memory import MemoryLog
from flo.model.declare.operation import Command, Query, R
from flo.model.pipelines.names import (
    COORDINATOR_ROLE,
    PIPELINE_ENDED,
    NodeStatus,
    PipelineStatus,
)
from flo.model.pipelines.pipelines import GetPipeline, ListArtifacts, SubmitPipeline
from flo.model.pipelines.views import ArtifactView, NodeView, PipelineView
from flo.model.pipelines.work import (
    NODES_PER_AWAIT_MAX,
    AwaitNode,
    BatchFailure,
    NodeStart,
    NodeStarts,
)
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.testing.clock import NOON_MS, ManualClock
from flo.worker.pipelines.events import EventLog
from flo.worker.pipelines.handler import RoleHandler
from flo.worker.pipelines.input.adapters import PULL, RECHUNK, InputAdapter, PullDefaults
from flo.worker.pipelines.run import NodeRun, RunSettings

WORKER = "test-worker"
DAY_MS = 24 * 3_600_000
ARTIFACTS_PAGE = 1_000
MOMENTS_MAX = 100_000
"""So many moments are lived through before a graph is given up."""

PipelineFunction = Callable[..., Awaitable[Any]]
"""A coordinator function of the user: called with the pipeline's id and its arguments."""


class GraphRun(NamedTuple):
    """A pipeline that has ended, and how long that took on the clock of the test."""

    view: PipelineView
    artifacts: list[ArtifactView]
    took: timedelta

    @property
    def status(self) -> PipelineStatus:
        return self.view.status

    @property
    def vars(self) -> dict[str, Any]:
        return self.view.vars

    def node(self, node_id: str) -> NodeView:
        return next(node for node in self.view.nodes if node.node_id == node_id)

    def metas(self, node_id: str) -> list[dict[str, Any]]:
        """The meta of each batch of a node that has a result, in their order."""
        return [
            msgspec.json.decode(artifact.meta)
            for artifact in self.artifacts
            if artifact.node_id == node_id and artifact.status == "partial"
        ]


async def run_graph(
    graph: dict[str, Any],
    *handlers: RoleHandler,
    params: dict[str, Any] | None = None,
    functions: Mapping[str, PipelineFunction] | None = None,
    input_adapters: Mapping[str, InputAdapter] | None = None,
    lenient: bool = False,
    seed: int = 0,
) -> GraphRun:
    """Submit a graph and run it to its end; AssertionError if it comes to none."""
    clock = ManualClock(NOON_MS)
    log = MemoryLog()
    shard = Shard(recover(log.read).state, log, clock, rng=random.Random(seed))
    await shard.start()
    try:
        test = _Test(shard, clock, handlers, functions or {}, input_adapters or {})
        submitted = await test.call(
            SubmitPipeline(graph=graph, params=params or {}, lenient=lenient)
        )
        view = await test.run(submitted.id)
        artifacts = await test.artifacts(submitted.id)
    finally:
        await shard.stop()
    return GraphRun(view, artifacts, timedelta(milliseconds=clock.now_ms() - NOON_MS))


class _HandlerClock:
    """The clock of the test, as handlers see it: to sleep is to let time pass."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def now_dt(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms() / 1_000, UTC)

    async def sleep_ms(self, ms: float) -> None:
        self._clock.advance(round(ms))
        await asyncio.sleep(0)


class _Test:
    def __init__(
        self,
        shard: Shard,
        clock: ManualClock,
        handlers: tuple[RoleHandler, ...],
        functions: Mapping[str, PipelineFunction],
        input_adapters: Mapping[str, InputAdapter],
    ) -> None:
        self._shard = shard
        self._clock = clock
        self._functions = functions
        self._roles = [handler.role for handler in handlers]
        if functions:
            self._roles.append(COORDINATOR_ROLE)
        self._settings = RunSettings(
            handlers={handler.role: handler for handler in handlers},
            input_adapters={PULL: None, RECHUNK: None, **input_adapters},
            pull=PullDefaults(),
            clock=_HandlerClock(clock),
            log=EventLog(),
            heartbeat_interval_s=DAY_MS / 1_000,
            lease_s=DAY_MS / 1_000,
            cancel_grace_s=10.0,
            keeps_on_shutdown=False,
        )
        self._runs: dict[asyncio.Task[None], LeasedNode] = {}

    async def call(self, message: Command[R] | Query[R]) -> R:
        return cast(R, await self._shard.ask(message))

    async def run(self, pipeline_id: str) -> PipelineView:
        try:
            for _ in range(MOMENTS_MAX):
                self._begin(await self.call(self._question(block_ms=0)))
                if self._runs:
                    await self._until_something_happens()
                    continue
                view = await self.call(GetPipeline(id=pipeline_id))
                if view.status in PIPELINE_ENDED:
                    return view
                self._leap(view)
        finally:
            for task in self._runs:
                task.cancel()
        raise AssertionError(f"expected pipeline {pipeline_id} to end: it goes on and on")

    async def artifacts(self, pipeline_id: str) -> list[ArtifactView]:
        found: list[ArtifactView] = []
        after = 0
        while True:
            page = await self.call(ListArtifacts(id=pipeline_id, after=after, limit=ARTIFACTS_PAGE))
            found += page.items
            if page.last <= after:
                return found
            after = page.last

    def _question(self, block_ms: int) -> AwaitNode:
        return AwaitNode(
            worker_id=WORKER,
            roles=self._roles,
            holds=[node.key for node in self._runs.values()],
            max_nodes=NODES_PER_AWAIT_MAX,
            lease_ms=DAY_MS,
            block_ms=block_ms,
        )

    def _begin(self, answer: NodeStarts) -> None:
        for start in answer.starts:
            node = LeasedNode(self.call, start, WORKER, DAY_MS)
            task = asyncio.create_task(self._perform(node, start))
            self._runs[task] = node

    async def _perform(self, node: LeasedNode, start: NodeStart) -> None:
        if start.role != COORDINATOR_ROLE:
            await NodeRun(node, self._settings).perform()
            return
        try:
            await self._functions[start.function or ""](start.id, **start.arguments)
        except Exception as error:
            await node.fail(BatchFailure(reason_code=type(error).__name__, error=repr(error)))
        else:
            await node.complete({}, None)

    async def _until_something_happens(self) -> None:
        """Wait for the end of a run, or for another node to run."""
        asking = asyncio.ensure_future(self.call(self._question(block_ms=60_000)))
        done, _ = await asyncio.wait({asking, *self._runs}, return_when=asyncio.FIRST_COMPLETED)
        if asking in done:
            self._begin(asking.result())
        else:  # a start that it might have had is answered again
            asking.cancel()
        for task in [task for task in self._runs if task.done()]:
            del self._runs[task]
            try:
                task.result()
            except NodeFenced:
                continue

    def _leap(self, view: PipelineView) -> None:
        at_ms = self._shard.state.due.next_at_ms()
        if at_ms is None:
            left = [node.node_id for node in view.nodes if node.status is NodeStatus.QUEUED]
            raise AssertionError(
                f"expected the pipeline to end, but it is {view.status}, and nothing falls due: "
                f"{', '.join(left)} wait for handlers ({', '.join(self._roles)}) or for nodes"
            )
        self._clock.leap(max(0, at_ms - self._clock.now_ms()))
