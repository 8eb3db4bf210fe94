"""Read-only answers about keys and values."""

from itertools import islice

from flo.core.json_paths import get_at, parse_document
from flo.core.keys import Keys
from flo.core.moment import Moment
from flo.core.state import State
from flo.model.errors import NotFound
from flo.model.ids import BLOCK_MS_MAX, Key, check_key, check_range
from flo.model.kv import (
    HISTORY_MAX,
    KEYS_PER_GET_MAX,
    SCAN_LIMIT_MAX,
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


def get_key(state: State, question: GetKey, moment: Moment) -> Value:
    check_key(question.key)
    check_range(question.block_ms, "block_ms", 0, BLOCK_MS_MAX)
    return _value(state.space(question.namespace).kv, question.key, moment)


def get_keys(state: State, question: GetKeys, moment: Moment) -> Values:
    check_range(len(question.keys), "the number of keys", 1, KEYS_PER_GET_MAX)
    keys = state.space(question.namespace).kv
    return Values(items=[_value(keys, key, moment) for key in question.keys])


def get_json(state: State, question: GetJson, moment: Moment) -> Value:
    known = state.space(question.namespace).kv.get(question.key, moment.now_ms)
    if known is None:
        raise NotFound(f"key {question.key!r} does not exist", code="key_not_found")
    found = get_at(parse_document(known.value, "the document"), question.path)
    return Value(value=found, version=known.version, expires_at_ms=known.expires_at_ms)


def scan_keys(state: State, question: ScanKeys, moment: Moment) -> KeyPage:
    check_range(question.limit, "limit", 1, SCAN_LIMIT_MAX)
    keys = state.space(question.namespace).kv
    items: list[KeyView] = []
    length = 0
    found = (
        key
        for key in keys.with_prefix(question.prefix, question.cursor)
        if keys.get(key, moment.now_ms) is not None
    )
    page = list(islice(found, question.limit + 1))
    for key in page[: question.limit]:
        known = keys[key]
        value = known.value if question.with_values else None
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


def get_key_history(state: State, question: GetKeyHistory, moment: Moment) -> KeyHistory:
    check_range(question.limit, "limit", 1, HISTORY_MAX + 1)
    known = state.space(question.namespace).kv.get(question.key, moment.now_ms)
    if known is None:
        raise NotFound(f"key {question.key!r} does not exist", code="key_not_found")
    now = VersionView(version=known.version, at_ms=known.at_ms, value=known.value)
    older = [
        VersionView(version=one.version, at_ms=one.at_ms, value=one.value) for one in known.history
    ]
    return KeyHistory(items=[now, *older][: question.limit])


def _value(keys: Keys, key: Key, moment: Moment) -> Value:
    known = keys.get(key, moment.now_ms)
    if known is None:
        return Value()
    return Value(value=known.value, version=known.version, expires_at_ms=known.expires_at_ms)
