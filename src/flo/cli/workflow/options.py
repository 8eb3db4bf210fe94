"""What the commands about workflows share: the file of a definition, the version, since when."""

import re
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import click

from flo.cli.app.output import shown_zone
from flo.cli.app.parameters import Flag

STDIN = "-"
FILE = ["-f", "--file"]
FILE_HELP = "The file that holds the definition, in YAML or JSON; - reads it from stdin."

VERSION = Flag("version", "-v", metavar="VERSION")
file_option = click.option(*FILE, required=True, metavar="FILE", help=FILE_HELP)
server_option = click.option(
    "--server",
    "asks_server",
    is_flag=True,
    help="Ask the server, too: it knows which actions are registered.",
)
strict_option = click.option("--strict", is_flag=True, help="Take a warning for an error.")

_AGO = re.compile(r"(\d+)\s*(s|m|min|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Document(NamedTuple):
    """The text of a definition, and the name under which it is spoken of."""

    text: str
    name: str


def read_document(file: str) -> Document:
    if file == STDIN:
        payload, name = sys.stdin.buffer.read(), "stdin"
    else:
        try:
            payload, name = Path(file).read_bytes(), file
        except OSError as error:
            raise click.UsageError(f"cannot read {file!r}: {error.strerror}") from error
    try:
        return Document(payload.decode(), name)
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name}: expected text in UTF-8: {error}") from error


def read_since(text: str, flag: str) -> int:
    """A time in milliseconds: a date, a date with a time (as times are shown), or how long ago."""
    if ago := _AGO.fullmatch(text.strip()):
        seconds = int(ago[1]) * _SECONDS[ago[2]]
        return max(round((time.time() - seconds) * 1_000), 0)
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise click.UsageError(
            f"{flag}: expected a time like 2026-03-14T10:00, or how long ago like 90m, 12h or 7d; "
            f"got {text!r}"
        ) from error
    if at.tzinfo is None:
        at = at.replace(tzinfo=shown_zone())
    return round(at.timestamp() * 1_000)
