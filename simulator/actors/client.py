"""A client that does everything a client may do, at random, and notes how it is answered."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from flo.client.actions import Actions
from flo.model.actions import ActionLimits
from flo.model.errors import Conflict, FloError, NotFound, TimedOut, Unavailable
from flo.model.ids import ActionName, Labels, Namespace, RunId
from flo.model.runs import Invoke, RunStatus
from flo.wire.opcodes import Ping
from simulator.actors.actor import subject_of
from simulator.checks.invariants import Invariant
from simulator.ledgers.runs import Before
from simulator.reference.actions import fits
from simulator.reference.limits import WHO_KEY
from simulator.world import (
    ACTIONS,
    PACED,
    SCHEMA,
    SHARED,
    STRICT,
    WHO,
    World,
    payload_for,
)

Operation: TypeAlias = Callable[[], Awaitable[None]]
Treatment: TypeAlias = Callable[[ActionName, list[RunId] | None], Awaitable[list[RunId]]]

KEYS = 40
"""So few different keys are used again and again, also when their runs have long ended."""
RACE_S = 0.5
"""Who invokes within the same half second may use the same key as another."""
RUNS_REMEMBERED_MAX = 200
STATUSES_AT_ONCE = 50


class SimulatedClient:
    def __init__(self, world: World, rng: random.Random, name: str, namespace: Namespace) -> None:
        self._world = world
        self._rng = rng
        self.name = name
        self._namespace = namespace
        self._session = world.session(name, rng)
        self._actions = Actions(self._session, namespace)
        self._inputs = 0
        self._run_ids: list[RunId] = []
        self._operations: list[Operation] = [
            *[self._invoke] * 40,
            *[self._invoke_many] * 12,
            *[self._status] * 20,
            *[self._explain] * 6,
            *[self._wait] * 6,
            *[self._wait_for_some] * 4,
            *[self._list_runs] * 6,
            *[self._list_actions] * 2,
            *[self._get_action] * 2,
            self._ping,
            *[self._register] * 3,
            self._delete,
            *[self._cancel] * 6,
            *[self._list_dead] * 4,
            *[self._requeue] * 3,
            *[self._purge] * 4,
            self._disable,
            *[self._enable] * 2,
        ]

    async def run(self) -> None:
        """Do one thing after the other until the simulation closes."""
        while not self._world.is_closing:
            await asyncio.sleep(self._rng.expovariate(1.0 / self._world.profile.rest_s))
            await self._world.awake.wait()
            await self._rng.choice(self._operations)()
        await self._session.close()

    async def register_all(self, restart_server: Operation) -> None:
        """Go on until every action is there; nobody else is there yet to restart the server."""
        missing = list(ACTIONS)
        while missing:
            if await self._register_action(missing[0]):
                del missing[0]
            await restart_server()
            await asyncio.sleep(self._rng.random())

    async def look_at_everything(self) -> None:
        """Every run that was ever acknowledged is there, and as it was acknowledged."""
        acknowledged = self._world.ledger.acknowledged
        run_ids = [run_id for namespace, run_id in acknowledged if namespace == self._namespace]
        while run_ids:
            await asyncio.gather(*map(self._look_at, run_ids[:STATUSES_AT_ONCE]))
            del run_ids[:STATUSES_AT_ONCE]

    async def close(self) -> None:
        await self._session.close()

    async def _invoke(self) -> None:
        command = self._command()
        before = self._world.ledger.before()
        try:
            answer = await self._actions.invoke(
                command.action,
                command.input,
                priority=command.priority,
                delay_ms=command.delay_ms,
                idempotency_key=command.idempotency_key,
                labels=command.labels,
                subject=command.subject,
            )
        except FloError as error:
            self._invoke_refused("invoke", before, [command], error)
        else:
            self._did("invoke", answer)
            self._invoked(before, command, answer.run_id, answer.duplicate)

    async def _invoke_many(self) -> None:
        commands = [self._command() for _ in range(self._rng.randint(2, 20))]
        before = self._world.ledger.before()
        try:
            answers = await self._actions.invoke_commands(commands)
        except FloError as error:
            self._invoke_refused("invoke_many", before, commands, error)
            run_ids = error.details.get("run_ids", ())
            for command, run_id in zip(commands, run_ids, strict=False):
                if run_id is not None:  # whether this made the run is known only if it has no key
                    self._invoked(before, command, run_id, command.idempotency_key is not None)
        else:
            self._did("invoke_many", [str(answer) for answer in answers], len(commands))
            for command, answer in zip(commands, answers, strict=True):
                self._invoked(before, command, answer.run_id, answer.duplicate)

    async def _status(self) -> None:
        await self._look_at(self._some_run())

    async def _look_at(self, run_id: RunId) -> None:
        before = self._world.ledger.before()
        try:
            view = await self._actions.status(run_id)
        except NotFound as error:
            self._did("status", error)
            self._world.ledger.unknown(self._namespace, before, run_id)
        except FloError as error:
            self._refused("status", error)
        else:
            self._did("status", view.status)
            self._world.ledger.viewed(before, view)

    async def _explain(self) -> None:
        ledger, run_id = self._world.ledger, self._some_run(newest=10)
        before, able = ledger.before(), ledger.able_workers(self._namespace, run_id)
        try:
            answer = await self._actions.explain(run_id)
        except NotFound as error:
            self._did("explain_run", error)
            ledger.unknown(self._namespace, before, run_id)
        except FloError as error:
            self._refused("explain_run", error)
        else:
            self._did("explain_run", answer.causes[0].code)
            ledger.explained(self._namespace, before, able, answer)

    async def _wait(self) -> None:
        await self._wait_for(self._some_run(newest=10), self._rng.choice((0.0, 1.0, 10.0, 40.0)))

    async def _wait_for_some(self) -> None:
        """Waits that begin at the same moment share one query."""
        timeout_s = self._rng.choice((1.0, 10.0))
        count = self._rng.randint(2, 6)
        await asyncio.gather(*(self._wait_for(self._some_run(), timeout_s) for _ in range(count)))

    async def _wait_for(self, run_id: RunId, timeout_s: float) -> None:
        ledger = self._world.ledger
        before = self._world.ledger.before()
        link = self._world.network.good_link(self.name)
        try:
            result = await self._actions.wait(run_id, timeout_s)
        except NotFound as error:
            self._did("wait", error)
            ledger.unknown(self._namespace, before, run_id)
        except TimedOut as error:
            self._did("wait", error)
            known = self._world.reference.runs.find(self._namespace, run_id) is not None
            if known and link is not None and not link.has_had_trouble:
                ledger.not_ended(self._namespace, run_id)
        except FloError as error:
            self._refused("wait", error)
        else:
            self._did("wait", result.status)
            ledger.ended(self._namespace, before, result)

    async def _list_runs(self) -> None:
        """The first page, and perhaps the second."""
        ledger = self._world.ledger
        action = self._rng.choice((*ACTIONS, None))
        status = self._rng.choice((None, *RunStatus))
        limit = self._rng.choice((1, 5, 50))
        cursor: str | None = None
        for _ in range(self._rng.randint(1, 2)):
            before = ledger.listing(self._namespace, action, status, cursor)
            try:
                page = await self._actions.runs(action, status, limit, cursor)
            except FloError as error:
                self._refused("list_runs", error)
                return
            self._did("list_runs", [view.run_id for view in page.items])
            ledger.listed(before, page)
            cursor = page.cursor
            if cursor is None:
                return

    async def _cancel(self) -> None:
        run_id, ledger = self._some_run(newest=30), self._world.ledger
        before = ledger.before()
        try:
            answer = await self._actions.cancel(run_id, "not wanted any more")
        except NotFound as error:
            self._did("cancel", error)
            ledger.unknown(self._namespace, before, run_id)
        except Conflict as error:
            self._did("cancel", error)
            ledger.cancel_refused(self._namespace, before, run_id)
        except FloError as error:
            self._refused("cancel", error)
        else:
            self._did("cancel", answer.run_id)
            ledger.cancelled(self._namespace, run_id)

    async def _list_dead(self) -> None:
        ledger, action = self._world.ledger, self._rng.choice(ACTIONS)
        limit = self._rng.choice((1, 5, 50))
        cursor: str | None = None
        for _ in range(self._rng.randint(1, 2)):
            before = ledger.dead_listing(self._namespace, action, cursor)
            try:
                page = await self._actions.dead(action, limit, cursor)
            except FloError as error:
                self._refused("list_dead", error)
                return
            self._did("list_dead", [view.run_id for view in page.items])
            ledger.dead_listed(before, page)
            cursor = page.cursor
            if cursor is None:
                return

    async def _requeue(self) -> None:
        await self._treat_dead("requeue", self._actions.requeue)

    async def _purge(self) -> None:
        await self._treat_dead("purge", self._actions.purge)

    async def _treat_dead(self, what: str, treat: Treatment) -> None:
        """Some that are dead, and now and then one that is not; or all there are."""
        ledger, action = self._world.ledger, self._rng.choice(ACTIONS)
        named = self._some_dead(action) if self._rng.random() < 0.7 else None
        before = ledger.before()
        try:
            answer = await treat(action, named)
        except (NotFound, Conflict) as error:
            self._did(what, error)
            if named is not None and error.code != "action_not_found":
                ledger.treatment_refused(self._namespace, before, named, error)
        except FloError as error:
            self._refused(what, error)
        else:
            self._did(what, answer)
            ledger.treated(self._namespace, action, before, named, answer, purged=what == "purge")

    def _some_dead(self, action: ActionName) -> list[RunId]:
        runs = self._world.reference.runs.by_number.get((self._namespace, action), [])
        dead = [run.run_id for run in runs if run.is_dead]
        named = self._rng.sample(dead, min(len(dead), self._rng.randint(1, 5)))
        if not named or self._rng.random() < 0.1:
            named.append(f"{action}-{self._rng.randint(1, len(runs) + 1)}")
        return named

    async def _disable(self) -> None:
        await self._switch("disable", self._actions.disable)

    async def _enable(self) -> None:
        await self._switch("enable", self._actions.enable)

    async def _switch(self, what: str, switch: Callable[[ActionName], Awaitable[None]]) -> None:
        action = self._rng.choice(ACTIONS)
        try:
            await switch(action)
        except FloError as error:
            self._refused(what, error)
        else:
            self._did(what, action)

    async def _list_actions(self) -> None:
        try:
            page = await self._actions.list()
        except FloError as error:
            self._refused("list_actions", error)
        else:
            self._did("list_actions", [action.name for action in page.items])

    async def _get_action(self) -> None:
        action = self._rng.choice(ACTIONS)
        try:
            view = await self._actions.get(action)
        except FloError as error:
            self._refused("get_action", error)
        else:
            self._did("get_action", view.version)

    async def _ping(self) -> None:
        try:
            await self._session.call(Ping())
        except FloError as error:
            self._refused("ping", error)
        else:
            self._did("ping", None)

    async def _register(self) -> None:
        await self._register_action(self._rng.choice(ACTIONS))

    async def _delete(self) -> None:
        """And register it again, in a while."""
        action = self._rng.choice(ACTIONS)
        try:
            await self._actions.delete(action)
        except FloError as error:
            self._refused("delete", error)
        else:
            self._did("delete", action)
        await asyncio.sleep(self._rng.random())
        await self._register_action(action)

    async def _register_action(self, action: ActionName) -> bool:
        try:
            answer = await self._actions.register(
                action,
                timeout_ms=self._rng.choice((0, 500, 2_000, 10_000, 30_000)),
                max_retries=self._rng.choice((0, 1, 3)),
                retry_delay_ms=self._rng.choice((0, 10, 1_000)),
                input_schema=SCHEMA if self._is_strict(action) else None,
                output_schema=SCHEMA if self._is_strict(action) else None,
                if_changed=self._rng.random() < 0.2,
                limits=self._limits(action),
            )
        except FloError as error:
            self._refused("register", error)
            return False
        else:
            self._did("register", answer)
            return True

    def _limits(self, action: ActionName) -> ActionLimits | None:
        """Two actions are limited, most of the time, and every time in another way."""
        rng = self._rng
        if action not in (SHARED, PACED) or rng.random() < 0.2:
            return None
        if action == SHARED:
            return ActionLimits(
                concurrency_max=rng.choice((1, 1, 2, 5)),
                concurrency_key=rng.choice((WHO_KEY, WHO_KEY, "")),
                max_per_second=rng.choice((None, None, 4)),
            )
        per_second, per_minute = rng.choice(((1, None), (3, None), (4, 90), (None, 60)))
        return ActionLimits(max_per_second=per_second, max_per_minute=per_minute)

    def _is_strict(self, action: ActionName) -> bool:
        return action == STRICT and self._rng.random() < 0.7

    def _command(self) -> Invoke:
        rng = self._rng
        self._inputs += 1
        action = rng.choice(ACTIONS)
        return Invoke(
            action=action,
            input=self._input(action),
            namespace=self._namespace,
            priority=rng.choice((0, 10, 10, 10, 200)),
            delay_ms=self._delay_ms(),
            idempotency_key=self._key(),
            labels=self._labels(),
            subject=subject_of(self._inputs),
        )

    def _input(self, action: ActionName) -> bytes:
        text = f"{self.name}:{self._inputs}"
        if action == SHARED:
            return f'{{"who":"{self._rng.choice(WHO)}","n":"{text}"}}'.encode()
        return payload_for(action, text, self._rng)

    def _delay_ms(self) -> int:
        if self._rng.random() < 0.7:
            return 0
        return self._rng.choice((1, 50, 1_000, 20_000, self._rng.randrange(3_600_000)))

    def _key(self) -> str | None:
        match self._rng.randrange(4):
            case 0:
                return f"key-{self._rng.randrange(KEYS)}"
            case 1:
                return f"race-{int(asyncio.get_running_loop().time() / RACE_S)}"
            case _:
                return None

    def _labels(self) -> Labels | None:
        roll = self._rng.random()
        if roll < 0.02:
            return {"oven": True, "rack": {"levels": self._rng.randrange(3)}}
        return {"oven": True} if roll < 0.1 else None

    def _some_run(self, newest: int = RUNS_REMEMBERED_MAX) -> RunId:
        """One that was acknowledged, or, rarely, one that never was."""
        if self._run_ids and self._rng.random() < 0.97:
            return self._rng.choice(self._run_ids[-newest:])
        return f"{self._rng.choice(ACTIONS)}-{10_000 + self._rng.randrange(100)}"

    def _invoked(self, before: Before, command: Invoke, run_id: RunId, duplicate: bool) -> None:
        self._world.ledger.invoked(before, command, run_id, duplicate)
        self._run_ids.append(run_id)
        if len(self._run_ids) > RUNS_REMEMBERED_MAX:
            self._run_ids.pop(self._rng.randrange(RUNS_REMEMBERED_MAX))

    def _did(self, what: str, answer: object, messages: int = 1) -> None:
        self._world.trace.did(self.name, what, answer, messages)

    def _invoke_refused(
        self, what: str, before: Before, commands: Sequence[Invoke], error: FloError
    ) -> None:
        if error.code not in ("action_disabled", "input_invalid"):
            return self._refused(what, error, len(commands))
        self._did(what, error, len(commands))
        was_disabled = self._world.reference.actions.was_disabled
        explained = any(
            was_disabled(self._namespace, command.action, before)
            if error.code == "action_disabled"
            else not fits(command.input)
            for command in commands
        )
        self._world.checks.hold(Invariant.REFUSALS_EXPLAINED, explained, what, repr(error))

    def _refused(self, what: str, error: FloError, messages: int = 1) -> None:
        """Nobody knows what became of it, or the action is deleted for the moment."""
        self._did(what, error, messages)
        known = isinstance(error, Unavailable) or error.code == "action_not_found"
        self._world.checks.hold(Invariant.REFUSALS_EXPLAINED, known, self.name, what, repr(error))
