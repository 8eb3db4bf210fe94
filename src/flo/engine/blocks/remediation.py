"""The end of a ledger, and what can still be done where a run ended unsafe.

WorkflowFinished ──▸ completed, failed_safe ──▸ its locks are free, the archive has the ledger
                 └─▸ failed_unsafe ──▸ its locks are kept ──▸ rolled back again, resolved
"""

from collections.abc import Iterable, Iterator, Sequence

from flo.engine.blocks.entities import changes_of
from flo.engine.blocks.events import EntrySettled, LedgerClosed, LedgerEnded, LocksReleased
from flo.engine.blocks.records import Ledger, LedgerEntry
from flo.engine.blocks.walk import (
    STUCK,
    ending_of,
    is_rolling_back,
    is_stuck,
    left_to_undo,
    next_wave,
)
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.kv.rules import decide_transact
from flo.engine.runs.events import RunCancelled
from flo.engine.state import Space, State
from flo.engine.workflows.events import WorkflowFinished
from flo.model.base import Event
from flo.model.blocks.ledger import (
    EntryState,
    LedgerChanged,
    LedgerState,
    ResolveEntries,
    RollbackAgain,
)
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import Namespace
from flo.model.kv import OPERATIONS_PER_TRANSACTION_MAX, Transact
from flo.model.workflows import WorkflowStatus


def react_workflow_finished(
    state: State, event: WorkflowFinished, context: Context
) -> Iterable[Event]:
    """What its steps made of entities is written; its locks are free, unless something is left."""
    space = state.spaces[event.namespace]
    ledger = space.blocks.ledgers.get(event.run_id)
    return _finished(state, event, ledger, context) if ledger is not None else ()


def _finished(
    state: State, event: WorkflowFinished, ledger: Ledger, context: Context
) -> Iterator[Event]:
    space = state.spaces[event.namespace]
    yield from _entities_changed(state, event.namespace, ledger, context)
    if event.ending.status is WorkflowStatus.COMPLETED:
        ended, cause = LedgerState.COMPLETED, None
    else:
        ended, cause = ending_of(ledger)
    if cause is not None:
        yield LedgerEnded(
            namespace=event.namespace, run_id=event.run_id, cause=cause, at_ms=context.now_ms
        )
    else:
        yield from _closed(space, event.namespace, ledger, ended, context)
    for job in ledger.acquiring:
        run = space.runs.get(job)
        if run is not None:
            yield RunCancelled(
                namespace=event.namespace,
                run_id=job,
                at_ms=context.now_ms,
                reason=f"its workflow run {event.run_id} has ended",
                worker_id=run.worker_id,
            )


def decide_rollback(state: State, command: RollbackAgain, context: Context) -> Decision:
    space = state.space(command.namespace)
    ledger = _left_unsafe(space, command)
    chosen = _chosen(ledger, command.entries)
    begun = next_wave(command.namespace, space, ledger, context, frozenset(chosen))
    if not any(not isinstance(event, EntrySettled) for event in begun):
        first = next((event for event in begun if isinstance(event, EntrySettled)), None)
        why = first.error if first is not None else "something of it is being rolled back"
        raise Conflict(f"nothing of {command.run_id!r} can be rolled back: {why}", code="stuck")
    return Decision(LedgerChanged(run_id=ledger.run_id, state=ledger.state), tuple(begun))


def decide_resolve(state: State, command: ResolveEntries, context: Context) -> Decision:
    space = state.space(command.namespace)
    ledger = _left_unsafe(space, command)
    if not command.note.strip():
        raise Invalid("expected a note that says what was done")
    chosen = _chosen(ledger, command.entries)
    settled = [
        EntrySettled(
            namespace=command.namespace,
            run_id=ledger.run_id,
            number=number,
            state=EntryState.RESOLVED,
            at_ms=context.now_ms,
            note=command.note,
        )
        for number in chosen
    ]
    all_done = len(chosen) == len(left_to_undo(ledger))
    state_after = LedgerState.FAILED_SAFE if all_done else ledger.state
    reply = LedgerChanged(run_id=ledger.run_id, state=state_after)
    return Decision(reply, then=_resolved(state, command, settled, context))


def _resolved(
    state: State, command: ResolveEntries, settled: Sequence[Event], context: Context
) -> Iterator[Event]:
    yield from settled
    space = state.spaces[command.namespace]
    ledger = space.blocks.ledgers.get(command.run_id)
    if command.go_on and ledger is not None and not is_stuck(ledger):
        yield from next_wave(command.namespace, space, ledger, context)


def react_settled(state: State, event: EntrySettled, context: Context) -> Iterable[Event]:
    """A run that has ended already: the next wave, or the end of its ledger."""
    space = state.spaces[event.namespace]
    ledger = space.blocks.ledgers[event.run_id]
    if ledger.state is not LedgerState.FAILED_UNSAFE:
        return ()
    if not left_to_undo(ledger):
        return _closed(space, event.namespace, ledger, LedgerState.FAILED_SAFE, context)
    undone = event.state is EntryState.ROLLED_BACK
    if undone and not is_rolling_back(ledger) and not is_stuck(ledger):
        return next_wave(event.namespace, space, ledger, context)
    return ()


def _closed(
    space: Space, namespace: Namespace, ledger: Ledger, ended: LedgerState, context: Context
) -> Iterator[Event]:
    run_id = ledger.run_id
    request = space.blocks.locks.requests.get(run_id)
    yield LedgerClosed(namespace=namespace, run_id=run_id, state=ended, at_ms=context.now_ms)
    if request is not None:
        yield LocksReleased(
            namespace=namespace, run_id=run_id, at_ms=context.now_ms, keys=tuple(request.keys)
        )


def _entities_changed(
    state: State, namespace: Namespace, ledger: Ledger, context: Context
) -> Iterator[Event]:
    changes = list(changes_of(state.spaces[namespace], ledger, context.now_ms))
    for start in range(0, len(changes), OPERATIONS_PER_TRANSACTION_MAX):
        some = changes[start : start + OPERATIONS_PER_TRANSACTION_MAX]
        yield from decide_transact(
            state, Transact(namespace=namespace, changes=some), context
        ).events


def _left_unsafe(space: Space, command: RollbackAgain | ResolveEntries) -> Ledger:
    ledger = space.blocks.ledgers.get(command.run_id)
    if ledger is None:
        raise NotFound(f"run {command.run_id!r} has left nothing to undo", code="ledger_not_found")
    if ledger.state is not LedgerState.FAILED_UNSAFE:
        raise Conflict(f"run {command.run_id!r} has not ended", code="run_not_ended")
    return ledger


def _chosen(ledger: Ledger, numbers: list[int] | None) -> list[int]:
    """The entries that are meant: those that are left, and not being rolled back now."""
    left = {one.number: one for one in left_to_undo(ledger)}
    if numbers is None:
        idle = [number for number, entry in left.items() if _is_idle(entry)]
        if not idle:
            raise Conflict("all that is left is being rolled back", code="rollback_in_progress")
        return idle
    for number in numbers:
        entry = left.get(number)
        if entry is None:
            raise NotFound(
                f"entry {number} of run {ledger.run_id!r} is not left to undo",
                code="entry_not_found",
            )
        if not _is_idle(entry):
            raise Conflict(f"entry {number} is being rolled back", code="rollback_in_progress")
    return list(dict.fromkeys(numbers))


def _is_idle(entry: LedgerEntry) -> bool:
    return entry.state in STUCK or entry.state is EntryState.OPEN
