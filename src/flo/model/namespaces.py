"""A namespace: commands, questions, events, replies."""

from flo.model.base import Event, Message
from flo.model.ids import LIST_LIMIT_DEFAULT, Namespace


class CreateNamespace(Message):
    """Make a namespace; the first action or worker registered in one makes it too."""

    name: Namespace


class DeleteNamespace(Message):
    """Delete a namespace; with `force`, also one that still has something in it."""

    name: Namespace
    force: bool = False


class GetNamespace(Message):
    name: Namespace


class ListNamespaces(Message):
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class NamespaceCreated(Event):
    name: Namespace
    at_ms: int


class NamespaceDeleted(Event):
    name: Namespace
    at_ms: int


class NamespaceView(Message):
    """A namespace and how much there is in it."""

    name: Namespace
    created_at_ms: int | None
    """None if nobody made it by name."""
    actions: int
    workers: int
    runs: dict[str, int]
    streams: int = 0
    keys: int = 0


class NamespacePage(Message):
    items: list[NamespaceView]
    cursor: str | None = None
