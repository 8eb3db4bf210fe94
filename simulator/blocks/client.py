"""Somebody who starts workflows of blocks, cancels them, and takes care of what they left."""

import asyncio
import random
from typing import Any, TypeVar

import msgspec

from flo.model.base import Message
from flo.model.blocks.blocks import DeleteBlock, GetBlock, ListBlocks, RegisterBlocks
from flo.model.blocks.jobs import GetJob, ListJobs
from flo.model.blocks.ledger import GetLedger, ResolveEntries, RollbackAgain
from flo.model.blocks.locks import ListLocks, ReleaseLock
from flo.model.declare.operation import Command, Query
from flo.model.errors import FloError, Unavailable
from flo.model.ids import Namespace, RunId
from flo.model.workflows import (
    CancelWorkflow,
    CreateWorkflow,
    ExplainWorkflow,
    PauseWorkflow,
    ResumeWorkflow,
    StartWorkflow,
)
from simulator.actors.actor import SimulatedActor
from simulator.blocks.documents import BLOCKS, DOCUMENTS, NAMES, SPARE
from simulator.checks.invariants import Invariant
from simulator.world import World

KEYS = tuple(f"device:{number}" for number in range(1, 4))
KNOWN_CODES = (
    "block_not_found",
    "entry_not_found",
    "job_not_found",
    "ledger_not_found",
    "lock_in_use",
    "lock_not_found",
    "rollback_in_progress",
    "run_has_ended",
    "run_not_ended",
    "run_not_found",
    "stuck",
    "workflow_not_found",
)
R = TypeVar("R", bound=Message)


class SimulatedBlockClient(SimulatedActor):
    def __init__(self, world: World, rng: random.Random, name: str, namespace: Namespace) -> None:
        super().__init__(world, rng, name, namespace)
        self._started: list[RunId] = []
        self._operations = [
            *[self._start] * 10,
            *[self._look] * 2,
            *[self._cancel] * 1,
            *[self._pause] * 2,
            *[self._remedy] * 4,
            *[self._release] * 3,
            self._register,
        ]

    async def _ask(self, message: Command[R] | Query[R]) -> R | None:
        """The answer, unless it is refused for a reason that is known."""
        try:
            reply = await self._session.call(message)
        except FloError as error:
            self._refused(type(message).__name__, error, *KNOWN_CODES)
            return None
        self._did(type(message).__name__, "")
        return reply

    async def deploy_all(self) -> None:
        """Until every block and every workflow is there."""
        wanted: list[Command[Message]] = [
            RegisterBlocks(blocks=[*BLOCKS], namespace=self._namespace),
            *(CreateWorkflow(text=text, namespace=self._namespace) for text in DOCUMENTS),
        ]
        for command in wanted:
            while True:
                try:
                    await self._session.call(command)
                    break
                except Unavailable as error:
                    self._did(type(command).__name__, error)

    def _some_run(self) -> RunId:
        return self._rng.choice(self._started) if self._started else "wfrun-1"

    async def _start(self) -> None:
        rng = self._rng
        await asyncio.sleep(rng.random() * 4.0)  # what is started takes a while
        wanted: dict[str, Any] = {"locks": self._some_locks(), "outer": self._some_locks()}
        if rng.random() < 0.3:
            wanted["entity"] = {"type": "device", "id": rng.randint(1, 5)}
        command = StartWorkflow(
            name=rng.choice(NAMES), input=msgspec.json.encode(wanted), namespace=self._namespace
        )
        reply = await self._ask(command)
        if reply is not None:
            known = (self._namespace, reply.run_id) in self._world.reference.blocks.ledgers
            self._world.checks.hold(Invariant.DURABLE_FIRST, known, command, reply)
            self._started.append(reply.run_id)

    def _some_locks(self) -> list[list[str]]:
        keys = self._rng.sample(KEYS, self._rng.randint(1, 2))
        return [[key, self._rng.choice(("exclusive", "exclusive", "shared"))] for key in keys]

    async def _look(self) -> None:
        run_id = self._some_run()
        await self._ask(GetLedger(run_id=run_id, namespace=self._namespace))
        await self._ask(ListLocks(limit=3, namespace=self._namespace))
        page = await self._ask(ListJobs(limit=5, namespace=self._namespace))
        if page is not None and page.items:
            await self._ask(GetJob(job_id=page.items[0].job_id, namespace=self._namespace))
        await self._ask(ListBlocks(namespace=self._namespace))
        await self._ask(GetBlock(block="lab/set:1", namespace=self._namespace))
        await self._ask(ExplainWorkflow(run_id=run_id, namespace=self._namespace))

    async def _cancel(self) -> None:
        await self._ask(
            CancelWorkflow(run_id=self._some_run(), reason="enough", namespace=self._namespace)
        )

    async def _pause(self) -> None:
        run_id = self._some_run()
        await self._ask(PauseWorkflow(run_id=run_id, namespace=self._namespace))
        await self._ask(ResumeWorkflow(run_id=run_id, namespace=self._namespace))

    async def _remedy(self) -> None:
        unsafe = self._unsafe()
        run_id = self._rng.choice(unsafe) if unsafe else self._some_run()
        if self._rng.random() < 0.5:
            await self._ask(RollbackAgain(run_id=run_id, namespace=self._namespace))
        else:
            await self.resolve(run_id)

    def _unsafe(self) -> list[RunId]:
        ledgers = self._world.reference.blocks.live
        return [
            run_id
            for (namespace, run_id), ledger in ledgers.items()
            if namespace == self._namespace and ledger.is_unsafe
        ]

    async def resolve(self, run_id: RunId) -> None:
        go_on = self._rng.random() < 0.5
        await self._ask(
            ResolveEntries(run_id=run_id, note="by hand", go_on=go_on, namespace=self._namespace)
        )

    async def resolve_all(self) -> None:
        """Everything that was left undone, or paused."""
        for namespace, run_id in list(self._world.reference.blocks.live):
            if namespace == self._namespace:
                await self._ask(ResumeWorkflow(run_id=run_id, namespace=namespace))
        for run_id in self._unsafe():
            await self.resolve(run_id)

    async def _release(self) -> None:
        key = self._rng.choice(KEYS)
        await self._ask(ReleaseLock(key=key, reason="restored", namespace=self._namespace))

    async def _register(self) -> None:
        await self._ask(RegisterBlocks(blocks=[*BLOCKS, SPARE], namespace=self._namespace))
        await self._ask(DeleteBlock(block="lab/spare:1.0.0", namespace=self._namespace))
