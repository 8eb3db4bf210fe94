"""Server, workers and clients in one process, from a seed.

    python -m simulator --seed 7

    faults   everybody does what they like, and everything breaks, until enough has been done
    recovery no more faults: diligent workers finish what there is
    audit    every run that was acknowledged is looked at, and everything is counted again

The shard, the listener, the wire and the clients are the real ones; time, randomness, disk and
network are simulated, so a seed gives the same trace every time.
"""

import argparse
import asyncio
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import structlog.testing

from flo.model.base import Event
from flo.model.errors import FloError
from flo.model.ids import Namespace
from simulator.actors.client import SimulatedClient
from simulator.actors.groups import SimulatedConsumer
from simulator.actors.kv import SimulatedKvClient
from simulator.actors.namespaces import SimulatedNamespaceUser
from simulator.actors.sdk import SdkWorker
from simulator.actors.server import SimulatedServer
from simulator.actors.streams import SimulatedProducer
from simulator.actors.worker import SimulatedWorker
from simulator.actors.workflows import SimulatedWorkflowClient
from simulator.checks.invariants import Broken, Invariant
from simulator.faults.injector import FaultInjector, Killable
from simulator.faults.loop import run_virtual
from simulator.faults.profile import draw_profile
from simulator.ledgers.requests import GroupKey
from simulator.reference.groups import TRIGGER_PREFIX
from simulator.world import NAMESPACES, World, rng_from

OPERATIONS_DEFAULT = 4_000
COMMITS_PER_AUDIT = 100
FAULTS_S_MAX = 30 * 24 * 3_600.0
RECOVERY_S_MAX = 12 * 3_600.0


class Actors(NamedTuple):
    """How many there are of each kind in every namespace."""

    clients: int
    workers: int
    producers: int
    consumers: int
    kv_clients: int
    workflow_clients: int


POPULATIONS = (
    Actors(clients=3, workers=3, producers=1, consumers=2, kv_clients=1, workflow_clients=0),
    Actors(clients=3, workers=3, producers=1, consumers=2, kv_clients=1, workflow_clients=1),
    Actors(clients=1, workers=1, producers=3, consumers=6, kv_clients=1, workflow_clients=0),
    Actors(clients=1, workers=1, producers=2, consumers=5, kv_clients=4, workflow_clients=0),
    Actors(clients=1, workers=3, producers=1, consumers=1, kv_clients=1, workflow_clients=3),
)
"""Every seed has one of these: some errors show only where there are many of a kind."""


class Actor(Protocol):
    """Somebody who acts while faults are injected."""

    name: str

    async def run(self) -> None: ...


class Summary(NamedTuple):
    """What a simulation was like, and what broke first, if anything did."""

    seed: int
    operations_min: int
    operations: int
    virtual_s: float
    runs: int
    happened: Counter[str]
    requested: Counter[str]
    events: Counter[type[Event]]
    checked: Counter[Invariant]
    replayed: Counter[str]
    """Workflow runs by kind, found again from their archive."""
    digest: str
    broken: Broken | None
    trace: list[str]


class Simulation:
    """Faults are injected until `operations` have been done; recovery and audit add some more.

    Without `wait_for_log` the server acknowledges too early, and must be caught at it. Without a
    `population` the seed draws one; `documents` are workflows besides the usual ones.
    """

    server_kind = SimulatedServer

    def __init__(
        self,
        seed: int,
        operations: int = OPERATIONS_DEFAULT,
        *,
        wait_for_log: bool = True,
        commits_per_audit: int = COMMITS_PER_AUDIT,
        population: Actors | None = None,
        documents: Sequence[str] = (),
    ) -> None:
        self._seed = seed
        self._operations = operations
        self._wait_for_log = wait_for_log
        self._commits_per_audit = commits_per_audit
        self._population = population
        self._documents = documents
        self._rng = random.Random(seed)

    def run(self) -> Summary:
        with _silence():
            return run_virtual(self._run())

    async def _run(self) -> Summary:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._accident)
        profile = draw_profile(rng_from(self._rng))
        world = self._world = World(self._rng, profile, self._documents)
        self._tasks: list[asyncio.Task[None]] = []
        try:
            await self._play()
        except Broken as broken:
            world.checks.broken = world.checks.broken or broken
        except FloError:  # where something is broken, the server may have closed
            if world.checks.broken is None:
                raise
        return Summary(
            seed=self._seed,
            operations_min=self._operations,
            operations=world.trace.operations,
            virtual_s=loop.time(),
            runs=len(world.reference.runs.by_id),
            happened=world.trace.incidents,
            requested=world.trace.requested,
            events=world.trace.events,
            checked=world.checks.counts,
            replayed=world.replays.kinds,
            digest=world.trace.digest,
            broken=world.checks.broken,
            trace=world.trace.last(),
        )

    async def _play(self) -> None:
        world = self._world
        server = self.server_kind(
            world,
            rng_from(self._rng),
            wait_for_log=self._wait_for_log,
            commits_per_audit=self._commits_per_audit,
        )
        await server.start()
        await self._run_with_faults(server)
        await self._recover()
        await self._audit()
        await server.look_after_streams()
        server.check_at_end()

    async def _run_with_faults(self, server: SimulatedServer) -> None:
        world, population = self._world, self._population or self._rng.choice(POPULATIONS)
        clients = [
            SimulatedClient(world, rng_from(self._rng), f"client-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * population.clients)
        ]
        workers = [
            SimulatedWorker(world, rng_from(self._rng), f"worker-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * population.workers)
        ]
        sdk_workers = [
            SdkWorker(world, rng_from(self._rng), f"sdk-{namespace}", namespace)
            for namespace in NAMESPACES
        ]
        namespace_user = SimulatedNamespaceUser(world, rng_from(self._rng), "namespace-user")
        producers = [
            SimulatedProducer(world, rng_from(self._rng), f"producer-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * population.producers)
        ]
        consumers = [
            SimulatedConsumer(world, rng_from(self._rng), f"consumer-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * population.consumers)
        ]
        kv_clients = [
            SimulatedKvClient(world, rng_from(self._rng), f"kv-client-{number}", namespace)
            for number, namespace in enumerate(NAMESPACES * population.kv_clients)
        ]
        workflow_clients = [
            SimulatedWorkflowClient(
                world, rng_from(self._rng), f"workflow-client-{number}", namespace
            )
            for number, namespace in enumerate(NAMESPACES * population.workflow_clients)
        ]
        for client in clients[: len(NAMESPACES)]:
            await client.register_all(server.restart_if_closed)
        for workflow_client in workflow_clients[: len(NAMESPACES)]:
            await workflow_client.deploy_all(server.restart_if_closed)
        killables: list[Killable] = [*workers, *sdk_workers, *consumers]
        everybody: list[Actor] = [*clients, *workers, *sdk_workers, namespace_user]
        everybody += [*producers, *consumers, *kv_clients, *workflow_clients]
        actors = [asyncio.create_task(actor.run()) for actor in everybody]
        faults = FaultInjector(
            world,
            rng_from(self._rng),
            server,
            places=[actor.name for actor in everybody if actor is not namespace_user],
            killables=killables,
            sdk_workers=sdk_workers,
        )
        under_way = faults.begin()
        self._tasks += [*actors, *under_way]
        await self._until(lambda: world.trace.operations >= self._operations, FAULTS_S_MAX)
        await faults.end(under_way)
        for worker in sdk_workers:
            worker.drain()
        await self._until(lambda: all(actor.done() for actor in actors), RECOVERY_S_MAX)
        gone = [actor.done() for actor in actors]
        world.checks.hold(Invariant.NO_ACCIDENT, all(gone), "somebody does not end:", gone)

    async def _recover(self) -> None:
        world = self._world
        workers = [
            SimulatedWorker(
                world, rng_from(self._rng), f"diligent-{namespace}", namespace, diligent=True
            )
            for namespace in NAMESPACES
        ]
        for worker in workers:
            await worker.free_leaseless()
            self._tasks.append(asyncio.create_task(worker.run()))
        await self._recover_workflows()
        await self._until(lambda: not world.reference.runs.live, RECOVERY_S_MAX, rest_s=60.0)
        self._check_runs_ended()
        for worker in workers:
            await worker.close()
        for namespace in NAMESPACES:
            await self._recover_groups(namespace)

    async def _recover_workflows(self) -> None:
        """Every workflow run ends, but for those that wait for a signal, and say so."""
        live = self._world.reference.workflows.live
        workflow_clients = [
            SimulatedWorkflowClient(
                self._world, rng_from(self._rng), f"recovery-{namespace}", namespace
            )
            for namespace in NAMESPACES
        ]
        for workflow_client in workflow_clients:
            await workflow_client.settle()
        await self._until(
            lambda: not self._world.reference.awaits_workers, RECOVERY_S_MAX, rest_s=60.0
        )
        self._check_runs_ended()
        for workflow_client in workflow_clients:
            await workflow_client.end_what_waits()
        await self._until(lambda: not live, RECOVERY_S_MAX, rest_s=60.0)
        some = [str(timeline) for timeline in live.values()][:5]
        self._world.checks.hold(Invariant.EVERY_WORKFLOW_ENDS, not some, *some)
        for workflow_client in workflow_clients:
            await workflow_client.close()

    def _check_runs_ended(self) -> None:
        some = [str(run) for run in self._world.reference.runs.live.values()][:5]
        self._world.checks.hold(Invariant.EVERY_RUN_ENDS, not some, *some)

    async def _recover_groups(self, namespace: Namespace) -> None:
        """Every record that a group has not settled yet is settled, or dies."""
        world = self._world
        name = f"diligent-consumer-{namespace}"
        consumer = SimulatedConsumer(world, rng_from(self._rng), name, namespace, diligent=True)
        end_s = asyncio.get_running_loop().time() + RECOVERY_S_MAX
        for key in world.reference.groups.keys_of(namespace):
            if key[2].startswith(TRIGGER_PREFIX):
                self._check_trigger(key)
                continue
            while await consumer.drain_group(key):
                in_time = asyncio.get_running_loop().time() < end_s
                world.checks.hold(Invariant.EVERY_RECORD_SETTLES, in_time, key)
            await consumer.look_at_dead(key)
        await consumer.close()

    def _check_trigger(self, key: GroupKey) -> None:
        """All that its stream had for a trigger has started a run."""
        group = self._world.reference.groups.find(*key)
        timeline = self._world.reference.streams.streams[key[0], key[1]]
        taken = group is not None and group.next == timeline.next and not group.under_way
        self._world.checks.hold(Invariant.EVERY_RECORD_SETTLES, taken, group, timeline)

    async def _audit(self) -> None:
        world = self._world
        for namespace in NAMESPACES:
            for kind in (
                SimulatedClient,
                SimulatedProducer,
                SimulatedKvClient,
                SimulatedWorkflowClient,
            ):
                name = f"auditor-{namespace}"
                client = kind(world, rng_from(self._rng), name, namespace)
                await client.look_at_everything()
                await client.close()
        for run in world.ledger.acknowledged.values():
            world.checks.hold(Invariant.ALL_ACCOUNTED_FOR, not run.is_live, run)
        for key, output in world.ledger.results.items():
            kept = world.reference.runs.by_id[key].output
            world.checks.hold(Invariant.RESULT_KEPT, kept == output, key, kept, output)

    async def _until(self, reached: Callable[[], bool], s_max: float, rest_s: float = 1.0) -> None:
        """Let things go on; the first that is broken ends it."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + s_max
        while not reached() and loop.time() < end_s:
            await asyncio.sleep(rest_s)
            await self._world.awake.wait()
            self._world.departures.check()
            if self._world.checks.broken is not None:
                raise self._world.checks.broken
            for task in self._tasks:
                if task.done() and not task.cancelled():
                    task.result()

    def _accident(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something was raised where nobody caught it."""
        error = context.get("exception")
        if not isinstance(error, Broken):
            error = Broken(Invariant.NO_ACCIDENT, (context["message"], repr(error)))
        self._world.checks.broken = self._world.checks.broken or error


@contextmanager
def _silence() -> Iterator[None]:
    """Servers, clients and workers that are made to fail log a lot, and it says nothing new."""
    loggers = [logging.getLogger(name) for name in ("flo.client", "flo.worker")]
    for logger in loggers:
        logger.disabled = True
    try:
        with structlog.testing.capture_logs():
            yield
    finally:
        for logger in loggers:
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
        print(report_of(summary, time.perf_counter() - started))
        if summary.broken is not None:
            sys.exit(1)


def report_of(summary: Summary, seconds: float) -> str:
    """The summary as text; of a failure, the end of the trace and how to see it again."""
    happened = ", ".join(f"{count} × {what}" for what, count in summary.happened.items())
    lines = [
        f"seed {summary.seed}: {summary.operations} operations on {summary.runs} runs "
        f"in {seconds:.1f} s ({summary.operations / seconds:.0f}/s), "
        f"{summary.virtual_s / 86_400:.2f} virtual days",
        f"  happened    {happened}",
        f"  invariants  {len(summary.checked)} kinds, {summary.checked.total()} checks",
        f"  digest      {summary.digest}",
    ]
    if summary.broken is not None:
        lines += ["", *summary.trace, "", f"BROKEN  {summary.broken}", f"        {_again(summary)}"]
    return "\n".join(lines)


def _again(summary: Summary) -> str:
    if summary.operations_min == OPERATIONS_DEFAULT:
        return f"make simulate SEED={summary.seed}"
    return f"python -m simulator --seed {summary.seed} --operations {summary.operations_min}"
