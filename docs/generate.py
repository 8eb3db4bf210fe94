"""Writes the parts of the reference that follow from the code: `make docs`.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`; a test fails when one
is out of date.
"""

import asyncio
import re
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import click
import msgspec

from flo.cli.app.main import flo
from flo.model.declare.catalog import OPERATIONS
from flo.model.declare.fields import range_of
from flo.model.declare.operation import Permission
from flo.server.auth.roles import ROLES, Role
from flo.server.config import ENVIRONMENT_PREFIX, ServerConfig
from flo.testing.local import local_server
from flo.wire.connection import ClientEnd
from flo.wire.opcodes import FORMS, Form
from flo.workflow.document.schema import json_schema, reference

DOCS = Path(__file__).parent
SCHEMA = DOCS / "reference" / "workflow.schema.json"
PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        path.write_text(generate(text), encoding="utf-8")
    SCHEMA.write_text(workflow_schema(), encoding="utf-8")
    return 0


def generate(text: str) -> str:
    """The same page with its generated parts made anew."""
    return PART.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}{found[3]}", text)


def operations() -> str:
    lines = ["| opcode | operation | request | reply | what it does |", "|--:|---|---|---|---|"]
    for operation in FORMS:
        request, reply = _fields(operation.request), _fields(operation.reply)
        if operation.many:
            request, reply = f"list of: {request}", f"list of: {reply}"
        about = (operation.request.__doc__ or "").strip().partition("\n")[0]
        lines.append(f"| {operation.opcode} | {operation.name} | {request} | {reply} | {about} |")
    return "\n".join(lines) + "\n"


def structures() -> str:
    """What the fields of requests and replies are made of."""
    lines = ["| name | is |", "|---|---|"]
    for kind in _parts_of(FORMS):
        lines.append(f"| {kind.__name__} | {_told(kind)} |")
    return "\n".join(lines) + "\n"


def _parts_of(forms: Iterable[Form]) -> list[type]:
    """The structs and enumerations in the fields of all messages, in the order they are met."""
    met: dict[type, None] = {}
    for form in forms:
        for message in (form.request, form.reply):
            for field in msgspec.structs.fields(message):
                _meet(field.type, met)
    return list(met)


def _meet(kind: Any, met: dict[type, None]) -> None:
    for part in get_args(kind):
        _meet(part, met)
    if not isinstance(kind, type) or kind in met or get_args(kind):
        return
    if issubclass(kind, StrEnum):
        met[kind] = None
    elif issubclass(kind, msgspec.Struct):
        met[kind] = None
        for field in msgspec.structs.fields(kind):
            _meet(field.type, met)


def _told(kind: type[Any]) -> str:
    if issubclass(kind, StrEnum):
        return ", ".join(f"`{one}`" for one in kind)
    config = kind.__struct_config__
    is_array = "an array: " if config.array_like else ""
    tag = f'`{config.tag_field}: "{config.tag}"`, ' if config.tag is not None else ""
    return f"{is_array}{tag}{_fields(kind)}"


def settings() -> str:
    lines = ["| setting | default | in the environment |", "|---|---|---|"]
    for field in msgspec.structs.fields(ServerConfig):
        if isinstance(field.default, msgspec.Struct):
            continue  # tables of the file
        variable = ENVIRONMENT_PREFIX + field.name.upper()
        lines.append(f"| `{field.name}` | `{field.default}` | `{variable}` |")
    return "\n".join(lines) + "\n"


def roles() -> str:
    """Which role has which permission, and for which operations that is asked."""
    names = list(ROLES)
    lines = [
        f"| permission | {' | '.join(names)} | operations |",
        "|---|" + "---|" * (len(names) + 1),
    ]
    for permission in Permission:
        marks = " | ".join(_mark(ROLES[name], permission) for name in names)
        asked = [one.name for one in OPERATIONS if one.permission is permission]
        told = ", ".join(f"`{name}`" for name in asked) or "`GET /metrics`, `GET /api/v1/server`"
        lines.append(f"| `{permission.value}` | {marks} | {told} |")
    return "\n".join(lines) + "\n"


def _mark(role: Role, permission: Permission) -> str:
    if permission in role.permissions:
        return "yes"
    return "own" if permission in role.own else ""


def commands() -> str:
    """What `flo --help` says, and a line for every command there is."""
    context = click.Context(flo, info_name="flo", **flo.context_settings)
    return f"```\n{flo.get_help(context)}\n```\n{''.join(_command_tables(flo, context))}"


def _command_tables(group: click.Group, context: click.Context) -> Iterator[str]:
    """A table of the commands of a group, and then those of the groups in it."""
    parts = {
        name: command
        for name in group.list_commands(context)
        if (command := group.get_command(context, name)) is not None
    }
    leaves = {name: one for name, one in parts.items() if not isinstance(one, click.Group)}
    yield f"\n## {context.command_path}\n\n| command | what it does |\n|---|---|\n"
    for name, command in leaves.items():
        part = click.Context(command, info_name=name, parent=context)
        arguments = (one.make_metavar(part) for one in _arguments(command))
        line = " ".join([context.command_path, name, *arguments]).replace("|", "\\|")
        aliases = "".join(f", `{one}`" for one in getattr(command, "aliases", ()))
        summary = " ".join((command.help or "").partition("\n\n")[0].split())
        yield f"| `{line}`{aliases} | {summary} |\n"
    for name, command in parts.items():
        if isinstance(command, click.Group):
            yield from _command_tables(
                command, click.Context(command, info_name=name, parent=context)
            )


def _arguments(command: click.Command) -> Iterator[click.Argument]:
    return (one for one in command.params if isinstance(one, click.Argument))


def routes() -> str:
    """Every route of the HTTP door, as its own description tells it."""
    lines = ["| method and path | what |", "|---|---|"]
    for path, methods in sorted(openapi()["paths"].items()):
        for method, route in methods.items():
            parameters = [
                one["name"] for one in route.get("parameters", ()) if one["in"] == "query"
            ]
            query = f"?{'&'.join(parameters)}" if parameters else ""
            about = route.get("description") or route.get("summary", "")
            lines.append(f"| {method.upper()} {path} `{query}` | {' '.join(about.split())} |")
    return "\n".join(lines).replace(" `` ", " ") + "\n"


@cache
def openapi() -> dict[str, Any]:
    """What a running server says of itself."""

    async def ask() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            async with local_server(Path(folder)) as server:
                url = f"{server.http_url}/openapi.json"
                return await asyncio.to_thread(lambda: urllib.request.urlopen(url).read())

    document: dict[str, Any] = msgspec.json.decode(asyncio.run(ask()))
    return document


def workflow_schema() -> str:
    """The JSON Schema of workflow documents, for editors."""
    return msgspec.json.format(msgspec.json.encode(json_schema()), indent=2).decode() + "\n"


def hello() -> str:
    _, frame = ClientEnd("").hello()
    return f"```\n{frame.hex(' ')}\n```\n"


def _fields(kind: type[Any]) -> str:
    fields = []
    for field in msgspec.structs.fields(kind):
        has_none = field.default in (msgspec.NODEFAULT, msgspec.UNSET)
        default = "" if has_none else f" = {_shown(field.default)}"
        fields.append(
            f"`{field.encode_name}: {_type_name(field.type)}{_range(field.type)}{default}`"
        )
    return ", ".join(fields) or "–"


def _range(kind: Any) -> str:
    within = range_of(kind)
    if within is None:
        return ""
    return (
        f" (from {within.least})" if within.most is None else f" ({within.least} to {within.most})"
    )


def _type_name(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        return _type_name(get_args(kind)[0])
    if kind in (Any, NoneType):
        return "any" if kind is Any else "None"
    arguments = [_type_name(one) for one in get_args(kind)]
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(one for one in arguments if one != "UnsetType")
    name: str = kind.__name__
    return f"{name}[{', '.join(arguments)}]" if arguments else name


def _shown(value: Any) -> str:
    return str(msgspec.json.encode(value), "utf-8")


PARTS: dict[str, Callable[[], str]] = {
    "operations": operations,
    "structures": structures,
    "roles": roles,
    "hello": hello,
    "settings": settings,
    "commands": commands,
    "routes": routes,
    "workflow_yaml": reference,
}


if __name__ == "__main__":
    sys.exit(main())
