"""A simulation of blocks alone: real server, real wire, simulated time, disk and network.

    python -m simulator.blocks.simulation --seed 7

Faults are injected while clients start workflows over a few keys and workers do their jobs, fail at
them and die; then diligent workers finish what there is, somebody takes care of what was left
undone, and everything is counted again.
"""

import argparse
import asyncio
import sys

from simulator.actors.server import SimulatedServer
from simulator.blocks.client import SimulatedBlockClient
from simulator.blocks.worker import SimulatedBlockWorker
from simulator.checks.invariants import Invariant
from simulator.faults.injector import FaultInjector
from simulator.simulation import FAULTS_S_MAX, RECOVERY_S_MAX, Actor, Simulation
from simulator.world import NAMESPACES, rng_from

CLIENTS = 1
WORKERS = 4
OPERATIONS_DEFAULT = 3_000
SETTLED_MAX = 12
"""So often is looked for what is left undone: a rollback that goes on then may fail, too."""


class BlockSimulation(Simulation):
    async def _run_with_faults(self, server: SimulatedServer) -> None:
        world = self._world
        clients = [
            SimulatedBlockClient(world, rng_from(self._rng), f"operator-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * CLIENTS)
        ]
        workers = [
            SimulatedBlockWorker(world, rng_from(self._rng), f"doer-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * WORKERS)
        ]
        for client in clients[: len(NAMESPACES)]:
            await client.deploy_all()
        everybody: list[Actor] = [*clients, *workers]
        actors = [asyncio.create_task(actor.run()) for actor in everybody]
        faults = FaultInjector(
            world,
            rng_from(self._rng),
            server,
            places=[actor.name for actor in everybody],
            killables=workers,
            sdk_workers=[],
        )
        under_way = faults.begin()
        self._tasks += [*actors, *under_way]
        await self._until(lambda: world.trace.operations >= self._operations, FAULTS_S_MAX)
        await faults.end(under_way)
        await self._until(lambda: all(actor.done() for actor in actors), RECOVERY_S_MAX)
        gone = [actor.done() for actor in actors]
        world.checks.hold(Invariant.NO_ACCIDENT, all(gone), "somebody does not end:", gone)

    async def _recover(self) -> None:
        """Every run ends once workers do their jobs and somebody resolves what is left."""
        world = self._world
        workers = [
            SimulatedBlockWorker(
                world, rng_from(self._rng), f"diligent-{number}", namespace, diligent=True
            )
            for number, namespace in enumerate(NAMESPACES * 2)
        ]
        settlers = [
            SimulatedBlockClient(world, rng_from(self._rng), f"settler-{namespace}", namespace)
            for namespace in NAMESPACES
        ]
        world.is_closing = False
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        self._tasks += tasks
        blocks = world.reference.blocks
        for _ in range(SETTLED_MAX):
            for settler in settlers:
                await settler.resolve_all()
            await self._until(lambda: not blocks.live, 600.0, rest_s=10.0)
            if not blocks.live:
                break
        some = [f"{key} {one}" for key, one in blocks.live.items()][:3]
        world.checks.hold(Invariant.EVERY_LEDGER_CLOSES, not some, *some)
        held = [key for key, one in blocks.locks.items() if one.holders or one.waiters]
        world.checks.hold(Invariant.EVERY_LEDGER_CLOSES, not held, *held)
        await self._until(lambda: not world.reference.runs.live, RECOVERY_S_MAX, rest_s=10.0)
        world.checks.hold(Invariant.EVERY_RUN_ENDS, not world.reference.runs.live)
        world.is_closing = True
        await self._until(lambda: all(task.done() for task in tasks), RECOVERY_S_MAX)
        for settler in settlers:
            await settler.close()

    async def _audit(self) -> None:
        """What there is to look at is looked at while it goes on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many, from this one on")
    parser.add_argument("--operations", type=int, default=OPERATIONS_DEFAULT)
    chosen = parser.parse_args()
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        summary = BlockSimulation(seed, chosen.operations).run()
        print(seed, summary.operations, summary.digest[:12], summary.broken or "holds")
        if summary.broken is not None:
            print("\n".join(summary.trace))
            sys.exit(1)


if __name__ == "__main__":
    main()
