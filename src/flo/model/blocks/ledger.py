"""The ledger of a workflow run with blocks: what was done, what was undone, and what is left to do.

acquiring ──▸ locking ──▸ running ──▸ completed
                             └──▸ rolling_back ──▸ failed_safe
                                         └──▸ failed_unsafe ──▸ rolled back or resolved later
"""

from enum import StrEnum
from typing import Annotated, Any

from flo.model.base import Message
from flo.model.blocks.names import LockMode, Note
from flo.model.declare.fields import about
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import NAMESPACE_DEFAULT, Namespace, RunId


class LedgerState(StrEnum):
    ACQUIRING = "acquiring"
    """Its blocks say what they will need to lock."""
    LOCKING = "locking"
    """It waits for its locks."""
    RUNNING = "running"
    ROLLING_BACK = "rolling_back"
    COMPLETED = "completed"
    FAILED_SAFE = "failed_safe"
    """It has failed, and all that it did has been undone or needs not be."""
    FAILED_UNSAFE = "failed_unsafe"
    """It has failed, and something that it did is not undone; its locks are kept."""


class EntryState(StrEnum):
    OPEN = "open"
    """It was done, or may have been."""
    NEEDLESS = "needless"
    """There is nothing to undo: the block is pure, or never began."""
    ROLLING_BACK = "rollback_in_progress"
    ROLLED_BACK = "rolled_back"
    ROLLBACK_FAILED = "rollback_failed"
    BLOCKED = "rollback_blocked"
    """Its block cannot undo it."""
    RESOLVED = "resolved"
    """Somebody says that it is taken care of."""


class UnsafeCause(StrEnum):
    ROLLBACK_FAILED = "rollback_failed"
    ROLLBACK_BLOCKED = "rollback_blocked"


class EntryView(Message):
    """One step that was executed, or may have been."""

    number: int
    step: str
    branch: str
    block: str
    wave: int
    """Entries of higher waves are undone first."""
    state: EntryState
    outcome: str | None
    """Of EXECUTE: success, failure, unknown; None while it is under way."""
    job: RunId
    """The run of EXECUTE."""
    parameters: dict[str, Any]
    data: Any = None
    error: str | None = None
    rollback_job: RunId | None = None
    rollback_error: str | None = None
    note: str | None = None


class LedgerLock(Message):
    key: str
    mode: LockMode
    token: int | None


class LedgerView(Message):
    run_id: RunId
    workflow: str
    state: LedgerState
    cause: UnsafeCause | None
    blocks: dict[str, str]
    """Step → the block that it runs, with its whole version."""
    locks: list[LedgerLock]
    acquiring: list[RunId]
    """The ACQUIRE jobs that have not ended."""
    entries: list[EntryView]


Entries = Annotated[
    list[int] | None, about("The numbers of the entries; all that are left without it.")
]


class LedgerChanged(Message):
    run_id: RunId
    state: LedgerState


@operation(
    opcode=218,
    permission=Permission.WORKFLOWS_READ,
    http=Route("GET", "/remediation/{run_id}", errors=(404,)),
)
class GetLedger(Query[LedgerView]):
    """What the blocks of a workflow run have done, and what of it was undone."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=219,
    permission=Permission.WORKFLOWS_MANAGE,
    repeatable=False,
    http=Route("POST", "/remediation/{run_id}/rollback", errors=(404, 409)),
)
class RollbackAgain(Command[LedgerChanged]):
    """Try once more to undo what a run that ended unsafe has left."""

    run_id: RunId
    entries: Entries = None
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=220,
    permission=Permission.WORKFLOWS_MANAGE,
    repeatable=False,
    http=Route("POST", "/remediation/{run_id}/resolve", errors=(404, 409)),
)
class ResolveEntries(Command[LedgerChanged]):
    """Say that what a run has left is taken care of; when nothing is left, its locks are free."""

    run_id: RunId
    note: Note
    entries: Entries = None
    go_on: Annotated[bool, about("Whether to undo what else is left.")] = False
    namespace: Namespace = NAMESPACE_DEFAULT
