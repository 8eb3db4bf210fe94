"""What the bytes of a payload mean to templates, mappings and joins: JSON, else text."""

from typing import Any

import msgspec


def value_of(payload: bytes) -> Any:
    """The JSON in a payload; text that is none stays text, and nothing is null."""
    if not payload:
        return None
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return as_text(payload)


def as_text(payload: bytes) -> str:
    return payload.decode(errors="replace")
