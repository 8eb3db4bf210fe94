"""Worker: FlowKit's worker, which is a PipelineWorker of flo inside."""

import asyncio
import copy
import os
import secrets
from collections.abc import Mapping
from typing import Any

from flo import PipelineWorker, PullDefaults, RoleHandler
from flowkit.core.config import WorkerConfig
from flowkit.core.log import get_logger
from flowkit.core.time import Clock, SystemClock
from flowkit.db.handle import FlowDb, opened
from flowkit.db.logs import event_log
from flowkit.worker.handlers.echo import EchoHandler
from flowkit.worker.input.pull_adapters import Adapter, build_input_adapters
from flowkit.worker.state import ActiveRun

__all__ = ["Worker", "WorkerConfig"]

CANCEL_GRACE_S = 30.0

_log = get_logger("worker")


class Worker:
    """Runs one node at a time, over all its roles. May be started again after `stop`."""

    def __init__(
        self,
        *,
        db: FlowDb | str | None = None,
        cfg: WorkerConfig | None = None,
        clock: Clock | None = None,
        roles: list[str] | None = None,
        handlers: Mapping[str, RoleHandler] | None = None,
    ) -> None:
        self.db = opened(db)
        self.cfg = copy.deepcopy(cfg) if cfg is not None else WorkerConfig.load()
        if roles is not None:
            self.cfg.roles = list(roles)
        self.clock = clock or SystemClock()
        self.worker_id = (
            self.cfg.worker_id or os.environ.get("WORKER_ID") or f"w-{secrets.token_hex(4)}"
        )
        self.worker_version = self.cfg.worker_version
        self.roles = self.cfg.roles
        self.handlers: dict[str, RoleHandler] = dict(handlers or {})
        if "echo" in self.roles:
            self.handlers.setdefault("echo", EchoHandler())
        self._pulls = build_input_adapters(db=self.db, clock=self.clock, cfg=self.cfg)
        self.input_adapters: dict[str, Adapter] = dict(self._pulls)
        self._worker: PipelineWorker | None = None
        self._serving: asyncio.Task[None] | None = None
        _log.debug("worker.init", event="worker.init", worker_id=self.worker_id)

    @property
    def active(self) -> ActiveRun | None:
        """The run that is under way."""
        runs = self._worker.active if self._worker is not None else []
        if not runs:
            return None
        start = runs[0]
        return ActiveRun(
            task_id=start.id,
            node_id=start.node,
            step_type=start.role,
            attempt_epoch=start.epoch,
            lease_id=start.lease_id,
            started_at_ms=start.started_at_ms,
        )

    async def start(self) -> None:
        """Register, and take nodes from now on; returns once it is registered."""
        if self._serving is not None:
            return
        _log.debug("worker.start", event="worker.start", worker_id=self.worker_id)
        await self.db.connect()
        cfg = self.cfg
        worker = PipelineWorker(
            self.db.address,
            namespace=self.db.namespace,
            handlers=self.handlers,
            roles=cfg.roles,
            worker_id=self.worker_id,
            lease=cfg.lease_ttl_sec,
            lease_heartbeat=cfg.hb_interval_sec,
            pull=PullDefaults(
                cfg.pull_poll_ms_default, cfg.pull_empty_backoff_ms_max, cfg.strict_input_adapters
            ),
            metadata={"version": self.worker_version},
            heartbeat_interval=cfg.announce_interval_sec,
            drain_timeout=0,
            cancel_grace=CANCEL_GRACE_S,
            keep_nodes=True,
            clock=self.clock,
            log=event_log("worker"),
            build_id=self.worker_version,
        )
        worker.input_adapters = self._adapters()
        self._worker = worker
        self._serving = asyncio.create_task(worker.serve())
        self._serving.add_done_callback(self._ended)
        registered = asyncio.create_task(worker.registered())
        await asyncio.wait({self._serving, registered}, return_when=asyncio.FIRST_COMPLETED)
        registered.cancel()
        if self._serving.done():
            serving, self._serving = self._serving, None
            serving.result()
        _log.debug("worker.started", event="worker.started", worker_id=self.worker_id)

    async def stop(self) -> None:
        """End the run that is under way; its node waits for this worker until its lease ends."""
        serving, worker = self._serving, self._worker
        self._serving = self._worker = None
        if serving is None or worker is None:
            return
        worker.stop()
        await serving

    def _ended(self, serving: asyncio.Task[None]) -> None:
        if not serving.cancelled() and (error := serving.exception()) is not None:
            _log.error(
                "worker.task.crashed",
                event="worker.task.crashed",
                worker_id=self.worker_id,
                exc_info=error,
            )

    def _adapters(self) -> dict[str, Any]:
        """None for those that the server is; the user's own as they are."""
        return {
            name: None if self._pulls.get(name) == adapter else adapter
            for name, adapter in self.input_adapters.items()
        }
