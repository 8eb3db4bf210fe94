"""Keeps the lease of a node, and hears at once when its run is to stop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from flo.client.handles.leased_node import LeasedNode, NodeFenced
from flo.model.errors import FloError
from flo.model.pipelines.names import Reported, Verdict
from flo.worker.pipelines.cancel import CancelSource
from flo.worker.pipelines.events import EventLog

WATCH_BLOCK_MS = 30_000
RETRY_S = 0.5

Cancel: TypeAlias = Callable[[CancelSource, str, int | None], None]


class LeaseKeeper:
    def __init__(
        self,
        node: LeasedNode,
        cancel: Cancel,
        log: EventLog,
        *,
        interval_s: float,
        lease_s: float,
    ) -> None:
        self._node = node
        self._cancel = cancel
        self._log = log
        self._interval_s = interval_s
        self._lease_s = lease_s

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(self._keep(self._beat)),
            asyncio.create_task(self._keep(self._watch)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    def told(self, verdict: Verdict, reason: str | None, deadline_ms: int | None) -> None:
        """What any answer says of the run."""
        if verdict is Verdict.CANCELLED:
            self._cancel(CancelSource.SERVER, reason or "cancelled", deadline_ms)

    async def _keep(self, go_on: Callable[[], Awaitable[None]]) -> None:
        """Do it for ever; stop the run when the lease is gone, here or there."""
        loop = asyncio.get_running_loop()
        held_until_s = loop.time() + self._lease_s
        while True:
            try:
                await go_on()
                held_until_s = loop.time() + self._lease_s
            except NodeFenced as fenced:
                self._cancel(CancelSource.LEASE, str(fenced) or "fenced", None)
                return
            except FloError as error:
                self._log.warning("worker.lease.unanswered", error=str(error), code=error.code)
                if loop.time() >= held_until_s:
                    self._cancel(CancelSource.LEASE, "lease_expired", None)
                    return
                await asyncio.sleep(min(RETRY_S, self._interval_s))

    async def _beat(self) -> None:
        self._log.debug("worker.send.hb")
        self._tell(await self._node.heartbeat())
        await asyncio.sleep(self._interval_s)

    async def _watch(self) -> None:
        answer = await self._node.watch(WATCH_BLOCK_MS)
        self._tell(answer)
        if answer.verdict is Verdict.CANCELLED:
            await asyncio.sleep(self._interval_s)

    def _tell(self, answer: Reported) -> None:
        self.told(answer.verdict, answer.reason, answer.deadline_at_ms)
