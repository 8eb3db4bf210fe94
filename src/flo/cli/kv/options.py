"""What several commands on keys share: flags, and how they tell of a version."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import show
from flo.model.ids import Key

F = TypeVar("F", bound=Callable[..., Any])

txn_flag = click.option(
    "-t",
    "--txn",
    "transaction",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="As a part of this transaction: see flo kv begin.",
)

cas_flag = click.option(
    "--cas",
    "if_version",
    type=click.IntRange(min=0),
    metavar="VERSION",
    help="Only if this is the key's version; 0 if it must not exist.",
)

routing_flag = click.option(
    "-r",
    "--routing-key",
    metavar="KEY",
    expose_value=False,
    help="Accepted, but a namespace is in one place anyway.",
)


def ttl_flag(*, required: bool = False) -> Callable[[F], F]:
    return click.option(
        "--ttl",
        "ttl_s",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        required=required,
        help="How long it stays, in seconds." + ("" if required else "  [default: for good]"),
    )


def path_flag(command: F) -> F:
    return click.option(
        "-p",
        "--path",
        metavar="PATH",
        default="$",
        show_default=True,
        help="""Where in the document, as $.user.name, $.items[0] or $["odd name"].""",
    )(command)


def show_version(settings: GlobalSettings, key: Key, version: int | None) -> None:
    """What a change came to; in a transaction there is no version yet."""
    show(settings.format, {"key": key, "version": version}, text="OK", raw=f"{version or ''}")
