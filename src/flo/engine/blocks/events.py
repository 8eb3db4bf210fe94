"""What the log remembers of blocks, locks and ledgers."""

from flo.engine.blocks.records import BlockRecord, Ledger, LedgerEntry
from flo.model.base import Event
from flo.model.blocks.ledger import EntryState, LedgerState, UnsafeCause
from flo.model.blocks.names import LockMode
from flo.model.ids import Namespace, RunId


class BlockRegistered(Event):
    namespace: Namespace
    block: BlockRecord


class BlockDeleted(Event):
    namespace: Namespace
    block: str
    at_ms: int


class LedgerOpened(Event):
    """A workflow run with blocks has begun: its ACQUIRE jobs are queued."""

    namespace: Namespace
    ledger: Ledger
    at_ms: int


class ResourcesAcquired(Event):
    """An ACQUIRE job has said what its step will need to lock."""

    namespace: Namespace
    run_id: RunId
    job: RunId
    locks: dict[str, LockMode]
    at_ms: int


class LocksRequested(Event):
    """A run waits for its locks, in line with all others who want one of them."""

    namespace: Namespace
    run_id: RunId
    keys: dict[str, LockMode]
    at_ms: int


class LocksGranted(Event):
    """A run has all its locks."""

    namespace: Namespace
    run_id: RunId
    token: int
    at_ms: int


class LocksReleased(Event):
    """A run holds these locks no more, and does not wait for them."""

    namespace: Namespace
    run_id: RunId
    at_ms: int
    keys: tuple[str, ...]
    reason: str = ""


class EntryOpened(Event):
    """An EXECUTE job is queued: for a new entry, or as another try of one."""

    namespace: Namespace
    run_id: RunId
    entry: LedgerEntry
    at_ms: int


class EntryAttempted(Event):
    """A worker had the job, and is gone: what it did nobody knows."""

    namespace: Namespace
    run_id: RunId
    number: int
    at_ms: int


class EntryExecuted(Event):
    """An EXECUTE job has ended."""

    namespace: Namespace
    run_id: RunId
    number: int
    outcome: str
    at_ms: int
    state: EntryState = EntryState.OPEN
    data: bytes = b"null"
    updates: bytes = b""
    error: str | None = None


class EntryRollbackBegan(Event):
    """The ROLLBACK job of an entry is queued."""

    namespace: Namespace
    run_id: RunId
    number: int
    job: RunId
    at_ms: int


class EntrySettled(Event):
    """It was undone, or could not be; or somebody says that it is taken care of."""

    namespace: Namespace
    run_id: RunId
    number: int
    state: EntryState
    at_ms: int
    error: str | None = None
    note: str | None = None


class LedgerEnded(Event):
    """Its workflow run has ended, and left undone what it did: its locks are kept."""

    namespace: Namespace
    run_id: RunId
    cause: UnsafeCause
    at_ms: int


class LedgerClosed(Event):
    """Nothing is left to do: the archive has the ledger."""

    namespace: Namespace
    run_id: RunId
    state: LedgerState
    at_ms: int
