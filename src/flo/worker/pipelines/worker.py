"""PipelineWorker: runs the nodes of pipelines whose roles it has handlers for."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from flo.client.arguments.durations import check_seconds
from flo.client.client import Flo
from flo.model.errors import Invalid
from flo.model.ids import Labels, Namespace, WorkerId
from flo.model.pipelines.work import NodeStart
from flo.model.workers import WorkerType
from flo.worker.base import BaseWorker
from flo.worker.lifecycle import LifecyclePolicy
from flo.worker.pipelines.clock import RunClock, WallClock
from flo.worker.pipelines.events import EventLog
from flo.worker.pipelines.handler import RoleHandler
from flo.worker.pipelines.input.adapters import PULL, RECHUNK, InputAdapter, PullDefaults
from flo.worker.pipelines.nodes import NodeRuns
from flo.worker.pipelines.run import RunSettings

H = TypeVar("H", bound=type[RoleHandler])


class PipelineWorker(BaseWorker):
    """Registers, asks for nodes, streams their batches through handlers, and reports.

        class Index(RoleHandler):
            role = "indexer"

            async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
                return BatchResult(success=True, metrics={"count": len(batch.payload)})

        PipelineWorker(handlers=[Index()]).run()

    `input_adapters` has, by name, where nodes may get their batches from; None is the server. Add
    your own: a function of task_id, consumer_node, cancel_flag and the arguments that a graph
    gives, which yields batches.
    """

    def __init__(
        self,
        address: str | Flo | None = None,
        *,
        handlers: Iterable[RoleHandler] | Mapping[str, RoleHandler] = (),
        roles: Iterable[str] | None = None,
        namespace: Namespace | None = None,
        worker_id: WorkerId | None = None,
        machine_id: str | None = None,
        concurrency: int = 1,
        lease: float = 60.0,
        lease_heartbeat: float = 20.0,
        pull: PullDefaults | None = None,
        block_ms: int = 30_000,
        labels: Labels | None = None,
        metadata: dict[str, Any] | str | None = None,
        heartbeat_interval: float = 30.0,
        drain_timeout: float = 30.0,
        cancel_grace: float = 10.0,
        keep_nodes: bool | None = None,
        clock: RunClock | None = None,
        log: EventLog | None = None,
        blocking_limit: float = 1.0,
        log_level: str | None = None,
        build_id: str | None = None,
    ) -> None:
        """`concurrency` is how many nodes run at a time. A node is given to another worker when
        nothing was heard of this one for `lease` seconds; it is told of every `lease_heartbeat`.

        A worker that stops ends its runs after the batch that they are at, or after
        `drain_timeout`. With `keep_nodes` its nodes stay with it until their leases end, so that it
        goes on with them when it is back; that is so if it has a `worker_id`, unless you say
        otherwise. `cancel_grace` is how long a run may take to end when its lease is lost.
        """
        super().__init__(
            address,
            LifecyclePolicy(concurrency, block_ms, heartbeat_interval, drain_timeout, cancel_grace),
            namespace=namespace,
            worker_id=worker_id,
            machine_id=machine_id,
            labels=labels,
            metadata=metadata,
            blocking_limit_s=blocking_limit,
            log_level=log_level,
            build_id=build_id,
        )
        check_seconds(lease, "lease", above_zero=True)
        check_seconds(lease_heartbeat, "lease_heartbeat", above_zero=True)
        self.handlers: dict[str, RoleHandler] = {}
        self.input_adapters: dict[str, InputAdapter | None] = {PULL: None, RECHUNK: None}
        self._roles = None if roles is None else list(roles)
        self._lease_s, self._lease_heartbeat_s = lease, lease_heartbeat
        self._pull = pull or PullDefaults()
        self._keep_nodes = worker_id is not None if keep_nodes is None else keep_nodes
        self._clock = clock or WallClock()
        self._log = (log or EventLog()).bind(worker_id=self.worker_id)
        self._runs: NodeRuns | None = None
        self._known = asyncio.Event()
        for role, handler in _named(handlers):
            self.register(handler, role=role)

    def register(self, handler: RoleHandler, *, role: str | None = None) -> None:
        """Let this handler run the nodes of its role, or of the one that is named here."""
        name = role or handler.role
        if not name:
            raise Invalid(f"expected {type(handler).__name__} to have a role: set `role` in it")
        if name in self.handlers:
            raise Invalid(f"role {name!r} has a handler already")
        self.handlers[name] = handler

    def role(self, name: str | None = None) -> Callable[[H], H]:
        """Make the class below the handler of a role."""

        def register(handler: H) -> H:
            self.register(handler(), role=name)
            return handler

        return register

    @property
    def roles(self) -> list[str]:
        """The roles that it asks for nodes of."""
        return list(self.handlers) if self._roles is None else self._roles

    @property
    def active(self) -> list[NodeStart]:
        """The nodes that it runs now."""
        runs = self._runs.active if self._runs is not None else ()
        return [run.node.start for run in runs]

    async def registered(self) -> None:
        """Wait until it is known to the server."""
        await self._known.wait()

    def _new_work(self) -> NodeRuns:
        if not self.roles:
            raise Invalid("this worker has no handlers: register a RoleHandler first")
        settings = RunSettings(
            handlers=self.handlers,
            input_adapters=self.input_adapters,
            pull=self._pull,
            clock=self._clock,
            log=self._log,
            heartbeat_interval_s=self._lease_heartbeat_s,
            lease_s=self._lease_s,
            cancel_grace_s=self._policy.cancel_grace_s,
            keeps_on_shutdown=self._keep_nodes,
        )
        self._runs = NodeRuns(
            self._flo.workers,
            self.worker_id,
            self.roles,
            self._policy,
            self._announce,
            settings,
        )
        return self._runs

    async def _announce(self) -> None:
        await self._register(WorkerType.PIPELINE, self.roles)
        self._known.set()


def _named(
    handlers: Iterable[RoleHandler] | Mapping[str, RoleHandler],
) -> Iterable[tuple[str, RoleHandler]]:
    if isinstance(handlers, Mapping):
        return handlers.items()
    return [(handler.role, handler) for handler in handlers]
