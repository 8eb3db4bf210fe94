"""The handle of a run."""

# ruff: noqa: ASYNC109 -- here a timeout is the server's business too

from typing import TYPE_CHECKING, Any, TypeVar, overload

from flo.client.handles.results import ENDED, decoded_output
from flo.model.errors import FloError
from flo.model.ids import RunId
from flo.model.runs import Accepted, RunExplanation, RunResult, RunStatus, RunView

if TYPE_CHECKING:
    from flo.client.actions import Actions

T = TypeVar("T")


class RunUnsuccessful(FloError):
    """The run has ended, but not with a result; `code` is run_failed, run_cancelled or
    run_timed_out, and `run` tells the rest.

    `error_code` is the code of what its worker raised, `retryable` whether another try might help.
    """

    kind = "unsuccessful"
    code = "run_failed"

    def __init__(self, run: RunResult) -> None:
        super().__init__(
            f"run {run.run_id!r} has {ENDED[run.status]}: {run.error or 'no reason was given'}",
            code=f"run_{run.status}",
            details={
                "run_id": run.run_id,
                "status": str(run.status),
                "attempt": run.attempt,
                "error_code": run.error_code,
                "retryable": run.retryable,
            },
        )
        self.run = run
        self.error_code, self.retryable = run.error_code, run.retryable


class Invocation:
    """What an invoke gives back.

    `duplicate` says that the idempotency key was known already, `inline` that the server runs it
    itself; `ended` says how it has ended, if that was waited for.
    """

    __slots__ = ("_actions", "duplicate", "ended", "inline", "run_id")

    def __init__(
        self,
        actions: "Actions",
        run_id: RunId,
        duplicate: bool,
        inline: bool = False,
        ended: RunResult | None = None,
    ) -> None:
        self._actions = actions
        self.run_id = run_id
        self.duplicate = duplicate
        self.inline = inline
        self.ended = ended

    def __str__(self) -> str:
        return self.run_id

    def __repr__(self) -> str:
        return f"Invocation(run_id={self.run_id!r}, duplicate={self.duplicate})"

    async def status(self) -> RunView:
        return await self._actions.status(self.run_id)

    async def explain(self) -> RunExplanation:
        return await self._actions.explain(self.run_id)

    async def wait(self, timeout: float | None = None) -> RunResult:
        return self.ended or await self._actions.wait(self.run_id, timeout)

    @overload
    async def result(self, type: type[T], timeout: float | None = None) -> T: ...
    @overload
    async def result(self, type: Any = Any, timeout: float | None = None) -> Any: ...
    async def result(self, type: Any = Any, timeout: float | None = None) -> Any:
        return result_of(await self.wait(timeout), type)

    async def cancel(self, reason: str = "") -> Accepted:
        return await self._actions.cancel(self.run_id, reason)


def result_of(run: RunResult, type: Any) -> Any:
    """The decoded output of a run that has ended."""
    if run.status is not RunStatus.COMPLETED:
        raise RunUnsuccessful(run)
    return decoded_output(f"run {run.run_id!r}", run.output, type)
