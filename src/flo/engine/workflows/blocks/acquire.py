"""The beginning of an execution with blocks: what they need is acquired and locked first.

begin ──▸ LedgerOpened ──▸ an ACQUIRE job for each block step
                              └──▸ all have ended ──▸ LocksRequested ──▸ LocksGranted ──▸ begin
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from flo.engine.blocks.events import (
    LedgerOpened,
    LocksGranted,
    LocksRequested,
    ResourcesAcquired,
)
from flo.engine.blocks.jobs import acquire_payload, queued_job
from flo.engine.blocks.records import LockRequest
from flo.engine.blocks.registration import named_block
from flo.engine.context import Context
from flo.engine.state import State
from flo.engine.workflows.advance import wakes
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.moves import failure
from flo.engine.workflows.advance.stepper import carry_out
from flo.engine.workflows.blocks.parameters import block_steps, known_parameters
from flo.model.base import Event
from flo.model.blocks.ledger import LedgerState
from flo.model.blocks.names import JobType, job_action
from flo.model.workflows import MAIN, BranchPhase

LOCK_REFUSED = "lock_refused"


def react_opened(state: State, event: LedgerOpened, context: Context) -> Iterator[Event]:
    """Its ACQUIRE jobs are queued."""
    space, ledger = state.spaces[event.namespace], event.ledger
    execution = space.executions[ledger.run_id]
    steps = dict(block_steps(execution.definition))
    for job, (name, step) in zip(ledger.acquiring, steps.items(), strict=True):
        block = named_block(space, ledger.blocks[name])
        known, unresolved = known_parameters(step, execution.run.input, context.now_ms)
        payload = acquire_payload(ledger, block, name, known, unresolved)
        action, subject = job_action(block.id, JobType.ACQUIRE), execution.run.subject
        queued = queued_job(event.namespace, space, action, payload, context, subject=subject)
        assert queued.run.run_id == job
        yield queued


def react_acquired(state: State, event: ResourcesAcquired, context: Context) -> Iterable[Event]:
    """When the last ACQUIRE job has ended, all that is wanted is asked for at once."""
    space = state.spaces[event.namespace]
    ledger = space.blocks.ledgers[event.run_id]
    if ledger.acquiring:
        return ()
    keys = dict(sorted(ledger.wanted.items()))
    request = LockRequest(run_id=ledger.run_id, family=ledger.family, keys=keys)
    if space.blocks.locks.closes_circle(request):
        advance = Advance(state, event.namespace, space.executions[event.run_id], context)
        problem = "to wait for its locks would make others wait for each other for ever"
        return carry_out(advance, (failure(problem, LOCK_REFUSED),))
    return (
        LocksRequested(
            namespace=event.namespace, run_id=event.run_id, keys=keys, at_ms=context.now_ms
        ),
    )


def react_requested(state: State, event: LocksRequested, context: Context) -> Iterable[Event]:
    """Unless it has its locks by now, the execution is seen to wait for them."""
    space = state.spaces[event.namespace]
    ledger = space.blocks.ledgers.get(event.run_id)
    execution = space.executions.get(event.run_id)
    if ledger is None or execution is None or ledger.state is not LedgerState.LOCKING:
        return ()
    advance = Advance(state, event.namespace, execution, context)
    waiting = replace(execution.branches[MAIN], phase=BranchPhase.LOCKS)
    return (advance.held(MAIN, waiting),)


def react_granted(state: State, event: LocksGranted, context: Context) -> Iterable[Event]:
    """The first step begins."""
    execution = state.spaces[event.namespace].executions[event.run_id]
    advance = Advance(state, event.namespace, execution, context)
    return carry_out(advance, wakes.begin(advance))
