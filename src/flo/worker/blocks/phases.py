"""One job of a block, from its input to its result: every way out of a phase is a result.

parameters that cannot be read          failed, code invalid_parameters
`run` returns or raises                 success or failed; what it changed of entities is told
                                        if it succeeds
`acquire`, `rollback` raise             tried again, while attempts are left
any of them raises BlockFailed          failed, with its message, code and data
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from flo.model.blocks.jobs import JobInput, JobResult
from flo.model.blocks.names import JobType
from flo.model.errors import Invalid
from flo.worker.blocks.block import Block, DeclaredBlock
from flo.worker.blocks.context import BlockContext
from flo.worker.blocks.helpers import call
from flo.worker.blocks.models import plain
from flo.worker.blocks.values import AcquireResult, BlockFailed, BlockResult, RollbackResult
from flo.worker.outcome import outcome_of_error

MESSAGE_LENGTH_MAX = 1_000
INVALID_PARAMETERS = "invalid_parameters"
INVALID_RESULT = "invalid_result"

_TROUBLE = {
    JobType.ACQUIRE: "Exception",
    JobType.EXECUTE: "Error executing function block",
    JobType.ROLLBACK: "Error rolling back function block",
}


class JobEnd(NamedTuple):
    """`again` says that another attempt may help."""

    result: JobResult
    again: bool = False


async def perform(declared: DeclaredBlock, job: JobInput, context: BlockContext) -> JobEnd:
    """Run the phase that the job asks for, on a new instance of the block."""
    try:
        phase = _PHASES[job.job]
        return JobEnd(await phase(declared, declared.make(), job, context))
    except BlockFailed as failed:
        return JobEnd(_failed(failed.message, failed.code, failed.data))
    except Invalid as invalid:
        return JobEnd(_failed(f"Exception: {invalid.message}", invalid.code))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if context.cancelled or (task is not None and task.cancelling()):
            raise
        return JobEnd(_failed(f"{_TROUBLE[job.job]}: CancelledError", "CancelledError"))
    except BaseException as error:  # also SystemExit: a job does not end its worker
        told = outcome_of_error(error)
        text = told.error.partition("\n")[0]
        context.log.warning("%s of %s has failed", job.job, declared.id, exc_info=error)
        return JobEnd(_failed(f"{_TROUBLE[job.job]}: {text}", told.code), _may_help(job))


async def _acquire(
    declared: DeclaredBlock, instance: Block[Any, Any], job: JobInput, context: BlockContext
) -> JobResult:
    params = declared.params.read_partial(job.parameters, frozenset(job.unresolved))
    wanted = await call(instance.acquire, params)
    match wanted:
        case None:
            wanted = AcquireResult()
        case str():
            wanted = AcquireResult([wanted])
        case AcquireResult():
            pass
        case Sequence():
            wanted = AcquireResult(wanted)
        case _:
            raise TypeError(f"expected acquire to return keys, got {type(wanted).__name__}")
    return JobResult(message=wanted.message, locks=wanted.locks, acquires=wanted.acquires)


async def _execute(
    declared: DeclaredBlock, instance: Block[Any, Any], job: JobInput, context: BlockContext
) -> JobResult:
    params = _read_params(declared, job)
    returned = await call(instance.run, params, context)
    if not isinstance(returned, BlockResult):
        returned = BlockResult(returned)
    data = _data_of(declared, returned)
    if not returned.success:
        return _failed(returned.message, None, data)
    updates = context.updates()
    return JobResult(message=returned.message, data=data, updates=updates or None)


async def _rollback(
    declared: DeclaredBlock, instance: Block[Any, Any], job: JobInput, context: BlockContext
) -> JobResult:
    params = _read_params(declared, job)
    result = declared.result.read(job.result) if job.result is not None else None
    returned = await call(instance.rollback, params, context, result)
    if isinstance(returned, RollbackResult):
        return JobResult(success=returned.success, message=_short(returned.message))
    return JobResult()


_PHASES = {JobType.ACQUIRE: _acquire, JobType.EXECUTE: _execute, JobType.ROLLBACK: _rollback}


def _read_params(declared: DeclaredBlock, job: JobInput) -> Any:
    try:
        return declared.params.read(job.parameters)
    except Invalid as error:
        raise BlockFailed(f"Exception: {error.message}", code=INVALID_PARAMETERS) from error


def _data_of(declared: DeclaredBlock, returned: BlockResult[Any]) -> Any:
    """The data as JSON has it; what is not of the declared type is a failure."""
    try:
        data = plain(returned.data)
        if data is not None:
            declared.result.read(data)
    except (Invalid, TypeError, ValueError) as error:
        raise BlockFailed(
            f"the result is not what {declared.id} says it returns: {error}", code=INVALID_RESULT
        ) from error
    return data


def _failed(message: str, code: str | None, data: Any = None) -> JobResult:
    try:
        data = plain(data)
    except (TypeError, ValueError, msgspec.MsgspecError):
        data = None
    return JobResult(success=False, message=_short(message), code=code, data=data)


def _short(message: str) -> str:
    return message[:MESSAGE_LENGTH_MAX]


def _may_help(job: JobInput) -> bool:
    """What `run` has done before it failed is not known: the step decides about another attempt."""
    return job.job is not JobType.EXECUTE
