"""flo stream ..."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, aligned, count_text, show, show_list, time_text
from flo.cli.app.pages import collect, page_options
from flo.cli.group.groups import group
from flo.cli.stream.append import append
from flo.cli.stream.read import read
from flo.model.ids import StreamId, StreamName
from flo.model.streams import Retention, StreamPage, StreamView

HOUR_S = 3_600

F = TypeVar("F", bound=Callable[..., Any])

STREAM_COLUMNS: Columns[StreamView] = {
    "NAME": lambda stream: stream.name,
    "PARTITIONS": lambda stream: stream.partitions,
    "RECORDS": lambda stream: stream.count,
    "BYTES": lambda stream: stream.bytes,
    "LAST ID": lambda stream: stream.last_id,
    "GROUPS": lambda stream: len(stream.groups),
}


@click.group(
    cls=CommandGroup,
    examples=[
        'flo stream append orders \'{"order":1,"total":99}\'',
        "flo stream read orders",
        "flo stream group read orders --group billing --consumer worker-1",
    ],
)
def stream() -> None:
    """Append records, read them, share them out to consumers."""


def bounds(command: F) -> F:
    """What a stream keeps."""
    hours = click.option(
        "-r",
        "--retention",
        "retention_h",
        type=click.FloatRange(min=0),
        metavar="HOURS",
        help="Keep records for so many hours; 0 for ever.",
    )
    length = click.option(
        "--maxlen",
        "max_length",
        type=click.IntRange(min=0),
        metavar="N",
        help="Keep the newest N records; 0 for all.",
    )
    size = click.option(
        "--maxbytes",
        "max_bytes",
        type=click.IntRange(min=0),
        metavar="BYTES",
        help="Keep so many bytes of the newest records; 0 for all.",
    )
    return hours(length(size(command)))


stream.add_command(append)
stream.add_command(read)


@stream.command(
    "create",
    examples=[
        "flo stream create payments",
        "flo stream create payments --partitions 4 --retention 72",
    ],
)
@click.argument("name", metavar="STREAM")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Into how many parts keys are spread.",
)
@bounds
@pass_settings
def create(
    settings: GlobalSettings,
    name: StreamName,
    partitions: int,
    retention_h: float | None,
    max_length: int | None,
    max_bytes: int | None,
) -> None:
    """Create STREAM. The first record appended to one creates it too, with the defaults."""
    with settings.connect() as flo:
        flo.streams.create(
            name,
            partitions=partitions,
            max_age=(retention_h or 0) * HOUR_S or None,
            max_length=max_length or None,
            max_bytes=max_bytes or None,
        )
    show(settings.format, {"name": name}, text=f"Created stream: {name}", raw=name)


@stream.command("info", examples=["flo stream info orders"])
@click.argument("name", metavar="STREAM")
@pass_settings
def info(settings: GlobalSettings, name: StreamName) -> None:
    """Show how much there is in STREAM, and what it keeps."""
    with settings.connect() as flo:
        view = flo.streams.info(name)
    details = {
        "Stream": view.name,
        "Created": time_text(view.created_at_ms),
        "Partitions": view.partitions,
        "Records": view.count,
        "Bytes": view.bytes,
        "First ID": view.first_id,
        "Last ID": view.last_id,
        "Keeps": _retention_text(view.retention),
        "Groups": ", ".join(view.groups),
    }
    show(settings.format, view, text=aligned(details), raw=f"{view.count}")


@stream.command(
    "list", aliases=["ls"], examples=["flo stream list", "flo stream list --prefix ord"]
)
@click.option("--prefix", metavar="TEXT", default="", help="Only those that begin so.")
@page_options(limit_default=100)
@pass_settings
def list_streams(settings: GlobalSettings, prefix: str, limit: int, cursor: str | None) -> None:
    """List the streams."""
    with settings.connect() as flo:

        def ask(limit: int, cursor: str | None) -> StreamPage:
            return flo.streams.list(prefix, limit=limit, cursor=cursor)

        streams, cursor = collect(ask, limit, cursor)
    show_list(settings.format, streams, STREAM_COLUMNS, none="no streams", cursor=cursor)


@stream.command(
    "alter",
    examples=[
        "flo stream alter orders --retention 24",
        "flo stream alter orders --maxlen 1000000 --retention 0",
    ],
)
@click.argument("name", metavar="STREAM")
@bounds
@pass_settings
def alter(
    settings: GlobalSettings,
    name: StreamName,
    retention_h: float | None,
    max_length: int | None,
    max_bytes: int | None,
) -> None:
    """Change what STREAM keeps; what is not said stays as it is."""
    if retention_h is None and max_length is None and max_bytes is None:
        raise click.UsageError("say what to keep: --retention, --maxlen or --maxbytes")
    with settings.connect() as flo:
        before = flo.streams.info(name).retention
        age_s = before.max_age_ms / 1_000 if before.max_age_ms is not None else None
        flo.streams.alter(
            name,
            max_age=age_s if retention_h is None else retention_h * HOUR_S or None,
            max_length=before.max_length if max_length is None else max_length or None,
            max_bytes=before.max_bytes if max_bytes is None else max_bytes or None,
        )
    show(settings.format, {"name": name}, text=f"Altered stream: {name}", raw=name)


@stream.command(
    "delete",
    aliases=["rm"],
    examples=["flo stream delete orders", "flo stream delete orders --force"],
)
@click.argument("name", metavar="STREAM")
@click.option("-f", "--force", is_flag=True, help="Do not ask, even on a terminal.")
@pass_settings
def delete(settings: GlobalSettings, name: StreamName, force: bool) -> None:
    """Delete STREAM, its records and its groups. On a terminal it asks first."""
    if not force and sys.stdin.isatty():
        query = f"Delete stream {name!r} with all its records and groups?"
        click.confirm(query, abort=True, err=True)
    with settings.connect() as flo:
        flo.streams.delete(name)
    show(settings.format, {"name": name}, text=f"Deleted stream: {name}", raw=name)


@stream.command(
    "trim",
    examples=[
        "flo stream trim orders --maxlen 1000 --dry-run",
        "flo stream trim orders --maxage 86400",
        "flo stream trim orders --before 1700000000000-1",
    ],
)
@click.argument("name", metavar="STREAM")
@click.option("--before", metavar="ID", help="Let go of what comes before this id.")
@click.option(
    "--maxlen",
    "max_length",
    type=click.IntRange(min=0),
    metavar="N",
    help="Keep the newest N records.",
)
@click.option(
    "--maxage",
    "max_age_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Keep what is no older than so many seconds.",
)
@click.option(
    "--maxbytes",
    "max_bytes",
    type=click.IntRange(min=0),
    metavar="BYTES",
    help="Keep so many bytes of the newest records.",
)
@click.option("-d", "--dry-run", is_flag=True, help="Only say what would be let go of.")
@pass_settings
def trim(
    settings: GlobalSettings,
    name: StreamName,
    before: StreamId | None,
    max_length: int | None,
    max_age_s: float | None,
    max_bytes: int | None,
    dry_run: bool,
) -> None:
    """Let go of the oldest records of STREAM.

    Of several bounds each counts; without any, what its retention leaves out goes.
    """
    with settings.connect() as flo:
        trimmed = flo.streams.trim(
            name,
            before=before,
            max_length=max_length,
            max_age=max_age_s,
            max_bytes=max_bytes,
            dry_run=dry_run,
        )
    word = "Would trim" if dry_run else "Trimmed"
    first = f"; the first is {trimmed.first_id}" if trimmed.first_id is not None else ""
    text = f"{word} {count_text(trimmed.removed, 'record')}{first}"
    show(settings.format, trimmed, text=text, raw=f"{trimmed.removed}")


stream.add_command(group)


def _retention_text(retention: Retention) -> str:
    kept = []
    if retention.max_age_ms is not None:
        kept.append(f"{retention.max_age_ms / 1_000 / HOUR_S:g} h")
    if retention.max_length is not None:
        kept.append(count_text(retention.max_length, "record"))
    if retention.max_bytes is not None:
        kept.append(count_text(retention.max_bytes, "byte"))
    return f"at most {', '.join(kept)}" if kept else "everything"
