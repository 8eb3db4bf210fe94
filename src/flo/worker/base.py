"""What every kind of worker is: its name, its client, its start and its end."""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from flo.aio.loops import loop_factory
from flo.client.arguments.durations import check_seconds
from flo.client.client import Flo
from flo.model.errors import Invalid
from flo.model.ids import (
    BLOCK_MS_MAX,
    ConsumerName,
    Labels,
    Namespace,
    WorkerId,
    check_range,
    check_worker_id,
)
from flo.model.workers import CONCURRENCY_MAX, HandlerInfo, WorkerType
from flo.worker.beat import beat
from flo.worker.lifecycle import Lifecycle, LifecyclePolicy, Work
from flo.worker.logs import check_level, set_up_logs
from flo.worker.signals import on_signals
from flo.worker.stuck import WorkerStuck
from flo.worker.watchdog import watching

PROCESSES_SHOWN_MAX = 10

_logger = logging.getLogger("flo.worker")


class BaseWorker:
    """What ActionWorker and StreamWorker share; they define `_new_work`."""

    def __init__(
        self,
        address: str | Flo | None,
        policy: LifecyclePolicy,
        *,
        namespace: Namespace | None,
        worker_id: WorkerId | None,
        machine_id: str | None,
        labels: Labels | None,
        metadata: dict[str, Any] | str | None,
        blocking_limit_s: float,
        log_level: str | None,
        build_id: str | None,
    ) -> None:
        _check(policy)
        check_level(log_level)
        check_seconds(blocking_limit_s, "blocking_limit")
        self.worker_id = worker_id or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        check_worker_id(self.worker_id)
        self.machine_id = machine_id or socket.gethostname()
        self.labels = labels
        self.metadata = metadata
        self.build_id = build_id or os.environ.get("FLO_BUILD_ID") or None
        if isinstance(address, Flo) and namespace not in (None, address.namespace):
            raise Invalid(
                f"expected the client's namespace {address.namespace!r}, got {namespace!r}"
            )
        self._owns_flo = not isinstance(address, Flo)
        self._flo = address if isinstance(address, Flo) else Flo(address, namespace=namespace)
        self._policy = policy
        self._blocking_limit_s = blocking_limit_s
        self._log_level = log_level
        self._is_registered = False
        self._incarnation = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lifecycle: Lifecycle | None = None
        self._is_stopped = False

    def overrule(
        self,
        *,
        address: str | None = None,
        namespace: Namespace | None = None,
        concurrency: int | None = None,
        log_level: str | None = None,
        exit_when_stuck: bool | None = None,
    ) -> None:
        """Replace, before it starts, what the worker was made with."""
        if self._lifecycle is not None:
            raise Invalid("this worker has been started: it can only be overruled before that")
        if concurrency is not None:
            policy = self._policy._replace(concurrency=concurrency)
            _check(policy)
            self._policy = policy
        if exit_when_stuck is not None:
            self._policy = self._policy._replace(exit_when_stuck=exit_when_stuck)
        if log_level is not None:
            check_level(log_level)
            self._log_level = log_level
        if address is not None or namespace is not None:
            own = self._flo
            self._flo = Flo(
                address or own.address,
                namespace=namespace or own.namespace,
                codec=own.codec,
            )
            self._owns_flo = True

    def run(self) -> None:
        """Work until told to stop. SIGINT or SIGTERM drains; a second one stops at once.

        Raises WorkerStuck when no handler ends any more (see `exit_when_stuck`).
        """
        if _is_loop_running():
            raise Invalid(
                "run() makes an event loop of its own, and one runs here already: "
                "`await worker.serve()` instead",
                code="loop_is_running",
            )
        runner = asyncio.Runner(loop_factory=loop_factory())
        try:
            runner.run(self._serve_until_signalled())
        except WorkerStuck:
            raise  # the loop stays open: closing it would wait for the handlers that do not end
        except BaseException:
            runner.close()
            raise
        runner.close()

    async def serve(self) -> None:
        """Work in the running loop until told to stop."""
        if self._lifecycle is not None:
            raise Invalid("this worker has been started before: make a new one")
        set_up_logs(self._log_level)
        work = self._new_work()
        self._loop = asyncio.get_running_loop()
        self._incarnation = secrets.token_hex(8)
        self._lifecycle = Lifecycle(
            self._flo.workers, self.worker_id, self._incarnation, self._policy, work
        )
        if self._is_stopped:
            self._lifecycle.drain()
        try:
            with watching(work.running, self._blocking_limit_s, lambda: self._beat(work)):
                await self._lifecycle.run()
        finally:
            work.close()
            if self._owns_flo:
                await self._flo.close()

    def stop(self, *, at_once: bool = False) -> None:
        """Drain, or leave at once; may be called from any thread, and at any time."""
        self._is_stopped = True
        lifecycle, loop = self._lifecycle, self._loop
        if lifecycle is not None and loop is not None:
            stop = lifecycle.stop_at_once if at_once else lifecycle.drain
            with suppress(RuntimeError):  # the loop is closed: the work has ended
                loop.call_soon_threadsafe(stop)

    def _new_work(self) -> Work:
        """What this worker does, from now on; Invalid if it has nothing to do."""
        raise NotImplementedError

    def _beat(self, work: Work) -> None:
        beat(self._flo.address, self._flo.namespace, self.worker_id, work.load)

    async def _register(
        self,
        worker_type: WorkerType,
        processes: list[str],
        consumer: ConsumerName | None = None,
        handlers: Sequence[HandlerInfo] = (),
    ) -> None:
        await self._flo.workers.register(
            self.worker_id,
            processes,
            max_concurrency=self._policy.concurrency,
            machine_id=self.machine_id,
            labels=self.labels,
            metadata=self.metadata,
            worker_type=worker_type,
            incarnation=self._incarnation,
            connection_bound=True,
            consumer=consumer,
            build_id=self.build_id,
            handlers=handlers,
        )
        self._log_registered(processes)

    def _log_registered(self, processes: list[str]) -> None:
        """Say where this worker is and what it serves; later, only that it is there again."""
        if self._is_registered:
            _logger.info("worker %s is registered again", self.worker_id)
            return
        self._is_registered = True
        rest = len(processes) - PROCESSES_SHOWN_MAX
        _logger.info(
            "worker %s serves %s at %s (namespace %s, concurrency %d)",
            self.worker_id,
            ", ".join(processes[:PROCESSES_SHOWN_MAX]) + (f" and {rest} more" if rest > 0 else ""),
            self._flo.address,
            self._flo.namespace,
            self._policy.concurrency,
        )

    async def _serve_until_signalled(self) -> None:
        with on_signals(self.stop, lambda: self.stop(at_once=True)):
            await self.serve()


def _check(policy: LifecyclePolicy) -> None:
    check_range(policy.concurrency, "concurrency", 1, CONCURRENCY_MAX)
    check_range(policy.block_ms, "block_ms", 0, BLOCK_MS_MAX)
    check_seconds(policy.heartbeat_interval_s, "heartbeat_interval", above_zero=True)
    check_seconds(policy.drain_timeout_s, "drain_timeout")
    check_seconds(policy.cancel_grace_s, "cancel_grace")
    check_seconds(policy.stuck_timeout_s, "stuck_timeout")


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
