"""What a job is given: parameters, the locks of its run, and the documents of its entities."""

from typing import Any

import msgspec

from flo.engine.blocks.entities import context_of
from flo.engine.blocks.records import BlockRecord, Ledger, LedgerEntry
from flo.engine.context import Context
from flo.engine.runs.events import RunQueued
from flo.engine.runs.records import RunCause
from flo.engine.runs.rules import queue_run
from flo.engine.state import Space
from flo.model.blocks.blocks import RunOn
from flo.model.blocks.jobs import JobContext, JobInput, JobResult, LockHeld
from flo.model.blocks.names import JobType, job_action
from flo.model.ids import PAYLOAD_LENGTH_MAX, ActionName, Namespace, RunId, run_id_of

INVALID_RESULT = "invalid_result"
BLOCK_FAILED = "block_failed"

_encode = msgspec.json.Encoder().encode
_decode_result = msgspec.json.Decoder(JobResult).decode


def next_job(space: Space, block: str, job: JobType, more: int = 0) -> RunId:
    """The id that the next job of this type will have, or one after it."""
    action = job_action(block, job)
    return run_id_of(action, space.numbers.get(action, 0) + 1 + more)


def queued_job(
    namespace: Namespace,
    space: Space,
    action: ActionName,
    payload: bytes,
    context: Context,
    *,
    cause: RunCause | None = None,
    subject: str | None = None,
) -> RunQueued:
    """The run that is a job, unless its action refuses it."""
    number = space.numbers.get(action, 0) + 1
    run = queue_run(space, action, payload, context, number, cause=cause, subject=subject)
    return RunQueued(namespace=namespace, run=run)


def acquire_payload(
    ledger: Ledger, block: BlockRecord, step: str, parameters: dict[str, Any], unresolved: list[str]
) -> bytes:
    return _encode(
        JobInput(
            job=JobType.ACQUIRE,
            block=block.id,
            run_id=ledger.run_id,
            step=step,
            parameters=parameters,
            unresolved=unresolved,
            run_on=block.run_on,
            entity_id=entity_of(ledger, block),
            idempotency_key=f"{ledger.run_id}/{step}",
        )
    )


def execute_payload(
    space: Space,
    ledger: Ledger,
    block: BlockRecord,
    step: str,
    parameters: dict[str, Any],
    key: str,
    context: Context,
) -> bytes:
    return _encode(
        JobInput(
            job=JobType.EXECUTE,
            block=block.id,
            run_id=ledger.run_id,
            step=step,
            parameters=parameters,
            context=context_of(space, ledger, context.now_ms),
            run_on=block.run_on,
            entity_id=entity_of(ledger, block),
            locks=held_locks(space, ledger),
            idempotency_key=key,
        )
    )


def rollback_payload(
    space: Space, ledger: Ledger, block: BlockRecord, entry: LedgerEntry, context: Context
) -> bytes:
    given = JobInput(
        job=JobType.ROLLBACK,
        block=block.id,
        run_id=ledger.run_id,
        step=entry.step,
        parameters=msgspec.json.decode(entry.parameters),
        context=context_of(space, ledger, context.now_ms),
        run_on=block.run_on,
        entity_id=entity_of(ledger, block),
        locks=held_locks(space, ledger),
        result=msgspec.Raw(entry.data) if entry.outcome == "success" else None,
        idempotency_key=f"{ledger.run_id}/{entry.step}/{entry.visit}",
    )
    payload = _encode(given)
    if len(payload) <= PAYLOAD_LENGTH_MAX:
        return payload
    return _encode(msgspec.structs.replace(given, context=JobContext(), result=None))


def held_locks(space: Space, ledger: Ledger) -> list[LockHeld]:
    """The locks that the run holds itself."""
    request = space.blocks.locks.requests.get(ledger.run_id)
    if request is None or request.token is None:
        return []
    return [LockHeld(key=key, mode=mode, token=request.token) for key, mode in request.keys.items()]


def entity_of(ledger: Ledger, block: BlockRecord) -> int | None:
    """The number of the entity that a block is run for."""
    if ledger.entity is None or block.run_on in (RunOn.GLOBAL, RunOn.CLIENT):
        return None
    kind, number = ledger.entity
    return number if kind == block.run_on.value else None


def result_of(output: bytes) -> JobResult | None:
    """What a worker has reported; None if it is not what a job is reported with."""
    try:
        return _decode_result(output)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
