"""A simulation of secrets and the audit: real server, real wire, simulated time, disk and network.

    python -m simulator.safety.simulation --seed 7

Workers repeat the secrets that they are given in results and errors, while servers crash and keys
are rotated; no value may be in the log, in a row or in an answer, and every audited command must be
an entry in its own append.
"""

import argparse
import asyncio
import sys
from itertools import cycle

from flo.core.sealing import KeyRing
from flo.server.audit.shard import AuditedShard
from flo.server.inside.triggers import Triggers
from flo.server.router import Router
from flo.server.vault.door import MessageHandler, VaultDoor
from flo.server.vault.vault import Vault
from flo.shard.loop import Shard
from simulator.actors.server import SimulatedServer
from simulator.checks.invariants import Invariant
from simulator.faults.injector import FaultInjector
from simulator.safety.client import SimulatedSecretKeeper
from simulator.simulation import FAULTS_S_MAX, RECOVERY_S_MAX, Simulation
from simulator.world import NAMESPACES, rng_from

ACTORS = 3
OPERATIONS_DEFAULT = 2_000
KEYS = [bytes([number]) * 32 for number in range(4)]


class SafeServer(SimulatedServer):
    """With a vault, whose keys change whenever they are read anew, and with an audit."""

    def _new_router(self, shard: Shard, triggers: Triggers) -> Router:
        self._world.reference.safety.is_audited = True
        return Router(AuditedShard(shard), triggers=triggers)

    def _way_in(self, router: Router) -> MessageHandler:
        assert self._shard is not None
        draw = rng_from(self._rng).randbytes
        first = cycle(range(len(KEYS)))

        def load() -> KeyRing:
            at = next(first)
            return KeyRing([*KEYS[at:], *KEYS[:at]], draw)

        return VaultDoor(router, Vault(self._shard, load))


class SafetySimulation(Simulation):
    server_kind = SafeServer

    async def _run_with_faults(self, server: SimulatedServer) -> None:
        world = self._world
        everybody = [
            SimulatedSecretKeeper(world, rng_from(self._rng), f"keeper-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * ACTORS)
        ]
        actors = [asyncio.create_task(actor.run()) for actor in everybody]
        faults = FaultInjector(
            world,
            rng_from(self._rng),
            server,
            places=[actor.name for actor in everybody],
            killables=everybody,
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
        """Whoever gave up a task has lost its lease by now, or will."""

    async def _audit(self) -> None:
        """What is checked is checked on the way."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many, from this one on")
    parser.add_argument("--operations", type=int, default=OPERATIONS_DEFAULT)
    chosen = parser.parse_args()
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        summary = SafetySimulation(seed, chosen.operations).run()
        print(seed, summary.operations, summary.digest[:12], summary.broken or "holds")
        if summary.broken is not None:
            print("\n".join(summary.trace))
            sys.exit(1)


if __name__ == "__main__":
    main()
