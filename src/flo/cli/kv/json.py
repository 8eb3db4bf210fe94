"""flo kv json-get, json-set, json-del: a part of a JSON document under a key."""

import click
import msgspec

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import show, to_json
from flo.cli.app.payload import read_payload
from flo.cli.app.printable import printable
from flo.cli.kv.options import cas_flag, path_flag, routing_flag, show_version
from flo.model.ids import Key


@click.command(
    "json-get",
    cls=FloCommand,
    examples=["flo kv json-get user:1", "flo kv json-get user:1 --path '$.name'"],
)
@click.argument("key")
@path_flag
@routing_flag
@pass_settings
def json_get(settings: GlobalSettings, key: Key, path: str) -> None:
    """Print what is at a path in the JSON document under KEY."""
    with settings.connect() as flo:
        value = flo.kv.get_json(key, path)
    text = to_json(value, indent=-1)
    fields = {"key": key, "path": path, "value": value}
    show(settings.format, fields, text=printable(text), raw=text)


@click.command(
    "json-set",
    cls=FloCommand,
    examples=[
        'flo kv json-set user:2 \'{"name":"Bob","tags":[]}\'',
        "flo kv json-set user:1 '\"Alice B.\"' --path '$.name'",
    ],
)
@click.argument("key")
@click.argument("value", metavar="JSON")
@path_flag
@cas_flag
@routing_flag
@pass_settings
def json_set(
    settings: GlobalSettings, key: Key, value: str, path: str, if_version: int | None
) -> None:
    """Set what is at a path in the JSON document under KEY.

    `$` is all of it, and makes the key if need be. JSON is the text itself; `-` reads it from
    stdin, `@file` from a file.
    """
    document = _read_json(value)
    with settings.connect() as flo:
        version = flo.kv.set_json(key, document, path, if_version=if_version)
    show_version(settings, key, version)


@click.command(
    "json-del",
    cls=FloCommand,
    examples=["flo kv json-del user:1 --path '$.name'", "flo kv json-del user:1"],
)
@click.argument("key")
@path_flag
@cas_flag
@routing_flag
@pass_settings
def json_delete(settings: GlobalSettings, key: Key, path: str, if_version: int | None) -> None:
    """Delete what is at a path in the JSON document under KEY; `$` deletes the key."""
    with settings.connect() as flo:
        version = flo.kv.delete_json(key, path, if_version=if_version)
    show_version(settings, key, version)


def _read_json(text: str) -> bytes:
    payload = read_payload(text)
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(f"expected JSON: {error}; a text stands in quotes") from error
    return payload
