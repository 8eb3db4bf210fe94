"""NodeRun: one attempt of a node, from its start to what the server is told at its end.

init ─▸ load_input ─▸ input chosen, checked ─▸ batches ─▸ finalize ─▸ complete
          │                                       │
          │ an error, a failed batch              │ cancelled: between batches at once, within
          ▼                                       ▼ one when its handler heeds it or time is up
        fail(reason code, permanent)            release; nothing if the lease is lost
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import NamedTuple, TypeAlias

from flo.client.handles.leased_node import LeasedNode, NodeFenced
from flo.model.errors import FloError, Rejected, Unavailable
from flo.model.pipelines.names import Verdict
from flo.model.pipelines.work import BatchFailure
from flo.worker.pipelines.artifacts import ArtifactsWriter
from flo.worker.pipelines.batches import BatchResult, FinalizeResult
from flo.worker.pipelines.cancel import CancelFlag, CancelSource
from flo.worker.pipelines.cleanup import RunCleanup
from flo.worker.pipelines.clock import RunClock
from flo.worker.pipelines.context import RunContext
from flo.worker.pipelines.events import EventLog
from flo.worker.pipelines.handler import UNEXPECTED_ERROR, RoleHandler
from flo.worker.pipelines.input.adapters import BadInput, InputAdapter, PullDefaults
from flo.worker.pipelines.input.rechunk import ClaimedBatch, ClaimedBatches
from flo.worker.pipelines.input.source import InputSource
from flo.worker.pipelines.lease import LeaseKeeper
from flo.worker.pipelines.reports import BatchReports, ReportRefused

NO_HANDLER = "no_handler"
REASON_CODE_DEFAULT = "error"
ERROR_LENGTH_MAX = 4_000
TELL_RETRY_S = 0.5


class RunSettings(NamedTuple):
    """What holds for every run of a worker."""

    handlers: Mapping[str, RoleHandler]
    input_adapters: Mapping[str, InputAdapter | None]
    pull: PullDefaults
    clock: RunClock
    log: EventLog
    heartbeat_interval_s: float
    lease_s: float
    cancel_grace_s: float
    keeps_on_shutdown: bool
    """Whether the node stays with this worker when it stops, for as long as the lease."""


class Stopped(NamedTuple):
    """The run was cancelled before its end."""

    source: CancelSource
    reason: str


Ending: TypeAlias = FinalizeResult | BatchFailure | Stopped


class AttemptFailed(Exception):
    """A batch has failed, and the attempt with it."""

    def __init__(self, failure: BatchFailure) -> None:
        super().__init__(failure.reason_code)
        self.failure = failure


class _WrongResult(Exception):
    """A handler has returned what it may not; another attempt may do better."""


class NodeRun:
    def __init__(self, node: LeasedNode, settings: RunSettings) -> None:
        start = node.start
        self.node = node
        self.task_id, self.task_type = f"{start.id}/{start.node}", start.role
        self._settings = settings
        self._log = settings.log.bind(
            task_id=start.id, node_id=start.node, attempt_epoch=start.epoch, step_type=start.role
        )
        self._flag = CancelFlag()
        self._cleanup = RunCleanup(self._log)
        self._artifacts = ArtifactsWriter(node)
        self._context = RunContext(
            start,
            node.worker_id,
            artifacts=self._artifacts,
            cancel_flag=self._flag,
            cleanup=self._cleanup,
            clock=settings.clock,
        )
        self._keeper = LeaseKeeper(
            node,
            self.cancel,
            self._log,
            interval_s=settings.heartbeat_interval_s,
            lease_s=settings.lease_s,
        )
        self.asyncio_task: asyncio.Task[None] | None = None
        self._interrupts = 0
        self._may_interrupt = True
        """False while the handler works on a batch: it is asked first, and stopped later."""
        self._has_ended = False
        """True once nothing is left but to tell the server, which is not interrupted."""
        self._deadline: asyncio.TimerHandle | None = None

    async def perform(self) -> None:
        """Run the node and tell the server how it ended."""
        self.asyncio_task = asyncio.current_task()
        if self.node.start.resumed:
            self._log.debug("worker.recovery_present")
        self._log.debug("worker.send.accepted", lease_id=self.node.start.lease_id)
        try:
            async with self._keeper.keeping():
                await self._tell(await self._ending())
        finally:
            if self._deadline is not None:
                self._deadline.cancel()
            await self._cleanup.run()

    def cancel(self, source: CancelSource, reason: str, deadline_ms: int | None = None) -> None:
        """End the run: at once between batches, else when the handler heeds it or time is up."""
        if self._flag.source in (source, CancelSource.LEASE):
            return
        now_ms = self._settings.clock.now_ms()
        if deadline_ms is None:
            deadline_ms = now_ms + round(self._settings.cancel_grace_s * 1_000)
        self._log.info("worker.cancel", source=str(source), reason=reason)
        self._flag.cancel(source, reason, deadline_ms)
        if self._may_interrupt:
            self._interrupt()
        else:
            delay_s = max(0.0, deadline_ms - now_ms) / 1_000
            self._deadline = asyncio.get_running_loop().call_later(delay_s, self._interrupt)

    def _interrupt(self) -> None:
        if self.asyncio_task is not None and not self._has_ended:
            self._interrupts += 1
            self.asyncio_task.cancel()

    async def _ending(self) -> Ending:
        handler = self._settings.handlers.get(self.node.start.role)
        if handler is None:
            role = self.node.start.role
            return _failure(NO_HANDLER, True, f"this worker has no handler of role {role!r}")
        try:
            return await self._attempt(handler)
        except AttemptFailed as failed:
            return failed.failure
        except BadInput as bad:
            return _failure(bad.reason_code, True, str(bad))
        except ReportRefused as refused:
            self._log.error("worker.artifacts.upsert_partial.failed", error=str(refused))
            return _failure(refused.refusal.code, True, refused.refusal.message)
        except NodeFenced as fenced:
            return Stopped(CancelSource.LEASE, str(fenced))
        except asyncio.CancelledError:
            return self._stopped()
        except Exception as error:
            return self._classified(handler, error)
        finally:
            self._has_ended = True

    def _stopped(self) -> Stopped:
        """The run was cancelled, by us or by its handler; another's cancel goes on."""
        task = self.asyncio_task
        assert task is not None
        while self._interrupts:
            self._interrupts -= 1
            task.uncancel()
        if task.cancelling():
            raise asyncio.CancelledError
        return Stopped(self._flag.source or CancelSource.SERVER, self._flag.reason or "cancelled")

    async def _attempt(self, handler: RoleHandler) -> FinalizeResult:
        start = self.node.start
        await self._context.raise_if_cancelled()
        await handler.init(
            {
                "task_id": start.id,
                "node_id": start.node,
                "attempt_epoch": start.epoch,
                "worker_id": self.node.worker_id,
                "role": start.role,
                "params": start.params,
            }
        )
        loaded = await handler.load_input(start.input_ref, start.input_inline)
        settings = self._settings
        source = InputSource(
            self.node, handler, settings.input_adapters, settings.pull, self._flag, self._log
        )
        reports = BatchReports(self.node, source.recorded, self._keeper.told)
        await self._process_all(handler, source.open(loaded), reports)
        await reports.all_recorded()
        await source.all_finished()
        await self._context.raise_if_cancelled()
        return await self._finalized(handler)

    async def _process_all(
        self,
        handler: RoleHandler,
        batches: ClaimedBatches,
        reports: BatchReports,
    ) -> None:
        async with aclosing(batches):
            async for claimed in batches:
                await self._context.raise_if_cancelled()
                self._may_interrupt = False
                await self._process(handler, claimed, reports)
                self._may_interrupt = True
                await self._context.raise_if_cancelled()

    async def _process(
        self, handler: RoleHandler, claimed: ClaimedBatch, reports: BatchReports
    ) -> None:
        result = BatchResult(success=False)
        try:
            returned = await handler.process_batch(claimed.batch, self._context)
            if isinstance(returned, BatchResult):
                result = returned
                failure = _of_result(result)
            else:
                failure = _failure(
                    UNEXPECTED_ERROR,
                    False,
                    f"expected a BatchResult from process_batch, got {type(returned).__name__}",
                )
        except NodeFenced:
            raise
        except Exception as error:
            failure = self._classified(handler, error)
        if failure is None:
            await reports.add(claimed, result)
            return
        await reports.all_recorded()
        await reports.failed(claimed, result, failure)
        raise AttemptFailed(failure)

    async def _finalized(self, handler: RoleHandler) -> FinalizeResult:
        self._may_interrupt = False
        result = await handler.finalize(self._context)
        if result is None:
            result = FinalizeResult()
        if not isinstance(result, FinalizeResult):
            raise _WrongResult(
                f"expected a FinalizeResult or None from finalize, got {type(result).__name__}"
            )
        return FinalizeResult(
            metrics={**self._artifacts.completed, **result.metrics},
            artifacts_ref=result.artifacts_ref or self._artifacts.reference,
        )

    def _classified(self, handler: RoleHandler, error: Exception) -> BatchFailure:
        try:
            reason_code, permanent = handler.classify_error(error)
        except Exception:
            reason_code, permanent = UNEXPECTED_ERROR, False
        self._log.warning("worker.handler.failed", reason_code=reason_code, error=repr(error))
        return _failure(str(reason_code), bool(permanent), repr(error))

    async def _tell(self, ending: Ending) -> None:
        """Tell the server, for as long as the lease may last."""
        while self._flag.source is not CancelSource.LEASE:
            try:
                await self._tell_once(ending)
            except NodeFenced as fenced:
                self._log.info("worker.run.fenced", reason=str(fenced))
            except Unavailable as error:
                self._log.warning("worker.report.unanswered", error=str(error), code=error.code)
                if self._flag.source is CancelSource.SHUTDOWN:
                    return
                await asyncio.sleep(TELL_RETRY_S)
                continue
            except Rejected as refusal:
                self._log.error("worker.report.refused", error=refusal.message, code=refusal.code)
                if isinstance(ending, FinalizeResult):
                    ending = _failure(refusal.code, True, refusal.message)
                    continue
            except FloError as error:
                self._log.error("worker.report.failed", error=str(error), code=error.code)
            return

    async def _tell_once(self, ending: Ending) -> None:
        match ending:
            case FinalizeResult():
                answer = await self.node.complete(ending.metrics, ending.artifacts_ref)
                if answer.verdict is Verdict.CANCELLED:
                    await self.node.release(answer.reason or "cancelled")
            case BatchFailure():
                await self.node.fail(ending)
            case Stopped(CancelSource.LEASE):
                self._log.info("worker.run.fenced", reason=ending.reason)
            case Stopped(CancelSource.SHUTDOWN) if self._settings.keeps_on_shutdown:
                self._log.debug("worker.shutdown.preserve_state")
                await self.node.release(ending.reason, keep=True)
            case Stopped():
                await self.node.release(ending.reason)


def _of_result(result: BatchResult) -> BatchFailure | None:
    if result.success:
        return None
    code = result.reason_code or REASON_CODE_DEFAULT
    return _failure(code, result.permanent, result.error)


def _failure(reason_code: str, permanent: bool, error: str | None) -> BatchFailure:
    text = None if error is None else error[:ERROR_LENGTH_MAX]
    return BatchFailure(reason_code=reason_code, permanent=permanent, error=text)
