"""Fifty clients race with one idempotency key, across two restarts of the server: one run."""

import asyncio
from pathlib import Path

from flo import Flo, Unavailable
from flo.testing.process import ServerProcess

CLIENTS = 50
INVOKES = 6
KEY = "order-123-charge"


async def invoke_again_and_again(address: str, heard: asyncio.Queue[str]) -> set[str]:
    """The run ids that one client is given; it does not stop because the server does."""
    run_ids = set()
    async with Flo(address, timeout=60) as flo:
        while len(run_ids) == 0 or heard.qsize() < CLIENTS * INVOKES:
            try:
                invocation = await flo.actions.invoke("charge", {"n": 1}, idempotency_key=KEY)
            except Unavailable:
                continue
            run_ids.add(invocation.run_id)
            heard.put_nowait(invocation.run_id)
    return run_ids


async def heard_of(heard: asyncio.Queue[str], share: int) -> None:
    """Until so many answers have been heard."""
    while heard.qsize() < share:  # noqa: ASYNC110 (a queue has no event for its length)
        await asyncio.sleep(0)


async def test_the_same_key_makes_one_run_however_many_race_and_whatever_dies(
    tmp_path: Path,
) -> None:
    server = ServerProcess(tmp_path, http_port=-1)
    await asyncio.to_thread(server.start)
    heard: asyncio.Queue[str] = asyncio.Queue()
    try:
        async with Flo(server.address) as flo:
            await flo.actions.register("charge")
        racing = [
            asyncio.ensure_future(invoke_again_and_again(server.address, heard))
            for _ in range(CLIENTS)
        ]
        for share in (CLIENTS * 2, CLIENTS * 4):
            await heard_of(heard, share)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        given = await asyncio.gather(*racing)
        async with Flo(server.address) as flo:
            runs = await flo.actions.runs("charge")
    finally:
        await asyncio.to_thread(server.kill)

    assert set().union(*given) == {"charge-1"}
    assert [run.run_id for run in runs.items] == ["charge-1"]
