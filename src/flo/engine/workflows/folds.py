"""Folds of workflow events, and what the archive keeps of workflow runs.

workflow       a run that has ended, by its number                 kind "workflow", name "wfrun"
workflow-of    the same in short, by its workflow                  kind "workflow-of", its name
workflow-id    the number of a run whose id was chosen, by that    kind "workflow-id", name "wfrun"
history        a part of a history that has become long            kind "history", its run id
calls          the calls, signals and controls of that part        kind "calls", its run id
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from flo.engine.due import WORKFLOW
from flo.engine.idempotency import IdempotencyKey
from flo.engine.state import Deployed, Permits, Space, State, Workflow
from flo.engine.workflows.calls.log import Outputs, input_digest
from flo.engine.workflows.definitions import archive_unneeded, text_digest
from flo.engine.workflows.events import (
    ChildCancelled,
    HistoryFiled,
    PlanNoted,
    PollExhausted,
    RollbackBegan,
    SignalReceived,
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
from flo.engine.workflows.execution import (
    HISTORY_PART_LENGTH,
    NO_BRANCH,
    BranchEvent,
    EventOfAllBranches,
    Execution,
)
from flo.engine.workflows.history import entries_of
from flo.engine.workflows.lists.tags import tags_of_run
from flo.engine.workflows.records import (
    AWAITED_PIPELINE,
    Branch,
    CallParts,
    ControlKind,
    ControlRecord,
    HistoryEntry,
    WorkflowRecord,
    WorkflowRun,
    WorkflowSummary,
    is_asked_for,
    params_payload,
)
from flo.model.ids import Namespace, RunId, run_id_of
from flo.model.storage.archive import Archived
from flo.model.workflows import CHOSEN, MAIN, RUN_PREFIX, BranchPhase
from flo.workflow.definition import Definition

RUN_KIND = "workflow"
SUMMARY_KIND = "workflow-of"
ID_KIND = "workflow-id"
HISTORY_KIND = "history"
CALLS_KIND = "calls"

_encode = msgspec.msgpack.Encoder().encode
_decode_definition = msgspec.msgpack.Decoder(Definition).decode


def apply_created(state: State, event: WorkflowCreated) -> None:
    space = state.space_made(event.namespace)
    workflow = space.workflows.setdefault(event.name, Workflow())
    deployed = Deployed(
        _decode_definition(event.definition), event.text, event.at_ms, text_digest(event.text)
    )
    workflow.gone.pop(event.version, None)
    workflow.versions[event.version] = deployed


def apply_deleted(state: State, event: WorkflowDeleted) -> None:
    space = state.spaces[event.namespace]
    workflow = space.workflows[event.name]
    versions = [event.version] if event.version is not None else list(workflow.versions)
    for version in versions:
        deployed = workflow.versions.pop(version)
        space.deleted_versions.add(event.name, version, deployed.digest)
        workflow.disabled.pop(version, None)
        if workflow.live[version]:
            workflow.gone[version] = deployed
    if not workflow.versions:
        workflow.disabled_since = None  # what comes after it under its name begins anew
    _forget_workflow(space, event.name)


def apply_disabled(state: State, event: WorkflowDisabled) -> None:
    workflow = state.spaces[event.namespace].workflows[event.name]
    if event.version is None:
        workflow.disabled_since = state.since()
    else:
        workflow.disabled[event.version] = state.since()


def apply_enabled(state: State, event: WorkflowEnabled) -> None:
    workflow = state.spaces[event.namespace].workflows[event.name]
    if event.version is None:
        workflow.disabled.clear()
    elif workflow.disabled_since is not None:  # all but this one
        workflow.disabled = dict.fromkeys(workflow.versions, workflow.disabled_since)
    workflow.disabled_since = None
    workflow.disabled.pop(event.version or "", None)


def apply_started(state: State, event: WorkflowStarted) -> None:
    space, run = state.spaces[event.namespace], event.run
    execution = restore_execution(state, event.namespace, run)
    execution.since = state.since()
    space.workflow_number = max(space.workflow_number, run.number)
    space.workflow_keys.run_ids.update(keys_of(run))
    execution.history += by_whom(state.by, entries_of(event))
    if run.parent is not None and execution.admitted:
        _set_in_motion(execution, run.created_at_ms)
    space.executions.note_status(execution)
    reschedule(state, event.namespace, execution)


def apply_admitted(state: State, event: WorkflowAdmitted) -> None:
    space = state.spaces[event.namespace]
    execution = space.executions[event.run_id]
    permits = _permits(space, execution.run)
    del permits.waiting[event.run_id]
    permits.holders[event.run_id] = None
    execution.fold(event)
    execution.since = state.since()
    if execution.run.parent is not None:
        _set_in_motion(execution, event.at_ms)
    space.executions.note_status(execution)
    reschedule(state, event.namespace, execution)


def apply_execution(state: State, event: EventOfAllBranches) -> None:
    """An event of an execution that is not over, and of no single branch."""
    executions = state.spaces[event.namespace].executions
    execution = executions[event.run_id]
    if isinstance(event, SignalReceived):
        event = replace(event, signal=replace(event.signal, actor=state.by))
    was_paused = execution.paused
    execution.fold(event)
    if execution.paused is not was_paused:
        execution.paused_since = state.since() if execution.paused else None
    if execution.ending is not None and execution.ending_since is None:
        execution.ending_since = state.since()
    executions.note_status(execution)
    by = state.by if _is_done_to(event) else None
    execution.history += by_whom(by, entries_of(event))
    reschedule(state, event.namespace, execution)


def apply_branch(state: State, event: BranchEvent) -> None:
    """An event of one branch; the others go on waiting for what they waited for."""
    space = state.spaces[event.namespace]
    execution = space.executions[event.run_id]
    before = execution.branches.get(event.branch, NO_BRANCH)
    execution.fold(event)
    after = execution.branches.get(event.branch, NO_BRANCH)
    if after is not NO_BRANCH and _waits_otherwise(before, after):
        after = execution.branches[event.branch] = replace(after, since=state.moment())
    if before.awaited != after.awaited:
        if before.awaited is not None:
            space.awaited.pop(before.awaited, None)
        if after.awaited is not None:
            space.awaited[after.awaited] = (event.run_id, event.branch)
            execution.calls.note_input(event.branch, _digest_of(space, after.awaited))
    if event.branch == MAIN:
        space.executions.note_status(execution)
    else:
        space.executions.note_length(execution)
    execution.history += entries_of(event, before)
    if before.until_ms != after.until_ms:
        reschedule(state, event.namespace, execution)


def _is_done_to(event: EventOfAllBranches) -> bool:
    """Whether it is what somebody has done to an execution; else it follows from its steps."""
    if isinstance(event, RollbackBegan):
        return is_asked_for(event.ending)
    return isinstance(event, SignalReceived | WorkflowPaused | WorkflowResumed)


def by_whom(by: str | None, entries: Iterable[HistoryEntry]) -> Iterable[HistoryEntry]:
    """What somebody outside has done to an execution, with who it was."""
    return entries if by is None else [replace(one, by=by) for one in entries]


def _waits_otherwise(before: Branch, after: Branch) -> bool:
    waits = (after.step, after.phase, after.awaited, after.attempt, after.polls)
    return waits != (before.step, before.phase, before.awaited, before.attempt, before.polls)


def _digest_of(space: Space, run_id: RunId) -> bytes:
    """The digest of what a run, a child or a pipeline that has just been made was given."""
    run = space.runs.get(run_id)
    if run is None and run_id.startswith(AWAITED_PIPELINE):
        params = space.pipelines.live[run_id.removeprefix(AWAITED_PIPELINE)].params
        return input_digest(params_payload(params))
    return input_digest(run.input if run is not None else space.executions[run_id].run.input)


def apply_noted(state: State, event: PlanNoted | PollExhausted) -> None:
    execution = state.spaces[event.namespace].executions[event.run_id]
    execution.event_count += 1
    execution.history += entries_of(event)


def apply_child_cancelled(state: State, event: ChildCancelled) -> None:
    """Nothing changes here: the events of the child follow."""


def apply_finished(state: State, event: WorkflowFinished) -> None:
    space = state.spaces[event.namespace]
    execution = space.executions[event.run_id]
    del space.executions[event.run_id]
    for branch in execution.branches.values():
        if branch.awaited is not None:
            space.awaited.pop(branch.awaited, None)
    state.due.clear((WORKFLOW, event.namespace, event.run_id))
    run = execution.run
    _give_back_permit(space, run)
    workflow = space.workflows[run.workflow]
    workflow.live_by[run.triggered_by] -= 1
    if not workflow.live_by[run.triggered_by]:
        del workflow.live_by[run.triggered_by]
    workflow.live[run.version] -= 1
    if not workflow.live[run.version]:
        del workflow.live[run.version]
        workflow.gone.pop(run.version, None)
    _forget_workflow(space, run.workflow)
    for key, _ in keys_of(run):
        state.keys_finished_count += 1
        space.workflow_keys.finish(key)


def archive_run(state: State, event: WorkflowFinished) -> Iterable[Archived]:
    """What the archive keeps of a run; its last event is yet to be folded."""
    space = state.spaces[event.namespace]
    execution = space.executions[event.run_id]
    run, ending = execution.run, event.ending
    definition = space.workflows[run.workflow].pinned(run.version).digest
    record = replace(record_of(execution, event), definition=definition, position=state.position)
    if execution.ending is None and is_asked_for(ending):
        history = (*record.history[:-1], replace(record.history[-1], by=state.by))
        record = replace(record, history=history)
    key = run.idempotency_key
    yield Archived(
        kind=RUN_KIND,
        namespace=space.archive_name,
        name=RUN_PREFIX,
        number=run.number,
        status=ending.status,
        finished_at_ms=event.at_ms,
        key=workflow_key(run.workflow, key) if key is not None else None,
        body=_encode(record),
    )
    yield _summary_row(space, run, event)
    yield from archive_unneeded(state, event)
    if is_chosen(run):
        yield Archived(
            kind=ID_KIND,
            namespace=space.archive_name,
            name=RUN_PREFIX,
            number=run.number,
            status=ending.status,
            finished_at_ms=event.at_ms,
            key=workflow_key(CHOSEN, run.run_id),
            body=b"",
        )


def record_of(execution: Execution, event: WorkflowFinished) -> WorkflowRecord:
    """A run as it ends with this event, which is yet to be folded."""
    ending = event.ending
    return WorkflowRecord(
        run=execution.run,
        status=ending.status,
        terminal=ending.terminal,
        finished_at_ms=event.at_ms,
        output=event.output,
        error=ending.error,
        results=execution.results,
        history=(*execution.history, *entries_of(event)),
        history_parts=execution.history_parts,
        undone=execution.undone,
        error_code=ending.error_code,
        retryable=ending.retryable,
        calls=_last_calls(execution, event),
    )


def _last_calls(execution: Execution, event: WorkflowFinished) -> CallParts:
    """The calls that are not filed yet; a run that was cancelled says so."""
    calls = execution.calls
    parts = replace(calls.parts(), calls=tuple(execution.item_outputs().filled(calls.ended)))
    if execution.ending is not None or not is_asked_for(event.ending):
        return parts
    cancelled = ControlRecord(kind=ControlKind.CANCELLED, at_ms=event.at_ms, order=calls.recorded)
    return replace(parts, controls=(*parts.controls, cancelled))


def _summary_row(space: Space, run: WorkflowRun, event: WorkflowFinished) -> Archived:
    """What lists show of it."""
    summary = WorkflowSummary(
        run_id=run.run_id,
        number=run.number,
        workflow=run.workflow,
        version=run.version,
        status=event.ending.status,
        created_at_ms=run.created_at_ms,
        finished_at_ms=event.at_ms,
        attributes=run.attributes,
        subject=run.subject,
    )
    return Archived(
        kind=SUMMARY_KIND,
        namespace=space.archive_name,
        name=run.workflow,
        number=run.number,
        status=event.ending.status,
        finished_at_ms=event.at_ms,
        key=None,
        body=_encode(summary),
        sequence=run.number,
        tags=tags_of_run(run),
    )


def archive_history(state: State, event: HistoryFiled) -> Iterable[Archived]:
    space = state.spaces[event.namespace]
    execution = space.executions[event.run_id]
    part: list[HistoryEntry] = execution.history[:HISTORY_PART_LENGTH]
    filled = Outputs(execution.results, execution.item_outputs()).filled(execution.calls.ended)
    calls = replace(execution.calls.parts(), calls=filled)
    for kind, body in ((HISTORY_KIND, _encode(part)), (CALLS_KIND, _encode(calls))):
        yield Archived(
            kind=kind,
            namespace=space.archive_name,
            name=event.run_id,
            number=event.part,
            status="",
            finished_at_ms=event.at_ms,
            key=None,
            body=body,
        )


def workflow_key(workflow: str, key: str) -> str:
    """What a run is found by in the archive; no workflow has a slash in its name."""
    return f"{workflow}/{key}"


def is_chosen(run: WorkflowRun) -> bool:
    """Whether whoever started the run has chosen its id."""
    return run.run_id != run_id_of(RUN_PREFIX, run.number)


def keys_of(run: WorkflowRun) -> Iterator[tuple[IdempotencyKey, RunId]]:
    """What a run is found by: its idempotency key, and its id if that was chosen.

    The key leads to the id of the run, a chosen id to the one that its number would have given it.
    """
    if run.idempotency_key is not None:
        yield (run.workflow, run.idempotency_key), run.run_id
    if is_chosen(run):
        yield (CHOSEN, run.run_id), run_id_of(RUN_PREFIX, run.number)


def restore_execution(state: State, namespace: Namespace, run: WorkflowRun) -> Execution:
    """An execution as it is before anything has happened in it."""
    space = state.spaces[namespace]
    workflow = space.workflows[run.workflow]
    execution = Execution(run, workflow.pinned(run.version).definition)
    workflow.live[run.version] += 1
    workflow.live_by[run.triggered_by] += 1
    space.executions[run.run_id] = execution
    if run.limit_key is not None:
        _permits(space, run).waiting[run.run_id] = None
    return execution


def restore_permit(space: Space, execution: Execution) -> None:
    """A run of a snapshot that had a permit has it again."""
    if execution.run.limit_key is not None and execution.admitted:
        permits = _permits(space, execution.run)
        del permits.waiting[execution.run_id]
        permits.holders[execution.run_id] = None


def reschedule(state: State, namespace: Namespace, execution: Execution) -> None:
    at_ms = execution.next_at_ms()
    if at_ms == execution.due_at_ms:
        return
    execution.due_at_ms = at_ms
    key = (WORKFLOW, namespace, execution.run_id)
    if at_ms is None:
        state.due.clear(key)
    else:
        state.due.set(key, at_ms)


def restore_awaited(space: Space, run_id: RunId, execution: Execution) -> None:
    for name, branch in execution.branches.items():
        if branch.awaited is not None:
            space.awaited[branch.awaited] = (run_id, name)


def _set_in_motion(execution: Execution, at_ms: int) -> None:
    """It begins with the next tick."""
    execution.branches[MAIN] = Branch(step="start", phase=BranchPhase.BETWEEN, until_ms=at_ms)


def _permits(space: Space, run: WorkflowRun) -> Permits:
    assert run.limit_key is not None
    return space.workflow_permits.setdefault((run.workflow, run.limit_key), Permits())


def _give_back_permit(space: Space, run: WorkflowRun) -> None:
    if run.limit_key is None:
        return
    permits = _permits(space, run)
    permits.holders.pop(run.run_id, None)
    permits.waiting.pop(run.run_id, None)
    if not permits.holders and not permits.waiting:
        del space.workflow_permits[run.workflow, run.limit_key]


def _forget_workflow(space: Space, name: str) -> None:
    workflow = space.workflows[name]
    if not workflow.versions and not workflow.gone:
        del space.workflows[name]
