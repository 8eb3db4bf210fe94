"""The API described: OpenAPI from the routes themselves, and the page to read it on."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import msgspec
from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from flo.model.ids import IDEMPOTENCY_KEY_LENGTH_MAX
from flo.server.http.openapi.page import render

ABOUT = """\
JSON in, JSON out. `?namespace=` on everything that lives in a namespace. Times are milliseconds \
since the epoch. Lists are paged: `{"items": [...], "cursor": null | "..."}`. Errors are \
`{"error": {"code", "message", "details"}}`; programs can rely on the code. A payload that its \
JSON Schema refuses is a bad request like any other: 400, with the code `input_invalid` or \
`output_invalid`, and `details.problems` says where and why. Payloads are JSON as JSON, other \
text as text and other bytes in base64; the `..._encoding` beside a payload says which. A key may \
have slashes; if it ends in /history, /increment, /expire or /json, write %2F for that slash.
"""


CHANGING = frozenset({"post", "put", "patch", "delete"})
KEY_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same request with the same key is carried out once within a day.",
    "schema": {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LENGTH_MAX},
}


class Description:
    """Made when it is first asked for; `build` makes the application that it describes."""

    def __init__(self, build: Callable[..., Litestar], version: str) -> None:
        self._build = build
        self._version = version

    @cached_property
    def document(self) -> dict[str, Any]:
        """OpenAPI 3.1."""
        config = OpenAPIConfig(
            title="Flo",
            version=self._version,
            description=ABOUT,
            use_handler_docstrings=True,
            operation_id_creator=lambda handler, method, path: handler.handler_name,
            render_plugins=[JsonRenderPlugin()],
        )
        app = self._build(openapi_config=config)  # never served: it has routes for the plugin
        document: dict[str, Any] = app.openapi_schema.to_schema()
        for path in document["paths"].values():
            for operation in path.values():
                operation["summary"] = operation["operationId"].replace("_", " ").capitalize()
            for method in CHANGING & path.keys():
                _add_key_header(path[method])
        document["components"]["schemas"] = _schemas(app)
        return document

    @cached_property
    def page(self) -> str:
        return render(self.document)


def _add_key_header(operation: dict[str, Any]) -> None:
    parameters = operation.setdefault("parameters", [])
    if all(one["name"] != KEY_HEADER["name"] for one in parameters):
        parameters.append(KEY_HEADER)


def _schemas(app: Litestar) -> dict[str, Any]:
    """The bodies and answers by name.

    Litestar names them alike but leaves out what their docstrings say, and its `oneOf` fits no
    integer where a number is allowed too.
    """
    template = "#/components/schemas/{name}"
    _, schemas = msgspec.json.schema_components(list(_types_in(app)), ref_template=template)
    for name, schema in schemas.items():
        if not name.endswith("Body"):  # an answer may have more fields one day, a body may not
            schema.pop("additionalProperties", None)
    return schemas


def _types_in(app: Litestar) -> Iterator[Any]:
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            if isinstance(handler, HTTPRouteHandler) and handler.resolve_include_in_schema():
                answer = handler.parsed_fn_signature.return_type
                yield answer.inner_types[0].raw if answer.origin is Response else answer.raw
                if handler.parsed_data_field is not None:
                    yield handler.parsed_data_field.annotation
                for spec in (handler.responses or {}).values():
                    yield spec.data_container
