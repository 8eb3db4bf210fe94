"""The work of a pipeline worker: ask for nodes while slots are free, and run them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from flo.client.handles.leased_node import LeasedNode, NodeFenced
from flo.client.workers import Workers
from flo.model.errors import Unavailable
from flo.model.ids import RunId, WorkerId
from flo.model.pipelines.work import NODES_PER_AWAIT_MAX
from flo.model.workers import HeldTask
from flo.worker.lifecycle import RETRY_S, LifecyclePolicy
from flo.worker.logs import log_trouble
from flo.worker.pipelines.cancel import CancelSource
from flo.worker.pipelines.run import NodeRun, RunSettings
from flo.worker.slots import ConcurrencySlots
from flo.worker.watchdog import Running, Subject

SHUTDOWN = "shutdown"

_logger = logging.getLogger("flo.worker")


class NodeRuns:
    """`announce` registers the worker with its roles."""

    def __init__(
        self,
        workers: Workers,
        worker_id: WorkerId,
        roles: list[str],
        policy: LifecyclePolicy,
        announce: Callable[[], Awaitable[None]],
        settings: RunSettings,
    ) -> None:
        self._workers = workers
        self._worker_id = worker_id
        self._roles = roles
        self._policy = policy
        self._announce = announce
        self._settings = settings
        self._slots = ConcurrencySlots(policy.concurrency)
        self._runs: dict[NodeRun, None] = {}
        self._is_draining = False

    @property
    def load(self) -> int:
        return self._slots.busy_count

    @property
    def active(self) -> list[NodeRun]:
        return list(self._runs)

    def running(self) -> Running:
        return [(run, run.asyncio_task) for run in tuple(self._runs)]

    def abandoned(self) -> Sequence[Subject]:
        return ()

    def on_abandoned(self, call: Callable[[], None]) -> None:
        """A run keeps its slot until its handler has ended."""

    async def announce(self) -> None:
        await self._announce()

    async def take(self) -> None:
        while not self._is_draining:
            if not self._slots.free_count:
                await self._slots.change()
                continue
            self._begin(await self._asked())

    def drain(self) -> None:
        """Take no more, and end the runs there are: their nodes go on when this worker is back,
        or elsewhere.
        """
        self._is_draining = True
        self._slots.changed.set()
        deadline_ms = self._settings.clock.now_ms() + round(self._policy.drain_timeout_s * 1_000)
        for run in tuple(self._runs):
            run.cancel(CancelSource.SHUTDOWN, SHUTDOWN, deadline_ms)

    def cancel(self, run_id: RunId) -> None:
        """Nodes are told by their own lease."""

    def held(self) -> list[HeldTask]:
        """Nodes are no runs of actions: they have leases of their own."""
        return []

    def lose(self, run_id: RunId) -> None:
        """Nodes are told by their own lease."""

    async def finish(self) -> None:
        policy = self._policy
        await self._slots.all_ended(policy.drain_timeout_s + policy.cancel_grace_s)
        if self._slots.runners_count:
            _logger.warning("worker %s leaves %d nodes", self._worker_id, self._slots.runners_count)

    def abandon(self) -> None:
        self._slots.cancel()

    async def leave(self) -> None:
        pass

    def close(self) -> None:
        pass

    async def _asked(self) -> list[LeasedNode]:
        try:
            return await self._workers.await_nodes(
                self._worker_id,
                self._roles,
                holds=[run.node.key for run in self._runs],
                max_nodes=min(self._slots.free_count, NODES_PER_AWAIT_MAX),
                lease_ms=round(self._settings.lease_s * 1_000),
                block_ms=self._policy.block_ms,
            )
        except Unavailable as error:
            log_trouble(error, "worker %s cannot ask for nodes: %s", self._worker_id, error)
            await asyncio.sleep(RETRY_S)
            return []

    def _begin(self, nodes: list[LeasedNode]) -> None:
        for node in nodes:
            if self._is_draining:  # it was on its way when the worker was told to stop
                self._slots.start(self._give_back(node))
                continue
            run = NodeRun(node, self._settings)
            self._runs[run] = None
            self._slots.start(self._perform(run))

    async def _give_back(self, node: LeasedNode) -> None:
        try:
            await node.release(SHUTDOWN)
        except NodeFenced:
            pass
        finally:
            self._slots.release()

    async def _perform(self, run: NodeRun) -> None:
        try:
            await run.perform()
        finally:
            self._runs.pop(run, None)
            self._slots.release()
