"""flo kv ..."""

from typing import TYPE_CHECKING, Any

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.errors import NOT_FOUND
from flo.cli.app.options import Format, GlobalSettings, pass_settings
from flo.cli.app.output import Columns, payload_text, show, show_list, time_text
from flo.cli.app.pages import collect, page_options
from flo.cli.app.payload import read_payload
from flo.cli.app.printable import printable
from flo.cli.kv.json import json_delete, json_get, json_set
from flo.cli.kv.options import cas_flag, routing_flag, show_version, ttl_flag, txn_flag
from flo.cli.kv.transaction import begin, commit, rollback
from flo.model.errors import NotFound, TimedOut
from flo.model.ids import Key
from flo.model.kv import HISTORY_MAX, KeyPage, KeyView, Value, VersionView
from flo.model.payload import payload_to_json

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

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


@kv.command(
    "get",
    examples=[
        "flo kv get user:1",
        "flo kv get user:1 --format json",
        "flo kv get user:1 --wait --block 5000",
    ],
)
@click.argument("key")
@click.option("-w", "--wait", is_flag=True, help="Wait until the key exists.")
@click.option(
    "-b",
    "--block",
    "block_ms",
    type=click.IntRange(min=0),
    metavar="MS",
    help="How long to wait at most, in milliseconds.  [default: for ever, with --wait]",
)
@click.option(
    "--newer-than",
    type=click.IntRange(min=0),
    metavar="VERSION",
    help="Wait until its version is another one.",
)
@routing_flag
@txn_flag
@pass_settings
def get(
    settings: GlobalSettings,
    key: Key,
    wait: bool,
    block_ms: int | None,
    newer_than: int | None,
    transaction: int | None,
) -> None:
    """Print the value of KEY; where there is none, the exit code is 1."""
    waits = wait or bool(block_ms) or newer_than is not None
    if waits and transaction is not None:
        raise click.UsageError("a transaction does not wait: --txn goes without --wait")
    with settings.connect() as flo:
        if waits:
            value = _wait(flo, key, newer_than, block_ms)
        else:
            value = flo.kv.get(key, transaction=transaction)
    if value.value is None:
        raise NotFound(f"key {key!r} does not exist", code="key_not_found")
    text = printable(payload_text(value.value))
    show(settings.format, value_json(key, value), text=text, raw=value.value)


@kv.command(
    "set",
    examples=[
        'flo kv set user:1 \'{"name":"Alice"}\'',
        "flo kv set session:7 @order.json --ttl 3600",
        "flo kv set lock:report worker-1 --nx --ttl 30",
        "flo kv set counter 10 --cas 0",
        "flo kv set temperature -- -5",
    ],
)
@click.argument("key")
@click.argument("value")
@ttl_flag()
@click.option("--nx", "if_absent", is_flag=True, help="Only if the key does not exist.")
@click.option("--xx", "if_present", is_flag=True, help="Only if the key exists.")
@cas_flag
@routing_flag
@txn_flag
@pass_settings
def set_value(
    settings: GlobalSettings,
    key: Key,
    value: str,
    ttl_s: float | None,
    if_absent: bool,
    if_present: bool,
    if_version: int | None,
    transaction: int | None,
) -> None:
    """Set KEY to VALUE.

    VALUE is any text, usually JSON; `-` reads it from stdin, `@file` from a file, and what begins
    with a dash stands behind `--`. A condition that is not met is refused, and nothing changes.
    """
    payload = read_payload(value)
    with settings.connect() as flo:
        version = flo.kv.put(
            key,
            payload,
            ttl=ttl_s,
            if_absent=if_absent,
            if_present=if_present,
            if_version=if_version,
            transaction=transaction,
        )
    show_version(settings, key, version if transaction is None else None)


@kv.command("mget", examples=["flo kv mget user:1 user:2 nobody"])
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@routing_flag
@pass_settings
def get_many(settings: GlobalSettings, keys: tuple[Key, ...]) -> None:
    """Print the values of several keys, as they are at one moment.

    With --format raw there is a value in each line, and none in that of a key that does not exist.
    """
    with settings.connect() as flo:
        values = flo.kv.get_many(keys)
    pairs = list(zip(keys, values, strict=True))
    columns: Columns[tuple[Key, Value]] = {
        "KEY": lambda pair: pair[0],
        "VERSION": lambda pair: pair[1].version or None,
        "VALUE": lambda pair: payload_text(pair[1].value),
    }
    if settings.format is Format.RAW:
        click.echo(b"".join((value.value or b"") + b"\n" for value in values), nl=False)
    else:
        show_list(
            settings.format,
            pairs,
            columns,
            none="no keys",
            cursor=None,
            to_value=lambda pair: value_json(*pair),
        )


@kv.command("delete", aliases=["del"], examples=["flo kv delete user:1"])
@click.argument("key")
@cas_flag
@routing_flag
@txn_flag
@pass_settings
def delete(
    settings: GlobalSettings, key: Key, if_version: int | None, transaction: int | None
) -> None:
    """Delete KEY. One that does not exist is no mistake."""
    with settings.connect() as flo:
        existed = flo.kv.delete(key, if_version=if_version, transaction=transaction)
    if transaction is not None:
        show(settings.format, {"key": key, "existed": None}, text="OK", raw="")
        return
    text = f"Deleted key: {key}" if existed else "(no such key)"
    show(settings.format, {"key": key, "existed": existed}, text=text, raw=_number(existed))


@kv.command(
    "list",
    aliases=["ls", "scan"],
    examples=["flo kv list --prefix user:", "flo kv list --values --format json"],
)
@click.option("-p", "--prefix", metavar="TEXT", default="", help="Only those that begin so.")
@click.option("--values", "with_values", is_flag=True, help="Their values too.")
@page_options(limit_default=100)
@pass_settings
def list_keys(
    settings: GlobalSettings, prefix: str, with_values: bool, limit: int, cursor: str | None
) -> None:
    """List the keys, in order."""
    with settings.connect() as flo:

        def ask(limit: int, cursor: str | None) -> KeyPage:
            return flo.kv.scan(prefix, limit=limit, cursor=cursor, with_values=with_values)

        keys, cursor = collect(ask, limit, cursor)
    show_list(
        settings.format,
        keys,
        {**KEY_COLUMNS, **VALUE_COLUMN} if with_values else KEY_COLUMNS,
        none="no keys",
        cursor=cursor,
        to_value=lambda view: _view_json(view, with_values),
    )


@kv.command("history", aliases=["hist"], examples=["flo kv history user:1 --limit 5"])
@click.argument("key")
@click.option(
    "-l",
    "--limit",
    type=click.IntRange(1, HISTORY_MAX + 1),
    metavar="N",
    default=10,
    show_default=True,
    help="How many to show at most.",
)
@routing_flag
@pass_settings
def history(settings: GlobalSettings, key: Key, limit: int) -> None:
    """List the values that KEY has had since it was made, the newest first."""
    with settings.connect() as flo:
        versions = flo.kv.history(key, limit=limit)
    show_list(
        settings.format,
        versions,
        VERSION_COLUMNS,
        none="no versions",
        cursor=None,
        to_value=_version_json,
    )


@kv.command("incr", examples=["flo kv incr visits", "flo kv incr visits --by -5"])
@click.argument("key")
@click.option(
    "-b", "--by", type=int, metavar="N", default=1, show_default=True, help="What to add."
)
@routing_flag
@txn_flag
@pass_settings
def increment(settings: GlobalSettings, key: Key, by: int, transaction: int | None) -> None:
    """Add to the whole number under KEY, and print the sum; no key counts as 0."""
    with settings.connect() as flo:
        value = flo.kv.increment(key, by, transaction=transaction)
    if transaction is not None:
        show(settings.format, {"key": key, "value": None}, text="OK", raw="")
    else:
        show(settings.format, {"key": key, "value": value}, text=f"{value}", raw=f"{value}")


@kv.command("touch", examples=["flo kv touch user:1 --ttl 3600"])
@click.argument("key")
@ttl_flag(required=True)
@routing_flag
@pass_settings
def touch(settings: GlobalSettings, key: Key, ttl_s: float) -> None:
    """Let KEY expire later, or at all; its value and its version stay."""
    with settings.connect() as flo:
        flo.kv.touch(key, ttl_s)
    show(settings.format, {"key": key, "ttl_ms": round(ttl_s * 1_000)}, text="OK", raw="")


@kv.command("persist", examples=["flo kv persist user:1"])
@click.argument("key")
@routing_flag
@pass_settings
def persist(settings: GlobalSettings, key: Key) -> None:
    """Let KEY stay for good."""
    with settings.connect() as flo:
        flo.kv.persist(key)
    show(settings.format, {"key": key, "ttl_ms": None}, text="OK", raw="")


@kv.command("exists", examples=["flo kv exists user:1"])
@click.argument("key")
@routing_flag
@pass_settings
def exists(settings: GlobalSettings, key: Key) -> None:
    """Say with the exit code whether KEY exists: 0 if it does, 1 if not."""
    with settings.connect() as flo:
        is_there = flo.kv.exists(key)
    text = "yes" if is_there else "no"
    show(settings.format, {"key": key, "exists": is_there}, text=text, raw=_number(is_there))
    if not is_there:
        raise click.exceptions.Exit(NOT_FOUND)


kv.add_command(json_get)
kv.add_command(json_set)
kv.add_command(json_delete)
kv.add_command(begin)
kv.add_command(commit)
kv.add_command(rollback)


def value_json(key: Key, value: Value) -> dict[str, Any]:
    """What programs see of a key; the version of one that does not exist is 0."""
    shown, encoding = _value_json(value.value)
    return {
        "key": key,
        "value": shown,
        "value_encoding": encoding,
        "version": value.version,
        "expires_at_ms": value.expires_at_ms,
    }


def _wait(flo: "BlockingFlo", key: Key, newer_than: int | None, block_ms: int | None) -> Value:
    """The value as soon as it is there; a key that never came is as one that does not exist."""
    timeout_s = block_ms / 1_000 if block_ms is not None else None
    try:
        return flo.kv.wait(key, newer_than=newer_than, timeout=timeout_s)
    except TimedOut:
        if newer_than is not None:
            raise
        return flo.kv.get(key)


def _view_json(view: KeyView, with_values: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "key": view.key,
        "version": view.version,
        "at_ms": view.at_ms,
        "expires_at_ms": view.expires_at_ms,
    }
    if with_values:
        fields["value"], fields["value_encoding"] = _value_json(view.value)
    return fields


def _version_json(view: VersionView) -> dict[str, Any]:
    shown, encoding = _value_json(view.value)
    return {
        "version": view.version,
        "at_ms": view.at_ms,
        "value": shown,
        "value_encoding": encoding,
    }


def _value_json(value: bytes | None) -> tuple[Any, str | None]:
    """As a payload, but that nothing is something else than no key."""
    return ("", "text") if value == b"" else payload_to_json(value)


def _number(value: bool) -> str:
    return "1" if value else "0"
