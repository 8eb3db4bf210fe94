"""Queries about blocks, jobs, locks and ledgers."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from flo.engine.blocks.jobs import result_of
from flo.engine.blocks.lookups import known_job, known_ledger, run_of_job
from flo.engine.blocks.records import BlockRecord, Ledger, LedgerEntry
from flo.engine.blocks.registration import named_block
from flo.engine.context import Context
from flo.engine.lists.paging import page_of, parse_number
from flo.engine.runs.records import Run
from flo.engine.state import NO_RUNS, Space, State
from flo.model.blocks.blocks import BlockPage, BlockView, GetBlock, ListBlocks
from flo.model.blocks.jobs import GetJob, JobPage, JobView, ListJobs
from flo.model.blocks.ledger import EntryView, GetLedger, LedgerLock, LedgerView
from flo.model.blocks.locks import ListLocks, LockHolder, LockPage, LockView, LockWaiter
from flo.model.blocks.names import (
    JobType,
    job_action,
    job_id_of,
    parse_block_id,
    parse_job_action,
    parse_job_id,
)
from flo.model.errors import Invalid, NotFound
from flo.model.ids import RunId
from flo.model.runs import RunStatus


class _Given(msgspec.Struct):
    run_id: str | None = None
    step: str | None = None


def get_block(state: State, query: GetBlock, context: Context) -> BlockView:
    space = state.space(query.namespace)
    return _block_view(space, named_block(space, query.block))


def list_blocks(state: State, query: ListBlocks, context: Context) -> BlockPage:
    """By package, name and version; the cursor is the id of the last one."""
    space = state.space(query.namespace)
    known = space.blocks.known
    after = _place_of(query.cursor) if query.cursor is not None else ("", "", (0, 0, 0))
    places = list(islice(known.irange(after, inclusive=(False, True)), query.limit + 1))
    shown = [known[place] for place in places[: query.limit]]
    cursor = shown[-1].id if len(places) > query.limit else None
    return BlockPage(items=[_block_view(space, block) for block in shown], cursor=cursor)


def list_jobs(state: State, query: ListJobs, context: Context) -> JobPage:
    space = state.space(query.namespace)
    block = named_block(space, query.block).id if query.block is not None else None
    after = parse_number(query.cursor) if query.cursor is not None else 0
    fitting = [
        view
        for run in sorted(_live_jobs(space), key=lambda run: run.sequence)
        if run.sequence > after
        and (view := _job_view(space, run, with_payloads=False)) is not None
        and (block is None or view.block == block)
        and (query.job is None or view.job is query.job)
        and (query.workflow_run_id is None or view.workflow_run_id == query.workflow_run_id)
    ]
    shown = fitting[: query.limit]
    more = len(fitting) > query.limit
    cursor = str(space.runs[shown[-1].run_id].sequence) if more else None
    return JobPage(items=shown, cursor=cursor)


def get_job(state: State, query: GetJob, context: Context) -> JobView:
    space = state.space(query.namespace)
    run_id = run_of_job(query.job_id)
    run = known_job(space, run_id, context) if run_id is not None else None
    parsed = parse_job_id(query.job_id)
    attempt = parsed[1] if parsed is not None else None
    view = _job_view(space, run, attempt, with_payloads=True) if run is not None else None
    if view is None:
        raise NotFound(f"job {query.job_id!r} does not exist", code="job_not_found")
    return view


def list_locks(state: State, query: ListLocks, context: Context) -> LockPage:
    locks = state.space(query.namespace).blocks.locks
    keys, cursor = page_of(locks.lines, query, prefix=query.prefix)
    views = []
    for key in keys:
        line = locks.lines[key]
        holders = [(locks.requests[run_id], mode) for run_id, mode in line.holders.items()]
        waiters = [(locks.requests[run_id], mode) for run_id, mode in line.waiters.items()]
        views.append(
            LockView(
                key=key,
                holders=[
                    LockHolder(
                        run_id=one.run_id,
                        mode=mode,
                        token=one.token or 0,
                        since_ms=one.since_ms,
                        kept=one.kept,
                    )
                    for one, mode in holders
                ],
                waiters=[
                    LockWaiter(run_id=one.run_id, mode=mode, since_ms=one.since_ms)
                    for one, mode in waiters
                ],
            )
        )
    return LockPage(items=views, cursor=cursor)


def get_ledger(state: State, query: GetLedger, context: Context) -> LedgerView:
    space = state.space(query.namespace)
    ledger = known_ledger(space, query.run_id, context)
    if ledger is None:
        raise NotFound(
            f"workflow run {query.run_id!r} has no ledger: it runs no blocks, or does not exist",
            code="ledger_not_found",
        )
    return _ledger_view(ledger)


def _ledger_view(ledger: Ledger) -> LedgerView:
    return LedgerView(
        run_id=ledger.run_id,
        workflow=ledger.workflow,
        state=ledger.state,
        cause=ledger.cause,
        blocks=ledger.blocks,
        locks=[
            LedgerLock(key=key, mode=mode, token=ledger.token)
            for key, mode in ledger.wanted.items()
        ],
        acquiring=list(ledger.acquiring),
        entries=[_entry_view(entry) for entry in ledger.entries],
    )


def _entry_view(entry: LedgerEntry) -> EntryView:
    return EntryView(
        number=entry.number,
        step=entry.step,
        branch=entry.branch,
        block=entry.block,
        wave=entry.wave,
        state=entry.state,
        outcome=entry.outcome,
        job=entry.job,
        parameters=msgspec.json.decode(entry.parameters, type=dict[str, Any]),
        data=msgspec.json.decode(entry.data),
        error=entry.error,
        rollback_job=entry.rollback_job,
        rollback_error=entry.rollback_error,
        note=entry.note,
    )


def _place_of(block_id: str) -> tuple[str, str, tuple[int, int, int]]:
    parsed = parse_block_id(block_id)
    if parsed is None:
        raise Invalid(f"expected the cursor of a page of blocks, got {block_id[:80]!r}")
    (package, name), (major, minor, patch) = parsed
    return package, name, (major, minor, patch)


def _block_view(space: Space, block: BlockRecord) -> BlockView:
    actions = [job_action(block.id, job) for job in JobType]
    execute = job_action(block.id, JobType.EXECUTE)
    workers = [one for one, worker in space.workers.items() if execute in worker.actions]
    return BlockView(
        block=block.id,
        package=block.package,
        name=block.name,
        version=block.id.rpartition(":")[2],
        description=block.description,
        help=block.help,
        run_on=block.run_on,
        type=block.type,
        deprecated=block.deprecated,
        parameter_schema=_schema_view(block.parameter_schema),
        result_schema=_schema_view(block.result_schema),
        pure=block.pure,
        idempotent=block.idempotent,
        reversible=block.reversible,
        timeout_ms=block.timeout_ms,
        on_worker_lost=block.on_worker_lost,
        max_attempts=block.max_attempts,
        created_at_ms=block.created_at_ms,
        updated_at_ms=block.updated_at_ms,
        actions=actions,
        workers=workers,
        jobs=msgspec.structs.asdict(space.tallies.get(execute, NO_RUNS)),
    )


def _schema_view(schema: str | None) -> dict[str, Any] | None:
    return msgspec.json.decode(schema, type=dict[str, Any]) if schema is not None else None


def _live_jobs(space: Space) -> Iterator[Run]:
    """The runs of ledgers; those that somebody has invoked by hand are found as runs."""
    for run_id in space.blocks.jobs:
        run = space.runs.get(run_id)
        if run is not None:
            yield run


def _job_view(
    space: Space, run: Run, attempt: int | None = None, *, with_payloads: bool
) -> JobView | None:
    """A job, as far as its run still knows the attempt; None if there was no such attempt."""
    parsed = parse_job_action(run.action)
    current = run.attempt + (run.status is RunStatus.PENDING)
    if parsed is None or (attempt is not None and attempt > current):
        return None
    block, job = parsed
    place = space.blocks.jobs.get(run.run_id)
    payload = run.input if isinstance(run.input, bytes) else None
    given = _given(payload)
    view = JobView(
        job_id=job_id_of(run.run_id, attempt or current),
        run_id=run.run_id,
        attempt=attempt or current,
        block=block,
        job=job,
        status=run.status,
        workflow_run_id=place.run_id if place is not None else given[0],
        step=given[1],
        worker_id=run.worker_id,
        created_at_ms=run.created_at_ms,
        started_at_ms=run.started_at_ms,
        finished_at_ms=run.finished_at_ms,
        lease_expires_at_ms=run.lease_expires_at_ms,
        error=run.error,
        error_code=run.error_code,
        input=payload if with_payloads else None,
        output=run.output if with_payloads else None,
    )
    result = result_of(run.output) if run.output is not None else None
    if result is not None:
        view = msgspec.structs.replace(view, success=result.success, message=result.message)
    if attempt is None or attempt == current:
        return view
    return _earlier(view, run, attempt)


def _earlier(view: JobView, run: Run, attempt: int) -> JobView:
    """An attempt that ended without a result, and was followed by another one."""
    ended = next((one for one in run.attempts if one.number == attempt), None)
    return msgspec.structs.replace(
        view,
        status=RunStatus.FAILED,
        worker_id=ended.worker_id if ended is not None else None,
        started_at_ms=ended.started_at_ms if ended is not None else None,
        finished_at_ms=ended.ended_at_ms if ended is not None else None,
        lease_expires_at_ms=None,
        success=None,
        message=None,
        output=None,
        error=ended.error if ended is not None else None,
        error_code=ended.error_code if ended is not None else None,
    )


def _given(payload: bytes | None) -> tuple[RunId | None, str | None]:
    """The workflow run and the step of a job, if its input is in memory."""
    try:
        found = msgspec.json.decode(payload or b"{}", type=_Given)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, None
    return found.run_id, found.step
