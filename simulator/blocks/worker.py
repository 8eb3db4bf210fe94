"""A worker of blocks that does its jobs, fails at them, reports late or twice, and dies."""

import asyncio
import random

import msgspec

from flo.client.workers import Workers
from flo.model.blocks.jobs import JobInput, JobResult, LockWanted
from flo.model.blocks.names import JobType, LockMode
from flo.model.errors import FloError, Unavailable
from flo.model.ids import Namespace
from flo.model.runs import Task
from simulator.actors.actor import SimulatedActor
from simulator.blocks.documents import job_actions
from simulator.checks.invariants import Invariant
from simulator.world import World

FAILS = {JobType.ACQUIRE: 0.06, JobType.EXECUTE: 0.25, JobType.ROLLBACK: 0.15}
"""How likely a job fails."""
LATE_CODES = ("lease_lost", "run_not_found")


class SimulatedBlockWorker(SimulatedActor):
    """Each life has its own id; a `diligent` one fails at nothing, and does not die."""

    def __init__(
        self,
        world: World,
        rng: random.Random,
        name: str,
        namespace: Namespace,
        *,
        diligent: bool = False,
    ) -> None:
        super().__init__(world, rng, name, namespace)
        self._is_diligent = diligent
        self._workers = Workers(self._session, namespace)
        self._life = 1
        self._is_killed = False
        self._late: list[tuple[str, Task, JobInput]] = []
        self._operations = [self._work]

    def kill(self) -> None:
        """What it has in hand it never reports, and comes back as another."""
        self._is_killed = True
        self._life += 1

    @property
    def _worker_id(self) -> str:
        return f"{self.name}.{self._life}"

    async def _work(self) -> None:
        self._is_killed, worker_id = False, self._worker_id
        if self._late and self._rng.random() < 0.3:
            await self._report(*self._rng.choice(self._late), "late")
        try:
            claimed = await self._workers.claim(
                worker_id,
                job_actions(),
                max_tasks=self._rng.choice((1, 1, 3)),
                block_ms=20_000 if self._is_diligent else self._rng.choice((0, 2_000)),
            )
        except Unavailable as error:
            self._did("claim", error)
            return
        self._did("claim", [f"{task.task_id}/{task.attempt}" for task in claimed.tasks])
        self._world.ledger.assigned(self._namespace, worker_id, claimed)
        for task in claimed.tasks:
            if self._is_killed:
                return
            await self._perform(worker_id, task)

    async def _perform(self, worker_id: str, task: Task) -> None:
        given = msgspec.json.decode(task.payload, type=JobInput)
        self._check(given)
        await asyncio.sleep(self._rng.random() * (0.5 if self._is_diligent else 1.5))
        chance = 1.0 if self._is_diligent else self._rng.random()
        if chance < 0.05 or self._is_killed:
            self._late = [*self._late[-4:], (worker_id, task, given)]  # it forgets to report
            return
        how = "failed" if chance < FAILS[given.job] else "done"
        await self._report(worker_id, task, given, how)
        if chance > 0.95 and not self._is_diligent:
            await self._report(worker_id, task, given, "done")

    def _check(self, given: JobInput) -> None:
        """What is executed or undone is given the locks of its run, which holds them."""
        key = (self._namespace, given.run_id)
        ledger = self._world.reference.blocks.ledgers.get(key)
        known = ledger is not None and (given.job is JobType.ACQUIRE or ledger.granted)
        self._world.checks.hold(Invariant.LOCKED_BEFORE_EXECUTE, known, given, ledger)

    async def _report(self, worker_id: str, task: Task, given: JobInput, how: str) -> None:
        result = JobResult(success=how != "failed", message=how, data={"by": given.step})
        if given.job is JobType.ACQUIRE and result.success:
            locks = [
                LockWanted(key=key, mode=LockMode(mode))
                for key, mode in given.parameters.get("locks", ())
            ]
            self._rng.shuffle(locks)
            result = msgspec.structs.replace(result, locks=locks)
        elif given.job is JobType.EXECUTE and result.success and given.entity_id is not None:
            patch = {"operation": "patch", "entity": "device", "id": given.entity_id}
            update = {**patch, "path": "by", "value": given.run_id}
            result = msgspec.structs.replace(result, updates=[update])
        output = msgspec.json.encode(result)
        run = (self._namespace, task.task_id)
        self._world.reports.complete(run, worker_id, task.attempt, output)
        try:
            await self._workers.complete(task.task_id, worker_id, output, attempt=task.attempt)
        except FloError as error:
            self._refused("complete", error, *LATE_CODES)
        else:
            self._did("complete", task.task_id)
