"""The HTTP routes of namespaces: create, inspect, delete, list."""

from typing import Annotated

from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from flo.model.base import Message, Nothing
from flo.model.ids import LIST_LIMIT_DEFAULT, Namespace
from flo.model.namespaces import (
    CreateNamespace,
    DeleteNamespace,
    GetNamespace,
    ListNamespaces,
    NamespacePage,
    NamespaceView,
)
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import CursorQuery, LimitQuery, NamespacePath


class NamespaceBody(Message):
    """A namespace to be made."""

    name: Namespace


class NamespaceMade(Message):
    name: Namespace


@get("/namespaces", tags=["namespaces"], responses=refusals())
async def list_namespaces(
    asker: NamedDependency[Asker],
    limit: LimitQuery = LIST_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> NamespacePage:
    """The namespaces, by name, with how much there is in each; `default` is always there."""
    return await asker.ask(ListNamespaces(limit=limit, cursor=cursor), NamespacePage)


@post("/namespaces", tags=["namespaces"], responses=refusals(409, 413))
async def create_namespace(
    asker: NamedDependency[Asker], data: JSONBody[NamespaceBody]
) -> NamespaceMade:
    """Make a namespace; the first action or worker registered in one makes it too."""
    await asker.ask(CreateNamespace(name=data.name), Nothing)
    return NamespaceMade(name=data.name)


@get("/namespaces/{name:str}", tags=["namespaces"], responses=refusals(404))
async def get_namespace(asker: NamedDependency[Asker], name: NamespacePath) -> NamespaceView:
    """A namespace: how many actions and workers it has, and its runs by status."""
    return await asker.ask(GetNamespace(name=name), NamespaceView)


@delete("/namespaces/{name:str}", tags=["namespaces"], responses=refusals(404, 409))
async def delete_namespace(
    asker: NamedDependency[Asker],
    name: NamespacePath,
    force: Annotated[
        bool, QueryParameter(name="force", description="Also if there is something in it.")
    ] = False,
) -> None:
    """Delete a namespace; one that has something in it is 409 `namespace_not_empty`."""
    await asker.ask(DeleteNamespace(name=name, force=force), Nothing)


ROUTES = (list_namespaces, create_namespace, get_namespace, delete_namespace)
