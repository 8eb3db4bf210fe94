"""Run a role handler over given batches, without a server.

    run = await run_handler(Enrich(), sources={"index": [{"skus": [1, 2, 3]}]}, input_inline={
        "input_adapter": "pull.from_artifacts.rechunk:size",
        "input_args": {"from_node": "index", "size": 2, "meta_list_key": "skus"},
    })
    assert run.status == "finished"
    assert [result.metrics for result in run.results] == [{"count": 2}, {"count": 1}]

It is the run of a real worker: the same order of calls, checks, reason codes and cleanup.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

import msgspec

from flo.client.handles.leased_node import LeasedNode
from flo.model.declare.operation import Command, Query
from flo.model.errors import NotFound
from flo.model.pipelines.names import Reported, Verdict
from flo.model.pipelines.work import (
    BatchReported,
    CompleteNode,
    FailNode,
    FinishInput,
    HeartbeatNode,
    InputBatch,
    InputBatches,
    NextInput,
    NodeStart,
    PutArtifact,
    ReleaseNode,
    ReportBatch,
    WatchNode,
)
from flo.worker.pipelines.cancel import CancelSource
from flo.worker.pipelines.clock import RunClock, WallClock
from flo.worker.pipelines.events import EventLog
from flo.worker.pipelines.handler import RoleHandler
from flo.worker.pipelines.input.adapters import PULL, RECHUNK, InputAdapter, PullDefaults
from flo.worker.pipelines.run import NodeRun, RunSettings

R = TypeVar("R")

HandlerStatus = Literal["running", "finished", "failed", "cancelled"]


@dataclass
class RecordedBatch:
    """The result of one batch, as the server would have recorded it."""

    batch_uid: str
    metrics: dict[str, Any]
    artifacts_ref: dict[str, Any] | None = None
    reason_code: str | None = None
    """Why it failed; None if it did not."""
    permanent: bool = False
    error: str | None = None


@dataclass
class HandlerRun:
    """What a handler did. `finalized` is what it said at the end, `progress` what it wrote with
    `ctx.artifacts`, `done_inputs` the source and number of each batch that is done with.
    """

    status: HandlerStatus = "running"
    results: list[RecordedBatch] = field(default_factory=list)
    finalized: dict[str, Any] | None = None
    artifacts_ref: dict[str, Any] | None = None
    reason_code: str | None = None
    permanent: bool = False
    error: str | None = None
    progress: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    done_inputs: list[tuple[str, int]] = field(default_factory=list)


async def run_handler(
    handler: RoleHandler,
    *,
    sources: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    input_ref: dict[str, Any] | None = None,
    input_inline: dict[str, Any] | None = None,
    input_adapters: Mapping[str, InputAdapter] | None = None,
    recorded: Mapping[str, Sequence[str]] | None = None,
    cancel_after: int | None = None,
    cancel_reason: str = "test",
    strict: bool = False,
    attempt_epoch: int = 1,
    clock: RunClock | None = None,
    log: EventLog | None = None,
) -> HandlerRun:
    """One attempt of a node. `sources` has the metas of the batches of each upstream node, whose
    uids are b0, b1 and so on; `recorded` has, by uid, the parts of a batch that are recorded.

    The run is cancelled once `cancel_after` results are recorded; 0 is at once.
    """
    upstream = FakeUpstream(sources or {}, recorded or {}, cancel_after, cancel_reason)
    start = NodeStart(
        id="test",
        node=handler.role or "node",
        role=handler.role,
        epoch=attempt_epoch,
        lease_id="lease",
        lease_expires_at_ms=0,
        input_ref=input_ref,
        input_inline=input_inline,
    )
    settings = RunSettings(
        handlers={handler.role: handler},
        input_adapters={PULL: None, RECHUNK: None, **(input_adapters or {})},
        pull=PullDefaults(strict=strict),
        clock=clock or WallClock(),
        log=log or EventLog(),
        heartbeat_interval_s=1.0,
        lease_s=60.0,
        cancel_grace_s=10.0,
        keeps_on_shutdown=False,
    )
    run = NodeRun(LeasedNode(upstream, start, "test-worker", 60_000), settings)
    if cancel_after == 0:
        run.cancel(CancelSource.SERVER, cancel_reason)
    await asyncio.create_task(run.perform())
    return upstream.run


class FakeUpstream:
    """Answers what the run of one node says and asks."""

    def __init__(
        self,
        sources: Mapping[str, Sequence[Mapping[str, Any]]],
        recorded: Mapping[str, Sequence[str]],
        cancel_after: int | None,
        cancel_reason: str,
    ) -> None:
        self.run = HandlerRun()
        self._sources = sources
        self._cancel_after = cancel_after
        self._cancel_reason = cancel_reason
        self._waiting = {
            (name, number): InputBatch(
                from_node=name,
                number=number,
                batch_uid=f"b{number}",
                meta=msgspec.json.encode(meta),
                artifacts_ref=None,
                created_at_ms=0,
                done_uids=list(recorded.get(f"b{number}", ())),
            )
            for name, metas in sources.items()
            for number, meta in enumerate(metas)
        }
        self._handed: set[tuple[str, int]] = set()

    async def __call__(self, message: Command[R] | Query[R]) -> R:
        return cast(R, await self._answer(message))

    async def _answer(self, message: Any) -> Any:
        match message:
            case HeartbeatNode():
                return Reported()
            case WatchNode():
                await asyncio.sleep(message.block_ms / 1_000)
                return Reported()
            case NextInput():
                return self._next_input(message)
            case ReportBatch():
                return self._recorded(message)
            case FinishInput():
                self.run.done_inputs += [(one.from_node, one.number) for one in message.inputs]
            case PutArtifact():
                self.run.progress.append((message.batch_uid, msgspec.json.decode(message.meta)))
            case _:
                self._ended(message)
        return Reported()

    def _next_input(self, message: NextInput) -> InputBatches:
        for name in message.from_nodes:
            if name not in self._sources:
                raise NotFound(f"there is no node {name!r} in this graph", code="unknown_node")
        items = [
            self._waiting[key]
            for name in message.from_nodes
            for key in self._waiting
            if key[0] == name and key not in self._handed
        ][: message.max_batches]
        self._handed |= {(item.from_node, item.number) for item in items}
        return InputBatches(items=items, end=not items)

    def _recorded(self, message: ReportBatch) -> BatchReported:
        failure = message.failure
        self.run.results.append(
            RecordedBatch(
                message.batch_uid,
                msgspec.json.decode(message.meta),
                _decoded(message.artifacts_ref),
                failure.reason_code if failure is not None else None,
                failure is not None and failure.permanent,
                failure.error if failure is not None else None,
            )
        )
        if failure is None and message.input is not None and message.input_done:
            self.run.done_inputs.append((message.input.from_node, message.input.number))
        if self._cancel_after is not None and len(self.run.results) >= self._cancel_after:
            return BatchReported(verdict=Verdict.CANCELLED, reason=self._cancel_reason)
        return BatchReported()

    def _ended(self, message: Any) -> None:
        run = self.run
        match message:
            case CompleteNode():
                run.status = "finished"
                run.finalized = msgspec.json.decode(message.meta)
                run.artifacts_ref = _decoded(message.artifacts_ref)
            case FailNode():
                run.status = "failed"
                run.reason_code, run.permanent = message.reason_code, message.permanent
                run.error = message.error
            case ReleaseNode():
                run.status, run.reason_code = "cancelled", message.reason
            case _:
                raise AssertionError(f"a run says no {type(message).__name__}")


def _decoded(reference: bytes | None) -> dict[str, Any] | None:
    return None if reference is None else msgspec.json.decode(reference)
