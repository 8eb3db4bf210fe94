"""What the state and the archive hold of blocks, locks and ledgers."""

import msgspec

from flo.model.base import Record
from flo.model.blocks.blocks import (
    ATTEMPTS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    BlockType,
    OnWorkerLost,
    RunOn,
)
from flo.model.blocks.ledger import EntryState, LedgerState, UnsafeCause
from flo.model.blocks.names import BlockName, BlockVersion, JobType, LockMode
from flo.model.ids import RunId
from flo.model.workflows import BranchName, StepName

BlockText = str
"""The id of a block, as package/name:1.2.3."""


class BlockRecord(Record):
    """One version of a block."""

    package: str
    name: str
    version: tuple[int, int, int]
    description: str = ""
    help: str = ""
    run_on: RunOn = RunOn.GLOBAL
    type: BlockType = BlockType.EXECUTE
    deprecated: bool = False
    parameter_schema: str | None = None
    result_schema: str | None = None
    """JSON Schemas, as JSON text."""
    pure: bool = False
    idempotent: bool = False
    reversible: bool = False
    timeout_ms: int = TIMEOUT_MS_DEFAULT
    on_worker_lost: OnWorkerLost = OnWorkerLost.REQUEUE
    max_attempts: int = ATTEMPTS_DEFAULT
    created_at_ms: int = 0
    updated_at_ms: int = 0

    @property
    def id(self) -> BlockText:
        return f"{BlockName(self.package, self.name)}:{BlockVersion(*self.version)}"


class LedgerEntry(Record):
    """A step that was executed, or may have been."""

    number: int
    branch: BranchName
    step: StepName
    visit: int
    block: BlockText
    wave: int
    """Entries of higher waves are undone first."""
    job: RunId
    """The run of the last EXECUTE."""
    parameters: bytes
    state: EntryState = EntryState.OPEN
    outcome: str | None = None
    """Of EXECUTE: success, failure, unknown; None while it is under way."""
    may_have_run: bool = False
    """An attempt that nobody knows the end of has been given to a worker."""
    data: bytes = b"null"
    updates: bytes = b""
    """What it has made of entities, as JSON; empty if nothing."""
    error: str | None = None
    rollback_job: RunId | None = None
    rollback_error: str | None = None
    note: str | None = None


class Ledger(Record):
    """What the blocks of a workflow run do."""

    run_id: RunId
    workflow: str
    family: RunId
    """The run that has no parent, of which this one is a part: a lock is never in its way."""
    state: LedgerState = LedgerState.ACQUIRING
    cause: UnsafeCause | None = None
    blocks: dict[StepName, BlockText] = msgspec.field(default_factory=dict)
    acquiring: tuple[RunId, ...] = ()
    """The ACQUIRE jobs that have not ended."""
    wanted: dict[str, LockMode] = msgspec.field(default_factory=dict)
    token: int | None = None
    """Of the grant of its locks."""
    entity: tuple[str, int] | None = None
    """What the run is about, if its input says so."""
    entries: tuple[LedgerEntry, ...] = ()


class JobPlace(Record):
    """What a job is of its ledger."""

    run_id: RunId
    job: JobType
    entry: int = 0


class LockRequest(Record):
    """What a run waits to lock, or has locked: all of it at once."""

    run_id: RunId
    family: RunId
    keys: dict[str, LockMode]
    """In order."""
    since_ms: int = 0
    token: int | None = None
    """None while it waits."""
    kept: bool = False
    """Its run has ended, and left undone what it did."""
