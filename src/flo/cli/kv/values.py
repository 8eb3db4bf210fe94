"""Values of keys as programs see them."""

from typing import Any

from flo.model.declare.payload import payload_to_json
from flo.model.ids import Key
from flo.model.kv import KeyView, Value, VersionView


def value_json(key: Key, value: Value) -> dict[str, Any]:
    """What programs see of a key; the version of one that does not exist is 0."""
    shown, encoding = _value_json(value.value)
    return {
        "key": key,
        "value": shown,
        "value_encoding": encoding,
        "version": value.version,
        "expires_at": value.expires_at_ms,
    }


def key_json(view: KeyView, with_values: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "key": view.key,
        "version": view.version,
        "at_ms": view.at_ms,
        "expires_at": view.expires_at_ms,
    }
    if with_values:
        fields["value"], fields["value_encoding"] = _value_json(view.value)
    return fields


def version_json(view: VersionView) -> dict[str, Any]:
    shown, encoding = _value_json(view.value)
    return {
        "version": view.version,
        "at_ms": view.at_ms,
        "value": shown,
        "value_encoding": encoding,
    }


def _value_json(value: bytes | None) -> tuple[Any, str | None]:
    """As a payload, but that nothing is something else than no key."""
    return ("", "text") if value == b"" else payload_to_json(value)
