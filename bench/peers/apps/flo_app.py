"""Flo: one server process on SQLite, one asyncio worker, one asyncio client."""

import asyncio
import os

from flo import ActionWorker, Flo
from flo.model.version import VERSION

BATCH = int(os.environ.get("BATCH", "0"))
MODE = os.environ.get(
    "MODE", "results"
)  # "results": as restate, wait for each; "count": as taskiq, submit and count
ACTIONS = ("noop", "slow", "step")
DOCUMENT = """
kind: Workflow
name: three
version: "1"
start:
  run: "@actions/step"
  transitions: {success: second, failure: flo.Failed}
steps:
  second:
    run: "@actions/step"
    transitions: {success: third, failure: flo.Failed}
  third:
    run: "@actions/step"
    transitions: {success: flo.Completed, failure: flo.Failed}
"""


def worker():
    w = ActionWorker(concurrency=int(os.environ.get("CONC", "100")))

    @w.action("noop")
    async def noop(p: dict) -> dict:
        return {"ok": True}

    @w.action("slow")
    async def slow(p: dict) -> dict:
        await asyncio.sleep(0.02)
        return {"ok": True}

    @w.action("step")
    async def step(p: dict) -> dict:
        return p

    w.run()


if __name__ == "__main__":
    import common

    flo = Flo()
    TASK = "slow" if os.environ.get("TASK") == "slow" else "noop"

    async def setup():
        for name in ACTIONS:
            await flo.actions.register(name, if_changed=True)
        await flo.workflows.create(DOCUMENT)

    async def batches(n, wait):
        """Batches of BATCH, as many at a time as make about 400 runs."""
        sizes = iter([BATCH] * (n // BATCH) + ([n % BATCH] if n % BATCH else []))

        async def lane():
            for size in sizes:
                many = await flo.actions.invoke_many(TASK, [common.PAYLOAD] * size)
                if wait:
                    await asyncio.gather(*(one.result() for one in many))

        await asyncio.gather(*(lane() for _ in range(4)))

    async def submit(n):
        if BATCH:
            await batches(n, wait=False)
        else:
            await common.windowed(lambda i: flo.actions.invoke(TASK, common.PAYLOAD), n, 64)

    async def completed():
        return (await flo.actions.get(TASK)).runs["completed"]

    async def one():
        await (await flo.actions.invoke("noop", common.PAYLOAD)).result()

    if MODE == "results":

        async def calls(n, inflight):
            if BATCH:
                await batches(n, wait=True)
            else:
                await common.windowed(lambda i: one(), n, inflight)

    async def workflows(n, inflight):
        async def run(i):
            await (await flo.workflows.start("three", common.PAYLOAD)).result()

        return await common.windowed(run, n, inflight)

    def info():
        return {"version": f"flo {VERSION}"}

    common.main(globals())
