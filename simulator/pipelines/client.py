"""Somebody who submits pipelines, looks at them, cancels them and tries them again."""

import random
from typing import TypeVar

from flo.model.base import Message
from flo.model.declare.operation import Command, Query
from flo.model.errors import FloError
from flo.model.ids import Namespace
from flo.model.pipelines.pipelines import (
    CallPipelineFunction,
    CancelPipeline,
    ConfigurePipelines,
    DeletePipelineGraph,
    GetPipeline,
    GetPipelineGraph,
    GetPipelineSettings,
    ListArtifacts,
    ListPipelineGraphs,
    ListPipelines,
    PatchPipeline,
    PipelineSettings,
    PublishPipeline,
    ReadPipelineEvents,
    RetryPipeline,
    SubmitPipeline,
    WaitPipeline,
)
from flo.model.pipelines.work import RecordPipelineEvent
from simulator.actors.actor import SimulatedActor
from simulator.checks.invariants import Invariant
from simulator.pipelines.graphs import ROLES, draw_graph
from simulator.world import World

KNOWN_CODES = (
    "pipeline_has_ended",
    "pipeline_not_found",
    "nothing_to_retry",
    "pipeline_graph_not_found",
    "pipeline_node_not_found",
    "unknown_event_kind",
    "invalid_event_payload",
    "input_in_progress",
)
R = TypeVar("R", bound=Message)

KINDS = ("TASK_HEARTBEAT", "BATCH_OK", "TASK_FAILED", "CANCELLED")


class SimulatedPipelineClient(SimulatedActor):
    def __init__(self, world: World, rng: random.Random, name: str, namespace: Namespace) -> None:
        super().__init__(world, rng, name, namespace)
        self._ids: list[str] = []
        self._operations = [
            *[self._submit] * 20,
            *[self._look] * 10,
            *[self._wait] * 5,
            *[self._list] * 4,
            *[self._read_journal] * 8,
            *[self._cancel] * 2,
            *[self._retry] * 3,
            *[self._change] * 4,
            *[self._forge] * 3,
            self._configure,
            self._graphs,
        ]

    async def _ask(self, message: Command[R] | Query[R]) -> R | None:
        """The answer, unless it is refused for a reason that is known."""
        try:
            reply = await self._session.call(message)
        except FloError as error:
            self._refused(type(message).__name__, error, *KNOWN_CODES)
            return None
        self._did(type(message).__name__, "")
        return reply

    def _some_id(self) -> str:
        return self._rng.choice(self._ids) if self._ids else "pipe-1"

    async def _submit(self) -> None:
        rng = self._rng
        command = SubmitPipeline(
            graph=draw_graph(rng),
            idempotency_key=f"key-{rng.randrange(200)}" if rng.random() < 0.3 else None,
            id=f"{self.name}-{len(self._ids)}-{rng.randrange(1_000)}"
            if rng.random() < 0.3
            else None,
            timeout_ms=rng.choice((None, None, None, 30_000)),
            soft_ms=rng.choice((None, 5_000)),
            cancel_grace_ms=rng.choice((0, 1_000, 10_000)),
            backlog_max=rng.choice((None, 2)),
            namespace=self._namespace,
        )
        reply = await self._ask(command)
        if reply is not None:
            known = self._world.reference.pipelines.pipelines.get((self._namespace, reply.id))
            self._world.checks.hold(Invariant.DURABLE_FIRST, known is not None, command, reply)
            self._ids.append(reply.id)

    async def _look(self) -> None:
        pipeline_id = self._some_id()
        view = await self._ask(GetPipeline(id=pipeline_id, namespace=self._namespace))
        known = self._world.reference.pipelines.pipelines.get((self._namespace, pipeline_id))
        if view is not None and known is not None:
            made = {one.node_id: one.batches for one in view.nodes}
            seen = all(count <= len(known.nodes[name].batches) for name, count in made.items())
            self._world.checks.hold(Invariant.DURABLE_FIRST, seen, made, known)

    async def _wait(self) -> None:
        await self._ask(WaitPipeline(id=self._some_id(), block_ms=2_000, namespace=self._namespace))

    async def _list(self) -> None:
        await self._ask(ListPipelines(limit=self._rng.randint(1, 20), namespace=self._namespace))
        await self._ask(GetPipelineSettings(namespace=self._namespace))

    async def _read_journal(self) -> None:
        pipeline_id = self._some_id()
        kind = self._rng.choice((ListArtifacts, ReadPipelineEvents))
        after, block_ms = self._rng.choice((0, 3, 50)), self._rng.choice((0, 1_000))
        await self._ask(
            kind(id=pipeline_id, after=after, block_ms=block_ms, namespace=self._namespace)
        )

    async def look_at_everything(self) -> None:
        """Every artifact that was recorded is there, in order, with the bytes it was made with."""
        pipelines = self._world.reference.pipelines.pipelines
        for (namespace, pipeline_id), timeline in list(pipelines.items()):
            if namespace != self._namespace:
                continue
            found: dict[str, list[tuple[str | None, bytes]]] = {}
            after = 0
            while True:
                query = ListArtifacts(
                    id=pipeline_id, after=after, limit=100, namespace=self._namespace
                )
                page = await self._session.call(query)
                for one in page.items:
                    if one.status == "partial" and one.batch_uid != "progress":
                        found.setdefault(one.node_id, []).append((one.batch_uid, one.meta))
                if page.ended or page.last == after:
                    break
                after = page.last
            for name, node in timeline.nodes.items():
                expected = list(zip(node.batches, node.metas, strict=True))
                same = found.get(name, []) == expected
                self._world.checks.hold(Invariant.BATCHES_STORED, same, timeline, name)

    async def _cancel(self) -> None:
        await self._ask(CancelPipeline(id=self._some_id(), namespace=self._namespace))

    async def _retry(self) -> None:
        node = self._rng.choice((None, None, f"n{self._rng.randrange(3)}"))
        await self._ask(RetryPipeline(id=self._some_id(), node=node, namespace=self._namespace))

    async def _change(self) -> None:
        pipeline_id = self._some_id()
        if self._rng.random() < 0.5:
            call = CallPipelineFunction(
                id=pipeline_id,
                function="vars.set",
                arguments={"kv": {"a.b": self._rng.randrange(9)}},
                namespace=self._namespace,
            )
            await self._ask(call)
        else:
            patch = PatchPipeline(id=pipeline_id, inc={"hits": 1}, namespace=self._namespace)
            await self._ask(patch)

    async def _forge(self) -> None:
        """An event from outside, mostly of an attempt that is over."""
        forged = RecordPipelineEvent(
            id=self._some_id(),
            node=f"n{self._rng.randrange(3)}",
            kind=self._rng.choice(KINDS),
            attempt_epoch=self._rng.choice((7, 99)),
            payload={"batch_uid": "forged", "metrics": {"count": 1}},
            dedup_id="forged",
            namespace=self._namespace,
        )
        await self._ask(forged)

    async def _configure(self) -> None:
        settings = PipelineSettings(
            max_global_running=self._rng.choice((None, 2, 10)),
            max_type_concurrency=self._rng.choice(({}, {self._rng.choice(ROLES): 1})),
        )
        await self._ask(ConfigurePipelines(settings=settings, namespace=self._namespace))

    async def remove_limits(self) -> None:
        await self._ask(ConfigurePipelines(settings=PipelineSettings(), namespace=self._namespace))

    async def _graphs(self) -> None:
        name, rng = f"graph-{self._rng.randrange(3)}", self._rng
        await self._ask(
            PublishPipeline(name=name, graph=draw_graph(rng), namespace=self._namespace)
        )
        reply = await self._ask(SubmitPipeline(name=name, namespace=self._namespace))
        if reply is not None:
            self._ids.append(reply.id)
        await self._ask(GetPipelineGraph(name=name, namespace=self._namespace))
        await self._ask(ListPipelineGraphs(namespace=self._namespace))
        if rng.random() < 0.5:
            await self._ask(DeletePipelineGraph(name=name, namespace=self._namespace))
