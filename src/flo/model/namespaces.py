"""A namespace: commands, queries, replies."""

from flo.model.base import Message, Nothing
from flo.model.ids import LIST_LIMIT_DEFAULT, Namespace
from flo.model.operation import Command, Permission, Query, operation


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


@operation(opcode=50, permission=Permission.NAMESPACES_WRITE, repeatable=False)
class CreateNamespace(Command[Nothing]):
    """Make a namespace; the first action or worker registered in one makes it too."""

    name: Namespace


@operation(opcode=51, permission=Permission.NAMESPACES_WRITE, repeatable=False)
class DeleteNamespace(Command[Nothing]):
    """Delete a namespace; with `force`, also one that still has something in it."""

    name: Namespace
    force: bool = False


@operation(opcode=52, permission=Permission.NAMESPACES_READ)
class GetNamespace(Query[NamespaceView]):
    name: Namespace


@operation(opcode=53, permission=Permission.NAMESPACES_READ)
class ListNamespaces(Query[NamespacePage]):
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None
