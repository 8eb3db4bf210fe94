"""A worker of pipelines that does what workers do to each other: dies, stalls, reports twice."""

import asyncio
import random
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec

from flo.model.base import Message
from flo.model.declare.operation import Command, Query
from flo.model.errors import FloError, Unavailable
from flo.model.ids import Namespace
from flo.model.pipelines.hashing import chunk_uid
from flo.model.pipelines.names import Verdict
from flo.model.pipelines.work import (
    AwaitNode,
    BatchFailure,
    BatchReported,
    CompleteNode,
    FailNode,
    FinishInput,
    HeartbeatNode,
    InputBatch,
    InputClaim,
    NextInput,
    NodeStart,
    PutArtifact,
    ReleaseNode,
    ReportBatch,
    WatchNode,
)
from simulator.actors.actor import SimulatedActor
from simulator.checks.invariants import Invariant
from simulator.pipelines.graphs import CHUNK, ROLES
from simulator.pipelines.reference import NodeTimeline
from simulator.world import World

LEASES_MS = (1_000, 3_000, 20_000)
REASONS = ("oops", "slow", "bad_input")

R = TypeVar("R", bound=Message)


class Abandoned(Exception):
    """The worker stops with the node, for whatever reason."""


class SimulatedPipelineWorker(SimulatedActor):
    """Runs one node after the other; each life has its own id, or the one before it."""

    def __init__(
        self,
        world: World,
        rng: random.Random,
        name: str,
        namespace: Namespace,
        *,
        diligent: bool = False,
    ) -> None:
        super().__init__(world, rng, name, namespace)
        self._is_diligent = diligent
        self._life = 1
        self._killed = False
        self._starts: list[NodeStart] = []
        """Nodes that it had; most of them are another's by now."""
        self._operations = [self._work]

    def kill(self) -> None:
        """Whatever it has under way, it stops in the middle of it, and comes back."""
        self._killed = True
        if self._rng.random() < 0.7:
            self._life += 1

    @property
    def _worker_id(self) -> str:
        return f"{self.name}.{self._life}"

    async def _ask(self, message: Command[R] | Query[R]) -> R:
        """The answer; whoever dies or hears nothing gives the node up."""
        if self._killed:
            raise Abandoned("killed")
        try:
            reply = await self._session.call(message)
        except Unavailable as error:
            self._did(type(message).__name__, error)
            raise Abandoned("unavailable") from error
        except FloError as error:
            self._refused(type(message).__name__, error, "input_not_taken", "input_in_progress")
            raise Abandoned(error.code) from error
        self._did(type(message).__name__, getattr(reply, "verdict", ""))
        if self._killed:
            raise Abandoned("killed")
        return reply

    async def _work(self) -> None:
        self._killed = False
        try:
            if self._starts and not self._is_diligent and self._rng.random() < 0.3:
                await self._report_late(self._rng.choice(self._starts))
            await self._take_one()
        except Abandoned:
            await asyncio.sleep(self._rng.random())

    async def _take_one(self) -> None:
        rng = self._rng
        roles = list(ROLES) if self._is_diligent else rng.sample(ROLES, rng.randint(1, len(ROLES)))
        command = AwaitNode(
            worker_id=self._worker_id,
            roles=roles,
            max_nodes=rng.choice((1, 1, 3)),
            lease_ms=20_000 if self._is_diligent else rng.choice(LEASES_MS),
            block_ms=20_000 if self._is_diligent else rng.choice((0, 2_000)),
            namespace=self._namespace,
        )
        for start in (await self._ask(command)).starts:
            self._starts = [*self._starts[-4:], start]
            await self._run_node(start)

    async def _report_late(self, start: NodeStart) -> None:
        """Speak for an attempt that may be over."""
        uid = f"late-{start.epoch}-{self._rng.randrange(5)}"
        command = ReportBatch(**self._at(start), batch_uid=uid, meta=b'{"count":1,"items":["x"]}')
        self._check_report(start, command, await self._ask(command))

    def _timeline(self, start: NodeStart) -> NodeTimeline | None:
        key = (self._namespace, start.id)
        pipeline = self._world.reference.pipelines.pipelines.get(key)
        return pipeline.nodes[start.node] if pipeline is not None else None

    async def _run_node(self, start: NodeStart) -> None:
        known = self._timeline(start)
        started = known is not None and known.epoch >= start.epoch
        self._world.checks.hold(Invariant.DURABLE_FIRST, started, start, known)
        try:
            inline = start.input_inline or {}
            if "batches" in inline:
                await self._make(start, inline["batches"])
            else:
                await self._read(start, inline)
        except _Failed as failed:
            await self._fail(start, failed)
            return
        await self._end(start)

    def _at(self, start: NodeStart) -> dict[str, Any]:
        at: dict[str, Any] = {"id": start.id, "node": start.node, "epoch": start.epoch}
        return {**at, "namespace": self._namespace}

    async def _make(self, start: NodeStart, count: int) -> None:
        for number in range(count):
            await self._live_on(start)
            items = [f"{start.node}-{number}-{one}" for one in range(number % 5)]
            await self._report(start, f"{start.id}-{start.node}-{number}", items)

    async def _read(self, start: NodeStart, inline: dict[str, Any]) -> None:
        sources = inline["input_args"]["from_nodes"]
        cuts = "rechunk" in inline["input_adapter"]
        while True:
            await self._live_on(start)
            command = NextInput(
                **self._at(start),
                from_nodes=sources,
                max_batches=self._rng.choice((1, 3, 10)),
                lease_id=start.lease_id,
                block_ms=20_000 if self._is_diligent else 2_000,
            )
            answer = await self._ask(command)
            self._heed(start, answer.verdict)
            for batch in answer.items:
                self._check_input(start, batch)
                await self._process(start, batch, cuts=cuts)
            if answer.end:
                return

    def _check_input(self, start: NodeStart, batch: InputBatch) -> None:
        """It is what the source has recorded."""
        pipeline = self._world.reference.pipelines.pipelines[self._namespace, start.id]
        source = pipeline.nodes[batch.from_node]
        there = batch.number < len(source.batches)
        known = (source.batches[batch.number], source.metas[batch.number]) if there else None
        same = known == (batch.batch_uid, batch.meta)
        self._world.checks.hold(Invariant.BATCHES_HANDED_ON, same, batch, known)

    async def _process(self, start: NodeStart, batch: InputBatch, *, cuts: bool) -> None:
        claim = InputClaim(from_node=batch.from_node, number=batch.number)
        items = msgspec.json.decode(batch.meta).get("items", [])
        if not cuts:
            await self._report(start, batch.batch_uid, items[:4], claim)
            return
        parts = [items[at : at + CHUNK] for at in range(0, len(items), CHUNK)]
        if not parts:
            finish = FinishInput(**self._at(start), inputs=[claim])
            self._heed(start, (await self._ask(finish)).verdict)
        for index, part in enumerate(parts):
            uid = chunk_uid(batch.from_node, batch.batch_uid, index)
            is_last = index == len(parts) - 1
            if uid not in batch.done_uids:
                await self._report(start, uid, part, claim, done=is_last)

    async def _report(
        self,
        start: NodeStart,
        uid: str,
        items: list[str],
        claim: InputClaim | None = None,
        *,
        done: bool = True,
    ) -> None:
        await self._act_up(start)
        failure = None
        if not self._is_diligent and self._rng.random() < 0.03:
            failure = BatchFailure(reason_code=self._rng.choice(REASONS))
        command = ReportBatch(
            **self._at(start),
            batch_uid=uid,
            meta=msgspec.json.encode({"count": len(items), "items": items}),
            input=claim,
            input_done=done,
            failure=failure,
        )
        reply = await self._ask(command)
        self._check_report(start, command, reply)
        if self._rng.random() < 0.1:  # the same again, as after an answer that was lost
            again, _ = await asyncio.gather(self._ask(command), self._ask(command))
            self._check_report(start, command, again)
            is_new = again.verdict is Verdict.OK and failure is None
            self._world.checks.hold(Invariant.BATCH_DONE_ONCE, not is_new, command, again)
        self._heed(start, reply.verdict)
        if failure is not None:
            raise _Failed(failure.reason_code)

    def _check_report(self, start: NodeStart, command: ReportBatch, reply: BatchReported) -> None:
        """What is acknowledged is in the log."""
        known = self._timeline(start)
        if command.failure is None and reply.verdict in (Verdict.OK, Verdict.DUPLICATE):
            recorded = known is not None and command.batch_uid in known.batches
            self._world.checks.hold(Invariant.DURABLE_FIRST, recorded, command, reply, known)

    async def _act_up(self, start: NodeStart) -> None:
        """Die, stall, or say something in between."""
        profile, rng = self._world.profile, self._rng
        if self._is_diligent:
            return
        roll = rng.random()
        if roll < profile.vanish_chance:
            raise Abandoned("vanished")
        if roll < profile.vanish_chance + profile.stall_chance:
            await asyncio.sleep(rng.random() * 5.0)
        elif rng.random() < 0.05:
            put = PutArtifact(
                **self._at(start), batch_uid="progress", meta=b'{"done":1}', progress=True
            )
            self._heed(start, (await self._ask(put)).verdict)

    async def _live_on(self, start: NodeStart) -> None:
        if self._rng.random() < 0.3:
            beat = HeartbeatNode(**self._at(start), worker_id=self._worker_id, lease_ms=5_000)
            self._heed(start, (await self._ask(beat)).verdict)
        if self._rng.random() < 0.1:
            self._heed(start, (await self._ask(WatchNode(**self._at(start)))).verdict)

    def _heed(self, start: NodeStart, verdict: Verdict) -> None:
        if verdict is Verdict.FENCED:
            raise Abandoned("fenced")
        if verdict is Verdict.CANCELLED:
            raise _Failed("cancelled")

    async def _fail(self, start: NodeStart, failed: "_Failed") -> None:
        if failed.reason == "cancelled":
            await self._ask(ReleaseNode(**self._at(start)))
            return
        permanent = self._rng.random() < 0.1
        fail = FailNode(**self._at(start), reason_code=failed.reason, permanent=permanent)
        await self._twice(self._ask(fail), fail)

    async def _end(self, start: NodeStart) -> None:
        if not self._is_diligent and self._rng.random() < 0.05:
            keep = self._rng.random() < 0.5
            await self._ask(ReleaseNode(**self._at(start), reason="stops", keep=keep))
            return
        meta = msgspec.json.encode({"count": self._rng.randint(0, 3)})
        complete = CompleteNode(**self._at(start), meta=meta)
        reply = await self._twice(self._ask(complete), complete)
        known = self._timeline(start)
        if reply.verdict in (Verdict.OK, Verdict.DUPLICATE):
            ended = known is not None and known.epoch >= start.epoch and known.status != "running"
            self._world.checks.hold(Invariant.DURABLE_FIRST, ended, complete, reply, known)

    async def _twice(self, first: Awaitable[R], message: Command[R]) -> R:
        """Now and then a report is sent again."""
        reply = await first
        if self._rng.random() < 0.1:
            await self._ask(message)
        return reply


class _Failed(Exception):
    """The attempt has failed, for this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
