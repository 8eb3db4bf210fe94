"""The SDK's own worker in a simulation; what it says and hears is noted on the way.

It takes one task at a time: only then does it do everything in the same order at every run.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from flo.client.actions import Actions
from flo.client.client import Flo
from flo.client.payloads.payload import encode_payload
from flo.client.session.keepalive import PingPolicy
from flo.client.session.session import Session
from flo.client.workers import BLOCK_MS_DEFAULT, EXTEND_MS_DEFAULT, Workers
from flo.model.errors import Conflict, FloError, Invalid, NotFound
from flo.model.ids import ActionName, Namespace, RunId, WorkerId
from flo.model.runs import OUTCOME_SUCCESS, Accepted, Assigned, Touched
from flo.model.workers import HeldTask, Notifications, Resumed, WorkerKnown
from flo.worker.actions.context import ActionContext
from flo.worker.actions.worker import ActionWorker
from flo.worker.outcome import NonRetryableError
from simulator.checks.invariants import Invariant
from simulator.ledgers.reports import CODES
from simulator.ledgers.runs import Hold
from simulator.world import ACTIONS, World, payload_for

AUTO_TOUCH_CHANCE = 0.4
LATE_S_MAX = 0.05
"""How much later than its deadline a handler may be stopped."""


PINGS = PingPolicy(interval_s=5.0, silence_s_max=10.0, dead_after_ms=0)


class SdkWorker:
    """An ActionWorker with a handler for every action; it is killed, or drains, and comes back."""

    def __init__(self, world: World, rng: random.Random, name: str, namespace: Namespace) -> None:
        self.name = name
        self._world = world
        self._rng = rng
        self._namespace = namespace
        self._lives = 0
        self._session = world.session(name, rng)
        self._worker: ActionWorker | None = None
        self._serving: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        while not self._world.is_closing:
            self._lives += 1
            self._worker = self._new_worker()
            self._serving = asyncio.create_task(self._worker.serve())
            await asyncio.wait({self._serving})
            if not self._serving.cancelled():
                self._serving.result()
            await self._session.close()
            await asyncio.sleep(self._rng.random() * 5.0)

    def kill(self) -> None:
        """Nothing more comes from its process."""
        if self._serving is not None:
            links = self._world.network.links_of(self.name)
            self._world.departures.killed(self._namespace, self._worker_id, links)
            self._closing.add(asyncio.create_task(self._session.close()))
            self._serving.cancel()

    def drain(self) -> None:
        """Finish what is at hand, and leave."""
        if self._worker is not None:
            self._worker.stop()

    @property
    def _worker_id(self) -> WorkerId:
        """Every life has one of its own."""
        return f"{self.name}.{self._lives}"

    def _new_worker(self) -> ActionWorker:
        self._session = self._world.session(self.name, self._rng, PINGS)
        flo = SimulatedFlo(self._world, self._session, self._namespace)
        self._workers = flo.workers
        self._auto_touch = self._rng.random() < AUTO_TOUCH_CHANCE
        worker = ActionWorker(
            flo,
            worker_id=self._worker_id,
            machine_id=self.name,
            concurrency=1,
            action_timeout=self._rng.choice((2.0, 60.0)),
            block_ms=60_000,
            heartbeat_interval=60.0,
            drain_timeout=5.0,
            auto_touch=self._auto_touch,
        )
        for action in ACTIONS:
            worker.register_action(action, self._perform)
        return worker

    async def _perform(self, ctx: ActionContext) -> bytes:
        timeout_s = self._workers.timeout_s(ctx.task_id, ctx.attempt)
        loop = asyncio.get_running_loop()
        begun_at_s = loop.time()
        try:
            return await self._execute(ctx)
        finally:
            took_s = loop.time() - begun_at_s
            self._world.checks.hold(
                Invariant.TIMEOUT_KEPT,
                self._auto_touch or not timeout_s or took_s <= timeout_s + LATE_S_MAX,
                f"{ctx!r} took {took_s} s, and may take {timeout_s} s",
            )

    async def _execute(self, ctx: ActionContext) -> bytes:
        profile, roll = self._world.profile, self._rng.random()
        if roll < profile.stall_chance:
            await asyncio.sleep(self._rng.random() * 30.0)
        else:
            await asyncio.sleep(self._rng.random())
        match self._rng.randrange(10):
            case 0:
                raise RuntimeError(f"{ctx.task_id} does not work out")
            case 1:
                code = self._rng.choice(CODES)
                raise NonRetryableError(f"{ctx.task_id} never will", code=code)
            case _:
                done = f"{self.name}.{self._lives} did {ctx.attempt}"
                return payload_for(ctx.action_name, done, self._rng)


class SimulatedFlo(Flo):
    """A client on a session of the simulation."""

    def __init__(self, world: World, session: Session, namespace: Namespace) -> None:
        self.address = "simulated:9000"
        self.namespace = namespace
        self._session = session
        self.actions = Actions(session, namespace)
        self.workers: NotedWorkers = NotedWorkers(world, session, namespace)


class NotedWorkers(Workers):
    """Notes what is sent before it leaves, and what is heard when it comes."""

    def __init__(self, world: World, session: Session, namespace: Namespace) -> None:
        super().__init__(session, namespace)
        self._trace = world.trace
        self._ledger = world.ledger
        self._holds: dict[tuple[RunId, int], Hold] = {}

    def timeout_s(self, run_id: RunId, attempt: int) -> float:
        """How long an attempt may execute, as its assignment says; 0 is without end."""
        return self._holds[run_id, attempt].task.timeout_ms / 1_000

    async def register(
        self,
        worker_id: WorkerId | None = None,
        processes: Sequence[ActionName] = (),
        **settings: Any,
    ) -> WorkerKnown:
        """Each life has an id of its own, which also keeps its processes apart."""
        settings["incarnation"] = worker_id
        return await super().register(worker_id, processes, **settings)

    def _resume(
        self, worker_id: WorkerId, incarnation: str, held: list[HeldTask]
    ) -> asyncio.Future[Resumed]:
        self._trace.did(worker_id, "resume", [f"{one.run_id}/{one.attempt}" for one in held])
        return super()._resume(worker_id, worker_id, held)

    async def claim(
        self,
        worker_id: WorkerId,
        actions: list[ActionName],
        *,
        max_tasks: int = 1,
        block_ms: int = 0,
    ) -> Assigned:
        assigned = await super().claim(worker_id, actions, max_tasks=max_tasks, block_ms=block_ms)
        self._trace.did(worker_id, "claim", [task.task_id for task in assigned.tasks])
        for hold in self._ledger.assigned(self._namespace, worker_id, assigned):
            self._holds[hold.task.task_id, hold.task.attempt] = hold
        return assigned

    async def complete(
        self,
        run_id: RunId,
        worker_id: WorkerId,
        output: Any = None,
        *,
        attempt: int = 0,
        outcome: str = OUTCOME_SUCCESS,
        took_ms: int | None = None,
        held_ms: int | None = None,
    ) -> Accepted:
        hold, payload = self._holds[run_id, attempt], encode_payload(output)
        self._ledger.spending(hold, (took_ms, held_ms))
        self._ledger.completing(hold, attempt, payload)
        try:
            accepted = await super().complete(
                run_id,
                worker_id,
                output,
                attempt=attempt,
                outcome=outcome,
                took_ms=took_ms,
                held_ms=held_ms,
            )
        except FloError as error:
            self._refused(hold, "complete", payload, error)
            raise
        self._trace.did(worker_id, "complete", run_id)
        self._ledger.completed(hold, payload, accepted)
        return accepted

    async def fail(
        self,
        run_id: RunId,
        worker_id: WorkerId,
        error: str = "",
        *,
        code: str | None = None,
        attempt: int = 0,
        retry: bool = False,
        dead_letter: bool = True,
        timed_out: bool = False,
        took_ms: int | None = None,
        held_ms: int | None = None,
    ) -> Accepted:
        hold = self._holds[run_id, attempt]
        self._ledger.spending(hold, (took_ms, held_ms))
        self._ledger.failing(hold, attempt, error, retry, timed_out)
        try:
            accepted = await super().fail(
                run_id,
                worker_id,
                error,
                code=code,
                attempt=attempt,
                retry=retry,
                dead_letter=dead_letter,
                timed_out=timed_out,
                took_ms=took_ms,
                held_ms=held_ms,
            )
        except FloError as refusal:
            self._refused(hold, "fail", error, refusal)
            raise
        self._trace.did(worker_id, "fail", accepted.status)
        self._ledger.failed(hold, error)
        return accepted

    async def touch(
        self,
        run_id: RunId,
        worker_id: WorkerId,
        *,
        attempt: int = 0,
        extend_ms: int = EXTEND_MS_DEFAULT,
    ) -> Touched:
        hold = self._holds[run_id, attempt]
        self._ledger.touching(hold, extend_ms)
        touched = await super().touch(run_id, worker_id, attempt=attempt, extend_ms=extend_ms)
        self._trace.did(worker_id, "touch", run_id)
        self._ledger.touched(hold, touched.lease_expires_at_ms)
        return touched

    async def await_notifications(
        self, worker_id: WorkerId, *, after: int = 0, block_ms: int = BLOCK_MS_DEFAULT
    ) -> Notifications:
        notifications = await super().await_notifications(worker_id, after=after, block_ms=block_ms)
        self._trace.did(
            worker_id, "await_notifications", notifications.cancelled, len(notifications.cancelled)
        )
        self._ledger.notifications(self._namespace, worker_id, notifications.cancelled)
        return notifications

    async def deregister(self, worker_id: WorkerId) -> None:
        self._ledger.leaving(self._namespace, worker_id)
        await super().deregister(worker_id)
        self._trace.did(worker_id, "deregister", None)

    def _refused(self, hold: Hold, what: str, said: bytes | str, error: FloError) -> None:
        self._trace.did(hold.worker_id, what, error)
        if isinstance(error, Conflict | NotFound):
            self._ledger.report_refused(hold, said, error)
        elif isinstance(error, Invalid) and isinstance(said, bytes):
            self._ledger.output_refused(hold, said, error)
