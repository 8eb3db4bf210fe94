"""Rules of secrets: store, reseal, delete.

Sealing takes a key, and keys are outside: the server seals a value before it hands it in. A value
that comes without a seal is refused, so that it cannot get into the log by mistake.
"""

from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.secrets.events import SecretDeleted, SecretsSealedAnew, SecretStored
from flo.engine.secrets.records import RETIRED_MAX, RetiredSecret, Secret
from flo.engine.state import Space, State
from flo.model.base import Nothing
from flo.model.declare.operation import Command
from flo.model.errors import Conflict, NotFound
from flo.model.ids import Namespace
from flo.model.safety.secrets import DeleteSecret, RotateKey, SecretSet, SecretsResealed, SetSecret

UNAVAILABLE = Conflict(
    "this server has no key to seal secrets with: make one with flo secret new-key FILE, and start "
    "the server with --secret-keys FILE",
    code="secrets_unavailable",
)


class StoreSecret(Command[SecretSet]):
    """SetSecret, once its value is sealed."""

    REPLY: ClassVar = SecretSet

    namespace: Namespace
    name: str
    sealed: bytes
    key_id: str

    def told_apart_by(self) -> tuple[str, str]:
        """The same value has another seal every time."""
        return self.namespace, self.name


class ResealSecrets(Command[SecretsResealed]):
    """RotateKey, once all are sealed anew: for each namespace its seals, and the new ones."""

    REPLY: ClassVar = SecretsResealed

    key_id: str
    seals: dict[Namespace, tuple[tuple[bytes, bytes], ...]]

    def told_apart_by(self) -> str:
        return self.key_id


def decide_set(state: State, command: SetSecret, context: Context) -> Decision:
    raise UNAVAILABLE


def decide_rotate(state: State, command: RotateKey, context: Context) -> Decision:
    raise UNAVAILABLE


def decide_store(state: State, command: StoreSecret, context: Context) -> Decision:
    known = state.space(command.namespace).secrets.get(command.name)
    stored = SecretStored(
        namespace=command.namespace,
        name=command.name,
        version=known.version + 1 if known is not None else 1,
        sealed=command.sealed,
        key_id=command.key_id,
        at_ms=context.now_ms,
    )
    return Decision(SecretSet(name=stored.name, version=stored.version), (stored,))


def decide_reseal(state: State, command: ResealSecrets, context: Context) -> Decision:
    """One that was set meanwhile has the new key already."""
    events = []
    for namespace, seals in command.seals.items():
        known = set(_seals(state.space(namespace)))
        if kept := tuple(pair for pair in seals if pair[0] in known):
            events.append(SecretsSealedAnew(namespace=namespace, key_id=command.key_id, seals=kept))
    count = sum(len(event.seals) for event in events)
    return Decision(SecretsResealed(count=count, key_id=command.key_id), tuple(events))


def _seals(space: Space) -> Iterator[bytes]:
    yield from (one.sealed for one in space.secrets.values())
    yield from (one.sealed for one in space.retired_secrets)


def decide_delete(state: State, command: DeleteSecret, context: Context) -> Decision:
    if command.name not in state.space(command.namespace).secrets:
        raise NotFound(f"secret {command.name!r} does not exist", code="secret_not_found")
    deleted = SecretDeleted(namespace=command.namespace, name=command.name, at_ms=context.now_ms)
    return Decision(Nothing(), (deleted,))


def apply_stored(state: State, event: SecretStored) -> None:
    space = state.space_made(event.namespace)
    _retire(space, event.name)
    space.secrets[event.name] = Secret(
        name=event.name,
        version=event.version,
        sealed=event.sealed,
        key_id=event.key_id,
        set_at_ms=event.at_ms,
        by=state.by,
    )


def apply_sealed_anew(state: State, event: SecretsSealedAnew) -> None:
    space, seals = state.spaces[event.namespace], dict(event.seals)
    for name, secret in space.secrets.items():
        if (sealed := seals.get(secret.sealed)) is not None:
            space.secrets[name] = replace(secret, sealed=sealed, key_id=event.key_id)
    space.retired_secrets = [
        replace(one, sealed=seals.get(one.sealed, one.sealed)) for one in space.retired_secrets
    ]


def apply_deleted(state: State, event: SecretDeleted) -> None:
    space = state.spaces[event.namespace]
    _retire(space, event.name)
    del space.secrets[event.name]


def _retire(space: Space, name: str) -> None:
    """Its value is remembered for a while, sealed: a worker that has it may yet repeat it."""
    known = space.secrets.get(name)
    if known is not None:
        space.retired_secrets.append(RetiredSecret(name=name, sealed=known.sealed))
        del space.retired_secrets[:-RETIRED_MAX]
