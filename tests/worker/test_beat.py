import asyncio
import socket

from flo import Flo
from flo.worker.beat import beat


async def test_a_thread_says_that_a_worker_lives(flo: Flo) -> None:
    await flo.workers.register("anna", ["send"])

    assert await asyncio.to_thread(beat, flo.address, "default", "anna", 3)
    assert (await flo.workers.get("anna")).status == "active"
    assert await asyncio.to_thread(beat, flo.address, "default", "anna", 0)
    assert (await flo.workers.get("anna")).status == "idle"


async def test_nobody_there_is_no_error() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    assert not await asyncio.to_thread(beat, address, "default", "anna", 0)
