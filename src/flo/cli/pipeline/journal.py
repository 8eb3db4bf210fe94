"""flo pipeline artifacts, events: what a pipeline has made, and what has happened in it."""

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

import click

from flo.cli.app.derive import operation_command
from flo.cli.app.options import Format, GlobalSettings
from flo.cli.app.output import Columns, payload_text, table, time_text, to_json
from flo.cli.app.parameters import Flag
from flo.cli.app.say import say
from flo.model.pipelines.pipelines import ListArtifacts, ReadPipelineEvents
from flo.model.pipelines.views import ArtifactView, PipelineEventView

T = TypeVar("T")

SHOWN_MAX = 80
LIMIT_DEFAULT = 1_000

ARTIFACT_COLUMNS: Columns[ArtifactView] = {
    "#": lambda artifact: artifact.number,
    "NODE": lambda artifact: artifact.node_id,
    "STATUS": lambda artifact: artifact.status,
    "BATCH": lambda artifact: artifact.batch_uid,
    "ATTEMPT": lambda artifact: artifact.attempt_epoch,
    "WORKER": lambda artifact: artifact.worker_id,
    "CREATED": lambda artifact: time_text(artifact.created_at_ms),
    "META": lambda artifact: artifact.error or payload_text(artifact.meta)[:SHOWN_MAX],
}
EVENT_COLUMNS: Columns[PipelineEventView] = {
    "#": lambda event: event.number,
    "TIME": lambda event: time_text(event.at_ms),
    "KIND": lambda event: f"{event.kind}{' (fenced)' if event.fenced else ''}",
    "NODE": lambda event: event.node_id,
    "ATTEMPT": lambda event: event.attempt_epoch,
    "WORKER": lambda event: event.worker_id,
    "PAYLOAD": lambda event: to_json(event.payload, -1)[:SHOWN_MAX],
}

FOLLOW = click.Option(
    ["-F", "--follow"], is_flag=True, help="Go on with what comes, until the pipeline ends."
)
LIMIT = click.Option(
    ["-l", "--limit", "most"],
    type=click.IntRange(min=1),
    metavar="N",
    help=f"How many to show at most; {LIMIT_DEFAULT} unless it is followed.",
)


@operation_command(
    "artifacts",
    ListArtifacts,
    "id",
    Flag("node", "-N", metavar="NODE"),
    Flag("after", metavar="N"),
    FOLLOW,
    LIMIT,
    examples=[
        "flo pipeline artifacts pipe-1",
        "flo pipeline artifacts pipe-1 --node enrich --format json",
        "flo pipeline artifacts pipe-1 --follow",
    ],
)
def artifacts(
    settings: GlobalSettings, query: ListArtifacts, follow: bool, most: int | None
) -> None:
    """List the artifacts of the pipeline ID in the order in which they were made.

    With --follow, --format json is one object per line.
    """
    with settings.connect() as flo:
        found = flo.pipelines.each_artifact(query.id, query.node, after=query.after, follow=follow)
        _show(settings, found, ARTIFACT_COLUMNS, follow, most)


@operation_command(
    "events",
    ReadPipelineEvents,
    "id",
    Flag("after", metavar="N"),
    FOLLOW,
    LIMIT,
    examples=[
        "flo pipeline events pipe-1",
        "flo pipeline events pipe-1 --after 100 --limit 20",
        "flo pipeline events pipe-1 --follow --format json",
    ],
)
def events(
    settings: GlobalSettings, query: ReadPipelineEvents, follow: bool, most: int | None
) -> None:
    """List what has happened in the pipeline ID, in order: starts, batches, ends.

    With --follow, --format json is one object per line.
    """
    with settings.connect() as flo:
        found = flo.pipelines.each_event(query.id, after=query.after, follow=follow)
        _show(settings, found, EVENT_COLUMNS, follow, most)


def _show(
    settings: GlobalSettings,
    items: Iterable[T],
    columns: Columns[T],
    follow: bool,
    most: int | None,
) -> None:
    """All at once, or with `follow` each as it comes."""
    if follow:
        for item in islice(items, most):
            say(_line(settings.format, item, columns))
        return
    shown = list(islice(items, most or LIMIT_DEFAULT))
    match settings.format:
        case Format.TEXT:
            say(table(columns, shown) if shown else "(none)")
        case Format.JSON:
            say(to_json(shown))
        case Format.RAW:
            for item in shown:
                say(_line(Format.RAW, item, columns))


def _line(form: Format, item: T, columns: Columns[T]) -> str:
    cells = [read(item) for read in columns.values()]
    match form:
        case Format.JSON:
            return to_json(item, -1)
        case Format.RAW:
            return str(cells[0])
        case Format.TEXT:
            text = "  ".join(str(cell) for cell in cells if cell not in (None, ""))
            return text.replace("\n", " ")
