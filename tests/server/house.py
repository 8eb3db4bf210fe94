"""A shard, the worker inside the server and the way in; the guests are real, and so is time."""

import asyncio
from contextlib import asynccontextmanager

from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.kv import GetKey
from flo.model.runs import GetRun, Invoke, WaitForRuns
from flo.server.inside.lazy_worker import LazyWasmWorker
from flo.server.router import Router
from flo.shard.clock import SystemClock
from flo.shard.loop import Shard
from wasm.guests import guest

COUNTING = guest(
    """(drop (call $kv_get (i32.const 100) (i32.const 1) (i32.const 0) (i32.const 4)))
       (loop $rest
         (local.set $i (i32.add (local.get $i) (i32.const 1)))
         (br_if $rest (i32.lt_u (local.get $i) (i32.const 3000000))))
       (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
       (drop (call $kv_set (i32.const 100) (i32.const 1) (i32.const 0) (i32.const 4)))
       (i64.const 4)""",
    more='(data (i32.const 100) "n")',
)
"""Reads a number, takes its time, adds one, writes it and returns it."""


class House:
    def __init__(self, shard, guests):
        self.shard = shard
        self.guests = guests
        self.router = Router(shard, guests)

    async def register(self, wasm, name="guest", **settings):
        return await self.router.ask(RegisterAction(name=name, wasm_module=wasm, **settings))

    async def invoke(self, name="guest", input=b"", **settings):
        invoked = await self.router.ask(Invoke(action=name, input=input, **settings))
        return invoked.run_id

    async def ended(self, run_id, namespace="default"):
        """How the run has ended, once it has."""
        wait = WaitForRuns(run_ids=[run_id], namespace=namespace, block_ms=60_000)
        return (await self.router.ask(wait)).results[0]

    async def result(self, name="guest", input=b"", namespace="default"):
        run_id = await self.invoke(name, input, namespace=namespace)
        return await self.ended(run_id, namespace)

    async def run(self, run_id, namespace="default"):
        return await self.router.ask(GetRun(run_id=run_id, namespace=namespace))

    async def value(self, key):
        return (await self.router.ask(GetKey(key=key))).value

    @property
    def running_count(self):
        """How many guests are being executed at this moment."""
        return self.guests._worker._pool.running_count

    async def until(self, condition):
        """Let the loop turn until this holds."""
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 (nobody would set the event)
                await asyncio.sleep(0)


@asynccontextmanager
async def open_house(concurrency=4, seen_as=lambda shard: shard):
    """`seen_as` is how the worker inside sees the shard."""
    clock = SystemClock()
    shard = Shard(State(), MemoryLog(), clock)
    await shard.start()
    guests = LazyWasmWorker(seen_as(shard), clock, concurrency)
    await guests.start()
    try:
        yield House(shard, guests)
    finally:
        await guests.stop()
        await shard.stop()
