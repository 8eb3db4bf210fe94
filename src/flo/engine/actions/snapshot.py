"""Actions in a snapshot, and the WebAssembly modules that some of them run."""

from collections.abc import Iterable

from sortedcontainers import SortedDict

from flo.engine.actions.records import Action
from flo.engine.snapshot import Section, SnapshotPart
from flo.engine.state import State
from flo.model.ids import ActionName, Namespace


class ActionsPart(SnapshotPart):
    namespace: Namespace
    actions: dict[ActionName, Action]
    deleted: dict[ActionName, Action]


class ModulePart(SnapshotPart):
    digest: str
    body: bytes


def _dump_actions(state: State) -> Iterable[ActionsPart]:
    for namespace, space in sorted(state.spaces.items()):
        if space.actions or space.deleted:
            actions = dict(space.actions)
            yield ActionsPart(namespace=namespace, actions=actions, deleted=space.deleted)


def _restore_actions(state: State, part: ActionsPart) -> None:
    space = state.spaces[part.namespace]
    space.actions, space.deleted = SortedDict(part.actions), part.deleted


def _dump_modules(state: State) -> Iterable[ModulePart]:
    for digest, body in sorted(state.modules.items()):
        yield ModulePart(digest=digest, body=body)


def _restore_module(state: State, part: ModulePart) -> None:
    state.modules[part.digest] = part.body


SNAPSHOT = (
    Section(ActionsPart, _dump_actions, _restore_actions),
    Section(ModulePart, _dump_modules, _restore_module),
)
