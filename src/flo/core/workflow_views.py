"""Read-only answers about workflows and workflow runs."""

from collections.abc import Iterable, Iterator

import msgspec

from flo.core.course import HISTORY_PART_LENGTH as PART_LENGTH
from flo.core.course import UNDO, Course, step_at
from flo.core.moment import Moment
from flo.core.state import Deployed, Space, State, Workflow
from flo.core.views import page_of
from flo.core.workflows import named_version, not_found, reading_of
from flo.model.errors import Invalid
from flo.model.ids import BLOCK_MS_MAX, LIST_LIMIT_MAX, Namespace, check_range
from flo.model.workflow_facts import (
    MAIN,
    HistoryEntry,
    Phase,
    StepResult,
    WorkflowRecord,
    WorkflowStatus,
    WorkflowSummary,
)
from flo.model.workflows import (
    HISTORY_LIMIT_MAX,
    GetHistory,
    GetWorkflow,
    GetWorkflowRun,
    HistoryPage,
    HistoryView,
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
from flo.workflow.definition import SignalStep
from flo.workflow.search import matches, parse_where

SCANNED_MAX = 1_000
"""So many runs are looked at for one page of those that fit a condition."""


def validate(state: State, question: ValidateWorkflow, moment: Moment) -> Validated:
    definition, problems = reading_of(question.text)
    return Validated(
        valid=definition is not None,
        name=definition.name if definition is not None else None,
        version=definition.version if definition is not None else None,
        problems=msgspec.to_builtins(list(problems)),
    )


def get_workflow(state: State, question: GetWorkflow, moment: Moment) -> WorkflowView:
    space = state.space(question.namespace)
    deployed = named_version(space, question.name, question.version)
    item = _workflow_item(question.namespace, space.workflows[question.name], deployed)
    return WorkflowView(text=deployed.text, **msgspec.structs.asdict(item))


def list_workflows(state: State, question: ListWorkflows, moment: Moment) -> WorkflowPage:
    space = state.space(question.namespace)
    deployed = {name: one for name, one in space.workflows.items() if one.versions}
    names, cursor = page_of(deployed, question)
    items = [
        _workflow_item(question.namespace, deployed[name], named_version(space, name))
        for name in names
    ]
    return WorkflowPage(items=items, cursor=cursor)


def is_under_way(state: State, question: WaitForWorkflow) -> bool:
    """Whether there is nothing yet to tell who waits; a wait that is too long is refused."""
    check_range(question.block_ms, "block_ms", 0, BLOCK_MS_MAX)
    return question.run_id in state.space(question.namespace).courses


def get_run(
    state: State, question: GetWorkflowRun | WaitForWorkflow, moment: Moment
) -> WorkflowRunView:
    if isinstance(question, WaitForWorkflow):
        check_range(question.block_ms, "block_ms", 0, BLOCK_MS_MAX)
    space = state.space(question.namespace)
    course = space.courses.get(question.run_id)
    if course is not None:
        return _live_view(question.namespace, course)
    record = moment.recalled.workflows.get((space.archive_name, question.run_id))
    if record is None:
        raise not_found(question.run_id)
    return _ended_view(question.namespace, record)


def list_runs(state: State, question: ListWorkflowRuns, moment: Moment) -> WorkflowRunPage:
    """A page of what was live when the archive was asked, and what it knew."""
    space = state.space(question.namespace)
    items_before(space, question)
    found = moment.recalled.workflow_pages[space.archive_name]
    condition = parse_where(question.where) if question.where else None
    items: list[WorkflowRunItem] = []
    last = 0
    for one in found:
        if len(items) == question.limit:
            return WorkflowRunPage(items=items, cursor=str(last))
        last = one.number
        if question.since_ms is not None and one.created_at_ms < question.since_ms:
            return WorkflowRunPage(items=items)  # all that come now are older
        if condition is None or matches(condition, one.attributes):
            items.append(_item(one))
    is_whole = len(found) < looked_at(question)
    return WorkflowRunPage(items=items, cursor=None if is_whole else str(last))


def looked_at(question: ListWorkflowRuns) -> int:
    """How many runs are looked at for one page."""
    return max(question.limit + 1, SCANNED_MAX if question.where else 0)


def get_history(state: State, question: GetHistory, moment: Moment) -> HistoryPage:
    check_range(question.limit, "limit", 1, HISTORY_LIMIT_MAX)
    space = state.space(question.namespace)
    course = space.courses.get(question.run_id)
    record = moment.recalled.workflows.get((space.archive_name, question.run_id))
    tail: Iterable[HistoryEntry]
    if course is not None:
        tail, parts = course.history, course.history_parts
    elif record is not None:
        tail, parts = record.history, record.history_parts
    else:
        raise not_found(question.run_id)
    entries: list[HistoryEntry] = []
    for part in parts_wanted(parts, question):
        entries += moment.recalled.history_parts.get(
            (space.archive_name, question.run_id, part), ()
        )
    start = _history_start(question)
    skipped = start - min(_first_part(question), parts) * PART_LENGTH
    entries += tail if _reaches_tail(parts, question) else ()
    page = entries[skipped : skipped + question.limit + 1]
    views = [
        HistoryView(
            type=one.type,
            at_ms=one.at_ms,
            step=one.step,
            detail=one.detail,
            attempt=one.attempt,
            walk=one.walk,
        )
        for one in page[: question.limit]
    ]
    more = len(page) > question.limit
    return HistoryPage(items=views, cursor=str(start + question.limit) if more else None)


def parts_wanted(parts: int, question: GetHistory) -> range:
    """The parts of a history that a page of it lies in."""
    first = _first_part(question)
    last = (_history_start(question) + min(question.limit, HISTORY_LIMIT_MAX)) // PART_LENGTH
    return range(min(first, parts), min(last + 1, parts))


def live_summaries(
    space: Space, question: ListWorkflowRuns, below: int
) -> Iterator[WorkflowSummary]:
    """The runs under way that a list may show."""
    for course in space.courses.values():
        run, status = course.run, status_of(course)
        is_asked_for = question.workflow in (None, run.workflow)
        if run.number < below and is_asked_for and question.status in (None, status):
            yield WorkflowSummary(
                run_id=run.run_id,
                number=run.number,
                workflow=run.workflow,
                version=run.version,
                status=status,
                created_at_ms=run.created_at_ms,
                finished_at_ms=0,
                attributes=run.attributes,
            )


def items_before(space: Space, question: ListWorkflowRuns) -> int:
    """The number that every run of a page is under."""
    check_range(question.limit, "limit", 1, LIST_LIMIT_MAX)
    if question.cursor is None:
        return space.workflow_number + 1
    if not question.cursor.isdecimal() or len(question.cursor) > 18:
        raise Invalid(f"expected a cursor of an earlier page, got {question.cursor[:80]!r}")
    return int(question.cursor)


def status_of(course: Course) -> WorkflowStatus:
    """Pending before its first step; then it waits, for between two waits no time passes."""
    main = course.walks.get(MAIN)
    is_new = main is None or (main.phase is Phase.BETWEEN and main.until_ms is not None)
    return WorkflowStatus.PENDING if is_new and not course.ending else WorkflowStatus.WAITING


def _workflow_item(namespace: Namespace, workflow: Workflow, deployed: Deployed) -> WorkflowItem:
    return WorkflowItem(
        name=deployed.definition.name,
        namespace=namespace,
        version=deployed.definition.version,
        versions=list(workflow.versions),
        enabled=workflow.is_enabled(deployed.definition.version),
        created_at_ms=deployed.created_at_ms,
        live_runs=sum(workflow.live.values()),
    )


def _live_view(namespace: Namespace, course: Course) -> WorkflowRunView:
    run = course.run
    main = course.walks.get(MAIN) or course.walks.get(UNDO)
    return WorkflowRunView(
        run_id=run.run_id,
        workflow=run.workflow,
        version=run.version,
        namespace=namespace,
        status=status_of(course),
        paused=course.paused,
        current_step=main.step if main is not None else None,
        input=run.input,
        output=None,
        error=course.ending.error if course.ending is not None else None,
        terminal=course.ending.terminal if course.ending is not None else None,
        created_at_ms=run.created_at_ms,
        finished_at_ms=None,
        idempotency_key=run.idempotency_key,
        triggered_by=run.triggered_by,
        attributes=run.attributes,
        parent=run.parent.run_id if run.parent is not None else None,
        origin=run.origin.run_id if run.origin is not None else None,
        steps=_steps(course.results),
        waits=[wait_view(course, walk) for walk in course.walks],
        signals=[signal.type for signal in course.signals],
        undone=list(course.undone),
        history_count=course.history_parts * PART_LENGTH + len(course.history),
    )


def _ended_view(namespace: Namespace, record: WorkflowRecord) -> WorkflowRunView:
    run = record.run
    return WorkflowRunView(
        run_id=run.run_id,
        workflow=run.workflow,
        version=run.version,
        namespace=namespace,
        status=record.status,
        paused=False,
        current_step=None,
        input=run.input,
        output=record.output,
        error=record.error,
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
    )


def wait_view(course: Course, name: str) -> WaitView:
    """What a walk waits for."""
    walk = course.walks[name]
    step = step_at(course.definition, name, walk.step)
    is_signal = walk.phase is Phase.SIGNAL and isinstance(step, SignalStep)
    return WaitView(
        walk=name,
        step=walk.step,
        phase=walk.phase,
        attempt=walk.attempt,
        until_ms=walk.until_ms,
        awaited=walk.awaited,
        signal=step.wait_for_signal.type if is_signal and isinstance(step, SignalStep) else None,
    )


def _steps(results: dict[str, StepResult]) -> list[StepView]:
    return [
        StepView(
            step=name,
            outcome=result.outcome,
            output=result.output,
            error=result.error,
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
    )


def _history_start(question: GetHistory) -> int:
    if question.cursor is None:
        return 0
    if not question.cursor.isdecimal() or len(question.cursor) > 12:
        raise Invalid(f"expected a cursor of an earlier page, got {question.cursor[:80]!r}")
    return int(question.cursor)


def _first_part(question: GetHistory) -> int:
    return _history_start(question) // PART_LENGTH


def _reaches_tail(parts: int, question: GetHistory) -> bool:
    return _history_start(question) + question.limit >= parts * PART_LENGTH
