"""Namespaces: create, look at, list, delete."""

from flo.client.session.session import Session
from flo.model.ids import LIST_LIMIT_DEFAULT, Namespace
from flo.model.namespaces import (
    CreateNamespace,
    DeleteNamespace,
    GetNamespace,
    ListNamespaces,
    NamespacePage,
    NamespaceView,
)
from flo.wire.opcodes import BY_NAME

_CREATE = BY_NAME["create_namespace"]
_DELETE = BY_NAME["delete_namespace"]
_GET = BY_NAME["get_namespace"]
_LIST = BY_NAME["list_namespaces"]


class Namespaces:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(self, name: Namespace) -> None:
        """Make a namespace; the first action or worker registered in one makes it too."""
        await self._session.call(_CREATE, CreateNamespace(name=name), repeatable=False)

    async def delete(self, name: Namespace, *, force: bool = False) -> None:
        """Delete a namespace; with `force`, also one that still has something in it."""
        command = DeleteNamespace(name=name, force=force)
        await self._session.call(_DELETE, command, repeatable=False)

    async def get(self, name: Namespace) -> NamespaceView:
        namespace: NamespaceView = await self._session.call(_GET, GetNamespace(name=name))
        return namespace

    async def list(
        self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> NamespacePage:
        query = ListNamespaces(limit=limit, cursor=cursor)
        page: NamespacePage = await self._session.call(_LIST, query)
        return page
