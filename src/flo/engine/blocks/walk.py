"""The way back: what was executed is undone, wave by wave, the highest first.

open ──▸ rollback_in_progress ──▸ rolled_back
  │                        └──▸ rollback_failed   the walk stops here
  └──▸ rollback_blocked   its block cannot undo it; the walk stops here
"""

from collections import Counter
from collections.abc import Collection, Iterable

from flo.engine.blocks.events import EntryRollbackBegan, EntrySettled
from flo.engine.blocks.jobs import next_job, queued_job, rollback_payload
from flo.engine.blocks.records import Ledger, LedgerEntry
from flo.engine.context import Context
from flo.engine.state import Space, State
from flo.model.base import Event
from flo.model.blocks.ledger import EntryState, LedgerState, UnsafeCause
from flo.model.blocks.names import JobType, job_action, parse_reference
from flo.model.ids import Namespace

UNDONE = frozenset({EntryState.ROLLED_BACK, EntryState.RESOLVED, EntryState.NEEDLESS})
STUCK = frozenset({EntryState.ROLLBACK_FAILED, EntryState.BLOCKED})


def left_to_undo(ledger: Ledger) -> list[LedgerEntry]:
    return [entry for entry in ledger.entries if entry.state not in UNDONE]


def is_stuck(ledger: Ledger) -> bool:
    """Whether the way back ends here: what lies before cannot be undone in order."""
    return any(entry.state in STUCK for entry in ledger.entries)


def is_rolling_back(ledger: Ledger) -> bool:
    return any(entry.state is EntryState.ROLLING_BACK for entry in ledger.entries)


def ending_of(ledger: Ledger) -> tuple[LedgerState, UnsafeCause | None]:
    """How a run that has failed has ended, as far as its blocks are concerned."""
    left = left_to_undo(ledger)
    if not left:
        return LedgerState.FAILED_SAFE, None
    failed = any(entry.state is EntryState.ROLLBACK_FAILED for entry in left)
    cause = UnsafeCause.ROLLBACK_FAILED if failed else UnsafeCause.ROLLBACK_BLOCKED
    return LedgerState.FAILED_UNSAFE, cause


def next_wave(
    namespace: Namespace,
    space: Space,
    ledger: Ledger,
    context: Context,
    chosen: Collection[int] | None = None,
) -> list[Event]:
    """What begins to undo the highest wave that is left; nothing where the way back ends.

    What can be undone comes first: once it has begun, what cannot does not end the way back.
    """
    entries = [one for one in left_to_undo(ledger) if chosen is None or one.number in chosen]
    if not entries or is_rolling_back(ledger):
        return []
    top = max(entry.wave for entry in entries)
    begun: Counter[str] = Counter()
    events: list[Event] = []
    stuck: list[Event] = []
    for entry in entries:
        if entry.wave != top:
            continue
        problem = why_not(space, entry)
        if problem is not None:
            state, error = problem
            stuck.append(
                EntrySettled(
                    namespace=namespace,
                    run_id=ledger.run_id,
                    number=entry.number,
                    state=state,
                    at_ms=context.now_ms,
                    error=error,
                )
            )
            continue
        job = next_job(space, entry.block, JobType.ROLLBACK, begun[entry.block])
        begun[entry.block] += 1
        events.append(
            EntryRollbackBegan(
                namespace=namespace,
                run_id=ledger.run_id,
                number=entry.number,
                job=job,
                at_ms=context.now_ms,
            )
        )
    return events + stuck


def why_not(space: Space, entry: LedgerEntry) -> tuple[EntryState, str] | None:
    """Why an entry cannot be undone, if it cannot."""
    reference = parse_reference(entry.block)
    block = space.blocks.resolve(reference) if reference is not None else None
    if block is None:
        return EntryState.ROLLBACK_FAILED, f"block {entry.block} is not registered any more"
    if not block.reversible:
        return EntryState.BLOCKED, f"block {entry.block} is not reversible"
    action = space.actions.get(job_action(entry.block, JobType.ROLLBACK))
    if action is None or not action.enabled:
        return EntryState.ROLLBACK_FAILED, f"block {entry.block} takes no ROLLBACK jobs"
    return None


def react_rollback_began(
    state: State, event: EntryRollbackBegan, context: Context
) -> Iterable[Event]:
    """Its job is queued."""
    space = state.spaces[event.namespace]
    ledger = space.blocks.ledgers[event.run_id]
    entry = next(one for one in ledger.entries if one.number == event.number)
    reference = parse_reference(entry.block)
    block = space.blocks.resolve(reference) if reference is not None else None
    assert block is not None
    payload = rollback_payload(space, ledger, block, entry, context)
    action = job_action(entry.block, JobType.ROLLBACK)
    queued = queued_job(event.namespace, space, action, payload, context)
    assert queued.run.run_id == event.job
    return (queued,)
