"""The handle of a workflow run."""

# ruff: noqa: ASYNC109 -- here a timeout is the server's business too

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from flo.client.handles.results import ENDED, decoded_output
from flo.model.errors import FloError
from flo.model.executions.history import HistoryView
from flo.model.executions.steps import CallView
from flo.model.ids import RunId
from flo.model.workflows import (
    Explanation,
    SignalSent,
    WorkflowRunView,
    WorkflowStatus,
)

if TYPE_CHECKING:
    from flo.client.workflows import Workflows

T = TypeVar("T")


class WorkflowUnsuccessful(FloError):
    """The workflow run has ended, but not with a result; `code` is workflow_failed,
    workflow_cancelled or workflow_timed_out, and `run` tells the rest.

    `error_code` is the code of its error, `retryable` whether another try might help.
    """

    kind = "unsuccessful"
    code = "workflow_failed"

    def __init__(self, run: WorkflowRunView, advice: str = "") -> None:
        super().__init__(
            f"workflow run {run.run_id!r} has {ENDED[run.status]} at {run.terminal}: "
            f"{run.error or 'no reason was given'}{advice}",
            code=f"workflow_{run.status}",
            details={
                "run_id": run.run_id,
                "workflow": run.workflow,
                "status": str(run.status),
                "terminal": run.terminal,
                "error_code": run.error_code,
                "retryable": run.retryable,
            },
        )
        self.run = run
        self.error_code, self.retryable = run.error_code, run.retryable


class WorkflowHandle:
    """What a start gives back.

    `duplicate` says that the idempotency key was known already; `warnings` what will probably go
    wrong, as a step whose action is not registered.
    """

    __slots__ = ("_workflows", "duplicate", "run_id", "warnings")

    def __init__(
        self,
        workflows: "Workflows",
        run_id: RunId,
        duplicate: bool = False,
        warnings: Sequence[str] = (),
    ) -> None:
        self._workflows = workflows
        self.run_id = run_id
        self.duplicate = duplicate
        self.warnings = tuple(warnings)

    def __str__(self) -> str:
        return self.run_id

    def __repr__(self) -> str:
        return f"WorkflowHandle(run_id={self.run_id!r}, duplicate={self.duplicate})"

    async def status(self) -> WorkflowRunView:
        return await self._workflows.status(self.run_id)

    async def wait(self, timeout: float | None = None) -> WorkflowRunView:
        return await self._workflows.wait(self.run_id, timeout)

    @overload
    async def result(self, type: type[T], timeout: float | None = None) -> T: ...
    @overload
    async def result(self, type: Any = Any, timeout: float | None = None) -> Any: ...
    async def result(self, type: Any = Any, timeout: float | None = None) -> Any:
        return await self._workflows.result(self.run_id, type, timeout)

    async def signal(self, type: str, payload: Any = None) -> SignalSent:
        return await self._workflows.signal(self.run_id, type, payload)

    async def cancel(self, reason: str = "") -> None:
        await self._workflows.cancel(self.run_id, reason)

    async def pause(self) -> None:
        await self._workflows.pause(self.run_id)

    async def resume(self) -> None:
        await self._workflows.resume(self.run_id)

    async def explain(self) -> Explanation:
        return await self._workflows.explain(self.run_id)

    async def history(self) -> AsyncGenerator[HistoryView, None]:
        """All that has happened so far, the oldest first."""
        cursor: str | None = None
        while True:
            page = await self._workflows.history(self.run_id, cursor=cursor)
            for entry in page.items:
                yield entry
            cursor = page.cursor
            if cursor is None:
                return

    async def steps(self) -> AsyncGenerator[CallView, None]:
        """Every attempt at every step so far, with what came of it."""
        cursor: str | None = None
        while True:
            page = await self._workflows.steps(self.run_id, cursor=cursor)
            for call in page.items:
                yield call
            cursor = page.cursor
            if cursor is None:
                return


def result_of(run: WorkflowRunView, type: Any) -> Any:
    """The decoded output of a workflow run that has ended."""
    if run.status is not WorkflowStatus.COMPLETED:
        raise WorkflowUnsuccessful(run, _rerun_advice(run))
    return decoded_output(f"workflow run {run.run_id!r}", run.output, type)


def _rerun_advice(run: WorkflowRunView) -> str:
    """What to do about a run that keeps its key, and so is never started again."""
    if run.idempotency_key is None:
        return ""
    return (
        f"; it keeps its idempotency key {run.idempotency_key!r}, so that a start with this key "
        f"is the same run: run it again with flo.workflows.rerun({run.run_id!r})"
    )
