"""What every part of an advance sees: the execution and its context, and what it can start."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.pipelines.events import PipelineSubmitted
from flo.engine.pipelines.rules import decide_submit
from flo.engine.runs.events import RunCancelled, RunQueued
from flo.engine.runs.records import RunCause
from flo.engine.runs.rules import queue_run
from flo.engine.state import State
from flo.engine.workflows.advance.scope import too_large
from flo.engine.workflows.events import CallNotMade, StepHeld, StepStarted, WorkflowStarted
from flo.engine.workflows.execution import Execution
from flo.engine.workflows.records import Branch, Parent, WorkflowRun
from flo.engine.workflows.starts import attributes, limit_key_of, version_for
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.ids import ActionName, Namespace, RunId
from flo.model.pipelines.pipelines import SubmitPipeline
from flo.model.runs import RunStatus
from flo.model.views.attempts import AttemptEnd
from flo.model.workflows import RUN_PREFIX, BranchName
from flo.workflow.limits import EVENT_LIMIT_REACHED, STEP_LIMIT_REACHED
from flo.workflow.outcome import EXECUTION_FAILURE, TARGET_DISABLED, TARGET_NOT_FOUND, StepError
from flo.workflow.plan.plan import Plan
from flo.workflow.plan.progress import ExecutorResult, Next, PlanProgress
from flo.workflow.steps import Target

EVENTS_PER_ADVANCE_MAX = 20_000


DEPTH_MAX = 32


Made = TypeVar("Made")
Job = TypeVar("Job")


class Refused(NamedTuple):
    """A run or a child that cannot be started: the outcome that this is for its step, and why."""

    outcome: str
    error: StepError


class Advance:
    """One execution on its way from one wait to the next."""

    __slots__ = (
        "context",
        "event_count",
        "execution",
        "namespace",
        "now_ms",
        "run_id",
        "space",
        "state",
    )

    def __init__(
        self, state: State, namespace: Namespace, execution: Execution, context: Context
    ) -> None:
        self.state, self.namespace = state, namespace
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

    def queued(
        self, branch: BranchName, now: Branch, action: ActionName, payload: bytes
    ) -> RunQueued | Refused:
        """A run of an action, unless the action refuses it."""
        number = self.space.numbers.get(action, 0) + 1
        cause = RunCause(
            run_id=self.run_id, branch=branch, step=now.step, visit=now.visit, attempt=now.attempt
        )
        try:
            run = queue_run(
                self.space,
                action,
                payload,
                self.context,
                number,
                cause=cause,
                subject=self.execution.run.subject,
                trace=self.execution.run.trace,
            )
        except NotFound as refusal:
            return _refused(TARGET_NOT_FOUND, refusal.message)
        except (Conflict, Invalid) as refusal:
            if refusal.code == "action_disabled":
                return _refused(TARGET_DISABLED, refusal.message)
            return _refused(EXECUTION_FAILURE, refusal.message, refusal.code)
        return RunQueued(namespace=self.namespace, run=run)

    def child(
        self, branch: BranchName, now: Branch, target: Target, payload: bytes
    ) -> WorkflowStarted | Refused:
        """A child, unless it cannot be started."""
        parent = self.execution.run
        workflow = self.space.workflows.get(target.name)
        deployed = version_for(workflow, target) if workflow is not None else None
        if workflow is None or deployed is None:
            return _refused(TARGET_NOT_FOUND, f"workflow {target} is not deployed")
        if not workflow.is_enabled(deployed.definition.version):
            return _refused(TARGET_DISABLED, f"workflow {target} is disabled")
        if parent.depth >= DEPTH_MAX:
            return _refused(EXECUTION_FAILURE, f"children are {DEPTH_MAX} deep", "too_deep")
        if (problem := too_large("the input of the child", payload)) is not None:
            return _refused(EXECUTION_FAILURE, problem, "too_large")
        number = self.space.workflow_number + 1
        child = WorkflowRun(
            run_id=f"{RUN_PREFIX}-{number}",
            number=number,
            workflow=target.name,
            version=deployed.definition.version,
            input=payload,
            created_at_ms=self.now_ms,
            parent=Parent(run_id=parent.run_id, branch=branch),
            attributes=attributes(deployed.definition, payload),
            triggered_by="parent",
            depth=parent.depth + 1,
            limit_key=limit_key_of(deployed.definition, payload),
            subject=parent.subject,
            limits=parent.limits,
            trace=parent.trace,
        )
        return WorkflowStarted(namespace=self.namespace, run=child)

    def pipeline(
        self, branch: BranchName, now: Branch, target: Target, payload: bytes
    ) -> PipelineSubmitted | Refused:
        """A pipeline of a stored graph, which begins with the next tick, unless it cannot be."""
        params = params_of(payload)
        if params is None:
            problem = f"expected an object as the input of {target}, got {payload[:80]!r}"
            return _refused(EXECUTION_FAILURE, problem, "invalid_params")
        command = SubmitPipeline(name=target.name, params=params, namespace=self.namespace)
        try:
            (submitted,) = decide_submit(self.state, command, self.context).events
        except NotFound as refusal:
            return _refused(TARGET_NOT_FOUND, refusal.message)
        except (Conflict, Invalid, TooLarge) as refusal:
            return _refused(EXECUTION_FAILURE, refusal.message, refusal.code)
        assert isinstance(submitted, PipelineSubmitted)
        record = replace(submitted.pipeline, parent=self.run_id, has_begun=False)
        return PipelineSubmitted(namespace=self.namespace, pipeline=record)

    def job(self, branch: BranchName, now: Branch, make: Callable[[], Job]) -> Job | RunQueued:
        """The job of a block step; a replay knows which it was, and has no ledger."""
        return make()

    def of_blocks(self, make: Callable[[], Made]) -> Made | None:
        """What is done before the first step and after the last one; nothing, in a replay."""
        return make()

    def bound_reached(self, branch: BranchName) -> StepError | None:
        """Why the execution may do nothing more, if it has done as much as it may."""
        execution, pace = self.execution, self.execution.pace
        if execution.step_count >= pace.steps:
            return _bound(f"{pace.steps} steps", "steps", STEP_LIMIT_REACHED)
        if execution.event_count >= pace.events:
            return _bound(f"{pace.events} events", "events", EVENT_LIMIT_REACHED)
        return None

    def delayed_until_ms(self, branch: BranchName, now: Branch) -> int | None:
        """When a branch may begin its next step; None if now."""
        return self.execution.pace.delayed_until_ms(self.execution.behind_ms, self.now_ms)

    def next_of_plan(
        self,
        branch: BranchName,
        plan: Plan,
        progress: PlanProgress | None,
        result: ExecutorResult | None,
        choose: Callable[[], Next],
    ) -> Next:
        """How a plan goes on, after a result if there is one; a replay knows how it did."""
        return choose()

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

    def end_in_hand(self, run_id: RunId) -> AttemptEnd | None:
        """How the attempt ends that a worker has in hand if nobody waits for its run any more."""
        run = self.space.runs.get(run_id)
        is_running = run is not None and run.status is RunStatus.RUNNING
        return AttemptEnd.CANCELLED if is_running else None

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


def params_of(payload: bytes) -> dict[str, Any] | None:
    """The params of a pipeline: the object that a payload is; None if it is none."""
    try:
        return msgspec.json.decode(payload or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _bound(most: str, which: str, code: str) -> StepError:
    return StepError(
        message=f"{most} are the most that the run may have: let its loop end, or raise "
        f"limits.{which} of the workflow and workflow_max_{which} of the server",
        code=code,
        retryable=False,
    )


def _refused(outcome: str, message: str, code: str | None = None) -> Refused:
    return Refused(outcome, StepError(message=message, code=code or outcome))
