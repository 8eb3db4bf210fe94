"""A namespace: commands, queries, replies."""

from typing import Annotated, TypeAlias

from flo.model.base import Message, Nothing
from flo.model.declare.fields import Checked, Cursor, Limit, about
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import LIST_LIMIT_DEFAULT, Namespace, check_namespace

NamespaceName: TypeAlias = Annotated[Namespace, about("The namespace's name.")]


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


class NamespaceMade(Message):
    """The namespace that was made."""

    name: Namespace


class NamespacePage(Message):
    items: list[NamespaceView]
    cursor: str | None = None


@operation(
    opcode=50,
    permission=Permission.NAMESPACES_WRITE,
    http=Route("POST", "/namespaces", status=201, errors=(409,)),
)
class CreateNamespace(Command[NamespaceMade]):
    """Make a namespace; the first action or worker registered in one makes it too."""

    name: Annotated[NamespaceName, Checked(check_namespace)]


@operation(
    opcode=51,
    permission=Permission.NAMESPACES_WRITE,
    http=Route("DELETE", "/namespaces/{name}", errors=(404, 409)),
)
class DeleteNamespace(Command[Nothing]):
    """Delete a namespace.

    One that has something in it is refused (`namespace_not_empty`), unless `force` is given.
    """

    name: NamespaceName
    force: Annotated[bool, about("Also if there is something in it.")] = False


@operation(
    opcode=52,
    permission=Permission.NAMESPACES_READ,
    http=Route("GET", "/namespaces/{name}", errors=(404,)),
)
class GetNamespace(Query[NamespaceView]):
    """A namespace: how many actions and workers it has, and its runs by status."""

    name: NamespaceName


@operation(opcode=53, permission=Permission.NAMESPACES_READ, http=Route("GET", "/namespaces"))
class ListNamespaces(Query[NamespacePage]):
    """The namespaces, by name, with how much there is in each; `default` is always there."""

    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None
