"""What a new workflow run takes from its input: search attributes and the key of its permit."""

from typing import Any

import msgspec

from flo.engine.runs.limits import key_from
from flo.workflow.definition import Definition
from flo.workflow.search import attributes_of


def attributes(definition: Definition, payload: bytes) -> dict[str, Any]:
    """The search attributes of an input."""
    if not definition.search_attributes:
        return {}
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return attributes_of(definition.search_attributes, value)


def limit_key_of(definition: Definition, payload: bytes) -> str | None:
    """The key under which the runs of a workflow are limited; None if they are not."""
    if definition.concurrency is None:
        return None
    return key_from(definition.concurrency.key, payload)
