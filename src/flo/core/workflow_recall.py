"""What a word about workflows needs to know of the archive before it can be settled."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from flo.core.moment import Recalled
from flo.core.state import Space, State
from flo.core.stream_recall import Known
from flo.core.workflow_views import items_before, live_summaries, looked_at, parts_wanted
from flo.model.base import Word
from flo.model.ids import RunId, parse_run_id
from flo.model.workflows import (
    RUN_PREFIX,
    CancelWorkflow,
    ExplainWorkflow,
    GetHistory,
    GetWorkflowRun,
    ListWorkflowRuns,
    PauseWorkflow,
    RerunWorkflow,
    ResumeWorkflow,
    SignalWorkflow,
    StartWorkflow,
    WaitForWorkflow,
    WorkflowName,
    WorkflowSummary,
)

OfRun: TypeAlias = (
    GetWorkflowRun
    | WaitForWorkflow
    | GetHistory
    | ExplainWorkflow
    | SignalWorkflow
    | CancelWorkflow
    | PauseWorkflow
    | ResumeWorkflow
    | RerunWorkflow
)


class RecallWorkflow(NamedTuple):
    """The workflow run with this number, which has ended if it ever was."""

    filed_under: str
    run_id: RunId
    number: int


class RecallWorkflowKey(NamedTuple):
    """Which workflow run was started with this idempotency key?"""

    filed_under: str
    workflow: WorkflowName
    key: str


class RecallWorkflows(NamedTuple):
    """The newest workflow runs under a number, to go with those that are live now."""

    filed_under: str
    workflow: WorkflowName | None
    below: int
    limit: int
    status: str | None
    live: tuple[WorkflowSummary, ...]


class RecallHistory(NamedTuple):
    """A part of a long history."""

    filed_under: str
    run_id: RunId
    part: int


WorkflowRecall: TypeAlias = RecallWorkflow | RecallWorkflowKey | RecallWorkflows | RecallHistory


def is_workflow_recalled(recalled: Recalled, recall: WorkflowRecall) -> bool:
    match recall:
        case RecallWorkflow(filed_under=filed_under, run_id=run_id):
            return (filed_under, run_id) in recalled.workflows
        case RecallWorkflowKey():
            return recall in recalled.workflow_keys
        case RecallWorkflows(filed_under=filed_under):
            return filed_under in recalled.workflow_pages
        case RecallHistory():
            return recall in recalled.history_parts


def recall_run(state: State, word: OfRun, known: Known) -> Sequence[WorkflowRecall]:
    space = state.space(word.namespace)
    return () if word.run_id in space.courses else ended(space, word.run_id)


def recall_key(state: State, command: StartWorkflow, known: Known) -> Sequence[WorkflowRecall]:
    key, space = command.idempotency_key, state.space(command.namespace)
    if key is None or (command.name, key) in space.workflow_keys:
        return ()
    return (RecallWorkflowKey(space.archive_name, command.name, key),)


def recall_page(state: State, question: ListWorkflowRuns, known: Known) -> Sequence[WorkflowRecall]:
    space = state.space(question.namespace)
    below = items_before(space, question)
    live = tuple(live_summaries(space, question, below))
    wanted = question.workflow, below, looked_at(question), question.status, live
    return (RecallWorkflows(space.archive_name, *wanted),)


def recall_history(state: State, question: GetHistory, known: Known) -> Sequence[WorkflowRecall]:
    space = state.space(question.namespace)
    if question.run_id not in space.courses:
        record = known.recalled.workflows.get((space.archive_name, question.run_id))
        if record is None:
            return ended(space, question.run_id)
        parts = parts_wanted(record.history_parts, question)
    else:
        parts = parts_wanted(space.courses[question.run_id].history_parts, question)
    return [RecallHistory(space.archive_name, question.run_id, part) for part in parts]


def ended(space: Space, run_id: RunId) -> Sequence[RecallWorkflow]:
    """Where to look for a run that is not live; nowhere if there never was such a run."""
    address = parse_run_id(run_id)
    if address is None or address[0] != RUN_PREFIX or address[1] > space.workflow_number:
        return ()
    return (RecallWorkflow(space.archive_name, run_id, address[1]),)


WORKFLOW_RECALLS: dict[type[Word], Callable[[State, Any, Known], Sequence[WorkflowRecall]]] = {
    StartWorkflow: recall_key,
    SignalWorkflow: recall_run,
    CancelWorkflow: recall_run,
    PauseWorkflow: recall_run,
    ResumeWorkflow: recall_run,
    RerunWorkflow: recall_run,
    GetWorkflowRun: recall_run,
    WaitForWorkflow: recall_run,
    ExplainWorkflow: recall_run,
    GetHistory: recall_history,
    ListWorkflowRuns: recall_page,
}
