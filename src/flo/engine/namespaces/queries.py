"""Queries about namespaces."""

from bisect import insort
from collections import Counter

import msgspec

from flo.engine.context import Context
from flo.engine.lists.paging import page_of
from flo.engine.namespaces.rules import named_namespace
from flo.engine.state import Space, State
from flo.model.ids import NAMESPACE_DEFAULT, Namespace
from flo.model.namespaces import GetNamespace, ListNamespaces, NamespacePage, NamespaceView
from flo.model.runs import RunStatus


def get_namespace(state: State, query: GetNamespace, context: Context) -> NamespaceView:
    return _namespace_view(query.name, named_namespace(state, query.name))


def list_namespaces(state: State, query: ListNamespaces, context: Context) -> NamespacePage:
    names, cursor = page_of(state.spaces, query)
    if NAMESPACE_DEFAULT not in state.spaces:  # it is always there
        is_ahead = query.cursor is None or query.cursor < NAMESPACE_DEFAULT
        if is_ahead and (cursor is None or cursor > NAMESPACE_DEFAULT):
            insort(names, NAMESPACE_DEFAULT)
        if len(names) > query.limit:
            names, cursor = names[: query.limit], names[query.limit - 1]
    views = [_namespace_view(name, state.space(name)) for name in names]
    return NamespacePage(items=views, cursor=cursor)


def _namespace_view(name: Namespace, space: Space) -> NamespaceView:
    runs = Counter[str]()
    for tally in space.tallies.values():
        runs.update(msgspec.structs.asdict(tally))
    return NamespaceView(
        name=name,
        created_at_ms=space.created_at_ms,
        actions=len(space.actions),
        workers=len(space.workers),
        runs={status.value: runs[status.value] for status in RunStatus},
        streams=len(space.streams),
        keys=len(space.kv),
    )
