"""What a word about workflows needs to know of the archive before it can be settled."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from flo.engine.context import Recalled
from flo.engine.state import Space, State
from flo.engine.streams.lookups import Known
from flo.engine.workflows.queries import items_before, live_summaries, looked_at, parts_wanted
from flo.engine.workflows.records import WorkflowSummary
from flo.model.base import Message
from flo.model.ids import RunId, is_run_id, parse_run_id
from flo.model.workflows import (
    CHOSEN,
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
    """Which workflow run was started with this idempotency key?

    With CHOSEN in place of a workflow: which number has the run whose id was chosen so?
    """

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


def recall_run(state: State, message: OfRun, known: Known) -> Sequence[WorkflowRecall]:
    space = state.space(message.namespace)
    return () if message.run_id in space.executions else ended(space, message.run_id, known)


def recall_keys(state: State, command: StartWorkflow, known: Known) -> Sequence[WorkflowRecall]:
    """Whether there was a run with the same idempotency key, or with the id that was chosen."""
    space = state.space(command.namespace)
    return [
        RecallWorkflowKey(space.archive_name, workflow, key)
        for workflow, key in (
            (command.name, command.idempotency_key),
            (CHOSEN, command.run_id),
        )
        if key is not None and (workflow, key) not in space.workflow_keys
    ]


def recall_page(state: State, query: ListWorkflowRuns, known: Known) -> Sequence[WorkflowRecall]:
    space = state.space(query.namespace)
    below = items_before(space, query)
    live = tuple(live_summaries(space, query, below))
    wanted = query.workflow, below, looked_at(query), query.status, live
    return (RecallWorkflows(space.archive_name, *wanted),)


def recall_history(state: State, query: GetHistory, known: Known) -> Sequence[WorkflowRecall]:
    space = state.space(query.namespace)
    if query.run_id not in space.executions:
        record = known.recalled.workflows.get((space.archive_name, query.run_id))
        if record is None:
            return ended(space, query.run_id, known)
        parts = parts_wanted(record.history_parts, query)
    else:
        parts = parts_wanted(space.executions[query.run_id].history_parts, query)
    return [RecallHistory(space.archive_name, query.run_id, part) for part in parts]


def ended(space: Space, run_id: RunId, known: Known) -> Sequence[WorkflowRecall]:
    """Where to look for a run that is not live; nowhere if there never was such a run.

    Of an id that was chosen, the number of its run has to be known first.
    """
    given = run_id
    if not run_id.startswith(f"{RUN_PREFIX}-"):
        named = RecallWorkflowKey(space.archive_name, CHOSEN, run_id)
        found = space.workflow_keys.get((CHOSEN, run_id)) or known.recalled.workflow_keys.get(named)
        if found is None:
            return (named,) if is_run_id(run_id) else ()
        given = found
    address = parse_run_id(given)
    if address is None or address[0] != RUN_PREFIX or address[1] > space.workflow_number:
        return ()
    return (RecallWorkflow(space.archive_name, run_id, address[1]),)


WORKFLOW_RECALLS: dict[type[Message], Callable[[State, Any, Known], Sequence[WorkflowRecall]]] = {
    StartWorkflow: recall_keys,
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

LEADING_ON = frozenset({GetHistory})
"""Those that need to know more, once they know a run."""
