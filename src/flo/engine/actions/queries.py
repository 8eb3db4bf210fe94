"""Queries about actions."""

from typing import Any

import msgspec

from flo.engine.actions.records import Action
from flo.engine.actions.rules import named_action
from flo.engine.context import Context
from flo.engine.lists.paging import page_of
from flo.engine.state import NO_RUNS, Space, State
from flo.model.actions import ActionPage, ActionView, GetAction, LimitsView, ListActions
from flo.model.blocks.names import JOB_PREFIX
from flo.model.ids import Namespace
from flo.model.views.since import since_view


def get_action(state: State, query: GetAction, context: Context) -> ActionView:
    space = state.space(query.namespace)
    return _action_view(query.namespace, space, named_action(space, query.name))


def list_actions(state: State, query: ListActions, context: Context) -> ActionPage:
    space = state.space(query.namespace)
    names, cursor = page_of(space.actions, query, fits=_is_own)
    views = [_action_view(query.namespace, space, space.actions[name]) for name in names]
    return ActionPage(items=views, cursor=cursor)


def _is_own(action: Action) -> bool:
    """Whether somebody has registered it; those of blocks are shown with their blocks."""
    return not action.name.startswith(JOB_PREFIX)


def _action_view(namespace: Namespace, space: Space, action: Action) -> ActionView:
    tally = space.tallies.get(action.name, NO_RUNS)
    return ActionView(
        name=action.name,
        namespace=namespace,
        type="user" if action.guest is None else "wasm",
        timeout_ms=action.timeout_ms,
        max_retries=action.max_retries,
        retry_delay_ms=action.retry_delay_ms,
        description=action.description,
        version=action.version,
        enabled=action.enabled,
        created_at_ms=action.created_at_ms,
        updated_at_ms=action.updated_at_ms,
        runs=msgspec.structs.asdict(tally),
        input_schema=_schema_view(action.input_schema),
        output_schema=_schema_view(action.output_schema),
        wasm_digest=action.guest.digest if action.guest else None,
        wasm_entrypoint=action.guest.entrypoint if action.guest else None,
        wasm_memory_limit=action.guest.memory_pages if action.guest else None,
        limits=LimitsView(**msgspec.structs.asdict(action.limits)) if action.limits else None,
        disabled_since=since_view(action.disabled_since),
        secrets=list(action.secrets),
    )


def _schema_view(schema: str | None) -> dict[str, Any] | None:
    return msgspec.json.decode(schema, type=dict[str, Any]) if schema is not None else None
