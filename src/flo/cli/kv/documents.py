"""flo kv json-get, json-set, json-del: a part of a JSON document under a key."""

from typing import Any

import msgspec

from flo.cli.app.derive import operation_command, plain_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import show, to_json
from flo.cli.app.parameters import Argument
from flo.cli.app.payload import JSON
from flo.cli.kv.options import PATH_FLAG, ROUTING_FLAG, VERSION_FLAG
from flo.core.printable import printable
from flo.model.kv import DeleteJson, GetJson, SetJson


@operation_command(
    "json-get",
    GetJson,
    "key",
    PATH_FLAG,
    ROUTING_FLAG,
    examples=["flo kv json-get user:1", "flo kv json-get user:1 --path '$.name'"],
)
def json_get(settings: GlobalSettings, query: GetJson) -> None:
    """Print what is at a path in the JSON document under KEY."""
    value: Any = msgspec.json.decode(settings.call(query).value or b"null")
    text = to_json(value, indent=-1)
    fields = {"key": query.key, "path": query.path, "value": value}
    show(settings.format, fields, text=printable(text), raw=text)


json_set = plain_command(
    "json-set",
    SetJson,
    "key",
    Argument("document", "JSON", type=JSON),
    PATH_FLAG,
    VERSION_FLAG,
    ROUTING_FLAG,
    text="OK",
    raw="{reply.version}",
    json=["key", "reply.version"],
    examples=[
        'flo kv json-set user:2 \'{"name":"Bob","tags":[]}\'',
        "flo kv json-set user:1 '\"Alice B.\"' --path '$.name'",
    ],
    more="JSON is the text itself; `-` reads it from stdin, `@file` from a file.",
)

json_delete = plain_command(
    "json-del",
    DeleteJson,
    "key",
    PATH_FLAG,
    VERSION_FLAG,
    ROUTING_FLAG,
    text="OK",
    raw="{reply.version}",
    json=["key", "reply.version"],
    examples=["flo kv json-del user:1 --path '$.name'", "flo kv json-del user:1"],
)
