"""A simulation of tokens alone: real server, real wire, simulated time, disk and network.

    python -m simulator.access.simulation --seed 7

Administrators make, rotate and revoke tokens while the server crashes and connections break; guests
come with all the secrets that there ever were. Whoever must be let in is, and nobody else.
"""

import argparse
import asyncio
import sys

from simulator.access.actors import SimulatedAdministrator, SimulatedGuest
from simulator.access.ledger import SecretLedger
from simulator.actors.server import ADMINISTRATOR_SECRET, SimulatedServer
from simulator.checks.invariants import Invariant
from simulator.faults.injector import FaultInjector
from simulator.simulation import FAULTS_S_MAX, RECOVERY_S_MAX, Actor, Simulation
from simulator.world import rng_from

ADMINISTRATORS = 2
GUESTS = 4
OPERATIONS_DEFAULT = 2_000


class AccessSimulation(Simulation):
    asks_who = True

    async def _run_with_faults(self, server: SimulatedServer) -> None:
        world, ledger = self._world, SecretLedger()
        everybody: list[Actor] = [
            SimulatedAdministrator(
                world, rng_from(self._rng), f"root-{number}", ADMINISTRATOR_SECRET, ledger
            )
            for number in range(ADMINISTRATORS)
        ]
        everybody += [
            SimulatedGuest(world, rng_from(self._rng), f"guest-{number}", ledger)
            for number in range(GUESTS)
        ]
        actors = [asyncio.create_task(actor.run()) for actor in everybody]
        faults = FaultInjector(
            world,
            rng_from(self._rng),
            server,
            places=[actor.name for actor in everybody],
            killables=[],
            sdk_workers=[],
        )
        under_way = faults.begin()
        self._tasks += [*actors, *under_way]
        await self._until(lambda: world.trace.operations >= self._operations, FAULTS_S_MAX)
        await faults.end(under_way)
        world.is_closing = True
        await self._until(lambda: all(actor.done() for actor in actors), RECOVERY_S_MAX)
        gone = [actor.done() for actor in actors]
        world.checks.hold(Invariant.NO_ACCIDENT, all(gone), "somebody does not end:", gone)

    async def _recover(self) -> None:
        """Nothing is left to be done."""

    async def _audit(self) -> None:
        """Every forged registration would be seen here."""
        forged = [event for event in self._world.reference.history if "forged" in repr(event)]
        self._world.checks.hold(Invariant.ROLES_KEPT, not forged, *forged[:1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many, from this one on")
    parser.add_argument("--operations", type=int, default=OPERATIONS_DEFAULT)
    chosen = parser.parse_args()
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        summary = AccessSimulation(seed, chosen.operations).run()
        print(seed, summary.operations, summary.digest[:12], summary.broken or "holds")
        if summary.broken is not None:
            print("\n".join(summary.trace))
            sys.exit(1)


if __name__ == "__main__":
    main()
