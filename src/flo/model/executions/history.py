"""The history of workflow executions: what has happened, one line after the other."""

from typing import Annotated

from flo.model.base import Message
from flo.model.declare.fields import Cursor, Range, about
from flo.model.declare.operation import Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import NAMESPACE_DEFAULT, Namespace
from flo.model.workflows import (
    HISTORY_LIMIT_DEFAULT,
    HISTORY_LIMIT_MAX,
    BranchName,
    StepName,
    WorkflowRunId,
)


class HistoryView(Message):
    type: str
    at_ms: int
    step: StepName | None
    detail: str
    attempt: int
    branch: BranchName
    error: str | None
    error_code: str | None
    by: str | None = None
    """Who did it, where somebody outside did: started, signalled, paused, resumed or cancelled."""


class HistoryPage(Message):
    items: list[HistoryView]
    cursor: str | None = None


@operation(
    opcode=140,
    permission=Permission.WORKFLOWS_READ,
    http=Route(
        "GET", "/workflow-runs/{run_id}/history", errors=(404,), name="get_workflow_history"
    ),
)
class GetHistory(Query[HistoryPage]):
    """Everything that has happened in a workflow run, the oldest first."""

    run_id: WorkflowRunId
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Annotated[int, Range(1, HISTORY_LIMIT_MAX), about("The most items to answer.")] = (
        HISTORY_LIMIT_DEFAULT
    )
    cursor: Cursor = None
