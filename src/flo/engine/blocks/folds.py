"""Folds of the events of blocks, locks and ledgers, and what the archive keeps of a ledger."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from flo.engine.blocks.container import BlockSpace
from flo.engine.blocks.events import (
    BlockDeleted,
    BlockRegistered,
    EntryAttempted,
    EntryExecuted,
    EntryOpened,
    EntryRollbackBegan,
    EntrySettled,
    LedgerClosed,
    LedgerEnded,
    LedgerOpened,
    LocksGranted,
    LocksReleased,
    LocksRequested,
    ResourcesAcquired,
)
from flo.engine.blocks.locks import merged_modes
from flo.engine.blocks.records import LedgerEntry, LockRequest
from flo.engine.state import State
from flo.model.blocks.ledger import EntryState, LedgerState
from flo.model.blocks.names import parse_block_id
from flo.model.ids import Namespace, RunId
from flo.model.storage.archive import Archived

LEDGER_KIND = "ledger"
LEDGER_NUMBER = 1
"""A run has one ledger, which is filed under the id of the run."""

_encode = msgspec.msgpack.Encoder().encode


def apply_registered(state: State, event: BlockRegistered) -> None:
    block = event.block
    known = state.space_made(event.namespace).blocks.known
    known[block.package, block.name, block.version] = block


def apply_deleted(state: State, event: BlockDeleted) -> None:
    found = parse_block_id(event.block)
    assert found is not None
    (package, name), (major, minor, patch) = found
    del state.spaces[event.namespace].blocks.known[package, name, (major, minor, patch)]


def apply_opened(state: State, event: LedgerOpened) -> None:
    blocks = _blocks(state, event.namespace)
    assert event.ledger.run_id not in blocks.ledgers
    blocks.put_ledger(event.ledger)


def apply_acquired(state: State, event: ResourcesAcquired) -> None:
    blocks = _blocks(state, event.namespace)
    ledger = blocks.ledgers[event.run_id]
    del blocks.jobs[event.job]
    blocks.ledgers[event.run_id] = replace(
        ledger,
        acquiring=tuple(job for job in ledger.acquiring if job != event.job),
        wanted=merged_modes(ledger.wanted, event.locks),
    )


def apply_requested(state: State, event: LocksRequested) -> None:
    blocks = _blocks(state, event.namespace)
    ledger = blocks.ledgers[event.run_id]
    blocks.ledgers[event.run_id] = replace(ledger, state=LedgerState.LOCKING)
    blocks.locks.request(
        LockRequest(
            run_id=event.run_id, family=ledger.family, keys=event.keys, since_ms=event.at_ms
        )
    )


def apply_granted(state: State, event: LocksGranted) -> None:
    blocks = _blocks(state, event.namespace)
    ledger = blocks.ledgers[event.run_id]
    assert ledger.state is LedgerState.LOCKING
    blocks.locks.grant(event.run_id, event.token, event.at_ms)
    blocks.ledgers[event.run_id] = replace(ledger, state=LedgerState.RUNNING, token=event.token)


def apply_released(state: State, event: LocksReleased) -> None:
    _blocks(state, event.namespace).locks.release(event.run_id, event.keys)


def apply_entry_opened(state: State, event: EntryOpened) -> None:
    blocks = _blocks(state, event.namespace)
    ledger, entry = blocks.ledgers[event.run_id], event.entry
    others = tuple(one for one in ledger.entries if one.number != entry.number)
    blocks.ledgers[event.run_id] = replace(ledger, entries=(*others, entry))
    blocks.index(event.run_id, entry)


def apply_attempted(state: State, event: EntryAttempted) -> None:
    blocks = _blocks(state, event.namespace)
    entry = _entry(blocks, event.run_id, event.number)
    _put(blocks, event.run_id, replace(entry, may_have_run=True))


def apply_executed(state: State, event: EntryExecuted) -> None:
    blocks = _blocks(state, event.namespace)
    entry = _entry(blocks, event.run_id, event.number)
    del blocks.jobs[entry.job]
    changed = replace(
        entry,
        state=event.state,
        outcome=event.outcome,
        data=event.data,
        updates=event.updates,
        error=event.error,
    )
    _put(blocks, event.run_id, changed)


def apply_rollback_began(state: State, event: EntryRollbackBegan) -> None:
    blocks = _blocks(state, event.namespace)
    entry = replace(
        _entry(blocks, event.run_id, event.number),
        state=EntryState.ROLLING_BACK,
        rollback_job=event.job,
        rollback_error=None,
    )
    _put(blocks, event.run_id, entry)
    ledger = blocks.ledgers[event.run_id]
    if ledger.state is LedgerState.RUNNING:
        blocks.ledgers[event.run_id] = replace(ledger, state=LedgerState.ROLLING_BACK)
    blocks.index(event.run_id, entry)


def apply_settled(state: State, event: EntrySettled) -> None:
    blocks = _blocks(state, event.namespace)
    entry = _entry(blocks, event.run_id, event.number)
    if entry.rollback_job is not None:
        blocks.jobs.pop(entry.rollback_job, None)
    changed = replace(
        entry,
        state=event.state,
        rollback_error=event.error,
        note=event.note if event.note is not None else entry.note,
    )
    _put(blocks, event.run_id, changed)


def apply_ended(state: State, event: LedgerEnded) -> None:
    blocks = _blocks(state, event.namespace)
    ledger = blocks.ledgers[event.run_id]
    blocks.ledgers[event.run_id] = replace(
        ledger, state=LedgerState.FAILED_UNSAFE, cause=event.cause
    )
    blocks.locks.keep(event.run_id)


def archive_ledger(state: State, event: LedgerClosed) -> Iterable[Archived]:
    """The ledger as it is closed; the event is yet to be folded."""
    space = state.spaces[event.namespace]
    ledger = replace(space.blocks.ledgers[event.run_id], state=event.state, cause=None)
    yield Archived(
        kind=LEDGER_KIND,
        namespace=space.archive_name,
        name=event.run_id,
        number=LEDGER_NUMBER,
        status=event.state,
        finished_at_ms=event.at_ms,
        key=None,
        body=_encode(ledger),
    )


def apply_closed(state: State, event: LedgerClosed) -> None:
    blocks = _blocks(state, event.namespace)
    ledger = blocks.ledgers.pop(event.run_id)
    for job in (*ledger.acquiring, *(entry.job for entry in ledger.entries)):
        blocks.jobs.pop(job, None)


def _blocks(state: State, namespace: Namespace) -> BlockSpace:
    return state.spaces[namespace].blocks


def _entry(blocks: BlockSpace, run_id: RunId, number: int) -> LedgerEntry:
    return next(one for one in blocks.ledgers[run_id].entries if one.number == number)


def _put(blocks: BlockSpace, run_id: RunId, entry: LedgerEntry) -> None:
    ledger = blocks.ledgers[run_id]
    entries = tuple(entry if one.number == entry.number else one for one in ledger.entries)
    blocks.ledgers[run_id] = replace(ledger, entries=entries)
