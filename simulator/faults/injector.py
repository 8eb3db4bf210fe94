"""Injects the faults of a profile, each at random times, until it is ended."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from simulator.actors.sdk import SdkWorker
from simulator.actors.server import SimulatedServer
from simulator.world import World, rng_from

WATCH_S = 1.0
"""How soon an operator sees that the server can write no more."""
UPKEEP_S = 3.0
"""How often a server looks after its streams."""
IDLE_HOURS_MAX = 2.0


class Killable(Protocol):
    """Whoever may be killed in the middle of what it does."""

    name: str

    def kill(self) -> None: ...


class FaultInjector:
    def __init__(
        self,
        world: World,
        rng: random.Random,
        server: SimulatedServer,
        *,
        places: Sequence[str],
        killables: Sequence[Killable],
        sdk_workers: Sequence[SdkWorker],
    ) -> None:
        self._world = world
        self._profile = world.profile
        self._rng = rng
        self._server = server
        self._server_lock = asyncio.Lock()
        self._sdk_workers = sdk_workers
        self._killables = killables
        self._places = places

    def begin(self) -> list[asyncio.Task[None]]:
        profile = self._profile
        return [
            asyncio.create_task(self._now_and_then(mean_s, fault, rng_from(self._rng)))
            for mean_s, fault in (
                (profile.crash_s, self._crash_server),
                (profile.restart_s, self._restart_server),
                (WATCH_S, self._watch_server),
                (profile.snapshot_s, self._server.take_snapshot),
                (UPKEEP_S, self._server.look_after_streams),
                (profile.clock_set_s, self._set_clock),
                (profile.cut_off_s, self._cut_off),
                (profile.link_break_s, self._break_link),
                (profile.worker_kill_s, self._kill_worker),
                (profile.worker_kill_s if self._sdk_workers else 0.0, self._drain_worker),
                (profile.idle_s, self._idle),
            )
            if mean_s
        ]

    async def end(self, faults: Sequence[asyncio.Task[None]]) -> None:
        """Nothing goes wrong any more, and a server in good health takes over."""
        async with self._server_lock:  # nobody is in the middle of stopping it
            for fault in faults:
                fault.cancel()
            self._world.end_faults()
            if self._server.is_there:
                await self._server.stop()
            await self._server.start()

    async def _now_and_then(
        self, mean_s: float, fault: Callable[[], Awaitable[None]], rng: random.Random
    ) -> None:
        while True:
            await asyncio.sleep(rng.expovariate(1.0 / mean_s))
            await self._world.awake.wait()
            await fault()

    async def _crash_server(self) -> None:
        async with self._server_lock:
            self._server.crash()
            await asyncio.sleep(self._rng.random() * self._profile.down_s_max)
            await self._server.start()

    async def _restart_server(self) -> None:
        async with self._server_lock:
            await self._server.stop()
            await asyncio.sleep(self._rng.random())
            await self._server.start()

    async def _watch_server(self) -> None:
        """A server that can write no more is started again."""
        if not self._server.is_up and not self._server_lock.locked():
            await self._crash_server()

    async def _set_clock(self) -> None:
        by_ms_max = self._profile.clock_set_ms_max
        by_ms = self._rng.randint(-by_ms_max, by_ms_max)
        self._happened("clock set", f"{by_ms} ms")
        self._world.time.wall.put(by_ms)

    async def _cut_off(self) -> None:
        place = self._rng.choice(self._places)
        if self._rng.random() < 0.5:
            self._happened("cut off", place)
            self._world.network.cut_off(place)
        else:
            self._happened("parted", place)
            self._world.network.part(place)
        await asyncio.sleep(self._rng.random() * self._profile.cut_off_s_max)
        self._world.network.heal(place)

    async def _break_link(self) -> None:
        self._happened("link broken")
        self._world.network.break_one()

    async def _kill_worker(self) -> None:
        if not self._killables:
            return
        victim = self._rng.choice(self._killables)
        self._happened("worker killed", victim.name)
        victim.kill()

    async def _drain_worker(self) -> None:
        if not self._sdk_workers:
            return
        worker = self._rng.choice(self._sdk_workers)
        self._happened("worker drained", worker.name)
        worker.drain()

    async def _idle(self) -> None:
        hours = self._rng.random() * IDLE_HOURS_MAX
        self._happened("idle", f"{hours:.1f} hours")
        self._world.awake.clear()
        await asyncio.sleep(hours * 3_600.0)
        self._world.awake.set()

    def _happened(self, what: str, detail: str = "") -> None:
        self._world.trace.happened(what, detail)
