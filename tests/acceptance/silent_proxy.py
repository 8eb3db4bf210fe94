"""A worker vanishes behind a proxy that keeps its connection open: others have its task soon.

    python tests/acceptance/silent_proxy.py --rounds 3

Neither the server nor the worker's machine is told. The lease lasts ten minutes, so what brings the
task back is that the server hears nothing any more. The control is a worker whose event loop is
blocked for longer than that: it lives, and keeps its task.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.faulty_proxy import Cut, FaultyProxy
from flo import Flo
from flo.testing.process import ServerProcess

LIMIT_S = 25.0
"""The bar of the script: 15 s of silence, 3 s of grace, and a busy machine."""
BLOCKED_S = 25

WORKER = """
import asyncio, sys, time
from flo import ActionWorker

address, name = sys.argv[1:]
worker = ActionWorker(address, worker_id=name)

@worker.action("hold", timeout_ms=600_000, max_retries=3, retry_delay_ms=0)
async def hold(ctx):
    if name == "far":
        await asyncio.sleep(3_600)
    return name

@worker.action("block", timeout_ms=600_000, max_retries=0)
async def block(ctx):
    time.sleep(ctx.json())
    return name

worker.run()
"""


async def worker_at(flo: Flo, address: str, name: str) -> asyncio.subprocess.Process:
    """A worker process that is registered."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, address, name)
    while name not in [one.worker_id for one in (await flo.workers.list()).items]:
        pass
    return process


async def vanish(server: ServerProcess, flo: Flo) -> float:
    """How long it takes until the task of a worker that has vanished is done elsewhere."""
    async with FaultyProxy(server.address) as proxy:
        far = await worker_at(flo, proxy.address, "far")
        run = await flo.actions.invoke("hold")
        while (await flo.actions.status(run.run_id)).worker_id != "far":
            pass
        near = await worker_at(flo, server.address, "near")
        proxy.cut(Cut.DROP)
        far.kill()
        await far.wait()
        began_s = time.monotonic()
        ended = await flo.actions.wait(run.run_id, timeout=120)
        took_s = time.monotonic() - began_s
    for process in (far, near):
        if process.returncode is None:
            process.kill()
        await process.wait()
    assert ended.output == b'"near"', ended
    for name in ("far", "near"):
        await flo.workers.deregister(name)
    return took_s


async def block(server: ServerProcess, flo: Flo) -> int:
    """At which attempt a handler is done that blocks the loop of its worker."""
    near = await worker_at(flo, server.address, "near")
    run = await flo.actions.invoke("block", BLOCKED_S)
    ended = await flo.actions.wait(run.run_id, timeout=120)
    near.kill()
    await near.wait()
    await flo.workers.deregister("near")
    assert ended.output == b'"near"', ended
    return ended.attempt


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder, ServerProcess(Path(folder)) as server:
        async with Flo(server.address) as flo:
            for number in range(1, rounds + 1):
                took_s = await vanish(server, flo)
                print(
                    f"round {number}: the task of a vanished worker was done after {took_s:.1f} s"
                )
                assert took_s <= LIMIT_S, f"expected {LIMIT_S:g} s at most"
            attempt = await block(server, flo)
            print(f"control: a loop that was blocked for {BLOCKED_S} s: done at attempt {attempt}")
            assert attempt == 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    asyncio.run(main(parser.parse_args().rounds))
