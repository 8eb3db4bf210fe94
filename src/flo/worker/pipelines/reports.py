"""The results of batches on their way to the server: several at a time, so that none is waited for.

The handler works on the next batch meanwhile. A batch is done only when its report is answered.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from flo.client.handles.leased_node import LeasedNode, NodeFenced
from flo.model.errors import Rejected, Unavailable
from flo.model.pipelines.names import Verdict
from flo.model.pipelines.work import BatchFailure, BatchReported
from flo.worker.pipelines.batches import BatchResult
from flo.worker.pipelines.input.rechunk import ClaimedBatch

UNDER_WAY_MAX = 64
RETRY_S = 0.5
WAIT_BLOCK_MS = 20_000


Told: TypeAlias = Callable[[Verdict, str | None, int | None], None]


class ReportRefused(Exception):
    """A result cannot be recorded, because it is too large for example."""

    def __init__(self, refusal: Rejected) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class BatchReports:
    """`recorded` is called with each batch whose result is recorded, `told` with what each answer
    says of the run: its verdict, the reason, the deadline.
    """

    def __init__(
        self,
        node: LeasedNode,
        recorded: Callable[[ClaimedBatch], None],
        told: Told,
    ) -> None:
        self._node = node
        self._recorded = recorded
        self._told = told
        self._under_way: set[asyncio.Future[BatchReported]] = set()
        self._problem: BaseException | None = None
        self._unsent: list[tuple[ClaimedBatch, BatchResult]] = []
        self._changed = asyncio.Event()
        self._must_wait = False
        self._room_for = 1
        """How many may be under way: doubles until a consumer is too far behind."""

    async def add(self, claimed: ClaimedBatch, result: BatchResult) -> None:
        """Send a result; waits while too many are under way, or a consumer is too far behind."""
        await self._room()
        self._send(claimed, result)

    async def all_recorded(self) -> None:
        """Wait until every result is recorded."""
        while True:
            self._raise()
            await self._send_again()
            if not self._under_way:
                return
            await self._change()

    async def failed(
        self, claimed: ClaimedBatch, result: BatchResult, failure: BatchFailure
    ) -> None:
        """Send the failure of a batch, after all results are recorded."""
        uid = claimed.batch.batch_uid
        assert uid is not None
        while True:
            try:
                answer = await self._node.report(
                    uid, result.metrics, result.artifacts_ref, claimed.claim, failure=failure
                )
            except Unavailable:
                await asyncio.sleep(RETRY_S)
            except Rejected as refusal:
                raise ReportRefused(refusal) from refusal
            else:
                break
        if answer.verdict is Verdict.FENCED:
            raise NodeFenced(answer.reason)

    async def _room(self) -> None:
        while True:
            self._raise()
            await self._send_again()
            if self._must_wait:
                self._must_wait = False  # the next answer says it again
                with suppress(Unavailable):
                    await self._node.watch(WAIT_BLOCK_MS, waits=True)
            if len(self._under_way) < self._room_for:
                return
            await self._change()

    def _send(self, claimed: ClaimedBatch, result: BatchResult) -> None:
        uid = claimed.batch.batch_uid
        assert uid is not None
        sent = self._node.report(
            uid,
            result.metrics,
            result.artifacts_ref,
            claimed.claim,
            input_done=claimed.parts == 1,
        )
        self._under_way.add(sent)
        sent.add_done_callback(lambda answered: self._answered(answered, claimed, result))

    def _answered(
        self, sent: asyncio.Future[BatchReported], claimed: ClaimedBatch, result: BatchResult
    ) -> None:
        self._under_way.discard(sent)
        self._changed.set()
        if sent.cancelled():
            return
        problem = sent.exception()
        if isinstance(problem, Unavailable):  # it may be sent again: the server counts it once
            self._unsent.append((claimed, result))
        elif problem is not None:
            refused = ReportRefused(problem) if isinstance(problem, Rejected) else problem
            self._problem = self._problem or refused
        elif sent.result().verdict is Verdict.FENCED:
            self._problem = self._problem or NodeFenced(sent.result().reason)
        else:
            answer = sent.result()
            if answer.verdict is not Verdict.CANCELLED:
                self._recorded(claimed)
            self._must_wait = answer.wait
            self._room_for = 1 if answer.wait else min(self._room_for * 2, UNDER_WAY_MAX)
            self._told(answer.verdict, answer.reason, answer.deadline_at_ms)

    async def _send_again(self) -> None:
        if self._unsent:
            await asyncio.sleep(RETRY_S)
            unsent, self._unsent = self._unsent, []
            for claimed, result in unsent:
                self._send(claimed, result)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _raise(self) -> None:
        if self._problem is not None:
            raise self._problem
