"""Tables for people, JSON for programs."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Protocol, TypeAlias, TypeVar

import click
import msgspec

from flo.cli.app.options import UTC_KEY, Format
from flo.cli.app.say import say
from flo.core.printable import printable, printable_json
from flo.model.declare.payload import to_json_values
from flo.model.views.since import SinceView

T = TypeVar("T")

Columns: TypeAlias = Mapping[str, Callable[[T], object]]
"""Headings, and what stands under each."""

NOTHING = "-"
SHORT_LENGTH = 60
"""JSON of so many characters stays on its line."""


def show(form: Format, value: Any, *, text: str, raw: str | bytes) -> None:
    """Print an answer in the form that was asked for."""
    match form:
        case Format.TEXT:
            say(text, nl=bool(text))
        case Format.JSON:
            say(to_json(value))
        case Format.RAW:
            click.echo(raw, nl=bool(raw) and isinstance(raw, str))


def show_list(
    form: Format,
    items: Sequence[T],
    columns: Columns[T],
    *,
    none: str,
    cursor: str | None,
    to_value: Callable[[T], Any] = lambda item: item,
) -> None:
    """Print a list; raw is its first column. A note says how to see what comes after it.

    `to_value` makes of an item what a program is to see of it.
    """
    first = next(iter(columns.values()))
    text = table(columns, items) if items else f"({none})"
    value = list(map(to_value, items))
    show(form, value, text=text, raw="\n".join(str(first(item)) for item in items))
    if cursor is not None:
        say(f"There are more: add --cursor {cursor}", err=True)


def table(columns: Columns[T], items: Iterable[T]) -> str:
    """Columns as wide as they need to be, two spaces apart."""
    rows = [tuple(columns)]
    rows += [tuple(_cell(read(item)) for read in columns.values()) for item in items]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def lines(values: Mapping[str, object]) -> str:
    """One line for each value there is."""
    return "\n".join(
        f"{name}: {printable(str(value))}"
        for name, value in values.items()
        if value not in (None, "")
    )


def aligned(values: Mapping[str, object]) -> str:
    """Like `lines`, with all values in one column; one of several lines stays in it."""
    there = {f"{name}:": value for name, value in values.items() if value not in (None, "")}
    width = max(map(len, there), default=0) + 1
    return "\n".join(
        name.ljust(width) + printable(str(value)).replace("\n", "\n" + " " * width)
        for name, value in there.items()
    )


def counts_text(counts: Mapping[str, int]) -> str:
    """Only what there is any of."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def time_text(at_ms: int | None, zone: tzinfo | None = None) -> str | None:
    """A moment in the time of this machine, or in UTC with --utc, and how far that is from UTC."""
    if at_ms is None:
        return None
    at = datetime.fromtimestamp(at_ms / 1_000, UTC).astimezone(zone or shown_zone())
    return at.isoformat(" ", "seconds")


def shown_zone() -> tzinfo | None:
    """None is the zone of this machine."""
    context = click.get_current_context(silent=True)
    return UTC if context is not None and context.meta.get(UTC_KEY) else None


def since_text(since: SinceView | None) -> str | None:
    """Since when, at which place in the log, and by whom."""
    if since is None:
        return None
    by = f" by {since.by}" if since.by else ""
    return f"{time_text(since.at_ms)} (position {since.position}){by}"


class Disableable(Protocol):
    @property
    def enabled(self) -> bool: ...

    @property
    def disabled_since(self) -> SinceView | None: ...


def enabled_text(one: Disableable) -> str:
    if one.enabled:
        return "yes"
    since = since_text(one.disabled_since)
    return f"no, since {since}" if since else "no"


def count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def bytes_text(count: int) -> str:
    """A size as people say it: 512 bytes, 1.5 MB."""
    size, units = float(count), iter(("bytes", "kB", "MB", "GB"))
    unit = next(units)
    while size >= 1_000 and unit != "GB":
        size, unit = size / 1_000, next(units)
    return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


def duration_text(duration_ms: int) -> str:
    minutes, seconds = divmod(duration_ms // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def pretty_text(payload: bytes | None) -> str:
    """A payload for reading: JSON on as many lines as it takes, if it is not short."""
    text = payload_text(payload)
    try:
        shown = to_json(msgspec.json.decode(text), indent=-1)
        return shown if len(shown) <= SHORT_LENGTH else to_json(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return text


def payload_text(payload: bytes | None) -> str:
    """A payload for people: text if it is text, else base64."""
    if not payload:
        return ""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return f"{b64encode(payload).decode()} (base64)"


def to_json(value: Any, indent: int = 2) -> str:
    """Indented JSON; 0 keeps it on one line.

    Beside a payload stands its encoding, as in the answers over HTTP.
    """
    encoded = msgspec.json.encode(to_json_values(value))
    return printable_json(msgspec.json.format(encoded, indent=indent).decode())


def _cell(value: object) -> str:
    if value in (None, ""):
        return NOTHING
    return printable(str(value)).replace("\n", " ").replace("\t", " ")
