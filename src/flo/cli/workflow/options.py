"""What the commands about workflows share: the connection, the file, the ways to say since when."""

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from flo.cli.app.options import GlobalSettings
from flo.model.errors import FloError

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

F = TypeVar("F", bound=Callable[..., Any])

STDIN = "-"
NOTES = {
    "run_not_found": "See which there are with: flo workflow list-runs",
    "run_has_ended": "Repeat it with: flo workflow rerun RUN",
}
"""What helps here where elsewhere something else does."""

_AGO = re.compile(r"(\d+)\s*(s|m|min|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Document(NamedTuple):
    """The text of a definition, and the name under which it is spoken of."""

    text: str
    name: str


@contextmanager
def connected(settings: GlobalSettings) -> Iterator["BlockingFlo"]:
    with settings.connect() as flo:
        try:
            yield flo
        except FloError as error:
            if note := NOTES.get(error.code):
                error.add_note(note)
            raise


def file_flag(required: bool) -> Callable[[F], F]:
    return click.option(
        "-f",
        "--file",
        required=required,
        metavar="FILE",
        help="The file that holds the definition, in YAML or JSON; - reads it from stdin.",
    )


def version_flag(help: str, default: str | None = None) -> Callable[[F], F]:
    return click.option(
        "-v",
        "--version",
        metavar="VERSION",
        default=default,
        show_default=default is not None,
        help=help,
    )


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


def read_since(text: str | None) -> datetime | None:
    """A moment: a date, a date with a time (UTC unless it says otherwise), or how long ago."""
    if text is None:
        return None
    if ago := _AGO.fullmatch(text.strip()):
        seconds = int(ago[1]) * _SECONDS[ago[2]]
        return datetime.fromtimestamp(max(time.time() - seconds, 0), UTC)
    try:
        context = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise click.UsageError(
            f"--since: expected a time like 2026-03-14T10:00, or how long ago like 90m, 12h or 7d; "
            f"got {text!r}"
        ) from error
    return context if context.tzinfo is not None else context.replace(tzinfo=UTC)
