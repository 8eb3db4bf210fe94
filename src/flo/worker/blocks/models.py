"""The type of a block's parameters or of its result: its schema, and how values are read as it.

Pydantic models are known by their methods, so that nobody needs pydantic who does not use it.
"""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_type_hints

import msgspec

from flo.client.payloads.schema import schema_of
from flo.model.errors import Invalid
from flo.worker.blocks.values import Partial

_DEFINITIONS = "#/$defs/"
_MISSING: Any = object()


class ModelField(NamedTuple):
    name: str
    """As it travels."""
    attribute: str
    type: Any
    default: Any


class ValueType:
    """`type` is None where a block has not said what it takes: then anything is taken."""

    def __init__(self, type: Any, what: str) -> None:
        self.type = None if type in (None, Any, inspect.Parameter.empty) else type
        self.schema = _flat(schema_of(self.type, what)) if self.type is not None else None

    def read(self, value: Any) -> Any:
        """The value as this type; Invalid says what is wrong with it."""
        if self.type is None:
            return value
        try:
            return read_as(value, self.type)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            raise Invalid(str(error), code="invalid_parameters") from error

    def read_partial(self, raw: Mapping[str, Any], unresolved: frozenset[str]) -> Partial[Any]:
        """What can be read; what is missing, null or wrong is not resolved yet."""
        if self.type is None or not (fields := tuple(_fields_of(self.type))):
            return Partial(dict(raw), unresolved, raw)
        values: dict[str, Any] = {}
        open_fields = set(unresolved)
        for field in fields:
            try:
                values[field.attribute] = read_as(raw[field.name], field.type)
            except (KeyError, msgspec.ValidationError, ValueError, TypeError):
                values[field.attribute] = None if field.default is _MISSING else field.default
                open_fields.add(field.attribute)
        return Partial(values, frozenset(open_fields), raw)


def read_as(value: Any, type: Any) -> Any:
    if hasattr(type, "model_validate"):
        return type.model_validate(value)
    return msgspec.convert(value, type, dec_hook=_read_model)


def plain(value: Any) -> Any:
    """The value as JSON has it."""
    return msgspec.to_builtins(value, enc_hook=_dump_model)


def _read_model(type: Any, value: Any) -> Any:
    if hasattr(type, "model_validate"):
        return type.model_validate(value)
    raise TypeError(f"a value cannot be read as {getattr(type, '__name__', type)}")


def _dump_model(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"expected what JSON can hold, got {type(value).__name__}")


def _flat(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema with the object itself on top, where its required fields are looked for."""
    if schema is None:
        return None
    definitions = dict(schema.get("$defs", {}))
    reference = schema.get("$ref", "")
    if reference.startswith(_DEFINITIONS):
        name = reference.removeprefix(_DEFINITIONS)
        schema = dict(definitions[name])
        if f'"{reference}"'.encode() not in msgspec.json.encode([schema, *definitions.values()]):
            del definitions[name]
        if definitions:
            schema["$defs"] = definitions
    return {key: value for key, value in schema.items() if key != "title"}


def _fields_of(type: Any) -> Iterator[ModelField]:
    if isinstance(type, msgspec.StructMeta) and issubclass(type, msgspec.Struct):
        for field in msgspec.structs.fields(type):
            default = field.default if field.default is not msgspec.NODEFAULT else _MISSING
            if field.default_factory is not msgspec.NODEFAULT:
                default = field.default_factory()
            yield ModelField(field.encode_name, field.name, field.type, default)
    elif dataclasses.is_dataclass(type):
        hints = get_type_hints(type, include_extras=True)
        for one in dataclasses.fields(type):
            default = one.default if one.default is not dataclasses.MISSING else _MISSING
            if one.default_factory is not dataclasses.MISSING:
                default = one.default_factory()
            yield ModelField(one.name, one.name, hints[one.name], default)
    elif hasattr(type, "model_fields"):
        for name, info in type.model_fields.items():
            default = (
                _MISSING if info.is_required() else info.get_default(call_default_factory=True)
            )
            yield ModelField(info.alias or name, name, info.annotation, default)
