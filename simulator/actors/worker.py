"""A worker that does its work well, badly, late, twice or not at all, and notes how it is answered.

register ──▸ claim ──▸ perform ──▸ report      again and again, with a heartbeat now and then
    ▲                                 │
    └──── killed, or drained and gone ┘
"""

import asyncio
import random
from zlib import crc32

from flo.client.workers import Workers
from flo.model.errors import Conflict, FloError, Invalid, NotFound, TimedOut, Unavailable
from flo.model.ids import BLOCK_MS_MAX, Labels, Namespace, RunId, WorkerId
from flo.model.runs import OUTCOME_SUCCESS
from flo.model.workers import HeldTask, Resumed
from simulator.checks.invariants import Invariant
from simulator.faults.network import Link
from simulator.ledgers.reports import CODES, Spent, build_of, handlers_of
from simulator.ledgers.runs import Hold
from simulator.world import ACTIONS, World, payload_for

BLOCKS_MS = (0, 500, 5_000, 20_000)
ASKED_AGAIN = "dig"
PENDING = "pending"
ALL_LABELS: Labels = {"oven": True, "shift": "night", "rack": {"levels": 9}}


class SimulatedWorker:
    """A `diligent` worker completes whatever it is given, and never leaves."""

    def __init__(
        self,
        world: World,
        rng: random.Random,
        name: str,
        namespace: Namespace,
        *,
        diligent: bool = False,
    ) -> None:
        self._world = world
        self._rng = rng
        self.name = name
        self._namespace = namespace
        self._diligent = diligent
        self._worker_id = name
        self._is_bound = not diligent and rng.random() < 0.7
        """Whether its connection is its sign of life."""
        self._held: dict[tuple[RunId, int], None] = {}
        self._labels = ALL_LABELS if diligent or rng.random() < 0.5 else None
        self._actions = list(ACTIONS) if diligent else rng.sample(ACTIONS, rng.randint(2, 4))
        self._lives = 0
        self._life: asyncio.Task[None] | None = None
        self._session = world.session(name, rng)
        self._workers = Workers(self._session, namespace)

    async def run(self) -> None:
        """One life after the other until the simulation closes."""
        while self._goes_on():
            self._life = asyncio.create_task(self._live())
            await asyncio.wait({self._life})
            if not self._life.cancelled():
                self._life.result()
            links = self._world.network.links_of(self.name)
            await self._session.close()
            await asyncio.sleep(self._rng.random() * 5.0)
            self._be_born_again(links)

    def kill(self) -> None:
        """Leave everything as it is; nobody is notified."""
        if self._life is not None:
            self._life.cancel()

    async def close(self) -> None:
        self._diligent = False
        self.kill()
        await self._session.close()

    async def free_leaseless(self) -> None:
        """Let go of those workers, long gone, that hold a run whose lease never ends."""
        holders = {
            run.holder
            for run in self._world.reference.runs.live.values()
            if run.namespace == self._namespace and run.holder is not None and run.lease_ms is None
        }
        for worker_id in sorted(holders):
            self._world.ledger.leaving(self._namespace, worker_id)
            await self._workers.register(worker_id, self._actions)
            await self._workers.deregister(worker_id)
            self._did("free", worker_id, messages=2)

    def _be_born_again(self, links: list[Link]) -> None:
        """As another worker, or as another process of the same."""
        self._lives += 1
        self._held.clear()
        if self._rng.random() < 0.5:
            if self._is_bound:
                self._world.departures.killed(self._namespace, self._worker_id, links)
            self._worker_id = f"{self.name}.{self._lives}"
        self._session = self._world.session(self.name, self._rng)
        self._workers = Workers(self._session, self._namespace)

    async def _live(self) -> None:
        await self._register()
        listening = asyncio.create_task(self._listen())
        try:
            await self._work()
        finally:
            listening.cancel()
        await self._leave()

    async def _work(self) -> None:
        while self._goes_on():
            await self._world.awake.wait()
            is_draining = await self._claim_and_perform()
            if is_draining or (not self._diligent and self._rng.random() < 0.01):
                break
            if self._rng.random() < 0.1:
                await self._heartbeat()
            if self._rng.random() < 0.05:
                await self._look_around()

    def _goes_on(self) -> bool:
        return self._diligent or not self._world.is_closing

    async def _register(self) -> None:
        while True:
            try:
                answer = await self._workers.register(
                    self._worker_id,
                    self._actions,
                    max_concurrency=self._rng.randint(1, 10),
                    labels=self._labels,
                    incarnation=self._incarnation,
                    connection_bound=self._is_bound,
                    build_id=build_of(self._worker_id),
                    handlers=handlers_of(self._worker_id, self._actions),
                )
            except Unavailable as error:
                self._did("register_worker", error)
                await asyncio.sleep(self._rng.random())
            else:
                self._did("register_worker", answer.status)
                self._world.ledger.registered(self._namespace, self._worker_id)
                if self._is_bound:
                    self._session.on_connected[self._resume] = None
                return

    @property
    def _incarnation(self) -> str:
        return f"{self.name}.{self._lives}"

    def _resume(self) -> None:
        """On a new connection, say what is held; it goes on with it, whatever it hears."""
        held = [HeldTask(run_id=run_id, attempt=attempt) for run_id, attempt in self._held]
        answer = self._workers._resume(self._worker_id, self._incarnation, held)
        answer.add_done_callback(self._resumed)

    def _resumed(self, answer: asyncio.Future[Resumed]) -> None:
        if answer.cancelled():
            return
        problem = answer.exception()
        self._did("resume_worker", repr(problem) if problem else answer.result().lost)

    async def _listen(self) -> None:
        """Hear of what is cancelled; over a link without trouble, of everything that is."""
        last, since_s, heard = 0, 0.0, set[RunId]()
        good_link = None
        while True:
            link = self._world.network.good_link(self.name)
            if link is None or link is not good_link:
                good_link, since_s = link, asyncio.get_running_loop().time()
            block_ms = self._rng.choice(BLOCKS_MS) if not self._diligent else BLOCK_MS_MAX
            try:
                notifications = await self._workers.await_notifications(
                    self._worker_id, after=last, block_ms=block_ms
                )
            except FloError as error:
                self._not_known("await_notifications", error)
                good_link = None
            else:
                self._did(
                    "await_notifications", notifications.cancelled, len(notifications.cancelled)
                )
                last = notifications.last
                heard.update(notifications.cancelled)
                self._world.ledger.notifications(
                    self._namespace, self._worker_id, notifications.cancelled
                )
                if good_link is not None and not good_link.has_had_trouble:
                    self._world.ledger.heard_all(self._namespace, self._worker_id, since_s, heard)
            await asyncio.sleep(self._rng.random())
            await self._world.awake.wait()

    async def _heartbeat(self) -> None:
        try:
            answer = await self._workers.heartbeat(self._worker_id, self._rng.randrange(5))
        except FloError as error:
            self._not_known("heartbeat", error)
        else:
            self._did("heartbeat", answer.status)
            self._world.ledger.recognized(self._namespace, self._worker_id, known=True)

    async def _look_around(self) -> None:
        """Am I there, and who else is?"""
        try:
            me = await self._workers.get(self._worker_id)
            self._did("get_worker", me.status)
            listed = await self._list_all()
        except FloError as error:
            self._not_known("look_around", error)
        else:
            known = self._worker_id in listed
            self._world.ledger.recognized(self._namespace, self._worker_id, known=known)

    async def _list_all(self) -> list[WorkerId]:
        """Every page of them: workers that were killed stay known, and there may be many."""
        page = await self._workers.list()
        listed = [worker.worker_id for worker in page.items]
        while page.cursor is not None:
            page = await self._workers.list(cursor=page.cursor)
            listed += [worker.worker_id for worker in page.items]
        self._did("list_workers", listed)
        return listed

    async def _leave(self) -> None:
        try:
            if self._rng.random() < 0.5:
                await self._workers.drain(self._worker_id)
                self._did("drain", None)
                if self._rng.random() < 0.5:
                    await self._register()
                answer = await self._workers.claim(self._worker_id, self._actions)
                self._did("claim", answer)
                self._world.checks.hold(Invariant.DRAINING_GETS_NOTHING, not answer.tasks, answer)
            self._world.ledger.leaving(self._namespace, self._worker_id)
            await self._workers.deregister(self._worker_id)
            self._did("deregister", None)
        except FloError as error:
            self._not_known("leave", error)

    async def _claim_and_perform(self) -> bool:
        """Whether the worker was answered that it is draining."""
        link = self._world.network.good_link(self.name)
        try:
            answer = await self._workers.claim(
                self._worker_id,
                self._actions,
                max_tasks=self._rng.randint(1, 10),
                block_ms=self._rng.choice(BLOCKS_MS) if not self._diligent else BLOCK_MS_MAX,
            )
        except Unavailable as error:
            self._did("claim", error)
            unanswered = isinstance(error, TimedOut) and link and not link.has_had_trouble
            self._world.checks.hold(Invariant.POLLS_ANSWERED, not unanswered, self._worker_id)
            await asyncio.sleep(self._rng.random())
            return False
        self._did("claim", [f"{task.task_id}/{task.attempt}" for task in answer.tasks])
        holds = self._world.ledger.assigned(self._namespace, self._worker_id, answer)
        self._held |= {(task.task_id, task.attempt): None for task in answer.tasks}
        await asyncio.gather(*map(self._perform, holds))
        if not holds:
            if link is not None and not link.has_had_trouble:
                self._world.ledger.sent_home(self._namespace, self._worker_id, self._actions)
            await asyncio.sleep(self._rng.random() / 2)
        return answer.draining

    async def _perform(self, hold: Hold) -> None:
        profile = self._world.profile
        roll = self._rng.random() - profile.vanish_chance
        if roll < 0.0 and not self._diligent:
            self._world.trace.happened("task forgotten", hold.task.task_id)
            return
        if roll < profile.stall_chance and not self._diligent:
            await asyncio.sleep(self._rng.uniform(1.0, 1.2) * self._lease_s(hold))
        elif self._rng.random() < profile.slow_chance and not self._diligent:
            await asyncio.sleep(self._rng.uniform(2.0, 12.0))
        else:
            await asyncio.sleep(self._rng.expovariate(5.0) if self._rng.random() < 0.7 else 0.0)
            if self._rng.random() < 0.15:
                await self._touch(hold)
        await self._report(hold)

    async def _report(self, hold: Hold) -> None:
        attempt = hold.task.attempt
        match self._rng.randrange(100) if not self._diligent else 0:
            case roll if roll < 75:
                await self._complete(hold, attempt)
            case roll if roll < 86:
                await self._fail(hold, attempt, retry=True)
            case roll if roll < 91:
                await self._fail(hold, attempt, retry=False)
            case roll if roll < 94:
                await self._complete(hold, 0)
            case roll if roll < 97:
                await self._complete(hold, attempt)
                await self._complete(hold, attempt)
            case roll if roll < 98:
                await asyncio.gather(self._complete(hold, attempt), self._complete(hold, attempt))
            case _:
                await self._fail(hold, attempt, retry=True)
                await self._complete(hold, attempt)

    async def _touch(self, hold: Hold) -> None:
        ledger, task = self._world.ledger, hold.task
        extend_ms = self._rng.choice((1, 1_000, 30_000))
        ledger.touching(hold, extend_ms)
        try:
            answer = await self._workers.touch(
                task.task_id, self._worker_id, attempt=task.attempt, extend_ms=extend_ms
            )
        except (Conflict, NotFound) as error:
            self._did("touch", error)
            ledger.lease_refused(hold, error)
        except Unavailable as error:
            self._did("touch", error)
        else:
            self._did("touch", answer.lease_expires_at_ms)
            ledger.touched(hold, answer.lease_expires_at_ms)
        await asyncio.sleep(self._rng.random())

    async def _complete(self, hold: Hold, attempt: int) -> None:
        ledger, task = self._world.ledger, hold.task
        rng = self._rng if not self._diligent else None
        output = payload_for(task.task_type, f"{self._worker_id} did {task.attempt}", rng)
        took_ms, held_ms = self._spent(hold)
        ledger.completing(hold, attempt, output)
        try:
            answer = await self._workers.complete(
                task.task_id,
                self._worker_id,
                output,
                attempt=attempt,
                outcome=self._outcome(hold),
                took_ms=took_ms,
                held_ms=held_ms,
            )
        except (Conflict, NotFound) as error:
            self._did("complete", error)
            self._let_go(hold)
            ledger.report_refused(hold, output, error)
        except Invalid as error:
            self._did("complete", error)
            ledger.output_refused(hold, output, error)
        except Unavailable as error:
            self._did("complete", error)
        else:
            self._did("complete", answer.run_id)
            self._let_go(hold)
            ledger.completed(hold, output, answer)

    def _outcome(self, hold: Hold) -> str:
        """Now and then a task is not over yet; it is the same however often it is reported."""
        task = hold.task
        is_pending = task.task_type == ASKED_AGAIN and crc32(task.task_id.encode()) % 3 == 0
        return PENDING if is_pending and not self._diligent else OUTCOME_SUCCESS

    def _spent(self, hold: Hold) -> Spent:
        """What it says to have taken and held: other times for each attempt, the first longer."""
        number = crc32(f"{hold.task.task_id} {hold.task.attempt}".encode())
        spent = 1_000 + number % 60_000, number % 1_000
        self._world.ledger.spending(hold, spent)
        return spent

    async def _fail(self, hold: Hold, attempt: int, *, retry: bool) -> None:
        ledger, task = self._world.ledger, hold.task
        code = self._rng.choice(CODES)
        problem = f"{code}: {self._worker_id} failed in {task.attempt}"
        took_ms, held_ms = self._spent(hold)
        ledger.failing(hold, attempt, problem, retry)
        try:
            answer = await self._workers.fail(
                task.task_id,
                self._worker_id,
                problem,
                code=code if self._rng.random() < 0.5 else None,
                attempt=attempt,
                retry=retry,
                dead_letter=self._rng.random() < (0.5 if retry else 0.2),
                took_ms=took_ms,
                held_ms=held_ms,
            )
        except (Conflict, NotFound) as error:
            self._did("fail", error)
            self._let_go(hold)
            ledger.report_refused(hold, problem, error)
        except Unavailable as error:
            self._did("fail", error)
        else:
            self._did("fail", answer.status)
            self._let_go(hold)
            ledger.failed(hold, problem)

    def _let_go(self, hold: Hold) -> None:
        """A report of it was answered."""
        self._held.pop((hold.task.task_id, hold.task.attempt), None)

    def _lease_s(self, hold: Hold) -> float:
        """How long the lease lasts from now; a moment if it never ends."""
        lease_ms = hold.task.lease_expires_at_ms
        if lease_ms is None:
            return 1.0
        return max(0, lease_ms - self._world.time.now_ms()) / 1_000

    def _not_known(self, what: str, error: FloError) -> None:
        """The server is out of reach, or says that it does not know this worker."""
        self._did(what, error)
        if error.code == "worker_not_found":
            self._world.ledger.recognized(self._namespace, self._worker_id, known=False)
        else:
            known = isinstance(error, Unavailable)
            self._world.checks.hold(Invariant.REFUSALS_EXPLAINED, known, what, repr(error))

    def _did(self, what: str, answer: object, messages: int = 1) -> None:
        self._world.trace.did(self._worker_id, what, answer, messages)
