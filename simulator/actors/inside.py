"""A worker inside the server, as the one for WebAssembly: it hears early, and dies with the server.

server starts ──▸ give back what the last process held ──▸ claim, as much as there is room for
                                                              ▲             │
                                                              └── complete ◂┘
"""

import asyncio
import random

from flo.model.base import Message
from flo.model.errors import FloError
from flo.model.ids import Namespace
from flo.model.runs import Assigned, Claim, Complete, Task
from flo.model.workers import INLINE_WORKER_ID, DeregisterWorker
from flo.shard.loop import Shard
from flo.shard.submission import Answer
from simulator.checks.invariants import Invariant
from simulator.world import ACTIONS, NAMESPACES, STRICT, World

PLACES = 2
"""It executes so many at a time, in all namespaces together."""
REST_S = 10.0
EXECUTION_S = 3.0
TASK_NAME = "inside"
"""The tasks that are cancelled when the server crashes begin so."""


class SimulatedInsideWorker:
    def __init__(self, world: World, rng: random.Random, shard: Shard) -> None:
        self._world = world
        self._rng = rng
        self._shard = shard
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for namespace in NAMESPACES:
            work = self._work(namespace)
            self._tasks.append(asyncio.create_task(work, name=f"{TASK_NAME} {namespace}"))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self, namespace: Namespace) -> None:
        if INLINE_WORKER_ID in self._shard.state.space(namespace).held:
            await self._submitted(DeregisterWorker(worker_id=INLINE_WORKER_ID, namespace=namespace))
        while self._shard.closed is None:
            await asyncio.sleep(self._rng.random() * REST_S)
            if self._world.is_closing:
                continue
            claim = Claim(
                worker_id=INLINE_WORKER_ID,
                actions=[name for name in ACTIONS if name != STRICT],
                namespace=namespace,
                max_tasks=PLACES,
                held_max=PLACES,
            )
            answer = await self._submitted(claim)
            if isinstance(answer, Assigned) and answer.tasks:
                await self._execute(namespace, answer.tasks)

    async def _execute(self, namespace: Namespace, tasks: list[Task]) -> None:
        spaces = self._shard.state.spaces.values()
        held = [run_id for space in spaces for run_id in space.held.get(INLINE_WORKER_ID, ())]
        self._world.checks.hold(Invariant.PLACES_KEPT, len(held) <= PLACES, held)
        took_s = self._rng.random() * EXECUTION_S
        await asyncio.sleep(took_s)
        for task in tasks:
            key = (namespace, task.task_id)
            output = task.payload
            took_ms = round(took_s * 1_000)
            self._world.reports.complete(key, INLINE_WORKER_ID, task.attempt, output)
            self._world.reports.spend(key, (took_ms, None))
            report = Complete(
                run_id=task.task_id,
                worker_id=INLINE_WORKER_ID,
                namespace=namespace,
                attempt=task.attempt,
                output=output,
                took_ms=took_ms,
            )
            await self._submitted(report)

    async def _submitted(self, message: Message) -> Answer:
        """What was decided, which is not durable yet; a run may have been cancelled meanwhile."""
        answered: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()

        def hear(answers: list[Answer]) -> None:
            if not answered.done():
                answered.set_result(answers)

        self._shard.submit([message], hear, is_early=True)
        answer = (await answered)[0]
        if isinstance(answer, FloError):
            self._world.trace.happened(f"inside: refused, {answer.code}")
        return answer
