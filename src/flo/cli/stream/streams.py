"""flo stream ..."""

import click
import msgspec

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import list_command, operation_command, plain_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import Columns, aligned, count_text, show, time_text
from flo.cli.app.parameters import Flag
from flo.cli.app.payload import Seconds
from flo.cli.group.groups import group
from flo.cli.stream.append import append
from flo.cli.stream.read import read
from flo.model.streams import (
    AlterStream,
    CreateStream,
    DeleteStream,
    GetStream,
    ListStreams,
    Retention,
    StreamView,
    TrimStream,
)

HOUR_MS = 3_600_000

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


BOUNDS = (
    click.Option(
        ["-r", "--retention", "retention_h"],
        type=click.FloatRange(min=0),
        metavar="HOURS",
        help="Keep records for so many hours; 0 for ever.",
    ),
    click.Option(
        ["--maxlen", "max_length"],
        type=click.IntRange(min=0),
        metavar="N",
        help="Keep the newest N records; 0 for all.",
    ),
    click.Option(
        ["--maxbytes", "max_bytes"],
        type=click.IntRange(min=0),
        metavar="BYTES",
        help="Keep so many bytes of the newest records; 0 for all.",
    ),
)
"""What a stream keeps."""


@operation_command(
    "create",
    CreateStream,
    "stream",
    "partitions",
    *BOUNDS,
    examples=[
        "flo stream create payments",
        "flo stream create payments --partitions 4 --retention 72",
    ],
)
def create(
    settings: GlobalSettings,
    command: CreateStream,
    retention_h: float | None,
    max_length: int | None,
    max_bytes: int | None,
) -> None:
    """Create STREAM. The first record appended to one creates it too, with the defaults."""
    retention = _retention(Retention(), retention_h, max_length, max_bytes)
    settings.call(msgspec.structs.replace(command, retention=retention))
    _show_name(settings, "Created", command.stream)


@operation_command(
    "alter",
    GetStream,
    "stream",
    *BOUNDS,
    examples=[
        "flo stream alter orders --retention 24",
        "flo stream alter orders --maxlen 1000000 --retention 0",
    ],
)
def alter(
    settings: GlobalSettings,
    query: GetStream,
    retention_h: float | None,
    max_length: int | None,
    max_bytes: int | None,
) -> None:
    """Change what STREAM keeps; what is not said stays as it is."""
    if retention_h is None and max_length is None and max_bytes is None:
        raise click.UsageError("say what to keep: --retention, --maxlen or --maxbytes")
    with settings.connect() as flo:
        before = flo.call(query).retention
        retention = _retention(before, retention_h, max_length, max_bytes)
        flo.call(AlterStream(stream=query.stream, retention=retention))
    _show_name(settings, "Altered", query.stream)


@operation_command(
    "trim",
    TrimStream,
    "stream",
    Flag("before", metavar="ID"),
    Flag("max_length", "--maxlen"),
    Flag(
        "max_age_ms",
        "--maxage",
        type=Seconds(min=0),
        metavar="SECONDS",
        help="Keep what is no older than so many seconds.",
    ),
    Flag("max_bytes", "--maxbytes", metavar="BYTES"),
    Flag("dry_run", "-d"),
    examples=[
        "flo stream trim orders --maxlen 1000 --dry-run",
        "flo stream trim orders --maxage 86400",
        "flo stream trim orders --before 1700000000000-1",
    ],
)
def trim(settings: GlobalSettings, command: TrimStream) -> None:
    """Let go of the oldest records of STREAM.

    Of several bounds each counts; without any, what its retention leaves out goes.
    """
    trimmed = settings.call(command)
    word = "Would trim" if command.dry_run else "Trimmed"
    first = f"; the first is {trimmed.first_id}" if trimmed.first_id is not None else ""
    text = f"{word} {count_text(trimmed.removed, 'record')}{first}"
    show(settings.format, trimmed, text=text, raw=f"{trimmed.removed}")


def _retention(
    before: Retention, retention_h: float | None, max_length: int | None, max_bytes: int | None
) -> Retention:
    """What the flags say, where 0 is no bound; what they do not say stays as it was."""
    max_age_ms = None if retention_h is None else round(retention_h * HOUR_MS)
    return Retention(
        max_age_ms=before.max_age_ms if max_age_ms is None else max_age_ms or None,
        max_length=before.max_length if max_length is None else max_length or None,
        max_bytes=before.max_bytes if max_bytes is None else max_bytes or None,
    )


def _show_name(settings: GlobalSettings, word: str, name: str) -> None:
    show(settings.format, {"name": name}, text=f"{word} stream: {name}", raw=name)


def _details(view: StreamView) -> str:
    return aligned(
        {
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
    )


def _retention_text(retention: Retention) -> str:
    kept = []
    if retention.max_age_ms is not None:
        kept.append(f"{retention.max_age_ms / HOUR_MS:g} h")
    if retention.max_length is not None:
        kept.append(count_text(retention.max_length, "record"))
    if retention.max_bytes is not None:
        kept.append(count_text(retention.max_bytes, "byte"))
    return f"at most {', '.join(kept)}" if kept else "everything"


stream.add(
    append,
    read,
    create,
    plain_command(
        "info",
        GetStream,
        "stream",
        text=_details,
        raw="{reply.count}",
        examples=["flo stream info orders"],
    ),
    list_command(
        "list",
        ListStreams,
        "prefix",
        columns=STREAM_COLUMNS,
        none="no streams",
        examples=["flo stream list", "flo stream list --prefix ord"],
    ),
    alter,
    plain_command(
        "delete",
        DeleteStream,
        "stream",
        asks="Delete stream {stream!r} with all its records and groups?",
        text="Deleted stream: {stream}",
        json={"name": "stream"},
        examples=["flo stream delete orders", "flo stream delete orders --force"],
        aliases=["rm"],
    ),
    trim,
    group,
)
