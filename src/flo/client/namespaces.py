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


class Namespaces:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(self, name: Namespace) -> None:
        """Make a namespace; the first action or worker registered in one makes it too."""
        await self._session.call(CreateNamespace(name=name))

    async def delete(self, name: Namespace, *, force: bool = False) -> None:
        """Delete a namespace; with `force`, also one that still has something in it."""
        await self._session.call(DeleteNamespace(name=name, force=force))

    async def get(self, name: Namespace) -> NamespaceView:
        return await self._session.call(GetNamespace(name=name))

    async def list(
        self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> NamespacePage:
        return await self._session.call(ListNamespaces(limit=limit, cursor=cursor))
