"""JSON Schemas of inputs and outputs, from the types that programs have anyway.

Pydantic models are known by their methods, so that nobody needs pydantic who does not use it.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from flo.model.errors import Invalid

Schema: TypeAlias = Mapping[str, Any] | type
"""A JSON Schema, or a type that has one: a msgspec struct, a dataclass, a pydantic model."""


def schema_of(schema: Schema | None, what: str) -> dict[str, Any] | None:
    if schema is None:
        return None
    if isinstance(schema, Mapping):
        return dict(schema)
    try:
        if hasattr(schema, "model_json_schema"):
            return dict(schema.model_json_schema())
        return msgspec.json.schema(schema)
    except TypeError as error:
        raise Invalid(
            f"expected {what} as a JSON Schema, or a type that has one: {error}",
            code="invalid_schema",
        ) from error
