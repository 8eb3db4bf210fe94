"""Why something is where it is: causes with stable codes, for runs of actions and of workflows."""

from enum import StrEnum
from typing import Any

import msgspec

from flo.model.base import Message
from flo.model.storage.since import Since


class CauseCode(StrEnum):
    """Every cause there is."""

    # A run that nobody executes yet.
    NO_WORKER = "no_worker"
    """No worker is registered for its action, and none was before."""
    WORKER_GONE = "worker_gone"
    """A worker that could take it has left, is lost, or has fallen silent."""
    WORKER_DISCONNECTED = "worker_disconnected"
    """A worker that has it, or could take it, has lost its connection, and may come back."""
    WORKER_DRAINING = "worker_draining"
    WORKER_STUCK = "worker_stuck"
    """Every place of a worker that could take it is held by a handler that does not stop."""
    LABELS_UNMATCHED = "labels_unmatched"
    WORKERS_BUSY = "workers_busy"
    EXECUTION_PLACES_TAKEN = "execution_places_taken"
    """The server executes as many WebAssembly modules as it may."""
    CONCURRENCY_LIMIT = "concurrency_limit"
    RATE_LIMIT = "rate_limit"
    DELAYED = "delayed"
    RETRY_BACKOFF = "retry_backoff"
    ACTION_DISABLED = "action_disabled"
    ACTION_DELETED = "action_deleted"
    READY = "ready"
    """Somebody can take it, and is about to."""

    # A run that somebody executes.
    HELD_BY_WORKER = "held_by_worker"
    EXECUTED_BY_SERVER = "executed_by_server"

    LATE_REPORT = "late_report"
    """An attempt that ended without a report was reported afterwards; that was refused."""

    # A workflow run.
    PAUSED = "paused"
    WORKFLOW_LIMIT = "workflow_limit"
    WORKFLOW_DISABLED = "workflow_disabled"
    """Its workflow, or its version, takes no more runs; this one goes on."""
    ROLLING_BACK = "rolling_back"
    WAITING_FOR_SIGNAL = "waiting_for_signal"
    SIGNAL_UNTAKEN = "signal_untaken"
    """A signal is kept whose type no step of the workflow waits for."""
    ACTION_NOT_REGISTERED = "action_not_registered"
    """A step waits for its action to be registered."""
    WAITING_FOR_CHILD = "waiting_for_child"
    WAITING_FOR_LOCK = "waiting_for_lock"
    """Another run holds a lock that its blocks need, or waits for it already."""
    WAITING_FOR_BRANCHES = "waiting_for_branches"
    SLEEPING = "sleeping"
    STEP_RETRY = "step_retry"
    POLLING = "polling"
    EXECUTOR_REST = "executor_rest"
    """A plan waits until one of its executors may be called again."""
    BREAKER_OPEN = "breaker_open"
    EXECUTOR_RATE_LIMIT = "executor_rate_limit"
    BETWEEN_STEPS = "between_steps"
    STEP_RATE = "step_rate"
    """It takes more steps in a second than it may, and is delayed."""
    BEGINNING = "beginning"

    ENDED = "ended"


class Cause(Message):
    """One reason why a run is where it is."""

    code: CauseCode
    text: str
    """In one sentence."""
    since_at_ms: int | None = None
    """Since when it is so, if that is known."""
    since_position: int | None = None
    """The index in the log of the event since which it is so, if that is known."""
    by: str | None = None
    """Who has made it so, if somebody has."""
    next_at_ms: int | None = None
    """When it changes by itself, if it does."""
    advice: list[str] = msgspec.field(default_factory=list)
    """Commands that would help, or tell more."""
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the sentence says, field by field."""


def since_when(since: Since | None) -> dict[str, Any]:
    """The fields of a cause that say since when, and who made it so."""
    if since is None:
        return {}
    by = str(since.caller) if since.caller is not None else None
    return {"since_at_ms": since.at_ms, "since_position": since.position, "by": by}


class Explained(Message):
    """What every explanation says."""

    summary: str
    """In one sentence."""
    causes: list[Cause]
    """All there are, the most important one first."""
    next_at_ms: int | None
    """When something of it falls due."""
    advice: list[str]
    """Commands that would help, or tell more."""
