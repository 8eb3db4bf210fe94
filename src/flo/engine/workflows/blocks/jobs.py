"""What follows when a job of an execution has ended."""

from collections.abc import Iterable, Iterator

import msgspec

from flo.engine.actions.schemas import check_schema
from flo.engine.blocks.entities import check_updates, locks_of_query
from flo.engine.blocks.events import (
    EntryAttempted,
    EntryExecuted,
    EntrySettled,
    ResourcesAcquired,
)
from flo.engine.blocks.jobs import (
    BLOCK_FAILED,
    INVALID_RESULT,
    result_of,
)
from flo.engine.blocks.records import BlockRecord, JobPlace, Ledger, LedgerEntry
from flo.engine.blocks.registration import named_block
from flo.engine.blocks.walk import is_rolling_back
from flo.engine.context import Context
from flo.engine.runs.ends import RunEnd
from flo.engine.runs.events import RunCancelled, RunCompleted, RunRequeued, RunTimedOut
from flo.engine.state import Space, State
from flo.engine.workflows.advance import wakes
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.moves import Compensate, failure
from flo.engine.workflows.advance.stepper import carry_out
from flo.model.base import Event
from flo.model.blocks.ledger import EntryState, LedgerState
from flo.model.blocks.names import JobType, LockMode, check_lock_key
from flo.model.errors import FloError, NotFound
from flo.model.ids import TEXT_LENGTH_MAX
from flo.model.views.attempts import AttemptEnd
from flo.workflow.outcome import (
    FAILURE,
    SUCCESS,
    StepError,
)

ACQUIRE_FAILED = "acquire_failed"
UNKNOWN = "unknown"


class JobEnding(msgspec.Struct, frozen=True):
    """What a job has come to, as its step sees it."""

    outcome: str
    output: bytes
    error: StepError | None
    answered: bool


def job_ended(
    state: State,
    event: RunEnd,
    plainly: tuple[str, bytes, StepError | None, bool],
    context: Context,
) -> Iterable[Event]:
    """What follows when a job has ended; `plainly` is what it would mean of an action."""
    space = state.spaces[event.namespace]
    place = space.blocks.jobs[event.run_id]
    match place.job:
        case JobType.ACQUIRE:
            return _acquired(state, event, place, JobEnding(*plainly), context)
        case JobType.EXECUTE:
            return _executed(state, event, place, JobEnding(*plainly), context)
        case JobType.ROLLBACK:
            return _rolled_back(state, event, place, JobEnding(*plainly), context)


def job_requeued(state: State, event: RunRequeued, context: Context) -> Iterable[Event]:
    """A worker had the job: what it did nobody knows."""
    place = state.spaces[event.namespace].blocks.jobs[event.run_id]
    if place.job is not JobType.EXECUTE or event.end is AttemptEnd.RELEASED:
        return ()
    return (
        EntryAttempted(
            namespace=event.namespace,
            run_id=place.run_id,
            number=place.entry,
            at_ms=context.now_ms,
        ),
    )


def _acquired(
    state: State, event: RunEnd, place: JobPlace, ended: JobEnding, context: Context
) -> Iterable[Event]:
    space = state.spaces[event.namespace]
    locks, problem = _wanted(space, event, ended, context)
    if problem is not None:
        advance = Advance(state, event.namespace, space.executions[place.run_id], context)
        why = f"job {event.run_id} could not acquire what its step needs: {problem}"
        return carry_out(advance, (failure(why[:TEXT_LENGTH_MAX], ACQUIRE_FAILED),))
    return (
        ResourcesAcquired(
            namespace=event.namespace,
            run_id=place.run_id,
            job=event.run_id,
            locks=locks,
            at_ms=context.now_ms,
        ),
    )


def _wanted(
    space: Space, event: RunEnd, ended: JobEnding, context: Context
) -> tuple[dict[str, LockMode], str | None]:
    """The locks that a job asks for; why they cannot be had, if that is so."""
    result = result_of(event.output) if isinstance(event, RunCompleted) else None
    if result is None:
        return {}, ended.error.message if ended.error is not None else "its result is not readable"
    if not result.success:
        return {}, result.message or result.code or "it says so"
    locks: dict[str, LockMode] = {}
    try:
        for wanted in result.locks or ():
            check_lock_key(wanted.key)
            if locks.get(wanted.key) is not LockMode.EXCLUSIVE:
                locks[wanted.key] = wanted.mode
        for acquire in result.acquires or ():
            locks |= locks_of_query(space, acquire, context.now_ms)
    except FloError as refusal:
        return {}, refusal.message
    return dict(sorted(locks.items())), None


def _executed(
    state: State, event: RunEnd, place: JobPlace, plainly: JobEnding, context: Context
) -> Iterator[Event]:
    space = state.spaces[event.namespace]
    ledger = space.blocks.ledgers[place.run_id]
    entry = next(one for one in ledger.entries if one.number == place.entry)
    ended, executed = _of_execute(space, event, ledger, entry, plainly, context)
    yield executed
    waiting = space.awaited.get(event.run_id)
    if waiting is not None:
        run_id, branch = waiting
        advance = Advance(state, event.namespace, space.executions[run_id], context)
        yield from carry_out(
            advance,
            wakes.end_wait(
                advance,
                branch,
                ended.outcome,
                ended.output,
                ended.error,
                answered=ended.answered,
            ),
        )


def _of_execute(
    space: Space,
    event: RunEnd,
    ledger: Ledger,
    entry: LedgerEntry,
    plainly: JobEnding,
    context: Context,
) -> tuple[JobEnding, EntryExecuted]:
    """What EXECUTE has come to: for its step, and for the ledger."""
    ended, updates = plainly, b""
    block = _block_of(space, entry.block)
    if isinstance(event, RunCompleted):
        ended, updates = _reported(block, event, context)
    outcome, state = FAILURE, EntryState.OPEN
    match event:
        case RunCompleted():
            outcome = SUCCESS if ended.error is None else FAILURE
        case RunTimedOut() | RunCancelled():
            outcome = UNKNOWN
            never = isinstance(event, RunCancelled) and event.worker_id is None
            if never and not entry.may_have_run:
                state = EntryState.NEEDLESS
        case _:
            pass
    if block is not None and block.pure:
        state = EntryState.NEEDLESS
    executed = EntryExecuted(
        namespace=event.namespace,
        run_id=ledger.run_id,
        number=entry.number,
        outcome=outcome,
        at_ms=context.now_ms,
        state=state,
        data=(ended.output or b"null") if outcome == SUCCESS else b"null",
        updates=updates,
        error=ended.error.message[:TEXT_LENGTH_MAX] if ended.error is not None else None,
    )
    return ended, executed


def _reported(
    block: BlockRecord | None, event: RunCompleted, context: Context
) -> tuple[JobEnding, bytes]:
    """What a worker has reported of EXECUTE, held against the schema of the result."""
    result = result_of(event.output)
    if result is None:
        problem = "its result is not what a job is reported with"
        return _failed(problem, INVALID_RESULT), b""
    data = msgspec.json.encode(result.data)
    if not result.success:
        error = StepError(message=result.message, code=result.code or BLOCK_FAILED)
        return JobEnding(FAILURE, data, error, True), b""
    try:
        if block is not None and block.result_schema is not None:
            what = f"the result of block {block.id}"
            check_schema(block.result_schema, data, what, INVALID_RESULT, context)
        updates = check_updates(result.updates or [])
    except FloError as refusal:
        return _failed(refusal.message, INVALID_RESULT), b""
    return JobEnding(event.outcome, data, None, True), updates


def _rolled_back(
    state: State, event: RunEnd, place: JobPlace, ended: JobEnding, context: Context
) -> Iterator[Event]:
    """An entry is undone, or not; a run that waited for this goes on with its way back."""
    yield _settled(event, place, ended, context)
    space = state.spaces[event.namespace]
    ledger = space.blocks.ledgers.get(place.run_id)
    if ledger is None or ledger.state is not LedgerState.ROLLING_BACK or is_rolling_back(ledger):
        return
    advance = Advance(state, event.namespace, space.executions[place.run_id], context)
    yield from carry_out(advance, (Compensate(),))


def _settled(event: RunEnd, place: JobPlace, ended: JobEnding, context: Context) -> EntrySettled:
    error = ended.error.message if ended.error is not None else None
    if isinstance(event, RunCompleted):
        result = result_of(event.output)
        if result is None:
            error = "its result is not what a job is reported with"
        elif not result.success:
            error = result.message or "it says so"
    return EntrySettled(
        namespace=event.namespace,
        run_id=place.run_id,
        number=place.entry,
        state=EntryState.ROLLED_BACK if error is None else EntryState.ROLLBACK_FAILED,
        at_ms=context.now_ms,
        error=error[:TEXT_LENGTH_MAX] if error is not None else None,
    )


def _block_of(space: Space, block_id: str) -> BlockRecord | None:
    try:
        return named_block(space, block_id)
    except NotFound:
        return None


def _failed(problem: str, code: str) -> JobEnding:
    error = StepError(message=problem[:TEXT_LENGTH_MAX], code=code, retryable=False)
    return JobEnding(FAILURE, b"", error, True)
