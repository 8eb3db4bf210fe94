"""The batches of upstream nodes, pulled from the server while the handler works on earlier ones.

    next_input ──▸ held ──▸ handed to the handler ──▸ recorded ──▸ done
                               └── led to no batch ────────────────┘

What is held is named in every request, so that an answer that was lost is given again.
"""

import asyncio
from collections import deque
from collections.abc import Iterable

from flo.client.handles.leased_node import LeasedNode
from flo.model.errors import Rejected, Unavailable
from flo.model.pipelines.names import Verdict
from flo.model.pipelines.work import InputBatch, InputBatches, InputClaim
from flo.worker.pipelines.events import EventLog
from flo.worker.pipelines.input.adapters import BAD_INPUT_ARGS, BadInput, PullArgs
from flo.worker.pipelines.input.rechunk import (
    ClaimedBatch,
    ClaimedBatches,
    claim_of,
    passed_on,
    rechunked,
)

PAGE_BATCHES_MAX = 64
BLOCK_MS = 20_000
FINISHED_PER_CALL_MAX = 64
RETRY_S = 0.5


class PulledInput:
    def __init__(self, node: LeasedNode, args: PullArgs, log: EventLog) -> None:
        self._node = node
        self._args = args
        self._log = log
        self._ready: deque[InputBatch] = deque()
        self._fetching: asyncio.Task[InputBatches] | None = None
        self._has_ended = False
        self._held: dict[tuple[str, int], int] = {}
        """Source and number of each batch that is held, with how many results are to come."""
        self._finished: list[InputClaim] = []
        """Those that are done and of which the server has not been told."""

    async def batches(self) -> ClaimedBatches:
        """Ends when all sources have, and tells the server what led to no batch."""
        try:
            while await self._has_more():
                source = self._ready.popleft()
                if len(self._ready) < PAGE_BATCHES_MAX // 2:
                    self._fetch_ahead()
                is_empty = True
                for claimed in self._cut(source):
                    if is_empty:
                        self._held[source.from_node, source.number] = claimed.parts
                    is_empty = False
                    self._log.debug("worker.adapter.batch", batch_uid=claimed.batch.batch_uid)
                    yield claimed
                if is_empty:
                    await self._finish(claim_of(source))
        finally:
            self.stop()

    def recorded(self, claimed: ClaimedBatch) -> None:
        """The result of a batch is recorded."""
        if claimed.claim is None:
            return
        key = (claimed.claim.from_node, claimed.claim.number)
        self._held[key] -= 1
        if not self._held[key]:
            if claimed.parts > 1:  # no single result could say that all of them are recorded
                self._finished.append(claimed.claim)
            else:
                del self._held[key]

    async def all_finished(self) -> None:
        """Tell the server of all that is done."""
        while self._finished:
            await self._tell_finished()

    def stop(self) -> None:
        fetching = self._fetching
        if fetching is not None and not fetching.cancel() and not fetching.cancelled():
            fetching.exception()  # nobody needs it any more

    def _cut(self, source: InputBatch) -> Iterable[ClaimedBatch]:
        if self._args.size is None:
            return (passed_on(source, self._node.start.id),)
        return rechunked(source, self._args.size, self._args.meta_list_key)

    async def _finish(self, claim: InputClaim) -> None:
        self._finished.append(claim)
        if len(self._finished) >= FINISHED_PER_CALL_MAX:
            await self._tell_finished()

    async def _tell_finished(self) -> None:
        some = self._finished[:FINISHED_PER_CALL_MAX]
        while not await self._is_told(some):
            pass
        del self._finished[: len(some)]
        for claim in some:
            self._held.pop((claim.from_node, claim.number), None)

    async def _is_told(self, some: list[InputClaim]) -> bool:
        try:
            await self._node.finish_input(some)
        except Unavailable as error:
            self._log.warning("worker.input.unanswered", error=str(error), code=error.code)
            await asyncio.sleep(RETRY_S)
            return False
        return True

    async def _has_more(self) -> bool:
        """Whether another batch is ready; waits for one, or for the end of all sources."""
        while not self._ready and not self._has_ended:
            fetching = self._fetch_ahead()
            if self._finished and not fetching.done():  # there is time to
                await self._tell_finished()
            page = await self._page(fetching)
            self._ready.extend(page.items)
            for source in page.items:
                self._held[source.from_node, source.number] = 1
            if not page.items:
                self._log.debug("worker.upstream.status", upstream_empty=True)
            if page.end and not page.items:
                await self._end()
            elif page.verdict is Verdict.CANCELLED:
                await asyncio.sleep(self._args.poll_ms / 1_000)  # the run is told to stop elsewhere
        return bool(self._ready)

    async def _end(self) -> None:
        if self._args.eof_on_task_done:
            self._has_ended = True
        else:  # the run goes on until it is cancelled; a source that runs again has more
            await asyncio.sleep(max(self._args.poll_ms, self._args.backoff_max_ms) / 1_000)

    async def _page(self, fetching: asyncio.Task[InputBatches]) -> InputBatches:
        try:
            return await fetching
        finally:
            self._fetching = None

    def _fetch_ahead(self) -> asyncio.Task[InputBatches]:
        """The request for the next page; the one that is under way, if there is one."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
        return self._fetching

    async def _fetch(self) -> InputBatches:
        while True:
            try:
                return await self._node.next_input(
                    list(self._args.from_nodes), list(self._held), PAGE_BATCHES_MAX, BLOCK_MS
                )
            except Unavailable as error:
                self._log.warning("worker.input.unanswered", error=str(error), code=error.code)
                await asyncio.sleep(RETRY_S)
            except Rejected as refusal:  # a node that does not exist, for example
                raise BadInput(BAD_INPUT_ARGS, refusal.message) from refusal
