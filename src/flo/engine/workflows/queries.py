"""Queries about workflows and workflow runs."""

from collections.abc import Iterable

import msgspec

from flo.engine.context import Context
from flo.engine.lists.paging import page_of
from flo.engine.lists.portion import page_of_portion
from flo.engine.state import Deployed, Space, State, Workflow
from flo.engine.workflows.calls.late import late_entries
from flo.engine.workflows.definitions import (
    DefinitionRecord,
    in_archive,
    in_memory,
    reading_of,
    text_digest,
    with_digest,
)
from flo.engine.workflows.execution import COMPENSATION, Execution, step_at
from flo.engine.workflows.execution import HISTORY_PART_LENGTH as PART_LENGTH
from flo.engine.workflows.lists.live import status_of
from flo.engine.workflows.lists.pages import numbers_below
from flo.engine.workflows.lookups import (
    ended_workflow,
    first_part,
    found_summaries,
    history_part,
    history_start,
    parts_wanted,
)
from flo.engine.workflows.records import HistoryEntry, StepResult, WorkflowRecord, WorkflowSummary
from flo.engine.workflows.rules import named_version, not_found
from flo.engine.workflows.warn.actions import problems_of_actions
from flo.model.errors import Conflict, NotFound
from flo.model.executions.definitions import GetDefinition
from flo.model.executions.history import GetHistory, HistoryPage, HistoryView
from flo.model.ids import Namespace
from flo.model.views.since import since_view
from flo.model.workflows import (
    MAIN,
    BranchPhase,
    GetWorkflow,
    GetWorkflowRun,
    ListWorkflowRuns,
    ListWorkflows,
    StepView,
    Validated,
    ValidateWorkflow,
    WaitForWorkflow,
    WaitView,
    WorkflowItem,
    WorkflowPage,
    WorkflowRunItem,
    WorkflowRunPage,
    WorkflowRunView,
    WorkflowView,
)
from flo.workflow.document.read import strictly
from flo.workflow.search import parse_where
from flo.workflow.steps import SignalStep


def validate(state: State, query: ValidateWorkflow, context: Context) -> Validated:
    reading = reading_of(query.text)
    definition, problems = strictly(reading) if query.strict else reading
    missing = problems_of_actions(state.space(query.namespace), definition, query.text)
    return Validated(
        valid=definition is not None,
        name=definition.name if definition is not None else None,
        version=definition.version if definition is not None else None,
        problems=msgspec.to_builtins([*problems, *missing]),
    )


def get_workflow(state: State, query: GetWorkflow, context: Context) -> WorkflowView:
    space = state.space(query.namespace)
    deployed, archived = in_memory(space, query), in_archive(space, query, context)
    if deployed is None and archived is None:
        named_version(space, query.name, query.version)  # refused
    workflow = space.workflows.get(query.name) or Workflow()
    if deployed is not None:
        return _deployed_view(query.namespace, workflow, deployed)
    assert archived is not None
    return _deleted_view(query.namespace, workflow, archived)


def get_definition(state: State, query: GetDefinition, context: Context) -> WorkflowView:
    space = state.space(query.namespace)
    found = list(with_digest(space, query, context))
    if not found:
        raise NotFound(
            f"no definition has a digest {query.definition!r}", code="definition_not_found"
        )
    if len(found) > 1:
        raise Conflict(
            f"{len(found)} definitions have digests that begin with {query.definition!r}: give "
            "more digits",
            code="definition_ambiguous",
            details={"definitions": [text_digest(one.text).hex() for one in found]},
        )
    (one,) = found
    workflow = space.workflows.get(one.name) or Workflow()
    deployed = workflow.versions.get(one.version) or workflow.gone.get(one.version)
    if deployed is None:
        return _deleted_view(query.namespace, workflow, one)
    return _deployed_view(query.namespace, workflow, deployed)


def _deployed_view(namespace: Namespace, workflow: Workflow, deployed: Deployed) -> WorkflowView:
    item = _workflow_item(namespace, workflow, deployed)
    is_deleted = item.version not in workflow.versions
    return WorkflowView(text=deployed.text, deleted=is_deleted, **msgspec.structs.asdict(item))


def _deleted_view(
    namespace: Namespace, workflow: Workflow, archived: DefinitionRecord
) -> WorkflowView:
    return WorkflowView(
        name=archived.name,
        namespace=namespace,
        version=archived.version,
        versions=list(workflow.versions),
        enabled=False,
        created_at_ms=archived.created_at_ms,
        text=archived.text,
        live_runs=sum(workflow.live.values()),
        definition=text_digest(archived.text).hex(),
        deleted=True,
    )


def list_workflows(state: State, query: ListWorkflows, context: Context) -> WorkflowPage:
    space = state.space(query.namespace)
    deployed = space.workflows
    names, cursor = page_of(deployed, query, fits=lambda workflow: bool(workflow.versions))
    items = [
        _workflow_item(query.namespace, deployed[name], named_version(space, name))
        for name in names
    ]
    return WorkflowPage(items=items, cursor=cursor)


def get_run(
    state: State, query: GetWorkflowRun | WaitForWorkflow, context: Context
) -> WorkflowRunView:
    space = state.space(query.namespace)
    execution = space.executions.get(query.run_id)
    if execution is not None:
        return _live_view(query.namespace, space, execution)
    record = ended_workflow(space, query.run_id, context)
    if record is None:
        raise not_found(query.run_id)
    return _ended_view(query.namespace, record)


def list_runs(state: State, query: ListWorkflowRuns, context: Context) -> WorkflowRunPage:
    """A page of what was live when the archive was asked, and what it knew."""
    space = state.space(query.namespace)
    numbers_below(space, query)  # a cursor that makes no sense is refused
    if query.where:
        parse_where(query.where)  # so is an expression
    found, cursor = page_of_portion(found_summaries(space, context), query)
    return WorkflowRunPage(items=[_item(one) for one in found], cursor=cursor)


def get_history(state: State, query: GetHistory, context: Context) -> HistoryPage:
    space = state.space(query.namespace)
    execution = space.executions.get(query.run_id)
    record = ended_workflow(space, query.run_id, context)
    tail: Iterable[HistoryEntry]
    if execution is not None:
        tail, parts = execution.history, execution.history_parts
    elif record is not None:
        tail = (*record.history, *late_entries(space, query.run_id, context))
        parts = record.history_parts
    else:
        raise not_found(query.run_id)
    entries: list[HistoryEntry] = []
    for part in parts_wanted(parts, query):
        entries += history_part(space, query.run_id, part, context)
    start = history_start(query)
    skipped = start - min(first_part(query), parts) * PART_LENGTH
    entries += tail if _reaches_tail(parts, query) else ()
    page = entries[skipped : skipped + query.limit + 1]
    views = [
        HistoryView(
            type=one.type,
            at_ms=one.at_ms,
            step=one.step,
            detail=one.detail,
            attempt=one.attempt,
            branch=one.branch,
            error=one.error,
            error_code=one.error_code,
            by=one.by,
        )
        for one in page[: query.limit]
    ]
    more = len(page) > query.limit
    return HistoryPage(items=views, cursor=str(start + query.limit) if more else None)


def _workflow_item(namespace: Namespace, workflow: Workflow, deployed: Deployed) -> WorkflowItem:
    return WorkflowItem(
        name=deployed.definition.name,
        namespace=namespace,
        version=deployed.definition.version,
        versions=list(workflow.versions),
        enabled=workflow.is_enabled(deployed.definition.version),
        created_at_ms=deployed.created_at_ms,
        live_runs=sum(workflow.live.values()),
        definition=deployed.digest.hex(),
        disabled_since=since_view(workflow.rests_since(deployed.definition.version)),
    )


def _live_view(namespace: Namespace, space: Space, execution: Execution) -> WorkflowRunView:
    run, ending = execution.run, execution.ending
    main = execution.branches.get(MAIN) or execution.branches.get(COMPENSATION)
    return WorkflowRunView(
        run_id=run.run_id,
        workflow=run.workflow,
        version=run.version,
        definition=space.workflows[run.workflow].pinned(run.version).digest.hex(),
        namespace=namespace,
        status=status_of(execution),
        paused=execution.paused,
        current_step=main.step if main is not None else None,
        input=run.input,
        output=None,
        error=ending.error if ending is not None else None,
        error_code=ending.error_code if ending is not None else None,
        retryable=ending.retryable if ending is not None and ending.error is not None else None,
        terminal=ending.terminal if ending is not None else None,
        created_at_ms=run.created_at_ms,
        finished_at_ms=None,
        idempotency_key=run.idempotency_key,
        triggered_by=run.triggered_by,
        attributes=run.attributes,
        parent=run.parent.run_id if run.parent is not None else None,
        origin=run.origin.run_id if run.origin is not None else None,
        steps=_steps(execution.results),
        waits=[wait_view(execution, branch) for branch in execution.branches],
        signals=[signal.type for signal in execution.signals],
        undone=list(execution.undone),
        history_count=execution.history_parts * PART_LENGTH + len(execution.history),
        subject=run.subject,
    )


def _ended_view(namespace: Namespace, record: WorkflowRecord) -> WorkflowRunView:
    run = record.run
    return WorkflowRunView(
        run_id=run.run_id,
        workflow=run.workflow,
        version=run.version,
        definition=record.definition.hex() or None,
        namespace=namespace,
        status=record.status,
        paused=False,
        current_step=None,
        input=run.input,
        output=record.output,
        error=record.error,
        error_code=record.error_code,
        retryable=record.retryable if record.error is not None else None,
        terminal=record.terminal,
        created_at_ms=run.created_at_ms,
        finished_at_ms=record.finished_at_ms,
        idempotency_key=run.idempotency_key,
        triggered_by=run.triggered_by,
        attributes=run.attributes,
        parent=run.parent.run_id if run.parent is not None else None,
        origin=run.origin.run_id if run.origin is not None else None,
        steps=_steps(record.results),
        waits=[],
        signals=[],
        undone=list(record.undone),
        history_count=record.history_parts * PART_LENGTH + len(record.history),
        subject=run.subject,
    )


def wait_view(execution: Execution, name: str) -> WaitView:
    """What a branch waits for."""
    branch = execution.branches[name]
    step = step_at(execution.definition, name, branch.step)
    is_signal = branch.phase is BranchPhase.SIGNAL and isinstance(step, SignalStep)
    return WaitView(
        branch=name,
        step=branch.step,
        phase=branch.phase,
        attempt=branch.attempt,
        until_ms=branch.until_ms,
        awaited=branch.awaited,
        signal=step.wait_for_signal.type if is_signal and isinstance(step, SignalStep) else None,
    )


def _steps(results: dict[str, StepResult]) -> list[StepView]:
    return [
        StepView(
            step=name,
            outcome=result.outcome,
            output=result.output,
            error=result.error,
            error_code=result.error_code,
            retryable=result.retryable if result.error is not None else None,
            at_ms=result.at_ms,
        )
        for name, result in results.items()
    ]


def _item(summary: WorkflowSummary) -> WorkflowRunItem:
    return WorkflowRunItem(
        run_id=summary.run_id,
        workflow=summary.workflow,
        version=summary.version,
        status=summary.status,
        created_at_ms=summary.created_at_ms,
        finished_at_ms=summary.finished_at_ms or None,
        attributes=summary.attributes,
        subject=summary.subject,
    )


def _reaches_tail(parts: int, query: GetHistory) -> bool:
    return history_start(query) + query.limit >= parts * PART_LENGTH
