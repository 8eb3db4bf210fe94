"""Somebody who sets secrets, performs actions that name them, repeats them, and reads the audit."""

import random
from itertools import count

import msgspec

from flo.model.actions import DeleteAction, DisableAction, RegisterAction
from flo.model.base import Message
from flo.model.declare.operation import Command, Query, R
from flo.model.errors import FloError
from flo.model.ids import Namespace
from flo.model.runs import Claim, Complete, Fail, GetRun, Invoke, ListRuns, Task
from flo.model.safety.audit import ListAudit
from flo.model.safety.secrets import DeleteSecret, ListSecrets, RotateKey, SetSecret
from flo.model.workers import RegisterWorker
from simulator.actors.actor import SimulatedActor
from simulator.checks.invariants import Invariant
from simulator.world import World

NAMES = ("API_KEY", "TOKEN", "CERT")
ACTIONS = ("charge", "notify")
KNOWN_CODES = (
    *("secret_not_found", "secrets_unavailable", "action_not_found", "action_disabled"),
    *("run_not_found", "not_holder", "worker_not_found", "run_ended", "worker_gone", "not_claimed"),
    *("lease_lost", "not_found", "worker_is_not_registered", "conflict"),
)

_encode = msgspec.msgpack.Encoder().encode
_numbers = count(1)


class SimulatedSecretKeeper(SimulatedActor):
    def __init__(self, world: World, rng: random.Random, name: str, namespace: Namespace) -> None:
        super().__init__(world, rng, name, namespace)
        self._set_count = 0
        self._is_killed = False
        self._operations = [
            *[self._set] * 6,
            *[self._register] * 4,
            *[self._invoke] * 10,
            *[self._work] * 12,
            *[self._look] * 6,
            *[self._read_audit] * 4,
            self._list,
            self._delete,
            self._rotate,
            self._disable,
        ]

    def kill(self) -> None:
        """The next task that it is given it does not report on."""
        self._is_killed = True

    async def _ask(self, message: Command[R] | Query[R]) -> R | None:
        """The answer, unless it is refused; no answer but that of a claim has a value in it."""
        kind = type(message).__name__
        try:
            reply = await self._session.call(message)
        except FloError as error:
            self._check_clean(str(error).encode(), kind)
            self._refused(kind, error, *KNOWN_CODES)
            return None
        self._did(kind, "")
        if not isinstance(message, Claim):
            assert isinstance(reply, Message)
            self._check_clean(_encode(reply), kind)
        return reply

    def _check_clean(self, written: bytes, what: str) -> None:
        safety = self._world.reference.safety
        seen = [value for value in safety.values if value in written]
        self._world.checks.hold(Invariant.SECRETS_SEALED, not seen, self.name, what)

    async def _set(self) -> None:
        self._set_count += 1
        name = self._rng.choice(NAMES)
        value = f"canary-{self.name}-{self._set_count}-{name}"
        self._world.reference.safety.values.add(value.encode())
        await self._ask(SetSecret(name=name, value=value, namespace=self._namespace))

    async def _register(self) -> None:
        names = sorted(self._rng.sample(NAMES, self._rng.randrange(3)))
        action = self._rng.choice(ACTIONS)
        await self._ask(
            RegisterAction(name=action, secrets=names, namespace=self._namespace, timeout_ms=2_000)
        )

    async def _invoke(self) -> None:
        await self._ask(
            Invoke(
                action=self._rng.choice(ACTIONS),
                input=b'{"key":"$.secrets.API_KEY"}',
                namespace=self._namespace,
            )
        )

    async def _work(self) -> None:
        """Perform a task, and repeat what came with it."""
        await self._ask(
            RegisterWorker(worker_id=self.name, processes=list(ACTIONS), namespace=self._namespace)
        )
        reply = await self._ask(
            Claim(worker_id=self.name, actions=list(ACTIONS), namespace=self._namespace)
        )
        for task in reply.tasks if reply is not None else ():
            self._world.reports.hear((self._namespace, task.task_id), task.attempt)
            self._check_given(task)
            if self._is_killed:
                self._is_killed = False
            else:
                await self._report(task)

    async def _report(self, task: Task) -> None:
        """The log must have it without the values: that is what is noted as said."""
        told = " ".join(task.secrets.values())
        said = " ".join(f"[secret {name}]" for name in task.secrets)
        run, reports = (self._namespace, task.task_id), self._world.reports
        message: Complete | Fail
        if self._rng.random() < 0.3:
            reports.fail(run, self.name, task.attempt, f"busy: {said}", True)
            message = Fail(
                run_id=task.task_id,
                worker_id=self.name,
                attempt=task.attempt,
                error=f"busy: {told}",
                retry=True,
                namespace=self._namespace,
            )
        else:
            reports.complete(run, self.name, task.attempt, msgspec.json.encode([said]))
            message = Complete(
                run_id=task.task_id,
                worker_id=self.name,
                attempt=task.attempt,
                output=msgspec.json.encode([told]),
                namespace=self._namespace,
            )
        await self._ask(message)

    def _check_given(self, task: Task) -> None:
        """Only what was ever set under a name comes under that name; references are filled in."""
        values = self._world.reference.safety.values
        right = all(
            value.encode() in values and value.endswith(f"-{name}")
            for name, value in task.secrets.items()
        )
        resolved = "API_KEY" not in task.secrets or b"$.secrets" not in task.payload
        self._world.checks.hold(Invariant.SECRETS_GIVEN, right and resolved, task, task.payload)

    async def _look(self) -> None:
        page = await self._ask(
            ListRuns(action=self._rng.choice(ACTIONS), namespace=self._namespace)
        )
        for run in page.items[:3] if page is not None else ():
            await self._ask(GetRun(run_id=run.run_id, namespace=self._namespace))

    async def _read_audit(self) -> None:
        known = len(self._world.reference.safety.entries.get(self._namespace, ()))
        operation = self._rng.choice((None, "set_secret", "register_action"))
        page = await self._ask(ListAudit(namespace=self._namespace, operation=operation, limit=20))
        if page is None:
            return
        entries = self._world.reference.safety.entries.get(self._namespace, [])
        for one in page.items:
            there = 1 <= one.number <= len(entries) and entries[one.number - 1]
            same = there and (there.operation, there.target, there.outcome) == (
                one.operation,
                one.target,
                one.outcome,
            )
            self._world.checks.hold(Invariant.AUDITED_ONCE, bool(same), one)
        if operation is None and known:
            newest = page.items[0].number if page.items else 0
            self._world.checks.hold(Invariant.AUDITED_ONCE, newest >= known, newest, known)

    async def _list(self) -> None:
        await self._ask(ListSecrets(namespace=self._namespace))

    async def _delete(self) -> None:
        await self._ask(DeleteSecret(name=self._rng.choice(NAMES), namespace=self._namespace))

    async def _rotate(self) -> None:
        await self._ask(RotateKey())

    async def _disable(self) -> None:
        kind = self._rng.choice((DisableAction, DeleteAction))
        await self._ask(kind(name=self._rng.choice(ACTIONS), namespace=self._namespace))
