"""Definition to text: the document that means the same, with every default left out."""

from enum import StrEnum
from typing import Any

import msgspec

from flo.model.base import Record
from flo.workflow.definition import Definition
from flo.workflow.document.fields import Field, fields_of
from flo.workflow.graph import join_text
from flo.workflow.steps import JOIN_ANY, ParallelBranch, Target


def render(definition: Definition) -> str:
    """The definition as JSON, which is YAML too; parse() gives the same definition back."""
    return msgspec.json.format(msgspec.json.encode(document_of(definition)), indent=2).decode()


def document_of(definition: Definition) -> dict[str, Any]:
    """The definition as plain values, as the document writes them."""
    return {"kind": "Workflow", **_struct(definition)}


def _struct(record: Record) -> dict[str, Any]:
    return {
        field.key: _value(getattr(record, field.name), field)
        for field in fields_of(type(record))
        if field.required or getattr(record, field.name) != field.default
    }


def _value(value: Any, field: Field) -> Any:
    match value:
        case _ if field.kind.word == "join":
            return value if value > JOIN_ANY else join_text(value)
        case Target():
            return str(value)
        case ParallelBranch():
            return {"start": _struct(value.start), "steps": _table(value.steps, field)}
        case Record():
            return _struct(value)
        case dict():
            return _table(value, field)
        case tuple():
            return [_value(inner, field) for inner in value]
        case StrEnum():
            return value.value
        case _:
            return value


def _table(table: dict[str, Any], field: Field) -> dict[str, Any]:
    return {name: _value(inner, field) for name, inner in table.items()}
