"""What runs were queued for, as their users see it."""

from enum import StrEnum

from flo.model.base import Message
from flo.model.ids import RunId


class CauseKind(StrEnum):
    """Who has asked for a run."""

    CALLER = "caller"
    """Somebody who invoked its action."""
    WORKFLOW = "workflow"
    """A step of a workflow execution."""


class CauseView(Message):
    """What a run was queued for: by a caller, or for which attempt at which step."""

    kind: CauseKind
    workflow_run_id: RunId | None = None
    branch: str | None = None
    """"" is the main one."""
    step: str | None = None
    visit: int | None = None
    """How often the execution had come to the step by then."""
    attempt: int | None = None
    """Of the step, not of the run."""
