"""The EXECUTE job of a step, and its entry in the ledger."""

import msgspec

from flo.engine.blocks.events import EntryOpened
from flo.engine.blocks.jobs import execute_payload, queued_job
from flo.engine.blocks.records import BlockRecord, Ledger, LedgerEntry
from flo.engine.blocks.registration import named_block
from flo.engine.runs.events import RunQueued
from flo.engine.runs.records import RunCause
from flo.engine.workflows.advance.base import Advance, Refused
from flo.engine.workflows.blocks.parameters import check_parameters, parameters_of
from flo.engine.workflows.records import Branch
from flo.model.blocks.ledger import EntryState
from flo.model.blocks.names import JobType, job_action
from flo.model.errors import FloError, NotFound
from flo.model.ids import RunId
from flo.model.workflows import BranchName
from flo.workflow.outcome import EXECUTION_FAILURE, TARGET_DISABLED, TARGET_NOT_FOUND, StepError


def execute(
    advance: Advance, branch: BranchName, now: Branch, payload: bytes
) -> tuple[RunQueued, EntryOpened] | Refused:
    """The EXECUTE job of a step, and its entry in the ledger; unless it cannot be made."""
    space, execution = advance.space, advance.execution
    ledger = space.blocks.ledgers[advance.run_id]
    cause = RunCause(
        run_id=advance.run_id, branch=branch, step=now.step, visit=now.visit, attempt=now.attempt
    )
    try:
        block = named_block(space, ledger.blocks[now.step])
        parameters = parameters_of(payload)
        encoded = msgspec.json.encode(parameters)
        check_parameters(block, encoded, f"step {now.step!r}", advance.context)
        key = f"{advance.run_id}/{branch and branch + '/'}{now.step}/{now.visit}"
        given = execute_payload(space, ledger, block, now.step, parameters, key, advance.context)
        queued = queued_job(
            advance.namespace,
            space,
            job_action(block.id, JobType.EXECUTE),
            given,
            advance.context,
            cause=cause,
            subject=execution.run.subject,
        )
    except NotFound as refusal:
        return _refused(TARGET_NOT_FOUND, refusal)
    except FloError as refusal:
        disabled = refusal.code == "action_disabled"
        return _refused(TARGET_DISABLED if disabled else EXECUTION_FAILURE, refusal)
    entry = _entry(ledger, branch, now, block, queued.run.run_id, encoded)
    opened = EntryOpened(
        namespace=advance.namespace, run_id=advance.run_id, entry=entry, at_ms=advance.now_ms
    )
    return queued, opened


def _entry(
    ledger: Ledger, branch: BranchName, now: Branch, block: BlockRecord, job: RunId, encoded: bytes
) -> LedgerEntry:
    place = branch, now.step, now.visit
    for known in ledger.entries:
        if (known.branch, known.step, known.visit) == place:
            return LedgerEntry(
                number=known.number,
                branch=branch,
                step=now.step,
                visit=now.visit,
                block=block.id,
                wave=known.wave,
                job=job,
                parameters=encoded,
                may_have_run=known.may_have_run or known.state is EntryState.OPEN,
            )
    ended = (entry.wave for entry in ledger.entries if entry.outcome is not None)
    return LedgerEntry(
        number=len(ledger.entries) + 1,
        branch=branch,
        step=now.step,
        visit=now.visit,
        block=block.id,
        wave=1 + max(ended, default=0),
        job=job,
        parameters=encoded,
    )


def _refused(outcome: str, refusal: FloError) -> Refused:
    error = StepError(message=refusal.message, code=refusal.code, retryable=False)
    return Refused(outcome, error)
