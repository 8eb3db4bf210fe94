"""Coordinator: makes and cancels tasks on the server, and runs their coordinator functions."""

import asyncio
import copy
import secrets
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from flo import Conflict, NotFound
from flo.model.pipelines.pipelines import (
    CancelPipeline,
    ConfigurePipelines,
    GetPipelineSettings,
    PipelineSettings,
    SubmitPipeline,
)
from flowkit.bus.kafka import KafkaBus
from flowkit.coordinator.adapters import AdapterError, default_adapters
from flowkit.coordinator.functions import FunctionRunner, call_function
from flowkit.core.config import CoordinatorConfig
from flowkit.core.log import get_logger
from flowkit.core.time import Clock, SystemClock
from flowkit.db.documents import json_plain, plain
from flowkit.db.handle import FlowDb, opened
from flowkit.db.tasks import idle_node
from flowkit.outbox.dispatcher import OutboxDispatcher
from flowkit.protocol.messages import (
    CmdTaskStart,
    CommandKind,
    Envelope,
    EvBatchFailed,
    EvBatchOk,
    EvCancelled,
    EventKind,
    EvHeartbeat,
    EvTaskAccepted,
    EvTaskDone,
    EvTaskFailed,
    EvWorkerOffline,
    EvWorkerOnline,
    MsgType,
    QTaskDiscover,
    QueryKind,
    ReplyKind,
    Role,
    RTaskSnapshot,
    RunState,
    SigCancel,
)

__all__ = [
    "AdapterError",
    "CmdTaskStart",
    "CommandKind",
    "Coordinator",
    "CoordinatorConfig",
    "Envelope",
    "EvBatchFailed",
    "EvBatchOk",
    "EvCancelled",
    "EvHeartbeat",
    "EvTaskAccepted",
    "EvTaskDone",
    "EvTaskFailed",
    "EvWorkerOffline",
    "EvWorkerOnline",
    "EventKind",
    "MsgType",
    "QTaskDiscover",
    "QueryKind",
    "RTaskSnapshot",
    "ReplyKind",
    "Role",
    "RunState",
    "SigCancel",
]

_log = get_logger("coordinator")


class Coordinator:
    """`adapters` has the coordinator functions by name; add your own:

    coord.adapters["my.fn"] = my_function      async def my_function(task_id, **fn_args)
    """

    def __init__(
        self,
        *,
        db: FlowDb | str | None = None,
        cfg: CoordinatorConfig | None = None,
        worker_types: list[str] | None = None,
        clock: Clock | None = None,
        adapters: Mapping[str, Any] | None = None,
        sensitive_detector: Any = None,
    ) -> None:
        self.db = opened(db)
        self.cfg = copy.deepcopy(cfg) if cfg is not None else CoordinatorConfig.load()
        if worker_types is not None:
            self.cfg.worker_types = list(worker_types)
        self.clock = clock or SystemClock()
        self.gid = f"coord.{secrets.token_hex(3)}"
        self.bus = KafkaBus(self.cfg, self.db)
        self.outbox = OutboxDispatcher(db=self.db, bus=self.bus, cfg=self.cfg, clock=self.clock)
        known = default_adapters(db=self.db, clock=self.clock, detector=sensitive_detector)
        self.adapters: dict[str, Any] = {**known, **(adapters or {})}
        self._running: asyncio.Task[None] | None = None
        self._debug("coord.init")

    async def start(self) -> None:
        """Run coordinator functions from now on."""
        if self._running is not None:
            return
        self._debug("coord.start")
        await self.db.connect()
        await self._set_limits()
        self._running = asyncio.create_task(self._run_functions())
        self._debug("coord.started")

    async def stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            self._debug("coord.stopped")

    async def restart(self) -> None:
        """Stop and start, with the same identity."""
        await self.stop()
        await self.start()

    async def create_task(self, *, params: dict[str, Any], graph: dict[str, Any]) -> str:
        """Submit a graph; what can never become ready is let pass, with a warning in the log."""
        task_id = str(uuid.uuid4())
        document = dict(json_plain(graph))
        if not document.get("nodes"):
            document["nodes"] = [idle_node()]
        submitted = await self.db.call(
            SubmitPipeline(
                id=task_id,
                graph=document,
                params=plain(params or {}),
                lenient=True,
                functions_outside=True,
                soft_ms=self.cfg.hb_soft_ms or None,
                hard_ms=self.cfg.hb_hard_ms or None,
                cancel_grace_ms=self.cfg.cancel_grace_ms,
            )
        )
        for warning in submitted.warnings:
            _log.warning(
                "coord.task.warning", event="coord.task.warning", task_id=task_id, warning=warning
            )
        self._debug("coord.task.created", task_id=task_id)
        return submitted.id

    async def cancel_task(self, task_id: str, *, reason: str = "user_request") -> bool:
        """False if there is no such task; does not wait for its end. One that has ended stays."""
        try:
            await self.db.call(CancelPipeline(id=task_id, reason=reason))
        except NotFound:
            return False
        except Conflict:
            return True
        return True

    async def cascade_cancel(self, task_id: str, reason: str = "user_request") -> bool:
        return await self.cancel_task(task_id, reason=reason)

    async def _cascade_cancel(self, task_id: str, *, reason: str) -> None:
        await self.cancel_task(task_id, reason=reason)

    async def _run_coordinator_fn(
        self, task_doc: Mapping[str, Any], node: Mapping[str, Any]
    ) -> Any:
        """Call the function of a node, and finish the node, without being asked by the server."""
        task_id, node_id, io = task_doc["id"], node["node_id"], node.get("io") or {}
        name, arguments = str(io.get("fn") or "noop"), io.get("fn_args") or {}
        try:
            returned = await call_function(self.adapters, task_id, node_id, name, arguments)
        except Exception:
            _log.exception(
                "coord.fn.failed", event="coord.fn.failed", task_id=task_id, node_id=node_id
            )
            return None
        await self.db.artifacts.update_one(
            {"task_id": task_id, "node_id": node_id}, {"$set": {"status": "complete"}}, upsert=True
        )
        return returned

    async def _set_limits(self) -> None:
        """Limits that the configuration names; those that it does not name stay."""
        cfg = self.cfg
        if cfg.max_global_running is None and not cfg.max_type_concurrency:
            return
        known = await self.db.call(GetPipelineSettings())
        settings = PipelineSettings(
            max_global_running=cfg.max_global_running or known.max_global_running,
            max_type_concurrency={**known.max_type_concurrency, **cfg.max_type_concurrency},
            event_stream=known.event_stream,
        )
        await self.db.call(ConfigurePipelines(settings=settings))

    async def _run_functions(self) -> None:
        client = self.db.new_client()
        lease_ms = self.cfg.lease_ttl_ms
        try:
            await FunctionRunner(client, self.gid, self.adapters, lease_ms).run()
        finally:
            await client.close()

    def _debug(self, event: str, **fields: Any) -> None:
        _log.debug(event, event=event, gid=self.gid, role="coordinator", **fields)
