"""One job of a block: what it is called with, and what each way out of it means."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from flo.model.blocks.blocks import RunOn
from flo.model.blocks.jobs import JobContext, JobInput, JobResult, LockHeld, LockWanted
from flo.model.blocks.names import JobType, LockMode
from flo.worker.blocks.block import Block, block, declaration_of
from flo.worker.blocks.context import BlockContext
from flo.worker.blocks.phases import JobEnd, perform
from flo.worker.blocks.values import (
    AcquireResult,
    BlockFailed,
    BlockResult,
    Params,
    Partial,
    Result,
    RollbackResult,
)


class Wanted(Params):
    vlan: int
    port: str | None = None
    hosts: tuple[str, ...] = ()


class Had(Result):
    previous: int


def job(kind: JobType = JobType.EXECUTE, **fields: Any) -> JobInput:
    fields = {"parameters": {"vlan": 7}, **fields}
    return JobInput(job=kind, block="test/b:1.0.0", run_id="wfrun-1", step="s", **fields)


async def done(declared: Any, given: JobInput | None = None, **context: Any) -> JobEnd:
    given = given or job()
    return await perform(declaration_of(declared), given, BlockContext(given, **context))


class Idle(Block[Wanted, Had]):
    async def run(self, params: Wanted, ctx: BlockContext) -> Had | None:
        return None


def phases(**methods: Any) -> Any:
    """A block with these methods."""
    kind = type("Made", (Idle,), methods)
    return block(package="test.phases")(kind)


async def test_run_gets_its_parameters_and_a_plain_return_is_a_success() -> None:
    async def run(self: Any, params: Wanted, ctx: BlockContext) -> Had:
        return Had(previous=params.vlan - 1)

    end = await done(phases(run=run))

    assert end == JobEnd(JobResult(data={"previous": 6}))


async def test_run_may_say_more_than_its_data() -> None:
    async def run(self: Any, params: Wanted, ctx: BlockContext) -> Any:
        return BlockResult(Had(previous=1), message="set")

    assert (await done(phases(run=run))).result == JobResult(message="set", data={"previous": 1})


async def test_a_failure_that_is_returned_keeps_its_data_and_reports_no_changes() -> None:
    async def run(self: Any, params: Wanted, ctx: BlockContext) -> Any:
        ctx.devices[0].model = "new"
        return BlockResult(Had(previous=1), message="soft", success=False)

    given = job(context=JobContext(devices=[{"id": 7, "model": "old"}]))

    assert (await done(phases(run=run), given)).result == JobResult(
        success=False, message="soft", data={"previous": 1}
    )


async def test_block_failed_has_its_message_code_and_data() -> None:
    async def run(self: Any, params: Wanted, ctx: BlockContext) -> Any:
        raise BlockFailed("the port is down", code="port_down", data={"port": 3})

    assert await done(phases(run=run)) == JobEnd(
        JobResult(success=False, message="the port is down", code="port_down", data={"port": 3})
    )


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (RuntimeError("no luck"), "Error executing function block: RuntimeError: no luck"),
        (SystemExit(7), "Error executing function block: SystemExit: 7"),
        (KeyboardInterrupt(), "Error executing function block: KeyboardInterrupt:"),
        (asyncio.CancelledError(), "Error executing function block: CancelledError"),
    ],
)
async def test_whatever_run_raises_fails_the_job_and_not_the_worker(
    raised: BaseException, message: str
) -> None:
    async def run(self: Any, params: Wanted, ctx: BlockContext) -> Any:
        raise raised

    end = await done(phases(run=run))

    assert (end.result.success, end.result.message, end.again) == (False, message, False)
    assert end.result.code == type(raised).__name__


async def test_what_acquire_and_rollback_raise_may_be_tried_again() -> None:
    async def raising(self: Any, *args: Any) -> Any:
        raise OSError("no route")

    declared = phases(acquire=raising, rollback=raising)
    acquire = await done(declared, job(JobType.ACQUIRE))
    rollback = await done(declared, job(JobType.ROLLBACK))

    assert acquire.again
    assert acquire.result.message == "Exception: OSError: no route"
    assert rollback.again
    assert rollback.result.message == "Error rolling back function block: OSError: no route"


async def test_a_job_that_is_cancelled_has_no_result() -> None:
    async def run(self: Any, params: Wanted, ctx: BlockContext) -> Any:
        await asyncio.sleep(3_600)

    task = asyncio.create_task(done(phases(run=run)))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_parameters_that_are_wrong_are_a_failure_that_names_them() -> None:
    end = await done(phases(), job(parameters={"vlan": "seven"}))

    assert end.result.code == "invalid_parameters"
    assert end.result.message == "Exception: Expected `int`, got `str` - at `$.vlan`"
    assert not end.again


async def test_a_result_that_is_not_what_was_declared_is_a_failure() -> None:
    async def run(self: Any, params: Wanted, ctx: BlockContext) -> Any:
        return {"previous": "six"}

    end = await done(phases(run=run))

    assert end.result.code == "invalid_result"
    assert "Expected `int`, got `str`" in end.result.message


async def test_what_json_cannot_hold_is_no_result() -> None:
    @block(package="test.phases", name="unsendable")
    async def unsendable(params: Wanted) -> Any:
        return object()

    assert (await done(unsendable)).result.code == "invalid_result"


async def test_acquire_gets_what_is_known_and_says_what_to_lock() -> None:
    seen: list[Partial[Wanted]] = []

    async def acquire(self: Any, params: Partial[Wanted]) -> AcquireResult:
        seen.append(params)
        return AcquireResult(["device:7", LockWanted(key="vlan/7", mode=LockMode.SHARED)])

    given = job(JobType.ACQUIRE, parameters={"vlan": None, "port": "e1"}, unresolved=["vlan"])
    end = await done(phases(acquire=acquire), given)

    (params,) = seen
    assert (params.vlan, params.port, params.hosts) == (None, "e1", ())
    assert params.unresolved == {"vlan", "hosts"}
    assert params.raw == {"vlan": None, "port": "e1"}
    with pytest.raises(AttributeError, match="no parameter 'speed'"):
        params.speed  # noqa: B018
    assert end.result.locks == [
        LockWanted(key="device:7"),
        LockWanted(key="vlan/7", mode=LockMode.SHARED),
    ]


@pytest.mark.parametrize(("returned", "keys"), [(None, []), ("a", ["a"]), (["a", "b"], ["a", "b"])])
async def test_acquire_may_return_keys_alone(returned: Any, keys: list[str]) -> None:
    async def acquire(self: Any, params: Any) -> Any:
        return returned

    locks = (await done(phases(acquire=acquire), job(JobType.ACQUIRE))).result.locks

    assert locks is not None
    assert [lock.key for lock in locks] == keys


async def test_a_block_without_acquire_locks_nothing() -> None:
    assert (await done(phases(), job(JobType.ACQUIRE))).result == JobResult(locks=[], acquires=[])


async def test_rollback_gets_the_parameters_and_the_result_of_run() -> None:
    seen: list[Any] = []

    async def rollback(self: Any, params: Wanted, ctx: BlockContext, result: Had | None) -> None:
        seen.append((params.vlan, result))

    declared = phases(rollback=rollback)
    known = await done(declared, job(JobType.ROLLBACK, result={"previous": 3}))
    unknown = await done(declared, job(JobType.ROLLBACK))

    assert seen == [(7, Had(previous=3)), (7, None)]
    assert known == unknown == JobEnd(JobResult())


async def test_rollback_may_say_that_it_could_not() -> None:
    async def rollback(self: Any, *args: Any) -> RollbackResult:
        return RollbackResult("the device is gone", success=False)

    end = await done(phases(rollback=rollback), job(JobType.ROLLBACK))

    assert end == JobEnd(JobResult(success=False, message="the device is gone"))


async def test_a_block_without_rollback_says_so() -> None:
    end = await done(phases(), job(JobType.ROLLBACK))

    assert end.result.message == "Rollback not implemented"
    assert (end.result.success, end.again) == (False, False)


async def test_what_is_not_async_runs_in_a_thread() -> None:
    @block(package="test.phases", name="sync")
    def sync(params: Wanted) -> dict[str, Any]:
        return {"thread": threading.current_thread().name}

    data = (await done(sync)).result.data

    assert data["thread"].startswith("flo-block-")


async def test_dataclasses_are_read_and_written_as_well() -> None:
    @dataclass
    class In:
        vlan: int

    @dataclass
    class Out:
        doubled: int

    @block(package="test.phases", name="doubling")
    async def doubling(params: In) -> Out:
        return Out(params.vlan * 2)

    assert (await done(doubling)).result.data == {"doubled": 14}
    acquired = await done(doubling, job(JobType.ACQUIRE, parameters={}))
    assert acquired.result.success


async def test_a_context_knows_its_job_its_locks_and_its_entity() -> None:
    seen: list[BlockContext] = []

    async def run(self: Any, params: Wanted, ctx: BlockContext) -> None:
        seen.append(ctx)
        ctx.log.info("here")
        await ctx.progress("half")

    given = job(
        context=JobContext(devices=[{"id": 7, "hostname": "r1"}]),
        run_on=RunOn.DEVICE,
        entity_id=7,
        locks=[LockHeld(key="device:7", mode=LockMode.EXCLUSIVE, token=12)],
        idempotency_key="wfrun-1/s/7",
    )
    await done(phases(run=run), given, attempt=2)

    (ctx,) = seen
    assert (ctx.run_id, ctx.step, ctx.attempt, ctx.block) == ("wfrun-1", "s", 2, "test/b:1.0.0")
    assert ctx.entity is ctx.devices[0]
    assert (ctx.locks, ctx.idempotency_key) == ({"device:7": 12}, "wfrun-1/s/7")
    assert ctx.progress_notes == ["half"]
    assert not ctx.cancelled


def test_code_in_threads_ends_where_it_asks_whether_it_is_cancelled() -> None:
    context = BlockContext(job(), is_cancelled=lambda: True)

    with pytest.raises(asyncio.CancelledError):
        context.raise_if_cancelled()
