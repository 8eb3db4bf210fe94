"""Secrets in a snapshot: sealed."""

from collections.abc import Iterable

from flo.engine.secrets.records import RetiredSecret, Secret
from flo.engine.snapshot import Section, SnapshotPart
from flo.engine.state import State
from flo.model.ids import Namespace


class SecretsPart(SnapshotPart):
    namespace: Namespace
    secrets: list[Secret]
    retired: list[RetiredSecret]


def _dump(state: State) -> Iterable[SecretsPart]:
    for namespace, space in sorted(state.spaces.items()):
        if space.secrets or space.retired_secrets:
            yield SecretsPart(
                namespace=namespace,
                secrets=list(space.secrets.values()),
                retired=space.retired_secrets,
            )


def _restore(state: State, part: SecretsPart) -> None:
    space = state.spaces[part.namespace]
    space.secrets.update({secret.name: secret for secret in part.secrets})
    space.retired_secrets = part.retired


SNAPSHOT = (Section(SecretsPart, _dump, _restore),)
