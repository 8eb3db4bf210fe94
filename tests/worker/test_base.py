"""What every kind of worker has in common."""

import asyncio
import logging

import pytest

from flo import ActionWorker, Flo, Invalid, StreamWorker
from flo.server.server import Server
from flo.worker.base import BaseWorker


def action_worker(*address: str | Flo, concurrency: int = 3) -> BaseWorker:
    worker = ActionWorker(*address, concurrency=concurrency)
    worker.register_action("a", lambda ctx: None)
    return worker


def stream_worker(*address: str | Flo, concurrency: int = 3) -> BaseWorker:
    return StreamWorker(*address, stream="s", concurrency=concurrency, handler=lambda ctx: None)


both_kinds = pytest.mark.parametrize("new_worker", [action_worker, stream_worker])


@both_kinds
async def test_a_worker_can_be_overruled_before_it_starts(server: Server, new_worker) -> None:
    worker = new_worker("127.0.0.1:1")
    worker.overrule(address=server.address, namespace="elsewhere", concurrency=7)

    async with Flo(server.address, namespace="elsewhere") as flo:
        serving = asyncio.ensure_future(worker.serve())
        while not (workers := (await flo.workers.list()).items):
            pass
        with pytest.raises(Invalid, match="has been started"):
            worker.overrule(concurrency=1)
        worker.stop()
        await serving

    assert [(one.worker_id, one.max_concurrency) for one in workers] == [(worker.worker_id, 7)]


@both_kinds
async def test_what_is_not_overruled_stays(server: Server, new_worker) -> None:
    worker = new_worker(server.address)
    worker.overrule(namespace="elsewhere")

    async with Flo(server.address, namespace="elsewhere") as flo:
        serving = asyncio.ensure_future(worker.serve())
        while not (workers := (await flo.workers.list()).items):
            pass
        worker.stop()
        await serving

    assert [one.max_concurrency for one in workers] == [3]


@both_kinds
def test_a_worker_is_not_overruled_with_nonsense(new_worker) -> None:
    with pytest.raises(Invalid, match="expected concurrency from 1 to "):
        new_worker().overrule(concurrency=0)


@both_kinds
async def test_a_worker_works_once(flo: Flo, new_worker) -> None:
    worker = new_worker(flo)
    worker.stop()
    await worker.serve()

    with pytest.raises(Invalid, match="make a new one"):
        await worker.serve()


@both_kinds
async def test_a_loop_that_runs_already_awaits_serve(new_worker) -> None:
    with pytest.raises(Invalid, match=r"`await worker.serve\(\)` instead"):
        new_worker().run()


@both_kinds
async def test_a_worker_says_where_it_is_and_what_it_serves(
    flo: Flo, new_worker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = new_worker(flo)
    with caplog.at_level(logging.INFO, "flo.worker"):
        serving = asyncio.ensure_future(worker.serve())
        while not (await flo.workers.list()).items:
            pass
        worker.stop()
        await serving

    serves = "a" if isinstance(worker, ActionWorker) else "s/default"
    assert caplog.messages == [
        f"worker {worker.worker_id} serves {serves} at {flo.address} "
        "(namespace default, concurrency 3)",
        f"worker {worker.worker_id} has left",
    ]


@both_kinds
def test_a_worker_knows_its_log_levels(new_worker) -> None:
    with pytest.raises(Invalid, match="expected log_level as one of debug, info"):
        new_worker().overrule(log_level="loud")
