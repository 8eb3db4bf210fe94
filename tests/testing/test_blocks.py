"""Blocks without a server."""

from typing import Any

import pytest

from flo import Block, BlockContext, BlockFailed, Params, block
from flo.model.errors import NotFound
from flo.testing.blocks import FakeEngine, find_block, run_block
from flo.worker.blocks.block import declaration_of


class Step(Params):
    name: str
    fails: bool = False
    stays: bool = False


DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@block(package="test.kit", version="1.1.0", run_on="device")
class Change(Block[Step, Any]):
    async def acquire(self, params: Any) -> list[str]:
        return [f"key/{params.name}"]

    async def run(self, params: Step, ctx: BlockContext) -> dict[str, Any]:
        DONE.append(params.name)
        if params.fails:
            raise BlockFailed("broken", data={"at": params.name})
        if ctx.entity is not None:
            ctx.entity.model = params.name
        await ctx.progress("changed")
        return {"locks": ctx.locks}

    async def rollback(self, params: Step, ctx: BlockContext, result: Any) -> None:
        if params.stays:
            raise OSError("no route")
        DONE.append(f"not {params.name}")


@block(package="test.kit")
async def push(params: Step) -> None:
    DONE.append(params.name)


@block(package="test.kit", pure=True)
async def check(params: Step) -> None:
    if params.fails:
        raise BlockFailed("wrong")


async def test_a_phase_is_run_with_its_entities_and_says_what_became_of_them() -> None:
    ran = await run_block(
        Change, {"name": "a"}, {"devices": [{"id": 7, "model": "old"}]}, entity_id=7
    )

    assert (ran.success, ran.data, ran.progress) == (True, {"locks": {}}, ["changed"])
    assert [(one["path"], one["value"]) for one in ran.updates] == [("model", "a")]


async def test_a_failure_is_told_and_not_raised() -> None:
    ran = await run_block(Change, {"name": "a", "fails": True})
    unreadable = await run_block(Change, {"name": 7})

    assert (ran.success, ran.message, ran.data) == (False, "broken", {"at": "a"})
    assert unreadable.code == "invalid_parameters"


async def test_all_is_acquired_before_anything_is_executed() -> None:
    engine = FakeEngine(devices=[{"id": 7, "model": "old"}])
    saga = await engine.run((Change, {"name": "b"}), (Change, {"name": "a"}), entity_id=7)

    assert saga.state == "completed"
    assert [job.type for job in saga.jobs] == ["acquire", "acquire", "execute", "execute"]
    assert saga.locks == ["key/a", "key/b"]
    assert saga.jobs[-1].ran.data == {"locks": {"key/b": 1, "key/a": 2}}
    assert engine.devices == [{"id": 7, "model": "a"}]


async def test_what_was_done_is_undone_the_latest_first_with_the_one_that_failed() -> None:
    engine = FakeEngine(devices=[{"id": 7, "model": "old"}])
    saga = await engine.run(
        (Change, {"name": "a"}), (check, {"name": "c"}), (Change, {"name": "b", "fails": True})
    )

    assert saga.state == "failed_safe"
    assert DONE == ["a", "b", "not b", "not a"]
    assert engine.devices == [{"id": 7, "model": "old"}]


@pytest.mark.parametrize(
    ("left", "params"), [(push, {"name": "x"}), (Change, {"name": "x", "stays": True})]
)
async def test_what_cannot_be_undone_is_left_with_all_before_it(
    left: Any, params: dict[str, Any]
) -> None:
    saga = await FakeEngine().run(
        (Change, {"name": "a"}), (left, params), (check, {"name": "c", "fails": True})
    )

    assert saga.state == "failed_unsafe"
    assert saga.left == ["test.kit/change:1.1.0", declaration_of(left).id]


async def test_blocks_can_be_named_as_workflows_do() -> None:
    engine = FakeEngine(Change, push)

    assert (await engine.run(("test.kit/change:1", {"name": "a"}))).state == "completed"
    with pytest.raises(NotFound, match=r"'test.kit/change:2' does not exist; those that do: test"):
        await engine.run(("test.kit/change:2", {"name": "a"}))
    assert find_block([declaration_of(push)], "test.kit/push:1.0") is declaration_of(push)
