"""Keys and their values in a snapshot."""

from collections.abc import Iterable

from flo.engine.kv.records import KeyValue
from flo.engine.kv.rules import reschedule
from flo.engine.snapshot import Section, SnapshotPart, in_chunks
from flo.engine.state import State
from flo.model.ids import Key, Namespace

KEYS_PER_CHUNK = 200


class KeyVersionsPart(SnapshotPart):
    versions: dict[Namespace, int]


class KeysPart(SnapshotPart):
    namespace: Namespace
    keys: list[tuple[Key, KeyValue]]


def _dump_versions(state: State) -> Iterable[KeyVersionsPart]:
    versions = {name: space.kv.version for name, space in state.spaces.items() if space.kv.version}
    if versions:
        yield KeyVersionsPart(versions=versions)


def _restore_versions(state: State, part: KeyVersionsPart) -> None:
    for namespace, version in part.versions.items():
        state.spaces[namespace].kv.version = version


def _dump_keys(state: State) -> Iterable[KeysPart]:
    for namespace, space in sorted(state.spaces.items()):
        for names in in_chunks(space.kv, KEYS_PER_CHUNK):
            yield KeysPart(namespace=namespace, keys=[(key, space.kv[key]) for key in names])


def _restore_keys(state: State, part: KeysPart) -> None:
    keys = state.spaces[part.namespace].kv
    for key, value in part.keys:
        keys.put(key, value)
        reschedule(state, part.namespace, key, value.expires_at_ms)


SNAPSHOT = (
    Section(KeyVersionsPart, _dump_versions, _restore_versions),
    Section(KeysPart, _dump_keys, _restore_keys),
)
