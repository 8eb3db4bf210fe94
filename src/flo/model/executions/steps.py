"""The calls of workflow executions: every attempt at a step, with what came of it."""

from typing import Annotated

from flo.model.base import Message
from flo.model.declare.fields import Cursor, Range, about
from flo.model.declare.operation import Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import NAMESPACE_DEFAULT, Namespace, RunId
from flo.model.workflows import (
    HISTORY_LIMIT_DEFAULT,
    HISTORY_LIMIT_MAX,
    BranchName,
    StepName,
    WorkflowRunId,
)


class CallView(Message):
    """One attempt at a step, or one call of its plan: a run, a child, a signal, a time.

    Under way while it has no `ended_at`; one that has ended without an outcome was given up.
    """

    branch: BranchName
    step: StepName
    visit: int
    """How often the execution had come to the step by then."""
    attempt: int
    run_id: RunId | None
    """Of the action or the child."""
    target: str | None
    """The action; the type of a signal; what could not be called."""
    started_at_ms: int
    ended_at_ms: int | None
    took_ms: int | None
    outcome: str | None
    error: str | None
    error_code: str | None
    input_digest: str | None
    """The first 8 bytes of the SHA-256 of the input, in hex."""
    output: bytes | None


class SignalView(Message):
    """A signal that a workflow execution has received."""

    type: str
    at_ms: int
    payload: bytes
    actor: str | None
    """Who has sent it, where that is known."""


class StepsPage(Message):
    items: list[CallView]
    signals: list[SignalView]
    """Those that came meanwhile."""
    cursor: str | None = None


@operation(
    opcode=142,
    permission=Permission.WORKFLOWS_READ,
    http=Route("GET", "/workflow-runs/{run_id}/steps", errors=(404,), name="get_workflow_steps"),
)
class GetSteps(Query[StepsPage]):
    """Every attempt at every step of a workflow run, in the order in which they ended.

    Those under way come last. A page may have fewer items than asked for, and others follow.
    """

    run_id: WorkflowRunId
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Annotated[int, Range(1, HISTORY_LIMIT_MAX), about("The most items to answer.")] = (
        HISTORY_LIMIT_DEFAULT
    )
    cursor: Cursor = None
