"""Queries about tokens."""

from flo.engine.access.views import view_of
from flo.engine.context import Context
from flo.engine.lists.paging import page_of
from flo.engine.state import State
from flo.model.access.tokens import ListTokens, TokenPage


def list_tokens(state: State, query: ListTokens, context: Context) -> TokenPage:
    names, cursor = page_of(state.tokens.by_name, query)
    views = [view_of(state.tokens.by_name[name], context) for name in names]
    return TokenPage(items=views, cursor=cursor)
