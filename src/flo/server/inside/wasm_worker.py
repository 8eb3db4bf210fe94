"""The WASM worker: takes the runs of WebAssembly actions, runs their modules, submits results.

    register ──▸ check, compile ──▸ shard                     refused before anything is stored
    invoke ──▸ queue ──claim──▸ module, in a thread ──▸ Complete, with what it has written

It is a worker like any other: its runs have leases and retries. It claims no more than it can
execute, over all namespaces; the others are pending. What it holds when the server dies is executed
again, and that uses up no attempt. A result and the keys it writes are one commit; if something
that was read has changed meanwhile, the module is run again.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import structlog
from msgspec.structs import replace

from flo.engine.actions.records import Action, Guest
from flo.engine.state import State
from flo.model.actions import RegisterAction
from flo.model.errors import TIMEOUT_CODE, Conflict, FloError, NotFound, Unavailable
from flo.model.ids import TEXT_LENGTH_MAX, Namespace
from flo.model.kv import Change, Check, Delete, Put
from flo.model.runs import TASKS_PER_CLAIM_MAX, Assigned, Claim, Complete, Fail, Task, Touch
from flo.model.workers import ACTIONS_PER_WORKER_MAX, INLINE_WORKER_ID, DeregisterWorker
from flo.server.logs import GUEST_LOG
from flo.shard.clock import Clock
from flo.shard.loop import Shard
from flo.shard.submission import Answer, Submission
from flo.wasm.engine import WasmEngine
from flo.wasm.execution import GuestCall
from flo.wasm.host import Stored
from flo.wasm.module import Module, Modules
from flo.wasm.outcome import Finished, LogLine, Outcome, TrapKind, Trapped
from flo.wasm.outcome import GuestPut as GuestPut
from flo.wasm.pool import Pool

CLAIM_BLOCK_MS = 300_000
TOUCH_EVERY_S = 3
TOUCH_MS = 60_000
TRIES_MAX = 20
"""So often a run is repeated because what it read has changed; then its attempt has failed."""

_logger = structlog.get_logger("flo.wasm")


class WasmWorker:
    """Runs at most so many at a time; the others wait in the queues of their actions."""

    def __init__(self, shard: Shard, clock: Clock, concurrency: int) -> None:
        self._shard = shard
        self._clock = clock
        self._free = asyncio.Semaphore(concurrency)
        self._concurrency = concurrency
        engine = WasmEngine()
        self._modules = Modules(engine)
        self._pool = Pool(engine, self._modules, running_max=concurrency)
        self._serving: dict[Namespace, list[str]] = {}
        self._claim_loops: dict[Namespace, list[_ClaimLoop]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def start(self) -> None:
        """Take up what the last process left undone, then serve every action that has a module."""
        self._pool.start()
        for namespace, space in list(self._shard.state.spaces.items()):
            if INLINE_WORKER_ID in space.held:
                await self._shard.ask(
                    DeregisterWorker(worker_id=INLINE_WORKER_ID, namespace=namespace)
                )
            self.serve(namespace)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pool.stop()

    async def checked(self, command: RegisterAction) -> RegisterAction:
        """The registration, once its module is found fit, with what it says of itself."""
        wasm = command.wasm_module
        if wasm is None:
            wasm = self._shard.state.modules.get(command.wasm_digest or "")
        if wasm is None:
            return command  # the rules say that there is no such module
        module = await self._pool.check(wasm, command.wasm_entrypoint, command.wasm_memory_limit)
        if command.description or command.wasm_module is None:
            return command
        told = await self._pool.describe(module, command.wasm_memory_limit, lane="")
        if not isinstance(told, Finished):
            return command
        text = told.output.decode(errors="replace")
        return replace(command, description=text[:TEXT_LENGTH_MAX])

    def serve(self, namespace: Namespace) -> None:
        """Claim the runs of all actions with a module in this namespace from now on."""
        actions = sorted(_module_actions(self._shard.state, namespace))
        if actions == self._serving.get(namespace, []):
            return
        for loop in self._claim_loops.pop(namespace, ()):
            loop.leave()
        self._serving[namespace] = actions
        for start in range(0, len(actions), ACTIONS_PER_WORKER_MAX):
            some = actions[start : start + ACTIONS_PER_WORKER_MAX]
            loop = _ClaimLoop(self._shard, namespace, some, self._concurrency)
            self._claim_loops.setdefault(namespace, []).append(loop)
            self._spawn(self._claim_for_ever(loop))

    async def _claim_for_ever(self, loop: "_ClaimLoop") -> None:
        while loop.is_open:
            try:
                tasks = await loop.claim()
            except FloError as error:
                if self._shard.closed is None:
                    _logger.warning("inline_claim_refused", error=str(error))
                    await asyncio.sleep(1)
                continue
            for task in tasks:
                self._spawn(self._perform(loop.namespace, task))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("inline_task_broken", error=repr(error))

    async def _perform(self, namespace: Namespace, task: Task) -> None:
        """One run from its claim to its report."""
        clock = asyncio.get_running_loop().time
        received_at_s = clock()
        await self._turn_of(namespace, task)
        began_at_s = clock()
        try:
            outcome = await self._outcome(namespace, task)
        finally:
            self._free.release()
        for _ in range(TRIES_MAX):
            _log(task, outcome)
            spent = _Spent.between(received_at_s, began_at_s, clock())
            if isinstance(outcome, Trapped):
                await self._fail(namespace, task, outcome, spent)
                return
            if await self._completed(namespace, task, outcome, spent):
                return
            outcome = await self._outcome(namespace, task)
        message = f"what it read has changed {TRIES_MAX} times while it ran"
        unlucky = Trapped(kind=TrapKind.HOST_FAILED, message=message, retry=True)
        spent = _Spent.between(received_at_s, began_at_s, clock())
        await self._fail(namespace, task, unlucky, spent)

    async def _turn_of(self, namespace: Namespace, task: Task) -> None:
        """Keep the lease while there is no place: one that was cancelled is executed to its end."""
        while True:
            try:
                await asyncio.wait_for(self._free.acquire(), TOUCH_EVERY_S)
            except TimeoutError:
                touch = Touch(
                    run_id=task.task_id,
                    worker_id=INLINE_WORKER_ID,
                    namespace=namespace,
                    attempt=task.attempt,
                    extend_ms=TOUCH_MS,
                )
                with suppress(FloError):  # the lease is lost: its report will be refused
                    await self._shard.ask(touch)
            else:
                return

    async def _outcome(self, namespace: Namespace, task: Task) -> Outcome:
        action = self._shard.state.space(namespace).settings(task.task_type)
        if action.guest is None:
            return Trapped(
                kind=TrapKind.HOST_FAILED, message="the action has no module", retry=True
            )
        try:
            call = await self._call(action, action.guest, task)
            reader = _KeyReader(self._shard.state, namespace, self._clock)
            return await self._pool.execute(call, reader, lane=f"{namespace}/{action.name}")
        except (NotFound, Unavailable) as error:
            return Trapped(kind=TrapKind.INTERRUPTED, message=error.message, retry=True)

    async def _call(self, action: Action, guest: Guest, task: Task) -> GuestCall:
        module: Module | None = self._modules.cached(guest.digest)
        if module is None:
            module = await self._pool.compile(self._shard.state.modules[guest.digest])
        return GuestCall(
            module=module,
            input=task.payload,
            entrypoint=guest.entrypoint,
            timeout_ms=action.timeout_ms,
            memory_pages_max=guest.memory_pages,
        )

    async def _completed(
        self, namespace: Namespace, task: Task, outcome: Finished, spent: "_Spent"
    ) -> bool:
        """Whether the result stands; it does not if what the module read has changed."""
        report = Complete(
            run_id=task.task_id,
            worker_id=INLINE_WORKER_ID,
            namespace=namespace,
            attempt=task.attempt,
            output=outcome.output,
            checks=[Check(key=key, version=version) for key, version in outcome.reads.items()],
            changes=list(_changes(outcome)),
            took_ms=spent.took_ms,
            held_ms=spent.held_ms,
        )
        try:
            await self._submitted(report)
        except Conflict as refusal:
            if refusal.code == "version_mismatch":
                return False
            _logger.info("inline_report_refused", run=task.task_id, code=refusal.code)
        except FloError as refusal:
            retry = isinstance(refusal, Unavailable)
            failure = Trapped(kind=TrapKind.EXECUTION_ERROR, message=refusal.message, retry=retry)
            await self._fail(namespace, task, failure, spent)
        return True

    async def _fail(
        self, namespace: Namespace, task: Task, outcome: Trapped, spent: "_Spent"
    ) -> None:
        report = Fail(
            run_id=task.task_id,
            worker_id=INLINE_WORKER_ID,
            namespace=namespace,
            attempt=task.attempt,
            error=f"{outcome.kind}: {outcome.message}",
            code=TIMEOUT_CODE if outcome.kind is TrapKind.TIMED_OUT else outcome.kind,
            retry=outcome.retry,
            dead_letter=outcome.kind is not TrapKind.INVALID_INPUT,
            timed_out=outcome.kind is TrapKind.TIMED_OUT,
            took_ms=spent.took_ms,
            held_ms=spent.held_ms,
        )
        try:
            await self._submitted(report)
        except FloError as refusal:
            _logger.info("inline_report_refused", run=task.task_id, code=refusal.code)

    async def _submitted(self, report: Complete | Fail) -> None:
        """The report is taken in, though it is yet to be written; a refusal is raised."""
        answered: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._shard.submit([report], partial(_resolve, answered), is_early=True)
        answer = (await answered)[0]
        if isinstance(answer, FloError):
            raise answer


class _Spent(NamedTuple):
    """How long a run took, and how long it waited for a place before."""

    took_ms: int
    held_ms: int

    @staticmethod
    def between(received_at_s: float, began_at_s: float, ended_at_s: float) -> "_Spent":
        return _Spent(
            took_ms=round((ended_at_s - began_at_s) * 1_000),
            held_ms=round((began_at_s - received_at_s) * 1_000),
        )


class _ClaimLoop:
    """The claims for some actions of a namespace, one after the other.

    A claim that is called off while its runs are being handed out would take them with it: so only
    one that waits is.
    """

    def __init__(self, shard: Shard, namespace: Namespace, actions: list[str], places: int) -> None:
        self.namespace = namespace
        self._shard = shard
        self._actions = actions
        self._places = places
        self._submission: Submission | None = None
        self._has_left = False

    @property
    def is_open(self) -> bool:
        return not self._has_left and self._shard.closed is None

    async def claim(self) -> list[Task]:
        claim = Claim(
            worker_id=INLINE_WORKER_ID,
            actions=self._actions,
            namespace=self.namespace,
            max_tasks=min(self._places, TASKS_PER_CLAIM_MAX),
            block_ms=CLAIM_BLOCK_MS,
            held_max=self._places,
        )
        answered: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._submission = self._shard.submit([claim], partial(_resolve, answered), is_early=True)
        answer = (await answered)[0]
        if isinstance(answer, FloError):
            raise answer
        assert isinstance(answer, Assigned)
        if answer.draining:
            raise Conflict(f"somebody has registered and drained a worker {INLINE_WORKER_ID!r}")
        return answer.tasks

    def leave(self) -> None:
        """Claim no more; others do from now on."""
        self._has_left = True
        if self._submission is not None and self._submission.is_parked:
            self._submission.answer([Assigned()])


class _KeyReader:
    """The keys of a namespace, as the thread of a module may read them: a look into a dict."""

    def __init__(self, state: State, namespace: Namespace, clock: Clock) -> None:
        self._state = state
        self._namespace = namespace
        self._clock = clock

    def read(self, key: str) -> Stored | None:
        known = self._state.space(self._namespace).kv.get(key, self._clock.now_ms())
        return Stored(value=known.value, version=known.version) if known is not None else None


def _resolve(answered: "asyncio.Future[list[Answer]]", answers: list[Answer]) -> None:
    if not answered.done():  # whoever waited may have been cancelled
        answered.set_result(answers)


def _module_actions(state: State, namespace: Namespace) -> Iterable[str]:
    space = state.space(namespace)
    for action in (*space.actions.values(), *space.deleted.values()):
        if action.guest is not None:
            yield action.name


def _changes(outcome: Finished) -> Iterable[Change]:
    for effect in outcome.effects:
        if isinstance(effect, GuestPut):
            yield Put(key=effect.key, value=effect.value)
        else:
            yield Delete(key=effect.key)


def _log(task: Task, outcome: Outcome) -> None:
    line: LogLine
    for line in outcome.logs:
        _logger.log(_NUMBERS[line.level], GUEST_LOG, run=task.task_id, message=line.message)
    if outcome.logs_dropped:
        _logger.warning("guest_log_cut_off", run=task.task_id, lines=outcome.logs_dropped)


_NUMBERS = (10, 20, 30, 40)
