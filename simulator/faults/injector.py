"""What goes wrong now and then, for as long as the storm lasts."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from simulator.actors.sdk import SdkWorker
from simulator.actors.server import SimulatedServer
from simulator.world import World, rng_from

MIND_S = 1.0
"""How soon an operator sees that the server can write no more."""
UPKEEP_S = 3.0
"""How often a server looks after its streams."""
LULL_HOURS_MAX = 2.0


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
        mortals: Sequence[Killable],
        sdk_workers: Sequence[SdkWorker],
    ) -> None:
        self._world = world
        self._profile = world.profile
        self._rng = rng
        self._server = server
        self._server_is_minded = asyncio.Lock()
        self._sdk_workers = sdk_workers
        self._mortals = mortals
        self._places = places

    def begin(self) -> list[asyncio.Task[None]]:
        profile = self._profile
        return [
            asyncio.create_task(self._now_and_then(mean_s, trouble, rng_from(self._rng)))
            for mean_s, trouble in (
                (profile.crash_s, self._crash_server),
                (profile.restart_s, self._restart_server),
                (MIND_S, self._mind_server),
                (profile.snapshot_s, self._server.take_snapshot),
                (UPKEEP_S, self._server.look_after_streams),
                (profile.clock_put_s, self._put_clock),
                (profile.cut_off_s, self._cut_somebody_off),
                (profile.line_break_s, self._break_line),
                (profile.worker_kill_s, self._kill_worker),
                (profile.worker_kill_s, self._drain_worker),
                (profile.lull_s, self._lull),
            )
            if mean_s
        ]

    async def end(self, troubles: Sequence[asyncio.Task[None]]) -> None:
        """Nothing goes wrong any more, and a server in good health takes over."""
        async with self._server_is_minded:  # nobody is in the middle of stopping it
            for trouble in troubles:
                trouble.cancel()
            self._world.clear_up()
            if self._server.is_there:
                await self._server.stop()
            await self._server.start()

    async def _now_and_then(
        self, mean_s: float, trouble: Callable[[], Awaitable[None]], rng: random.Random
    ) -> None:
        while True:
            await asyncio.sleep(rng.expovariate(1.0 / mean_s))
            await self._world.awake.wait()
            await trouble()

    async def _crash_server(self) -> None:
        async with self._server_is_minded:
            self._server.crash()
            await asyncio.sleep(self._rng.random() * self._profile.down_s_max)
            await self._server.start()

    async def _restart_server(self) -> None:
        async with self._server_is_minded:
            await self._server.stop()
            await asyncio.sleep(self._rng.random())
            await self._server.start()

    async def _mind_server(self) -> None:
        """A server that can write no more is started again."""
        if not self._server.is_up and not self._server_is_minded.locked():
            await self._crash_server()

    async def _put_clock(self) -> None:
        by_ms_max = self._profile.clock_put_ms_max
        by_ms = self._rng.randint(-by_ms_max, by_ms_max)
        self._happened("clock put", f"{by_ms} ms")
        self._world.time.wall.put(by_ms)

    async def _cut_somebody_off(self) -> None:
        place = self._rng.choice(self._places)
        self._happened("cut off", place)
        self._world.network.cut_off(place)
        await asyncio.sleep(self._rng.random() * self._profile.cut_off_s_max)
        self._world.network.heal(place)

    async def _break_line(self) -> None:
        self._happened("line broken")
        self._world.network.break_one()

    async def _kill_worker(self) -> None:
        mortal = self._rng.choice(self._mortals)
        self._happened("worker killed", mortal.name)
        mortal.kill()

    async def _drain_worker(self) -> None:
        worker = self._rng.choice(self._sdk_workers)
        self._happened("worker drained", worker.name)
        worker.drain()

    async def _lull(self) -> None:
        hours = self._rng.random() * LULL_HOURS_MAX
        self._happened("lull", f"{hours:.1f} hours")
        self._world.awake.clear()
        await asyncio.sleep(hours * 3_600.0)
        self._world.awake.set()

    def _happened(self, what: str, detail: str = "") -> None:
        self._world.trace.happened(what, detail)
