"""BlockWorker: finds blocks, registers them, and does their jobs."""

import asyncio
import logging
import secrets
from collections.abc import Iterable
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Any, Self

from flo.client.arguments.choices import one_of
from flo.client.arguments.durations import check_seconds
from flo.client.client import TIMEOUT_S_DEFAULT, Flo
from flo.model.blocks.blocks import RegisterBlocks
from flo.model.errors import Invalid, Rejected, TimedOut, Unavailable
from flo.model.ids import Labels, Namespace, WorkerId
from flo.model.workers import WorkerType
from flo.worker.base import BaseWorker
from flo.worker.blocks.block import DeclaredBlock, declaration_of
from flo.worker.blocks.discovery import discover
from flo.worker.blocks.environment import read_environment
from flo.worker.blocks.jobs import BlockJobs, JobLanes, JobRunner
from flo.worker.blocks.watch import THRESHOLD_S_DEFAULT
from flo.worker.lifecycle import LifecyclePolicy, Work, try_soon

PROTOCOL_CHECK_S = 5.0

_logger = logging.getLogger("flo.worker")


class OnExpiry(StrEnum):
    """What a worker does that the server does not know any more."""

    EXIT = "exit"
    """End with WorkerExpiredError: whoever supervises it starts it again."""
    REJOIN = "rejoin"
    """Register again."""


class ShutdownTimedOut(TimedOut):
    """A worker was told to stop, and has handed back jobs that did not end in time."""

    code = "shutdown_timed_out"


class BlockWorker(BaseWorker):
    """Imports the blocks in `dirs`, registers them, and runs their jobs one at a time.

        BlockWorker(dirs=["blocks"]).run()

    Each of its `lanes` is a thread with an event loop of its own. Blocks that the program has
    imported itself are given as `blocks`.

    A job is there at once; `poll_interval` is how long a worker waits for one before it asks again.
    One that is told to stop has `shutdown_timeout` for the jobs it has; `cancel_grace` before that
    is over they are cancelled, and what has not ended then is handed back. It tries for
    `startup_timeout` to register; `request_timeout` is how long any one call may take.

    A job that blocks its lane for `blocking_threshold` is named in the log with its line; with
    `strict_blocking` it fails. 0 switches that off.
    """

    def __init__(
        self,
        address: str | Flo | None = None,
        *,
        dirs: Iterable[str | Path] = (),
        blocks: Iterable[Any] = (),
        lanes: int = 1,
        namespace: Namespace | None = None,
        worker_id: WorkerId | None = None,
        machine_id: str | None = None,
        labels: Labels | None = None,
        metadata: dict[str, Any] | str | None = None,
        heartbeat_interval: float = 20.0,
        poll_interval: float = 10.0,
        shutdown_timeout: float = 60.0,
        startup_timeout: float = 120.0,
        cancel_grace: float = 5.0,
        on_expiry: OnExpiry | str = OnExpiry.EXIT,
        blocking_threshold: float = THRESHOLD_S_DEFAULT,
        strict_blocking: bool = False,
        request_timeout: float = TIMEOUT_S_DEFAULT,
        log_level: str | None = None,
        build_id: str | None = None,
    ) -> None:
        super().__init__(
            address,
            LifecyclePolicy(
                lanes,
                round(poll_interval * 1_000),
                heartbeat_interval,
                shutdown_timeout,
                cancel_grace,
                rejoins=one_of(OnExpiry, on_expiry, "on_expiry") is OnExpiry.REJOIN,
                startup_timeout_s=startup_timeout,
            ),
            namespace=namespace,
            worker_id=worker_id,
            machine_id=machine_id,
            labels=labels,
            metadata=metadata,
            blocking_limit_s=1.0,
            log_level=log_level,
            build_id=build_id,
        )
        check_seconds(request_timeout, "request_timeout", above_zero=True)
        if self._owns_flo:
            own = self._flo
            self._flo = Flo(own.address, namespace=own.namespace, timeout=request_timeout)
        check_seconds(blocking_threshold, "blocking_threshold")
        check_seconds(startup_timeout, "startup_timeout")
        self._dirs = list(dirs)
        self._threshold_s = blocking_threshold
        self._strict = strict_blocking
        self._blocks = {one.id: one for one in map(declaration_of, blocks)}
        self._known = asyncio.Event()
        self._jobs: BlockJobs | None = None

    @classmethod
    def from_environment(cls, address: str | Flo | None = None, **options: Any) -> Self:
        """As the environment and the file .env say (flo.worker.blocks.environment), and `options`
        count for more.
        """
        found = read_environment()
        said: dict[str, Any] = {
            "dirs": found.dirs,
            "heartbeat_interval": found.heartbeat_interval,
            "poll_interval": found.poll_interval,
            "shutdown_timeout": found.shutdown_timeout,
            "request_timeout": found.api_request_timeout,
            "startup_timeout": found.startup_retry_timeout,
            "blocking_threshold": found.blocking_threshold,
        }
        if found.worker_name is not None:  # of many that share a name, each has an id of its own
            said["worker_id"] = f"{found.worker_name}-{secrets.token_hex(4)}"
        if found.ip_address is not None:
            said["metadata"] = {"ip_address": found.ip_address}
        return cls(address, **{**said, **options})

    @property
    def blocks(self) -> list[DeclaredBlock]:
        """Those that it has; before it serves, those it was given."""
        return list(self._blocks.values())

    def discover(self) -> list[DeclaredBlock]:
        """Import what is in its folders; Invalid if something cannot be imported."""
        self._blocks |= {one.id: one for one in discover(self._dirs)}
        return self.blocks

    async def serve(self) -> None:
        """Work in the running loop until told to stop.

        Raises ShutdownTimedOut when jobs did not end in time, WorkerExpiredError when the server
        has forgotten this worker, Invalid when there are no blocks or they are refused.
        """
        try:
            await self._check_protocol()
            self.discover()
            await super().serve()
        finally:
            if self._owns_flo:
                await self._flo.close()
        jobs = self._jobs
        if jobs is not None and jobs.left:
            raise ShutdownTimedOut(
                f"worker {self.worker_id} was told to stop, and has handed back {jobs.left} jobs "
                f"that did not end within {self._policy.drain_timeout_s:g} s"
            )

    async def registered(self) -> None:
        """Wait until it and its blocks are known to the server."""
        await self._known.wait()

    def _new_work(self) -> Work:
        if not self._blocks:
            looked = ", ".join(map(str, self._dirs)) or "no folder"
            raise Invalid(
                f"there are no blocks: looked in {looked}. Declare one with @block, or name other "
                "folders",
                code="no_blocks",
            )
        lanes = JobLanes(self._policy.concurrency, self._threshold_s, strict=self._strict)
        runner = JobRunner(
            self._flo.workers,
            self.worker_id,
            self._flo.namespace,
            lanes.handlers(self.blocks),
            action_timeout_s=inf,
            cancel_grace_s=self._policy.cancel_grace_s,
            auto_touch=False,
        )
        actions = [action for declared in self.blocks for action in declared.actions]
        self._jobs = BlockJobs(
            self._flo.workers,
            self.worker_id,
            actions,
            self._policy,
            self._announce,
            runner,
        )
        self._jobs.runner, self._jobs.lanes = runner, lanes
        return self._jobs

    def _log_registered(self, processes: list[str]) -> None:
        super()._log_registered([declared.id for declared in self.blocks])

    async def _check_protocol(self) -> None:
        """Refuse a server of another protocol; one that is away is waited for later."""
        try:
            async with asyncio.timeout(PROTOCOL_CHECK_S):
                await self._flo.connect()
        except (TimeoutError, Unavailable) as error:
            _logger.warning("worker %s: no server yet: %s", self.worker_id, error or "no answer")

    async def _announce(self) -> None:
        """Register the worker, then its blocks; one whose blocks are refused is none."""
        actions = [action for declared in self.blocks for action in declared.actions]
        await self._register(WorkerType.BLOCK, actions)
        try:
            specs = [declared.spec for declared in self.blocks]
            await self._flo.call(RegisterBlocks(blocks=specs, worker_id=self.worker_id))
        except Rejected:
            await try_soon(self.worker_id, self._flo.workers.deregister(self.worker_id))
            raise
        self._known.set()
