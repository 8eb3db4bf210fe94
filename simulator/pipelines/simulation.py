"""A simulation of pipelines alone: real server, real wire, simulated time, disk and network.

    python -m simulator.pipelines.simulation --seed 7

Faults are injected while clients submit graphs and workers run, lose and repeat them; then workers
without faults finish what there is, and everything is counted again.
"""

import argparse
import asyncio
import sys

from simulator.actors.server import SimulatedServer
from simulator.checks.invariants import Invariant
from simulator.faults.injector import FaultInjector
from simulator.pipelines.client import SimulatedPipelineClient
from simulator.pipelines.worker import SimulatedPipelineWorker
from simulator.simulation import FAULTS_S_MAX, RECOVERY_S_MAX, Actor, Simulation
from simulator.world import NAMESPACES, rng_from

CLIENTS = 2
WORKERS = 4
OPERATIONS_DEFAULT = 3_000


class PipelineSimulation(Simulation):
    async def _run_with_faults(self, server: SimulatedServer) -> None:
        world = self._world
        clients = [
            SimulatedPipelineClient(world, rng_from(self._rng), f"submitter-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * CLIENTS)
        ]
        workers = [
            SimulatedPipelineWorker(world, rng_from(self._rng), f"runner-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * WORKERS)
        ]
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
        """Every pipeline ends once workers do their work."""
        world = self._world
        for namespace in NAMESPACES:
            client = SimulatedPipelineClient(world, rng_from(self._rng), "settler", namespace)
            await client.remove_limits()
            await client.close()
        workers = [
            SimulatedPipelineWorker(
                world, rng_from(self._rng), f"diligent-{number}", namespace, diligent=True
            )
            for number, namespace in enumerate(NAMESPACES * 2)
        ]
        world.is_closing = False
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        self._tasks += tasks
        live = world.reference.pipelines
        await self._until(lambda: not live.live, RECOVERY_S_MAX, rest_s=10.0)
        some = [str(one) for one in live.live.values()][:3]
        world.checks.hold(Invariant.EVERY_PIPELINE_ENDS, not some, *some)
        world.is_closing = True
        await self._until(lambda: all(task.done() for task in tasks), RECOVERY_S_MAX)

    async def _audit(self) -> None:
        for namespace in NAMESPACES:
            auditor = SimulatedPipelineClient(
                self._world, rng_from(self._rng), f"auditor-{namespace}", namespace
            )
            await auditor.look_at_everything()
            await auditor.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many, from this one on")
    parser.add_argument("--operations", type=int, default=OPERATIONS_DEFAULT)
    chosen = parser.parse_args()
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        summary = PipelineSimulation(seed, chosen.operations).run()
        print(seed, summary.operations, summary.digest[:12], summary.broken or "holds")
        if summary.broken is not None:
            print("\n".join(summary.trace))
            sys.exit(1)


if __name__ == "__main__":
    main()
