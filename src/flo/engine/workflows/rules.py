"""Rules and reactions of workflows: deploy, start, signal, pause, cancel, rerun, fall due.

    StartWorkflow ──▸ WorkflowStarted ──react──▸ the first step begins
    RunCompleted, RunFailed, … ──react──▸ the branch that waited for the run goes on
    WorkflowFinished ──react──▸ the parent that waited for the child goes on

How an execution advances is in advance/, how its events are folded in folds.py. All that one
command leads to is one commit.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import DueKey
from flo.engine.runs.events import RunCancelled, RunCompleted, RunFailed, RunRequeued, RunTimedOut
from flo.engine.state import Deployed, Space, State, Workflow
from flo.engine.workflows.advance import wakes
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.moves import Moves
from flo.engine.workflows.advance.stepper import carry_out
from flo.engine.workflows.advance.unknown import MAY_HAVE_HAPPENED, left_unknown, unknown_at_end
from flo.engine.workflows.blocks.jobs import job_ended, job_requeued
from flo.engine.workflows.blocks.parameters import check_create, check_start
from flo.engine.workflows.definitions import reading_of, text_digest
from flo.engine.workflows.events import (
    HistoryFiled,
    SignalReceived,
    StepStarted,
    WorkflowAdmitted,
    WorkflowCreated,
    WorkflowDeleted,
    WorkflowDisabled,
    WorkflowEnabled,
    WorkflowFinished,
    WorkflowPaused,
    WorkflowResumed,
    WorkflowStarted,
)
from flo.engine.workflows.execution import HISTORY_PART_LENGTH, Execution
from flo.engine.workflows.lookups import ended_workflow, known_status, workflow_with_key
from flo.engine.workflows.records import Origin, Signal, WorkflowRun
from flo.engine.workflows.starts import attributes, limit_key_of
from flo.engine.workflows.warn.actions import problems_of_actions, start_warnings
from flo.engine.workflows.warn.signals import signal_warning
from flo.model.base import Event, Nothing
from flo.model.blocks.names import JOB_PREFIX
from flo.model.errors import (
    CANCELLED_CODE,
    FAILURE_CODE,
    TIMEOUT_CODE,
    Conflict,
    Invalid,
    NotFound,
    TooLarge,
)
from flo.model.ids import (
    Namespace,
    RunId,
    check_run_id,
    run_id_of,
)
from flo.model.workflows import (
    CHOSEN,
    RUN_PREFIX,
    SIGNALS_KEPT_MAX,
    TEXT_LENGTH_MAX,
    CancelWorkflow,
    CreateWorkflow,
    DeleteWorkflow,
    DisableWorkflow,
    EnableWorkflow,
    PauseWorkflow,
    RerunWorkflow,
    ResumeWorkflow,
    SignalSent,
    SignalWorkflow,
    StartWorkflow,
    StepName,
    WorkflowBegun,
    WorkflowDeployed,
    WorkflowName,
)
from flo.workflow.definition import Definition, Idempotency
from flo.workflow.document.read import strictly
from flo.workflow.document.report import one_line
from flo.workflow.outcome import FAILURE, TIMEOUT, StepError

_encode = msgspec.msgpack.Encoder().encode


def decide_create(state: State, command: CreateWorkflow, context: Context) -> Decision:
    if len(command.text) > TEXT_LENGTH_MAX:
        raise TooLarge(f"expected a text of at most {TEXT_LENGTH_MAX} characters")
    reading = reading_of(command.text)
    definition, problems = strictly(reading) if command.strict else reading
    missing = problems_of_actions(state.space(command.namespace), definition, command.text)
    found: list[dict[str, Any]] = msgspec.to_builtins([*problems, *missing])
    if definition is None:
        first = next(one for one in problems if one.severity == "error")
        raise Invalid(one_line(first), code="invalid_workflow", details={"problems": found})
    workflow = state.space(command.namespace).workflows.get(definition.name)
    known = workflow.versions.get(definition.version) if workflow is not None else None
    reply = WorkflowDeployed(
        name=definition.name,
        version=definition.version,
        created=known is None,
        problems=found,
        definition=text_digest(command.text).hex(),
    )
    if known is not None and known.text == command.text:
        return Decision(reply)
    space = state.space(command.namespace)
    digest = text_digest(command.text)
    is_free = space.deleted_versions.admit(definition.name, definition.version, digest)
    if known is not None or not is_free:
        raise Conflict(
            f"workflow {definition.name!r} {'has' if known is not None else 'had'} another text as "
            f"version {definition.version!r}"
            f"{'' if known is not None else ', which was deleted'}: "
            "give the new one a version of its own",
            code="version_exists",
        )
    check_create(space, definition, context)
    created = WorkflowCreated(
        namespace=command.namespace,
        name=definition.name,
        version=definition.version,
        text=command.text,
        definition=_encode(definition),
        at_ms=context.now_ms,
    )
    return Decision(reply, (created,))


def decide_delete(state: State, command: DeleteWorkflow, context: Context) -> Decision:
    named_version(state.space(command.namespace), command.name, command.version)
    deleted = WorkflowDeleted(
        namespace=command.namespace,
        name=command.name,
        version=command.version,
        at_ms=context.now_ms,
    )
    return Decision(Nothing(), (deleted,))


def decide_disable(state: State, command: DisableWorkflow, context: Context) -> Decision:
    workflow, version = _steered(state, command)
    is_enabled = workflow.enabled if version is None else workflow.is_enabled(version)
    event = WorkflowDisabled(namespace=command.namespace, name=command.name, version=version)
    return Decision(Nothing(), (event,) if is_enabled else ())


def decide_enable(state: State, command: EnableWorkflow, context: Context) -> Decision:
    workflow, version = _steered(state, command)
    is_enabled = workflow.enabled and not workflow.disabled
    if version is not None:
        is_enabled = workflow.is_enabled(version)
    event = WorkflowEnabled(namespace=command.namespace, name=command.name, version=version)
    return Decision(Nothing(), () if is_enabled else (event,))


def decide_start(state: State, command: StartWorkflow, context: Context) -> Decision:
    space = state.space(command.namespace)
    deployed = named_version(space, command.name, command.version)
    key = _checked_key(deployed.definition, command.idempotency_key)
    if key is not None:
        known = workflow_with_key(space, command.name, key, context)
        if known is not None:
            status = known_status(space, known, context)
            return Decision(WorkflowBegun(run_id=known, duplicate=True, status=status))
    check_enabled(space, deployed.definition)
    check_start(space, deployed.definition, command.input, context)
    run = WorkflowRun(
        **next_run(space, context, _checked_id(space, command.run_id, context)),
        workflow=command.name,
        version=deployed.definition.version,
        input=command.input,
        created_at_ms=context.now_ms,
        idempotency_key=key,
        attributes=attributes(deployed.definition, command.input),
        limit_key=limit_key_of(deployed.definition, command.input),
        subject=command.subject,
        trace=command.trace,
    )
    started = WorkflowStarted(namespace=command.namespace, run=run)
    warnings = start_warnings(space, deployed.definition)
    return Decision(WorkflowBegun(run_id=run.run_id, warnings=warnings), (started,))


def decide_signal(state: State, command: SignalWorkflow, context: Context) -> Decision:
    execution = live_execution(state, command, context)
    if len(execution.signals) >= SIGNALS_KEPT_MAX:
        raise Conflict(
            f"{SIGNALS_KEPT_MAX} signals wait in run {command.run_id!r} for a step that takes them",
            code="too_many_signals",
        )
    signal = Signal(type=command.type, payload=command.payload, at_ms=context.now_ms)
    received = SignalReceived(namespace=command.namespace, run_id=command.run_id, signal=signal)
    warning = signal_warning(execution.definition, command.type)
    return Decision(SignalSent(warning=warning), (received,))


def decide_cancel(state: State, command: CancelWorkflow, context: Context) -> Decision:
    execution = live_execution(state, command, context)
    if execution.ending is not None:
        raise Conflict(
            f"run {command.run_id!r} is ending already, and being undone", code="run_has_ended"
        )
    advance = Advance(state, command.namespace, execution, context)
    return Decision(Nothing(), then=carry_out(advance, wakes.cancel(advance, command.reason)))


def decide_pause(state: State, command: PauseWorkflow, context: Context) -> Decision:
    execution = live_execution(state, command, context)
    if execution.paused:
        return Decision(Nothing())
    if execution.ending is not None:
        raise Conflict(f"run {command.run_id!r} is being undone", code="run_has_ended")
    paused = WorkflowPaused(
        namespace=command.namespace, run_id=command.run_id, at_ms=context.now_ms
    )
    return Decision(Nothing(), (paused,))


def decide_resume(state: State, command: ResumeWorkflow, context: Context) -> Decision:
    execution = live_execution(state, command, context)
    resumed = WorkflowResumed(
        namespace=command.namespace, run_id=command.run_id, at_ms=context.now_ms
    )
    return Decision(Nothing(), (resumed,) if execution.paused else ())


def decide_rerun(state: State, command: RerunWorkflow, context: Context) -> Decision:
    space = state.space(command.namespace)
    repeated = space.executions.get(command.run_id) or ended_workflow(
        space, command.run_id, context
    )
    if repeated is None:
        raise not_found(command.run_id)
    run = repeated.run
    deployed = named_version(space, run.workflow, command.version or run.version)
    check_enabled(space, deployed.definition)
    step = _first_step(deployed.definition, command.step)
    payload = run.input if command.input is None else command.input
    rerun = WorkflowRun(
        **next_run(space, context),
        workflow=run.workflow,
        version=deployed.definition.version,
        input=payload,
        created_at_ms=context.now_ms,
        origin=Origin(run_id=run.run_id, step=command.step or "start"),
        attributes=attributes(deployed.definition, payload),
        first_step=step,
        results=dict(repeated.results) if step is not None else {},
        triggered_by="rerun",
        limit_key=limit_key_of(deployed.definition, payload),
        subject=run.subject,
    )
    started = WorkflowStarted(namespace=command.namespace, run=rerun)
    return Decision(WorkflowBegun(run_id=rerun.run_id), (started,))


def fall_due(state: State, key: DueKey, context: Context) -> Iterable[Event]:
    """A time has come that a workflow run has waited for."""
    _, namespace, run_id = key
    return _advanced(state, namespace, run_id, context, wakes.fall_due)


def react_started(state: State, event: WorkflowStarted, context: Context) -> Iterable[Event]:
    """The first step begins, if there is a permit.

    A child is set in motion with the next tick, so that one command does not start a whole tree.
    """
    run = event.run
    if run.limit_key is not None:
        return _admitted(state, event.namespace, (run.workflow, run.limit_key), context)
    if run.parent is not None:
        return ()
    return _advanced(state, event.namespace, run.run_id, context, wakes.begin)


def react_admitted(state: State, event: WorkflowAdmitted, context: Context) -> Iterable[Event]:
    execution = state.spaces[event.namespace].executions[event.run_id]
    if execution.run.parent is not None:
        return ()
    return _advanced(state, event.namespace, event.run_id, context, wakes.begin)


def react_signal(state: State, event: SignalReceived, context: Context) -> Iterable[Event]:
    return _advanced(state, event.namespace, event.run_id, context, wakes.match_signals)


def react_resumed(state: State, event: WorkflowResumed, context: Context) -> Iterable[Event]:
    return _advanced(state, event.namespace, event.run_id, context, wakes.resume)


def react_run_ended(
    state: State, event: RunCompleted | RunFailed | RunTimedOut | RunCancelled, context: Context
) -> Iterable[Event]:
    """The branch that has waited for the run goes on."""
    space = state.spaces[event.namespace]
    if event.run_id.startswith(JOB_PREFIX) and event.run_id in space.blocks.jobs:
        return job_ended(state, event, _result_of(event), context)
    waiting = space.awaited.get(event.run_id)
    if waiting is None:
        return ()
    run_id, branch = waiting
    advance = Advance(state, event.namespace, space.executions[run_id], context)
    outcome, output, error, answered = _result_of(event)
    moves = wakes.end_wait(advance, branch, outcome, output, error, answered=answered)
    return carry_out(advance, (*unknown_at_end(advance, branch, event), *moves))


def react_run_requeued(state: State, event: RunRequeued, context: Context) -> Iterable[Event]:
    """An attempt of the run may have had its effect, although another one follows."""
    space = state.spaces[event.namespace]
    if event.run_id.startswith(JOB_PREFIX) and event.run_id in space.blocks.jobs:
        return job_requeued(state, event, context)
    waiting = space.awaited.get(event.run_id)
    if waiting is None or event.end not in MAY_HAVE_HAPPENED:
        return ()
    run_id, branch = waiting
    advance = Advance(state, event.namespace, space.executions[run_id], context)
    return left_unknown(advance, branch, event.end)


def react_finished(state: State, event: WorkflowFinished, context: Context) -> Iterable[Event]:
    """The next run that waits for its permit begins, and the parent of a child goes on."""
    space = state.spaces[event.namespace]
    if event.limit_key is not None:
        yield from _admitted(state, event.namespace, (event.workflow, event.limit_key), context)
    waiting = space.awaited.get(event.run_id)
    if waiting is not None:
        run_id, branch = waiting
        advance = Advance(state, event.namespace, space.executions[run_id], context)
        moves = wakes.end_child(advance, branch, event)
        yield from carry_out(advance, moves)


def react_step_started(state: State, event: StepStarted, context: Context) -> Iterable[Event]:
    """A history that has become long goes to the archive, part by part."""
    execution = state.spaces[event.namespace].executions[event.run_id]
    if len(execution.history) < HISTORY_PART_LENGTH:
        return ()
    filed = HistoryFiled(
        namespace=event.namespace,
        run_id=event.run_id,
        part=execution.history_parts,
        at_ms=context.now_ms,
    )
    return (filed,)


def named_version(space: Space, name: WorkflowName, version: str | None = None) -> Deployed:
    workflow = space.workflows.get(name)
    deployed = workflow.version(version) if workflow is not None else None
    if deployed is None:
        problem = "is not deployed"
        if workflow is not None and workflow.versions:
            problem = f"has no version {version!r}; it has {', '.join(workflow.versions)}"
        raise NotFound(f"workflow {name!r} {problem}", code="workflow_not_found")
    return deployed


def check_enabled(space: Space, definition: Definition) -> None:
    workflow = space.workflows[definition.name]
    if not workflow.is_enabled(definition.version):
        which = f"version {definition.version!r} of " if workflow.enabled else ""
        raise Conflict(f"{which}workflow {definition.name!r} is disabled", code="workflow_disabled")


def _steered(
    state: State, command: DisableWorkflow | EnableWorkflow
) -> tuple[Workflow, str | None]:
    """The workflow to enable or disable, and the version if only one is meant."""
    space = state.space(command.namespace)
    deployed = named_version(space, command.name, command.version)
    version = deployed.definition.version if command.version is not None else None
    return space.workflows[command.name], version


def live_execution(
    state: State,
    command: SignalWorkflow | CancelWorkflow | PauseWorkflow | ResumeWorkflow,
    context: Context,
) -> Execution:
    """The run, which has not ended."""
    space = state.space(command.namespace)
    execution = space.executions.get(command.run_id)
    if execution is not None:
        return execution
    ended = ended_workflow(space, command.run_id, context)
    if ended is None:
        raise not_found(command.run_id)
    raise Conflict(
        f"run {command.run_id!r} has ended already: it is {ended.status}", code="run_has_ended"
    )


def not_found(run_id: RunId) -> NotFound:
    return NotFound(f"workflow run {run_id!r} does not exist", code="run_not_found")


def _advanced(
    state: State,
    namespace: Namespace,
    run_id: RunId,
    context: Context,
    wake: Callable[[Advance], Moves],
) -> Iterable[Event]:
    advance = Advance(state, namespace, state.spaces[namespace].executions[run_id], context)
    return carry_out(advance, wake(advance))


def _result_of(
    event: RunCompleted | RunFailed | RunTimedOut | RunCancelled,
) -> tuple[str, bytes, StepError | None, bool]:
    """The outcome of a run, its output, its error, and whether it completed."""
    match event:
        case RunCompleted(outcome=outcome, output=output):
            return outcome, output, None, True
        case RunFailed(error=message, error_code=code, retryable=retryable):
            error = StepError(message=message, code=code or FAILURE_CODE, retryable=retryable)
            return FAILURE, b"", error, False
        case RunTimedOut(error=message, error_code=code):
            return TIMEOUT, b"", StepError(message=message, code=code or TIMEOUT_CODE), False
        case RunCancelled(reason=reason):
            message = f"cancelled: {reason}" if reason else "cancelled"
            return FAILURE, b"", StepError(message=message, code=CANCELLED_CODE), False


def _admitted(
    state: State, namespace: str, key: tuple[WorkflowName, str], context: Context
) -> Iterable[Event]:
    """The runs that get a permit: each is found when the one before it has taken its own."""
    space = state.spaces[namespace]
    while (permits := space.workflow_permits.get(key)) is not None and permits.waiting:
        run_id = next(iter(permits.waiting))
        limit = space.executions[run_id].definition.concurrency
        if limit is not None and len(permits.holders) >= limit.max:
            return
        yield WorkflowAdmitted(namespace=namespace, run_id=run_id, at_ms=context.now_ms)


def next_run(space: Space, context: Context, chosen: RunId | None = None) -> dict[str, Any]:
    """The id and the number of the next run, and the bounds that this server has for it."""
    number = space.workflow_number + 1
    return {
        "run_id": chosen or run_id_of(RUN_PREFIX, number),
        "number": number,
        "limits": context.volatile.execution_limits,
    }


def _checked_id(space: Space, run_id: RunId | None, context: Context) -> RunId | None:
    """The id that was chosen for a run, unless another run has it."""
    if run_id is None:
        return None
    check_run_id(run_id, RUN_PREFIX)
    if workflow_with_key(space, CHOSEN, run_id, context) is not None:
        raise Conflict(f"there is a workflow run {run_id!r} already", code="run_exists")
    return run_id


def _checked_key(definition: Definition, key: str | None) -> str | None:
    """The key; one that is given is honoured, whether the workflow asks for keys or not."""
    if key is None and definition.idempotency is Idempotency.REQUIRED:
        raise Invalid(
            f"workflow {definition.name!r} wants an idempotency key for every start",
            code="idempotency_key_required",
        )
    return key


def _first_step(definition: Definition, step: StepName | None) -> StepName | None:
    if step in (None, "start", "_start"):
        return None
    if step not in definition.steps:
        known = ", ".join(["start", *definition.steps])
        raise Invalid(
            f"workflow {definition.name!r} has no step {step!r}; it has {known}",
            code="step_not_found",
        )
    return step
