"""flo kv get, mget, exists: what is under a key, now or once it is there."""

from typing import TYPE_CHECKING

import click

from flo.cli.app.derive import operation_command
from flo.cli.app.errors import NOT_FOUND
from flo.cli.app.options import Format, GlobalSettings
from flo.cli.app.output import Columns, payload_text, show, show_list
from flo.cli.app.parameters import Argument
from flo.cli.kv.options import ROUTING_FLAG, TRANSACTION_FLAG
from flo.cli.kv.values import value_json
from flo.core.printable import printable
from flo.model.errors import NotFound, TimedOut
from flo.model.ids import Key
from flo.model.kv import GetKey, GetKeys, Value

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo


@operation_command(
    "get",
    GetKey,
    "key",
    click.Option(["-w", "--wait"], is_flag=True, help="Wait until the key exists."),
    click.Option(
        ["-b", "--block", "timeout_ms"],
        type=click.IntRange(min=0),
        metavar="MS",
        help="How long to wait at most, in milliseconds.  [default: for ever, with --wait]",
    ),
    click.Option(
        ["--newer-than"],
        type=click.IntRange(min=0),
        metavar="VERSION",
        help="Wait until its version is another one.",
    ),
    ROUTING_FLAG,
    TRANSACTION_FLAG,
    examples=[
        "flo kv get user:1",
        "flo kv get user:1 --format json",
        "flo kv get user:1 --wait --block 5000",
    ],
)
def get(
    settings: GlobalSettings,
    query: GetKey,
    wait: bool,
    timeout_ms: int | None,
    transaction: int | None,
) -> None:
    """Print the value of KEY; where there is none, the exit code is 1."""
    waits = wait or bool(timeout_ms) or query.newer_than is not None
    if waits and transaction is not None:
        raise click.UsageError("a transaction does not wait: --txn goes without --wait")
    with settings.connect() as flo:
        if waits:
            value = _wait(flo, query.key, query.newer_than, timeout_ms)
        else:
            value = flo.kv.get(query.key, transaction=transaction)
    if value.value is None:
        raise NotFound(f"key {query.key!r} does not exist", code="key_not_found")
    text = printable(payload_text(value.value))
    show(settings.format, value_json(query.key, value), text=text, raw=value.value)


@operation_command(
    "mget",
    GetKeys,
    Argument("keys", "KEY"),
    ROUTING_FLAG,
    examples=["flo kv mget user:1 user:2 nobody"],
)
def get_many(settings: GlobalSettings, query: GetKeys) -> None:
    """Print the values of several keys, as they are at one moment.

    With --format raw there is a value in each line, and none in that of a key that does not exist.
    """
    with settings.connect() as flo:
        values = flo.kv.get_many(query.keys)
    if settings.format is Format.RAW:
        click.echo(b"".join((value.value or b"") + b"\n" for value in values), nl=False)
        return
    columns: Columns[tuple[Key, Value]] = {
        "KEY": lambda pair: pair[0],
        "VERSION": lambda pair: pair[1].version or None,
        "VALUE": lambda pair: payload_text(pair[1].value),
    }
    show_list(
        settings.format,
        list(zip(query.keys, values, strict=True)),
        columns,
        none="no keys",
        cursor=None,
        to_value=lambda pair: value_json(*pair),
    )


@operation_command("exists", GetKey, "key", ROUTING_FLAG, examples=["flo kv exists user:1"])
def exists(settings: GlobalSettings, query: GetKey) -> None:
    """Say with the exit code whether KEY exists: 0 if it does, 1 if not."""
    is_there = settings.call(query).value is not None
    show(
        settings.format,
        {"key": query.key, "exists": is_there},
        text="yes" if is_there else "no",
        raw="1" if is_there else "0",
    )
    if not is_there:
        raise click.exceptions.Exit(NOT_FOUND)


def _wait(flo: "BlockingFlo", key: Key, newer_than: int | None, timeout_ms: int | None) -> Value:
    """The value as soon as it is there; a key that never came is as one that does not exist."""
    timeout_s = timeout_ms / 1_000 if timeout_ms is not None else None
    try:
        return flo.kv.wait(key, newer_than=newer_than, timeout=timeout_s)
    except TimedOut:
        if newer_than is not None:
            raise
        return flo.kv.get(key)
