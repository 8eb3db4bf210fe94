"""The page of the API: an OpenAPI document as plain HTML, with nothing to load and no script."""

from html import escape
from itertools import groupby
from typing import Any, NamedTuple

STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; text-transform: capitalize }
details { border-top: 1px solid #8884; padding: .4rem 0 }
summary { cursor: pointer }
summary b { display: inline-block; min-width: 4.5rem }
summary span, td:last-child { opacity: .75 }
code, pre { font: 13px/1.5 ui-monospace, monospace }
td { padding: .1rem 1rem .1rem 0; vertical-align: top }
"""


class DocsPaths(NamedTuple):
    """One operation and where it is found."""

    tag: str
    path: str
    method: str
    operation: dict[str, Any]


def render(document: dict[str, Any]) -> str:
    info = document["info"]
    title = f"{info['title']} {info['version']}"
    places = sorted(
        DocsPaths(operation["tags"][0], path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    )
    sections = [
        f"<h2>{escape(tag)}</h2>{''.join(_operation(place) for place in found)}"
        for tag, found in groupby(places, key=lambda place: place.tag)
    ]
    schemas = document["components"]["schemas"].items()
    bodies = "".join(_schema(name, schema) for name, schema in sorted(schemas))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f"<h1>{escape(title)}</h1>{_text(info['description'])}"
        f'<p><a href="/openapi.json">openapi.json</a></p>'
        f"{''.join(sections)}<h2>bodies</h2>{bodies}</html>"
    )


def _operation(place: DocsPaths) -> str:
    operation = place.operation
    parameters = [
        _row(f"{parameter['name']} ({parameter['in']})", parameter.get("description", ""))
        for parameter in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {})
    bodies = [
        _row(f"body, {kind}", f"{_type(content['schema'])} {body.get('description', '')}")
        for kind, content in body.get("content", {}).items()
    ]
    answers = [
        _row(status, f"{answer['description']} {_content(answer)}")
        for status, answer in sorted(operation["responses"].items())
    ]
    return (
        f"<details><summary><b>{place.method.upper()}</b> <code>{escape(place.path)}</code> "
        f"<span>{escape(operation['summary'])}</span></summary>{_text(operation['description'])}"
        f"<table>{''.join(parameters + bodies + answers)}</table></details>"
    )


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = [
        _row(field, f"{_type(of)}{_default(of)}")
        for field, of in schema.get("properties", {}).items()
    ]
    values = ", ".join(map(str, schema.get("enum", ())))
    return (
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        f"{_text(schema.get('description', ''))}{_text(values)}"
        f"<table>{''.join(rows)}</table></details>"
    )


def _content(answer: dict[str, Any]) -> str:
    return " ".join(_type(content["schema"]) for content in (answer.get("content") or {}).values())


def _type(schema: dict[str, Any]) -> str:
    match schema:
        case {"$ref": reference}:
            return str(reference).rpartition("/")[2]
        case {"anyOf": choices} | {"oneOf": choices}:
            return " or ".join(_type(choice) for choice in choices)
        case {"enum": values}:
            return " or ".join(str(value) for value in values)
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case {"type": "object", "additionalProperties": dict() as values}:
            return f"object of {_type(values)}"
        case {"type": str() as name}:
            return name
        case _:
            return "anything"


def _default(schema: dict[str, Any]) -> str:
    return f" = {schema['default']!r}" if "default" in schema else ""


def _row(name: str, about: str) -> str:
    return f"<tr><td><code>{escape(name)}</code><td>{escape(about)}"


def _text(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""
