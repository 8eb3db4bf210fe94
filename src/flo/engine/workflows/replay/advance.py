"""An advance that starts nothing: whatever it asks for is answered by the recording."""

from collections.abc import Callable

from flo.engine.context import Context
from flo.engine.pipelines.events import PipelineSubmitted
from flo.engine.pipelines.records import PipelineRecord
from flo.engine.runs.events import RunCancelled, RunQueued
from flo.engine.runs.records import Run
from flo.engine.state import State
from flo.engine.workflows.advance.base import Advance, Job, Made, Refused, params_of
from flo.engine.workflows.events import WorkflowStarted
from flo.engine.workflows.execution import Execution
from flo.engine.workflows.records import AWAITED_PIPELINE, Branch, CallRecord, WorkflowRun
from flo.engine.workflows.replay.recording import CallsAhead, Diverged, is_at
from flo.model.errors import FAILURE_CODE
from flo.model.ids import DURATION_MS_MAX, ActionName, Namespace, RunId, parse_run_id
from flo.model.runs import PRIORITY_DEFAULT
from flo.model.views.attempts import AttemptEnd
from flo.model.workflows import BranchName
from flo.workflow.limits import EVENT_LIMIT_REACHED
from flo.workflow.outcome import FAILURE, SUCCESS, StepError
from flo.workflow.plan.monitor import new_monitor
from flo.workflow.plan.plan import Executor, Plan
from flo.workflow.plan.progress import (
    ERROR_OUTCOMES,
    Choice,
    EndPlan,
    ExecutorCall,
    ExecutorResult,
    Next,
    PlanProgress,
    WaitUntil,
)
from flo.workflow.steps import Target, TargetKind


class RecordedAdvance(Advance):
    __slots__ = ("_ahead",)

    def __init__(
        self,
        state: State,
        namespace: Namespace,
        execution: Execution,
        context: Context,
        ahead: CallsAhead,
    ) -> None:
        super().__init__(state, namespace, execution, context)
        self._ahead = ahead

    def queued(
        self, branch: BranchName, now: Branch, action: ActionName, payload: bytes
    ) -> RunQueued | Refused:
        call = self._ahead.begun(branch, now)
        if call.run_id is None:
            return _refused(call)
        if _action_of(call) != action:
            raise Diverged(f"action {action!r} is called, not {call.run_id}")
        return RunQueued(namespace=self.namespace, run=self._run(call.run_id, action, payload))

    def child(
        self, branch: BranchName, now: Branch, target: Target, payload: bytes
    ) -> WorkflowStarted | Refused:
        call = self._ahead.begun(branch, now)
        if call.run_id is None:
            return _refused(call)
        child = WorkflowRun(
            run_id=call.run_id,
            number=0,
            workflow=target.name,
            version="",
            input=payload,
            created_at_ms=self.now_ms,
        )
        return WorkflowStarted(namespace=self.namespace, run=child)

    def pipeline(
        self, branch: BranchName, now: Branch, target: Target, payload: bytes
    ) -> PipelineSubmitted | Refused:
        call = self._ahead.begun(branch, now)
        if call.run_id is None:
            return _refused(call)
        record = PipelineRecord(
            id=call.run_id.removeprefix(AWAITED_PIPELINE),
            number=0,
            journal=0,
            graph={},
            params=params_of(payload) or {},
            created_at_ms=self.now_ms,
            nodes=[],
        )
        return PipelineSubmitted(namespace=self.namespace, pipeline=record)

    def job(self, branch: BranchName, now: Branch, make: Callable[[], Job]) -> Job | RunQueued:
        call = self._ahead.begun(branch, now)
        if call.run_id is None:
            return make()
        action = _action_of(call)
        return RunQueued(namespace=self.namespace, run=self._run(call.run_id, action, b""))

    def of_blocks(self, make: Callable[[], Made]) -> Made | None:
        return None

    def end_in_hand(self, run_id: RunId) -> AttemptEnd | None:
        return self._ahead.unknown(run_id)

    def cancelled(self, run_id: RunId, reason: str) -> tuple[RunCancelled, ...]:
        return ()

    def bound_reached(self, branch: BranchName) -> StepError | None:
        """Not every event comes again: a bound on them was reached if nothing more was called."""
        if self._ahead.error_code == EVENT_LIMIT_REACHED and self._ahead.next(branch) is None:
            return StepError(message="", code=EVENT_LIMIT_REACHED, retryable=False)
        reached = super().bound_reached(branch)
        return reached if reached and reached.code == self._ahead.error_code else None

    def delayed_until_ms(self, branch: BranchName, now: Branch) -> int | None:
        """As long as it was; for ever, if it never came to that."""
        call = self._ahead.next(branch)
        if call is None:
            return self.now_ms + DURATION_MS_MAX
        if not is_at(call, now):
            return None
        began_at_ms = self.execution.run.created_at_ms + call.began_ms
        return began_at_ms if began_at_ms > self.now_ms else None

    def next_of_plan(
        self,
        branch: BranchName,
        plan: Plan,
        progress: PlanProgress | None,
        result: ExecutorResult | None,
        choose: Callable[[], Next],
    ) -> Next:
        """As it was: breakers, health, rates, caches and chance are not computed again."""
        choice = self._choice(branch, plan, progress, result)
        following = PlanProgress(began_at_ms=self.now_ms)
        if isinstance(choice, ExecutorCall):
            order = (choice.executor.name,)
            following = PlanProgress(
                began_at_ms=self.now_ms, order=order, attempt=1, called_at_ms=self.now_ms
            )
        return Next(choice, following, (), new_monitor(plan, self.now_ms))

    def _choice(
        self,
        branch: BranchName,
        plan: Plan,
        progress: PlanProgress | None,
        result: ExecutorResult | None,
    ) -> Choice:
        if result is not None and result.outcome not in ERROR_OUTCOMES:
            return EndPlan(result.outcome, result.output)
        call = self._ahead.next(branch)
        if call is None or not is_at(call, self.execution.branches[branch]):
            return _given_up(plan, progress, result)
        began_at_ms = self.execution.run.created_at_ms + call.began_ms
        if began_at_ms > self.now_ms or is_never_made(call):
            return WaitUntil(began_at_ms)
        if call.target.startswith(TargetKind.PLAN):
            return EndPlan(call.outcome or FAILURE, call.output, error_of_call(call))
        return ExecutorCall(_executor(plan, call), 1)

    def _run(self, run_id: RunId, action: ActionName, payload: bytes) -> Run:
        return Run(
            run_id=run_id,
            action=action,
            number=0,
            input=payload,
            priority=PRIORITY_DEFAULT,
            created_at_ms=self.now_ms,
            ready_at_ms=self.now_ms,
        )


def is_never_made(call: CallRecord) -> bool:
    """Whether a plan was about to make the call when nobody waited for it any more."""
    return call.outcome is None and call.run_id is None


def error_of_call(call: CallRecord) -> StepError | None:
    """Why a call has failed, if it has."""
    if call.error_code is None:
        return None
    return StepError(message=call.error or "", code=call.error_code, retryable=call.retryable)


def _given_up(plan: Plan, progress: PlanProgress | None, result: ExecutorResult | None) -> EndPlan:
    """No other executor was called."""
    if result is None or progress is None:
        raise Diverged("a plan begins that has called nobody")
    if plan.fallback is not None:
        return EndPlan(SUCCESS, plan.fallback.value.encode())
    return EndPlan(FAILURE, error=result.failure(plan, progress.order[0]))


def _executor(plan: Plan, call: CallRecord) -> Executor:
    name = _action_of(call)
    for executor in plan.executors:
        if name in (executor.action.name, str(executor.action)):
            return executor
    raise Diverged(f"no executor of the plan calls {name!r}")


def _action_of(call: CallRecord) -> str:
    address = parse_run_id(call.run_id) if call.run_id is not None else None
    return address[0] if address is not None else call.target


def _refused(call: CallRecord) -> Refused:
    error = error_of_call(call) or StepError(message="", code=FAILURE_CODE)
    return Refused(call.outcome or FAILURE, error)
