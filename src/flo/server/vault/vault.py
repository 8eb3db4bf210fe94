"""Seals what is set, opens what workers are given, and takes it out of what they report.

    SetSecret ──seal──▸ StoreSecret ──▸ shard
    Claim ──▸ shard ──▸ Assigned ──open──▸ the worker, with the values that its action names
    Complete, Fail, … ──redact──▸ shard

The reference "$.secrets.NAME", as the whole of a text in a JSON input, is the value for the worker.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec
import structlog

from flo.core.sealing import KeyRing, SealError
from flo.engine.secrets.rules import UNAVAILABLE, ResealSecrets, StoreSecret
from flo.engine.state import Space, State
from flo.model.base import Message
from flo.model.declare.fields import FIELD_CHECKS
from flo.model.declare.operation import DECLARED, Command, Permission
from flo.model.errors import Conflict, Invalid
from flo.model.ids import Namespace
from flo.model.runs import Assigned, Task
from flo.model.safety.secrets import RotateKey, SetSecret
from flo.server.vault.redaction import Redactor
from flo.shard.submission import Answer

KEYS_VARIABLE = "FLO_SECRET_KEYS"
OPENED_MAX = 10_000
Seal: TypeAlias = tuple[str, bytes]
"""The name of a secret, and its value under a seal, or opened."""
OF_WORKERS = frozenset(
    one.message
    for one in DECLARED.values()
    if one.permission is Permission.TASKS_WORK and issubclass(one.message, Command)
)
"""What those send who are given secrets."""

_logger = structlog.get_logger("flo.vault")


class HasState(Protocol):
    """A shard."""

    @property
    def state(self) -> State: ...


class Vault:
    """`load` reads the keys, at the start and whenever they are rotated; None: there are none."""

    def __init__(self, shard: HasState, load: Callable[[], KeyRing | None]) -> None:
        self._shard = shard
        self._load = load
        self._keys = load()
        self._opened = lru_cache(maxsize=OPENED_MAX)(self._open)
        self._redactors: dict[Namespace, tuple[tuple[Seal, ...], Redactor]] = {}

    def has_secrets(self, namespace: Namespace) -> bool:
        """Whether there are any, or were not long ago."""
        space = self._shard.state.spaces.get(namespace)
        return space is not None and bool(space.secrets or space.retired_secrets)

    def sealed(self, message: SetSecret | RotateKey) -> Message:
        """What is handed in instead; the value itself goes no further."""
        if isinstance(message, RotateKey):
            return self._resealed()
        FIELD_CHECKS[SetSecret](message)
        keys = self._current()
        sealed = keys.seal(message.value.encode(), _context(message.namespace, message.name))
        return StoreSecret(
            namespace=message.namespace,
            name=message.name,
            sealed=sealed,
            key_id=keys.current.hex(),
        )

    def given(self, namespace: Namespace, answers: list[Answer]) -> list[Answer]:
        """The answers to claims, with the secrets that the actions of their tasks name."""
        return [
            self._with_secrets(namespace, answer) if isinstance(answer, Assigned) else answer
            for answer in answers
        ]

    def redacted(self, namespace: Namespace, messages: Sequence[Message]) -> Sequence[Message]:
        """What workers report, without the values that they were given."""
        return self._redactor(namespace).redacted(messages)

    def _with_secrets(self, namespace: Namespace, reply: Assigned) -> Assigned:
        space = self._shard.state.spaces.get(namespace)
        if space is None or not space.secrets:
            return reply
        tasks = [self._filled(namespace, space, task) for task in reply.tasks]
        return msgspec.structs.replace(reply, tasks=tasks)

    def _filled(self, namespace: Namespace, space: Space, task: Task) -> Task:
        action = space.actions.get(task.task_type) or space.deleted.get(task.task_type)
        if action is None or not action.secrets:
            return task
        values: dict[str, str] = {}
        for name in action.secrets:
            secret = space.secrets.get(name)
            if secret is None:
                continue
            try:
                values[name] = self._opened(namespace, name, secret.sealed)
            except SealError as error:
                _logger.warning("secret_not_opened", namespace=namespace, name=name, why=str(error))
        payload = _resolved(task.payload, values)
        return msgspec.structs.replace(task, payload=payload, secrets=values)

    def _redactor(self, namespace: Namespace) -> Redactor:
        seals = tuple(_seals_of(self._shard.state.space(namespace)))
        known = self._redactors.get(namespace)
        if known is None or known[0] != seals:
            known = self._redactors[namespace] = (seals, Redactor(self._values(namespace, seals)))
        return known[1]

    def _values(self, namespace: Namespace, seals: Iterable[Seal]) -> Iterator[Seal]:
        for name, sealed in seals:
            try:
                yield name, self._opened(namespace, name, sealed).encode()
            except SealError:
                continue  # nobody can be given it either

    def _resealed(self) -> ResealSecrets:
        self._keys = self._load()
        keys = self._current()
        try:
            seals = {
                namespace: tuple(
                    (sealed, _resealed(keys, _context(namespace, name), sealed))
                    for name, sealed in _seals_of(space)
                )
                for namespace, space in self._shard.state.spaces.items()
                if space.secrets or space.retired_secrets
            }
        except SealError as error:
            raise Conflict(
                f"not all secrets can be opened: {error}; keep the old key in the file until all "
                "are sealed with the new one",
                code="key_missing",
            ) from None
        return ResealSecrets(key_id=keys.current.hex(), seals=seals)

    def _open(self, namespace: Namespace, name: str, sealed: bytes) -> str:
        if self._keys is None:
            raise SealError("this server has no keys (--secret-keys)")
        return self._keys.open(sealed, _context(namespace, name)).decode()

    def _current(self) -> KeyRing:
        if self._keys is None:
            raise Conflict(UNAVAILABLE.message, code=UNAVAILABLE.code)
        return self._keys


def load_keys(path: Path) -> KeyRing | None:
    """Those of the file, else of the environment; None if there are none."""
    text = os.environ.get(KEYS_VARIABLE)
    try:
        if path != Path():
            return KeyRing.from_file(path)
        return KeyRing.from_text(text) if text else None
    except SealError as error:
        raise Invalid(f"configuration: {error}", code="invalid_configuration") from None


def _seals_of(space: Space) -> Iterator[Seal]:
    """All that was set lately, also what is no longer given to anybody."""
    yield from ((one.name, one.sealed) for one in space.secrets.values())
    yield from ((one.name, one.sealed) for one in space.retired_secrets)


def _resealed(keys: KeyRing, context: bytes, sealed: bytes) -> bytes:
    return keys.seal(keys.open(sealed, context), context)


def _context(namespace: Namespace, name: str) -> bytes:
    """A seal cannot be put in the place of another."""
    return f"{namespace}/{name}".encode()


def _resolved(payload: bytes, values: dict[str, str]) -> bytes:
    """The references in an input, replaced by what they stand for."""
    if b'"$.secrets.' not in payload:
        return payload
    for name, value in values.items():
        payload = payload.replace(f'"$.secrets.{name}"'.encode(), msgspec.json.encode(value))
    return payload
