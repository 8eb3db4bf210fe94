"""Server, workers and clients in one process, from a seed.

    python -m flo.testing.simulator --seed 7

    storm    everybody does what they like, and everything breaks, until enough has been done
    calm     no more faults: diligent workers finish what there is
    audit    every run that anybody was told of is looked at, and everything is counted again

The shard, the door, the wire and the clients are the real ones; time, dice, disk and network are
simulated, so a seed tells the same story every time.
"""

import argparse
import asyncio
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import structlog.testing

from flo.testing.invariants import Broken, Invariant
from flo.testing.loop import run_virtual
from flo.testing.simulated_client import SimulatedClient
from flo.testing.simulated_sdk import SdkWorker
from flo.testing.simulated_server import SimulatedServer
from flo.testing.simulated_worker import SimulatedWorker
from flo.testing.weather import Weather, draw_weather
from flo.testing.world import NAMESPACES, World

OPERATIONS_DEFAULT = 4_000
CLIENTS_PER_NAMESPACE = 3
WORKERS_PER_NAMESPACE = 3
STORM_S_MAX = 30 * 24 * 3_600.0
CALM_S_MAX = 24 * 3_600.0


class Summary(NamedTuple):
    """What a simulation was like, and what broke first, if anything did."""

    seed: int
    operations: int
    virtual_s: float
    runs: int
    happened: Counter[str]
    requested: Counter[str]
    checked: Counter[Invariant]
    digest: str
    broken: Broken | None
    story: list[str]


class Simulation:
    """`weather` and `wait_for_log` are for tests that look for something; a seed has its own."""

    def __init__(
        self,
        seed: int,
        operations: int = OPERATIONS_DEFAULT,
        *,
        weather: Weather | None = None,
        wait_for_log: bool = True,
    ) -> None:
        self._seed = seed
        self._operations = operations
        self._dice = random.Random(seed)
        self._weather = weather or draw_weather(random.Random(seed))
        self._wait_for_log = wait_for_log

    def run(self) -> Summary:
        with _silence():
            return run_virtual(self._run())

    async def _run(self) -> Summary:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._accident)
        world = self._world = World(self._dice, self._weather)
        self._tasks: list[asyncio.Task[None]] = []
        try:
            await self._play()
        except Broken as broken:
            world.checks.broken = world.checks.broken or broken
        return Summary(
            seed=self._seed,
            operations=world.story.operations,
            virtual_s=loop.time(),
            runs=len(world.facts.runs),
            happened=world.story.kinds,
            requested=world.story.requested,
            checked=world.checks.counts,
            digest=world.story.digest,
            broken=world.checks.broken,
            story=world.story.last(),
        )

    async def _play(self) -> None:
        await self._gather_everybody()
        await self._storm()
        await self._calm()
        await self._audit()

    async def _gather_everybody(self) -> None:
        world = self._world
        self._server = SimulatedServer(
            world, world.dice_for(self._dice), wait_for_log=self._wait_for_log
        )
        self._server_is_minded = asyncio.Lock()
        await self._server.start()
        self._clients = [
            SimulatedClient(world, world.dice_for(self._dice), f"client-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * CLIENTS_PER_NAMESPACE)
        ]
        self._workers = [
            SimulatedWorker(world, world.dice_for(self._dice), f"worker-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * WORKERS_PER_NAMESPACE)
        ]
        self._sdk_workers = [
            SdkWorker(world, world.dice_for(self._dice), f"sdk-{namespace}", namespace)
            for namespace in NAMESPACES
        ]
        self._places = [client.name for client in self._clients]
        self._places += [worker.name for worker in self._workers]
        self._places += [worker.name for worker in self._sdk_workers]

    async def _storm(self) -> None:
        world, weather = self._world, self._weather
        for client in self._clients[: len(NAMESPACES)]:
            await client.register_all()
        actors = [self._begin(client.run()) for client in self._clients]
        actors += [self._begin(worker.run()) for worker in self._workers]
        actors += [self._begin(worker.run()) for worker in self._sdk_workers]
        troubles = [
            self._begin(self._now_and_then(mean_s, trouble))
            for mean_s, trouble in (
                (weather.crash_s, self._crash_server),
                (weather.restart_s, self._restart_server),
                (1.0, self._mind_server),
                (weather.snapshot_s, self._server.take_snapshot),
                (weather.clock_put_s, self._put_clock),
                (weather.cut_off_s, self._cut_off_somebody),
                (weather.line_break_s, self._break_line),
                (weather.worker_kill_s, self._kill_worker),
                (weather.worker_kill_s, self._drain_worker),
                (weather.lull_s, self._lull),
            )
            if mean_s
        ]
        await self._until(lambda: world.story.operations >= self._operations, STORM_S_MAX)
        for trouble in troubles:
            trouble.cancel()
        world.clear_up()
        await self._fresh_server()
        for worker in self._sdk_workers:
            worker.drain()
        await self._until(lambda: all(actor.done() for actor in actors), CALM_S_MAX)
        gone = [actor.done() for actor in actors]
        world.checks.hold(Invariant.NO_ACCIDENT, all(gone), "somebody does not end:", gone)

    async def _calm(self) -> None:
        """Nothing breaks any more; the clock runs as clocks do."""
        world = self._world
        diligent = [
            SimulatedWorker(
                world, world.dice_for(self._dice), f"diligent-{namespace}", namespace, diligent=True
            )
            for namespace in NAMESPACES
        ]
        for worker in diligent:
            await worker.free_leaseless()
            self._begin(worker.run())
        await self._until(lambda: not world.facts.live, CALM_S_MAX, rest_s=60.0)
        world.checks.hold(
            Invariant.EVERY_RUN_ENDS,
            not world.facts.live,
            [str(run) for run in list(world.facts.live.values())[:5]],
        )
        for worker in diligent:
            await worker.close()

    async def _audit(self) -> None:
        world = self._world
        for namespace in NAMESPACES:
            client = SimulatedClient(
                world, world.dice_for(self._dice), f"auditor-{namespace}", namespace
            )
            await client.look_at_everything()
            await client.close()
        for run in world.ledger.acknowledged.values():
            world.checks.hold(Invariant.ALL_ACCOUNTED_FOR, not run.is_live, run)
        for key, output in world.ledger.results.items():
            kept = world.facts.runs[key].output
            world.checks.hold(Invariant.RESULT_KEPT, kept == output, key, kept, output)
        self._server.check_at_end()

    def _begin(self, life: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(life)
        self._tasks.append(task)
        return task

    async def _until(self, reached: Callable[[], bool], s_max: float, rest_s: float = 1.0) -> None:
        """Let things go on; the first that is broken ends it."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + s_max
        while not reached() and loop.time() < end_s:
            await asyncio.sleep(rest_s)
            await self._world.awake.wait()
            if self._world.checks.broken is not None:
                raise self._world.checks.broken
            for task in self._tasks:
                if task.done() and not task.cancelled():
                    task.result()

    async def _now_and_then(self, mean_s: float, trouble: Callable[[], Awaitable[None]]) -> None:
        dice = self._world.dice_for(self._dice)
        while True:
            await asyncio.sleep(dice.expovariate(1.0 / mean_s))
            await self._world.awake.wait()
            await trouble()

    async def _crash_server(self) -> None:
        async with self._server_is_minded:
            self._server.crash()
            await asyncio.sleep(self._dice.random() * self._weather.down_s_max)
            await self._server.start()

    async def _restart_server(self) -> None:
        async with self._server_is_minded:
            await self._server.stop()
            await asyncio.sleep(self._dice.random())
            await self._server.start()

    async def _mind_server(self) -> None:
        """A server that can write no more is started again, as an operator would."""
        if not self._server.is_up and not self._server_is_minded.locked():
            await self._crash_server()

    async def _fresh_server(self) -> None:
        async with self._server_is_minded:
            if self._server.is_there:
                await self._server.stop()
            await self._server.start()

    async def _put_clock(self) -> None:
        by_ms = self._dice.randint(-self._weather.clock_put_ms_max, self._weather.clock_put_ms_max)
        self._world.story.happened(f"clock put: {by_ms} ms")
        self._world.time.wall.put(by_ms)

    async def _cut_off_somebody(self) -> None:
        place = self._dice.choice(self._places)
        self._world.story.happened(f"cut off: {place}")
        self._world.network.cut_off(place)
        await asyncio.sleep(self._dice.random() * self._weather.cut_off_s_max)
        self._world.network.heal(place)

    async def _break_line(self) -> None:
        self._world.story.happened("line breaks")
        self._world.network.break_one()

    async def _kill_worker(self) -> None:
        workers: list[SimulatedWorker | SdkWorker] = [*self._workers, *self._sdk_workers]
        worker = self._dice.choice(workers)
        self._world.story.happened(f"worker killed: {worker.name}")
        worker.kill()

    async def _drain_worker(self) -> None:
        worker = self._dice.choice(self._sdk_workers)
        self._world.story.happened(f"worker drained: {worker.name}")
        worker.drain()

    async def _lull(self) -> None:
        hours = self._dice.uniform(0.5, 4.0)
        self._world.story.happened(f"lull: {hours:.1f} hours")
        self._world.awake.clear()
        await asyncio.sleep(hours * 3_600.0)
        self._world.awake.set()

    def _accident(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something was raised where nobody caught it."""
        error = context.get("exception")
        if not isinstance(error, Broken):
            error = Broken(Invariant.NO_ACCIDENT, (context["message"], repr(error)))
        self._world.checks.broken = self._world.checks.broken or error


@contextmanager
def _silence() -> Iterator[None]:
    """Servers and workers that are made to fail complain a lot, and it says nothing new."""
    logger = logging.getLogger("flo.worker")
    logger.disabled = True
    try:
        with structlog.testing.capture_logs():
            yield
    finally:
        logger.disabled = False


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate the whole system, from a seed.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    parser.add_argument("--operations", type=int, default=OPERATIONS_DEFAULT)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.seeds):
        started = time.perf_counter()
        summary = Simulation(seed, options.operations).run()
        print(tell(summary, time.perf_counter() - started))
        if summary.broken is not None:
            sys.exit(1)


def tell(summary: Summary, seconds: float) -> str:
    """The summary in words; of a failure, the story's last events and how to see it again."""
    happened = ", ".join(
        f"{count} × {what[2:]}" for what, count in summary.happened.items() if what[:2] == "* "
    )
    lines = [
        f"seed {summary.seed}: {summary.operations} operations on {summary.runs} runs "
        f"in {seconds:.1f} s ({summary.operations / seconds:.0f}/s), "
        f"{summary.virtual_s / 86_400:.2f} virtual days",
        f"  happened    {happened}",
        f"  invariants  {len(summary.checked)} kinds, {summary.checked.total()} checks",
        f"  digest      {summary.digest}",
    ]
    if summary.broken is not None:
        lines += [
            "",
            *summary.story,
            "",
            f"BROKEN  {summary.broken}",
            f"        make simulate SEED={summary.seed}",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
