"""Queries about keys and values."""

from itertools import islice

from flo.engine.context import Context
from flo.engine.kv.json_paths import get_at, parse_document
from flo.engine.kv.keys import Keys
from flo.engine.state import State
from flo.model.errors import NotFound
from flo.model.ids import Key
from flo.model.kv import (
    GetJson,
    GetKey,
    GetKeyHistory,
    GetKeys,
    KeyHistory,
    KeyPage,
    KeyView,
    ScanKeys,
    Value,
    Values,
    VersionView,
)

VALUES_PER_ANSWER_LENGTH_MAX = 4 * 1024 * 1024


def get_key(state: State, query: GetKey, context: Context) -> Value:
    return _value(state.space(query.namespace).kv, query.key, context)


def get_keys(state: State, query: GetKeys, context: Context) -> Values:
    keys = state.space(query.namespace).kv
    return Values(items=[_value(keys, key, context) for key in query.keys])


def get_json(state: State, query: GetJson, context: Context) -> Value:
    known = state.space(query.namespace).kv.get(query.key, context.now_ms)
    if known is None:
        raise NotFound(f"key {query.key!r} does not exist", code="key_not_found")
    found = get_at(parse_document(known.value, "the document"), query.path)
    return Value(value=found, version=known.version, expires_at_ms=known.expires_at_ms)


def scan_keys(state: State, query: ScanKeys, context: Context) -> KeyPage:
    keys = state.space(query.namespace).kv
    items: list[KeyView] = []
    length = 0
    found = (
        key
        for key in keys.with_prefix(query.prefix, query.cursor)
        if keys.get(key, context.now_ms) is not None
    )
    page = list(islice(found, query.limit + 1))
    for key in page[: query.limit]:
        known = keys[key]
        value = known.value if query.with_values else None
        length += len(value or b"")
        if length > VALUES_PER_ANSWER_LENGTH_MAX and items:
            break
        items.append(
            KeyView(
                key=key,
                version=known.version,
                at_ms=known.at_ms,
                expires_at_ms=known.expires_at_ms,
                value=value,
            )
        )
    return KeyPage(items=items, cursor=items[-1].key if len(page) > len(items) else None)


def get_key_history(state: State, query: GetKeyHistory, context: Context) -> KeyHistory:
    known = state.space(query.namespace).kv.get(query.key, context.now_ms)
    if known is None:
        raise NotFound(f"key {query.key!r} does not exist", code="key_not_found")
    now = VersionView(version=known.version, at_ms=known.at_ms, value=known.value)
    older = [
        VersionView(version=one.version, at_ms=one.at_ms, value=one.value) for one in known.history
    ]
    return KeyHistory(items=[now, *older][: query.limit])


def _value(keys: Keys, key: Key, context: Context) -> Value:
    known = keys.get(key, context.now_ms)
    if known is None:
        return Value()
    return Value(value=known.value, version=known.version, expires_at_ms=known.expires_at_ms)
