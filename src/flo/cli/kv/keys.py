"""flo kv ..."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import operation_command, plain_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import Columns, payload_text, show, show_list, time_text
from flo.cli.app.pages import LIMIT_DEFAULT, collect, page_options
from flo.cli.app.parameters import Flag
from flo.cli.app.payload import Seconds
from flo.cli.kv.documents import json_delete, json_get, json_set
from flo.cli.kv.get import exists, get, get_many
from flo.cli.kv.options import (
    ROUTING_FLAG,
    TRANSACTION,
    TRANSACTION_FLAG,
    TTL_FLAG,
    VERSION_FLAG,
)
from flo.cli.kv.values import key_json, version_json
from flo.model.kv import (
    BeginTransaction,
    CommitTransaction,
    DeleteKey,
    ExpireKey,
    GetKeyHistory,
    IncrementKey,
    KeyView,
    PutKey,
    RollbackTransaction,
    ScanKeys,
    VersionView,
)

VALUE_SHOWN_MAX = 60

KEY_COLUMNS: Columns[KeyView] = {
    "KEY": lambda view: view.key,
    "VERSION": lambda view: view.version,
    "CHANGED": lambda view: time_text(view.at_ms),
    "EXPIRES": lambda view: time_text(view.expires_at_ms),
}

VALUE_COLUMN: Columns[KeyView] = {
    "VALUE": lambda view: payload_text(view.value)[:VALUE_SHOWN_MAX],
}

VERSION_COLUMNS: Columns[VersionView] = {
    "VERSION": lambda view: view.version,
    "CHANGED": lambda view: time_text(view.at_ms),
    "VALUE": lambda view: payload_text(view.value)[:VALUE_SHOWN_MAX],
}


@click.group(
    cls=CommandGroup,
    examples=[
        'flo kv set user:1 \'{"name":"Alice"}\'',
        "flo kv get user:1",
        "flo kv list --prefix user:",
    ],
)
def kv() -> None:
    """Keep values under keys, with versions."""


@operation_command(
    "delete",
    DeleteKey,
    "key",
    VERSION_FLAG,
    ROUTING_FLAG,
    TRANSACTION_FLAG,
    examples=["flo kv delete user:1"],
    aliases=["del"],
)
def delete(settings: GlobalSettings, command: DeleteKey) -> None:
    """Delete KEY. It is no error if it does not exist."""
    existed = settings.call(command).existed
    value = {"key": command.key, "existed": existed}
    if command.transaction is not None:
        show(settings.format, {**value, "existed": None}, text="OK", raw="")
        return
    text = f"Deleted key: {command.key}" if existed else "(no such key)"
    show(settings.format, value, text=text, raw="1" if existed else "0")


@operation_command(
    "list",
    ScanKeys,
    "prefix",
    Flag("with_values", "--values"),
    *page_options(LIMIT_DEFAULT),
    examples=["flo kv list --prefix user:", "flo kv list --values --format json"],
    aliases=["ls", "scan"],
)
def list_keys(settings: GlobalSettings, query: ScanKeys) -> None:
    """List the keys, in order."""
    with settings.connect() as flo:
        keys, cursor = collect(flo.call, query, query.limit)
    show_list(
        settings.format,
        keys,
        {**KEY_COLUMNS, **VALUE_COLUMN} if query.with_values else KEY_COLUMNS,
        none="no keys",
        cursor=cursor,
        to_value=lambda view: key_json(view, query.with_values),
    )


@operation_command(
    "history",
    GetKeyHistory,
    "key",
    Flag("limit", "-l"),
    ROUTING_FLAG,
    examples=["flo kv history user:1 --limit 5"],
    aliases=["hist"],
)
def history(settings: GlobalSettings, query: GetKeyHistory) -> None:
    """List the values that KEY has had since it was made, the newest first."""
    show_list(
        settings.format,
        settings.call(query).items,
        VERSION_COLUMNS,
        none="no versions",
        cursor=None,
        to_value=version_json,
    )


kv.add(
    get,
    plain_command(
        "set",
        PutKey,
        "key",
        "value",
        TTL_FLAG,
        Flag("if_absent", "--nx"),
        Flag("if_present", "--xx"),
        VERSION_FLAG,
        ROUTING_FLAG,
        TRANSACTION_FLAG,
        text="OK",
        raw="{reply.version}",
        json=["key", "reply.version"],
        examples=[
            'flo kv set user:1 \'{"name":"Alice"}\'',
            "flo kv set session:7 @order.json --ttl 3600",
            "flo kv set lock:report worker-1 --nx --ttl 30",
            "flo kv set counter 10 --cas 0",
            "flo kv set temperature -- -5",
        ],
        more="""VALUE is any text, usually JSON; `-` reads it from stdin, `@file` from a file, and
        what begins with a dash stands behind `--`. A condition that is not met is refused, and
        nothing changes.""",
    ),
    get_many,
    delete,
    list_keys,
    history,
    plain_command(
        "incr",
        IncrementKey,
        "key",
        Flag("delta", "-b", "--by"),
        ROUTING_FLAG,
        TRANSACTION_FLAG,
        text=lambda sum: "OK" if sum.value is None else f"{sum.value}",
        raw="{reply.value}",
        json=["key", "reply.value"],
        examples=["flo kv incr visits", "flo kv incr visits --by -5"],
    ),
    plain_command(
        "touch",
        ExpireKey,
        "key",
        Flag(
            "ttl_ms",
            "--ttl",
            type=Seconds(min=0, min_open=True),
            metavar="SECONDS",
            required=True,
            help="How long it stays, in seconds.",
        ),
        ROUTING_FLAG,
        text="OK",
        raw="",
        json=["key", "ttl_ms"],
        examples=["flo kv touch user:1 --ttl 3600"],
        help="Let KEY expire later, or at all; its value and its version stay.",
    ),
    plain_command(
        "persist",
        ExpireKey,
        "key",
        ROUTING_FLAG,
        text="OK",
        raw="",
        json=["key", "ttl_ms"],
        examples=["flo kv persist user:1"],
        help="Let KEY stay for good.",
    ),
    exists,
    json_get,
    json_set,
    json_delete,
    plain_command(
        "begin",
        BeginTransaction,
        ROUTING_FLAG,
        text="Began transaction: {reply.transaction}",
        raw="{reply.transaction}",
        examples=["flo kv begin", "flo kv begin --format raw"],
        more="""Commands that name its number with --txn are kept until the commit, and nobody sees
        any of them before. In a shell: `TXN=$(flo kv begin -o raw)`.""",
    ),
    plain_command(
        "commit",
        CommitTransaction,
        TRANSACTION,
        text="Committed {reply.changes:change(s)}",
        raw="{reply.version}",
        examples=["flo kv commit $TXN"],
    ),
    plain_command(
        "rollback",
        RollbackTransaction,
        TRANSACTION,
        text="Rolled back transaction: {transaction}",
        examples=["flo kv rollback $TXN"],
    ),
)
