"""A node in the hands of a worker: what is said about it always names its attempt and its lease."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol

import msgspec

from flo.model.declare.operation import Command, Query, R
from flo.model.pipelines.names import OfNode, Reported, Verdict
from flo.model.pipelines.work import (
    BatchFailure,
    BatchReported,
    CompleteNode,
    FailNode,
    FinishInput,
    HeartbeatNode,
    InputBatches,
    InputClaim,
    NextInput,
    NodeStart,
    PutArtifact,
    ReleaseNode,
    ReportBatch,
    WatchNode,
)


class NodeFenced(Exception):
    """The node is another's by now, or has ended: nothing counts that this run reports."""


class CallOperation(Protocol):
    """Who answers operations: a client, or in a test of a handler a list of batches."""

    def __call__(self, message: Command[R] | Query[R]) -> Awaitable[R]: ...


class LeasedNode:
    """Each call raises NodeFenced when the lease is gone; a cancel is in the verdict."""

    def __init__(
        self, call: CallOperation, start: NodeStart, worker_id: str, lease_ms: int
    ) -> None:
        self.start = start
        self._call = call
        self._lease_ms = lease_ms
        self.worker_id = worker_id
        self._named: dict[str, Any] = {
            "id": start.id,
            "node": start.node,
            "epoch": start.epoch,
            "lease_id": start.lease_id,
        }
        self._signed: dict[str, Any] = {**self._named, "worker_id": worker_id}

    @property
    def key(self) -> OfNode:
        return self.start.id, self.start.node, self.start.epoch

    async def heartbeat(self) -> Reported:
        return _counted(await self._call(HeartbeatNode(**self._signed, lease_ms=self._lease_ms)))

    async def watch(self, block_ms: int, *, waits: bool = False) -> Reported:
        """Wait for a cancel, or with `waits` until no consumer is too far behind."""
        return _counted(await self._call(WatchNode(**self._named, block_ms=block_ms, waits=waits)))

    async def next_input(
        self,
        from_nodes: list[str],
        holds: list[tuple[str, int]],
        max_batches: int,
        block_ms: int,
    ) -> InputBatches:
        answer = await self._call(
            NextInput(
                **self._named,
                from_nodes=from_nodes,
                holds=holds,
                max_batches=max_batches,
                block_ms=block_ms,
            )
        )
        if answer.verdict is Verdict.FENCED:
            raise NodeFenced(answer.reason)
        return answer

    def report(
        self,
        batch_uid: str,
        metrics: dict[str, Any],
        artifacts_ref: dict[str, Any] | None,
        claim: InputClaim | None,
        *,
        input_done: bool = True,
        failure: BatchFailure | None = None,
    ) -> asyncio.Future[BatchReported]:
        """Send the result of a batch; many may be under way. A fenced one is in the verdict."""
        return asyncio.ensure_future(
            self._call(
                ReportBatch(
                    **self._signed,
                    batch_uid=batch_uid,
                    meta=msgspec.json.encode(metrics),
                    artifacts_ref=_reference(artifacts_ref),
                    input=claim,
                    input_done=input_done,
                    failure=failure,
                )
            )
        )

    async def finish_input(self, inputs: list[InputClaim]) -> None:
        _counted(await self._call(FinishInput(**self._named, inputs=inputs)))

    async def complete(
        self, metrics: dict[str, Any], artifacts_ref: dict[str, Any] | None
    ) -> Reported:
        return _counted(
            await self._call(
                CompleteNode(
                    **self._signed,
                    meta=msgspec.json.encode(metrics),
                    artifacts_ref=_reference(artifacts_ref),
                )
            )
        )

    async def fail(self, failure: BatchFailure) -> None:
        _counted(await self._call(FailNode(**self._signed, **msgspec.structs.asdict(failure))))

    async def release(self, reason: str, *, keep: bool = False) -> None:
        """The run was stopped; with `keep`, the node stays this worker's for its lease."""
        _counted(await self._call(ReleaseNode(**self._signed, reason=reason, keep=keep)))

    async def put_artifact(self, batch_uid: str, meta: dict[str, Any]) -> None:
        """Show how far a batch is, before its result."""
        _counted(
            await self._call(
                PutArtifact(
                    **self._signed,
                    batch_uid=batch_uid,
                    meta=msgspec.json.encode(meta),
                    progress=True,
                )
            )
        )


def _counted(answer: Reported) -> Reported:
    if answer.verdict is Verdict.FENCED:
        raise NodeFenced(answer.reason)
    return answer


def _reference(artifacts_ref: dict[str, Any] | None) -> bytes | None:
    return None if artifacts_ref is None else msgspec.json.encode(artifacts_ref)
