"""Somebody who makes a namespace, works in it alone, deletes it and makes it again.

create ──▸ register ──▸ invoke ──▸ claim, report ──▸ look around ──▸ delete
   ▲                                                                    │
   └────────────────────────────────────────────────────────────────────┘

The same ids and the same keys come in every life of the namespace, with other inputs: whatever is
seen of an earlier one shows.
"""

import asyncio
import random
from collections.abc import Iterable

from flo.client.actions import Actions
from flo.client.namespaces import Namespaces
from flo.client.workers import Workers
from flo.model.errors import Conflict, NotFound, Unavailable
from flo.model.ids import RunId
from flo.model.runs import Task
from simulator.checks.invariants import Invariant
from simulator.world import World

NAMESPACE = "short-lived"
ACTION = "pitch"
REST_S = 2.0


class SimulatedNamespaceUser:
    def __init__(self, world: World, rng: random.Random, name: str) -> None:
        self._world = world
        self._rng = rng
        self.name = name
        self._session = world.session(name, rng)
        self._namespaces = Namespaces(self._session)
        self._actions = Actions(self._session, NAMESPACE)
        self._workers = Workers(self._session, NAMESPACE)
        self._inputs = 0
        self._run_ids: list[RunId] = []

    async def run(self) -> None:
        while not self._world.is_closing:
            await asyncio.sleep(self._rng.expovariate(1.0 / REST_S))
            await self._world.awake.wait()
            try:
                await self._live()
            except (Unavailable, Conflict, NotFound) as error:
                self._did("live", error)
        await self._leave_nothing()
        await self._session.close()

    async def _live(self) -> None:
        """One life of the namespace, as far as the faults let it."""
        await self._create()
        await self._actions.register(ACTION, timeout_ms=2_000, max_retries=1)
        if self._rng.random() < 0.5:
            await self._workers.register(self.name, [ACTION])
        for number in range(self._rng.randint(1, 5)):
            await self._invoke(f"key-{number}" if self._rng.random() < 0.5 else None)
        await self._work()
        await self._look_around()
        await self._delete(force=self._rng.random() < 0.8)
        await self._look_around()

    async def _create(self) -> None:
        try:
            await self._namespaces.create(NAMESPACE)
        except Conflict as error:  # an earlier answer was lost, or it was not empty
            self._did("create_namespace", error)
        else:
            self._did("create_namespace", None)

    async def _invoke(self, key: str | None) -> None:
        self._inputs += 1
        before, input = self._before(), f"{self.name}:{self._inputs}".encode()
        answer = await self._actions.invoke(ACTION, input, idempotency_key=key)
        self._did("invoke", answer)
        self._run_ids.append(answer.run_id)
        if not answer.duplicate:
            self._seen(before, [(answer.run_id, input)])
        elif not self._was_deleted(before):
            run_id = self._world.reference.runs.by_key.get((NAMESPACE, ACTION, key or ""))
            self._hold(run_id == answer.run_id, f"key {key!r} of {run_id} leads to {answer.run_id}")

    async def _work(self) -> None:
        before = self._before()
        answer = await self._workers.claim(self.name, [ACTION], max_tasks=3)
        self._did("claim", [task.task_id for task in answer.tasks])
        self._seen(before, ((task.task_id, task.payload) for task in answer.tasks))
        for task in answer.tasks:
            await self._report(task)

    async def _report(self, task: Task) -> None:
        reports, key, attempt = self._world.reports, (NAMESPACE, task.task_id), task.attempt
        match self._rng.randrange(3):
            case 0:
                reports.complete(key, self.name, attempt, task.payload)
                await self._workers.complete(task.task_id, self.name, task.payload, attempt=attempt)
            case 1:
                reports.fail(key, self.name, attempt, "torn", False)
                await self._workers.fail(task.task_id, self.name, "torn", attempt=attempt)
            case _:
                return
        self._did("report", task.task_id)

    async def _look_around(self) -> None:
        """Everything that there is belongs to this life."""
        before = self._before()
        for run_id in dict.fromkeys(self._run_ids[-5:]):
            try:
                view = await self._actions.status(run_id)
            except NotFound as error:
                self._did("status", error)
            else:
                self._did("status", view.status)
                self._seen(before, [(run_id, view.input)])
        runs = (await self._actions.runs(ACTION)).items
        self._seen(before, ((view.run_id, view.input) for view in runs))
        dead = (await self._actions.dead(ACTION)).items
        self._seen(before, ((view.run_id, view.input) for view in dead))
        workers = [worker.worker_id for worker in (await self._workers.list()).items]
        self._did("look_around", [len(runs), len(dead), len(workers)])
        if not self._was_deleted(before):
            known = all(
                (NAMESPACE, worker_id) in self._world.reference.workers.registered
                for worker_id in workers
            )
            self._hold(known, workers)
        await self._count()

    async def _count(self) -> None:
        """Unless something of the namespace was on its way, the counts are those of the log."""
        counted = self._counted()
        try:
            view = await self._namespaces.get(NAMESPACE)
        except NotFound as error:
            self._did("get_namespace", error)
        else:
            expected = (view.actions, view.workers, sum(view.runs.values()))
            self._did("get_namespace", expected)
            self._hold(expected == counted or counted != self._counted(), expected, counted)
        await self._namespaces.list()
        self._did("list_namespaces", None)

    def _counted(self) -> tuple[int, ...]:
        reference = self._world.reference
        tables: list[Iterable[tuple[str, str]]] = [
            reference.actions.registered,
            reference.workers.registered,
            reference.runs.by_id,
        ]
        actions, workers, runs = (sum(key[0] == NAMESPACE for key in table) for table in tables)
        return actions, workers, runs

    async def _delete(self, *, force: bool) -> None:
        before = self._before()
        try:
            await self._namespaces.delete(NAMESPACE, force=force)
        except Conflict as error:
            self._did("delete_namespace", error)
            said = error.code == "namespace_not_empty" and not force
            self._world.checks.hold(Invariant.REFUSALS_EXPLAINED, said, repr(error))
        else:
            self._did("delete_namespace", force)
            self._hold(self._was_deleted(before), "is said to be deleted, and is not")

    async def _leave_nothing(self) -> None:
        while True:
            try:
                await self._delete(force=True)
            except NotFound:
                return
            except Unavailable as error:
                self._did("delete_namespace", error)
                await asyncio.sleep(1.0)

    def _before(self) -> int:
        return self._world.ledger.before()

    def _was_deleted(self, before: int) -> bool:
        return self._world.reference.namespaces.deleted_at[NAMESPACE] > before

    def _seen(self, before: int, runs: Iterable[tuple[RunId, bytes]]) -> None:
        """These were shown; each is one that the log has since the last deletion."""
        for run_id, input in runs:
            if self._was_deleted(before):
                return
            run = self._world.reference.runs.find(NAMESPACE, run_id)
            self._hold(run is not None and run.made.input == input, run_id, input, run)

    def _hold(self, holds: bool, *evidence: object) -> None:
        self._world.checks.hold(Invariant.FORGOTTEN, holds, *evidence)

    def _did(self, what: str, answer: object) -> None:
        self._world.trace.did(self.name, what, answer)
