"""What every part of an advance sees: the execution, its namespace and the context."""

from flo.engine.context import Context
from flo.engine.runs.events import RunCancelled
from flo.engine.state import State
from flo.engine.workflows.events import CallNotMade, StepHeld, StepStarted
from flo.engine.workflows.execution import Execution
from flo.engine.workflows.records import Branch
from flo.model.ids import Namespace, RunId
from flo.model.workflows import BranchName
from flo.workflow.outcome import StepError

EVENTS_PER_ADVANCE_MAX = 20_000


class Advance:
    """One execution on its way from one wait to the next."""

    __slots__ = ("context", "event_count", "execution", "namespace", "now_ms", "run_id", "space")

    def __init__(
        self, state: State, namespace: Namespace, execution: Execution, context: Context
    ) -> None:
        self.namespace = namespace
        self.space = state.spaces[namespace]
        self.execution, self.run_id = execution, execution.run_id
        self.context, self.now_ms = context, context.now_ms
        self.event_count = 0
        """How many events have come of it so far."""

    def started(self, branch: BranchName, now: Branch, detail: str = "") -> StepStarted:
        return StepStarted(
            namespace=self.namespace,
            run_id=self.run_id,
            branch=branch,
            now=now,
            at_ms=self.now_ms,
            detail=detail,
        )

    def held(self, branch: BranchName, now: Branch, detail: str = "") -> StepHeld:
        return StepHeld(
            namespace=self.namespace,
            run_id=self.run_id,
            branch=branch,
            now=now,
            at_ms=self.now_ms,
            detail=detail,
        )

    def not_made(
        self, branch: BranchName, now: Branch, target: str, outcome: str, error: StepError | None
    ) -> CallNotMade:
        return CallNotMade(
            namespace=self.namespace,
            run_id=self.run_id,
            branch=branch,
            step=now.step,
            visit=now.visit,
            attempt=now.attempt,
            target=target,
            outcome=outcome,
            at_ms=self.now_ms,
            error=error.message if error is not None else None,
            error_code=error.code if error is not None else None,
            retryable=error is None or error.retryable,
        )

    def cancelled(self, run_id: RunId, reason: str) -> tuple[RunCancelled, ...]:
        """A run that nobody waits for any more is cancelled, unless it has ended."""
        run = self.space.runs.get(run_id)
        if run is None:
            return ()
        event = RunCancelled(
            namespace=self.namespace,
            run_id=run_id,
            at_ms=self.now_ms,
            reason=reason,
            worker_id=run.worker_id,
        )
        return (event,)
