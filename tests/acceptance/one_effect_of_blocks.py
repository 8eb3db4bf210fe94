"""Calls of the operations on blocks and tokens, each with one effect: see one_effect.py."""

import asyncio
from hashlib import sha256
from typing import Any

import msgspec

from flo import Flo, JobInput, JobResult, JobType, LockWanted
from flo.model import runs, workers
from flo.model import workflows as flows
from flo.model.access import tokens
from flo.model.blocks import blocks, ledger, locks
from flo.model.blocks.names import job_action

WORKFLOW = """\
kind: Workflow
name: {name}
version: "1"
start:
  run: "@blocks/{name}/change:1"
  transitions: {{success: flo.Failed, failure: flo.Failed}}
"""


def declared(package: str, name: str) -> blocks.BlockDeclaration:
    return blocks.BlockDeclaration(package=package, name=name, reversible=True)


async def register_blocks(flo: Flo, count: int) -> list[Any]:
    return [blocks.RegisterBlocks(blocks=[declared("made", f"b-{n}")]) for n in range(count)]


async def delete_block(flo: Flo, count: int) -> list[Any]:
    for number in range(count):
        await flo.call(blocks.RegisterBlocks(blocks=[declared("unmade", f"b-{number}")]))
    return [blocks.DeleteBlock(block=f"unmade/b-{number}:1.0.0") for number in range(count)]


async def unsafe_runs(flo: Flo, name: str, count: int) -> list[str]:
    """Workflow runs that have failed with a change that could not be undone; each keeps a lock."""
    await flo.call(blocks.RegisterBlocks(blocks=[declared(name, "change")]))
    await flo.call(flows.CreateWorkflow(text=WORKFLOW.format(name=name)))
    jobs = [job_action(f"{name}/change:1.0.0", job) for job in JobType]
    worker = f"worker-{name}"
    await flo.call(workers.RegisterWorker(worker_id=worker, processes=jobs, max_concurrency=count))
    started = await asyncio.gather(
        *(flo.call(flows.StartWorkflow(name=name)) for _ in range(count))
    )
    rolled_back = 0
    while rolled_back < count:
        claim = runs.Claim(worker_id=worker, actions=jobs, max_tasks=100)
        for task in (await flo.call(claim)).tasks:
            given = msgspec.json.decode(task.payload, type=JobInput)
            rolled_back += given.job is JobType.ROLLBACK
            await flo.call(
                runs.Complete(
                    run_id=task.task_id,
                    worker_id=worker,
                    attempt=task.attempt,
                    output=msgspec.json.encode(result_of(given)),
                )
            )
    return [one.run_id for one in started]


def result_of(given: JobInput) -> JobResult:
    match given.job:
        case JobType.ACQUIRE:
            return JobResult(locks=[LockWanted(key=f"lock:{given.run_id}")])
        case JobType.EXECUTE:
            return JobResult()
        case JobType.ROLLBACK:
            return JobResult(success=False, message="it cannot be undone")


async def release_lock(flo: Flo, count: int) -> list[Any]:
    there = await unsafe_runs(flo, "released", count)
    return [locks.ReleaseLock(key=f"lock:{one}", reason="by hand") for one in there]


async def rollback_again(flo: Flo, count: int) -> list[Any]:
    there = await unsafe_runs(flo, "again", count)
    return [ledger.RollbackAgain(run_id=one) for one in there]


async def resolve_entries(flo: Flo, count: int) -> list[Any]:
    there = await unsafe_runs(flo, "resolved", count)
    return [ledger.ResolveEntries(run_id=one, note="by hand") for one in there]


def digest_of(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def new_tokens(what: str, count: int) -> list[tokens.CreateToken]:
    return [
        tokens.CreateToken(name=name, role="viewer", digest=digest_of(name))
        for name in (f"{what}-{number}" for number in range(count))
    ]


async def create_token(flo: Flo, count: int) -> list[Any]:
    return list(new_tokens("made", count))


async def some_tokens(flo: Flo, what: str, count: int) -> list[str]:
    there = new_tokens(what, count)
    await asyncio.gather(*(flo.call(one) for one in there))
    return [one.name for one in there]


async def rotate_token(flo: Flo, count: int) -> list[Any]:
    there = await some_tokens(flo, "rotated", count)
    return [tokens.RotateToken(name=one, digest=digest_of(f"new {one}")) for one in there]


async def revoke_token(flo: Flo, count: int) -> list[Any]:
    return [tokens.RevokeToken(name=one) for one in await some_tokens(flo, "revoked", count)]
