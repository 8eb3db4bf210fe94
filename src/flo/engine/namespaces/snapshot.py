"""Namespaces in a snapshot. They come first: everything else is put into them."""

from collections.abc import Iterable

from flo.engine.snapshot import Section, SnapshotPart
from flo.engine.state import Space, State
from flo.model.ids import Namespace


class NamespacesPart(SnapshotPart):
    spaces: dict[Namespace, tuple[str, int | None]]
    """What each is filed under in the archive, and when it was created."""
    deletions: dict[Namespace, int]


def _dump(state: State) -> Iterable[NamespacesPart]:
    spaces = {
        namespace: (space.archive_name, space.created_at_ms)
        for namespace, space in state.spaces.items()
    }
    yield NamespacesPart(spaces=spaces, deletions=state.deletions)


def _restore(state: State, part: NamespacesPart) -> None:
    for namespace, (archive_name, created_at_ms) in part.spaces.items():
        space = state.spaces[namespace] = Space(archive_name)
        space.created_at_ms = created_at_ms
    state.deletions = part.deletions


SNAPSHOT = (Section(NamespacesPart, _dump, _restore),)
