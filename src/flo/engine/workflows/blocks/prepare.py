"""What must happen before the first step of an execution with blocks: its ledger is opened."""

from collections import Counter

from flo.engine.blocks.entities import lock_of_entity
from flo.engine.blocks.events import LedgerOpened
from flo.engine.blocks.jobs import next_job
from flo.engine.blocks.records import Ledger
from flo.engine.blocks.registration import named_block
from flo.engine.state import Space
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.moves import Moves, failure
from flo.engine.workflows.blocks.parameters import (
    block_steps,
    entity_in,
    is_for_each_entity,
    reference_of,
)
from flo.engine.workflows.records import Branch, WorkflowRun
from flo.model.blocks.ledger import LedgerState
from flo.model.blocks.names import JobType, LockMode, job_action
from flo.model.errors import NotFound
from flo.model.ids import RunId
from flo.model.workflows import MAIN, BranchPhase
from flo.workflow.definition import START


def prepare(advance: Advance) -> Moves | None:
    """What must happen before the first step of an execution with blocks; None if nothing."""
    execution = advance.execution
    ledger = advance.space.blocks.ledgers.get(advance.run_id)
    if ledger is not None:
        return None if ledger.state is LedgerState.RUNNING else ()
    steps = dict(block_steps(execution.definition))
    if not steps or is_for_each_entity(execution.run.input):
        return None
    jobs: list[RunId] = []
    pinned: dict[str, str] = {}
    begun: Counter[str] = Counter()
    for name, step in steps.items():
        try:
            block = named_block(advance.space, reference_of(step)).id
        except NotFound as refusal:
            return (failure(refusal.message, refusal.code),)
        action = advance.space.actions.get(job_action(block, JobType.ACQUIRE))
        if action is None or not action.enabled:
            return (failure(f"block {block} takes no ACQUIRE jobs", "action_disabled"),)
        pinned[name] = block
        jobs.append(next_job(advance.space, block, JobType.ACQUIRE, begun[block]))
        begun[block] += 1
    entity = entity_in(execution.run.input)
    ledger = Ledger(
        run_id=advance.run_id,
        workflow=execution.run.workflow,
        family=_family(advance.space, execution.run),
        blocks=pinned,
        acquiring=tuple(jobs),
        wanted={lock_of_entity(*entity): LockMode.EXCLUSIVE} if entity is not None else {},
        entity=entity,
    )
    first = execution.run.first_step or START
    waiting = Branch(step=first, phase=BranchPhase.ACQUIRE, began_at_ms=advance.now_ms)
    opened = LedgerOpened(namespace=advance.namespace, ledger=ledger, at_ms=advance.now_ms)
    return (advance.held(MAIN, waiting), opened)


def _family(space: Space, run: WorkflowRun) -> RunId:
    """The run without a parent that a run is a part of."""
    while run.parent is not None and (parent := space.executions.get(run.parent.run_id)):
        run = parent.run
    return run.run_id
