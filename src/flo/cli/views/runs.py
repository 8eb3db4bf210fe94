"""flo runs: the runs of all actions and all workflows, in one list."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, duration_text, show_list, time_text
from flo.cli.workflow.options import read_since
from flo.model.declare.operation import Query
from flo.model.runs import ListRuns, RunStatus
from flo.model.workflows import ListWorkflowRuns, WorkflowStatus

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

PAGE = 100
ERROR_SHOWN_MAX = 60
FAILED = ("failed", "timed_out")
STATUSES = tuple(dict.fromkeys([*map(str, RunStatus), *map(str, WorkflowStatus)]))


class ListedRun(NamedTuple):
    """A run of an action or of a workflow, as this list shows it."""

    run_id: str
    kind: str
    name: str
    status: str
    created_at_ms: int
    finished_at_ms: int | None
    error_code: str | None
    error: str | None

    @property
    def took(self) -> str | None:
        if self.finished_at_ms is None:
            return None
        took_ms = self.finished_at_ms - self.created_at_ms
        return f"{took_ms} ms" if took_ms < 1_000 else duration_text(took_ms)


COLUMNS: Columns[ListedRun] = {
    "RUN ID": lambda run: run.run_id,
    "OF": lambda run: f"{run.kind} {run.name}",
    "STATUS": lambda run: run.status,
    "CREATED": lambda run: time_text(run.created_at_ms),
    "AFTER": lambda run: run.took,
    "ERROR": lambda run: (run.error or run.error_code or "")[:ERROR_SHOWN_MAX],
}


@click.command(
    "runs",
    cls=FloCommand,
    examples=[
        "flo runs",
        "flo runs --failed --since 1h",
        "flo runs --action send-email --status pending",
        "flo runs --workflow process-order --limit 20",
    ],
)
@click.option("--failed", is_flag=True, help="Only runs that have failed or timed out.")
@click.option(
    "-s", "--status", multiple=True, type=click.Choice(STATUSES), help="Only runs in this status."
)
@click.option(
    "--since", metavar="TIME", help="Only runs made since then: a time, or 90m, 12h, 7d ago."
)
@click.option("-a", "--action", metavar="NAME", help="Only runs of this action.")
@click.option("-w", "--workflow", metavar="NAME", help="Only runs of this workflow.")
@click.option(
    "-l",
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="How many to show at most.",
)
@pass_settings
def runs(
    settings: GlobalSettings,
    failed: bool,
    status: tuple[str, ...],
    since: str | None,
    action: str | None,
    workflow: str | None,
    limit: int,
) -> None:
    """Show the runs of all actions and workflows, the newest first."""
    statuses: tuple[str | None, ...] = (FAILED if failed else status) or (None,)
    since_ms = read_since(since, "--since") if since is not None else 0
    with settings.connect() as flo:
        found = list(islice(newest_first(flo, statuses, since_ms, action, workflow), limit))
    show_list(
        settings.format,
        found,
        COLUMNS,
        none="no runs",
        cursor=None,
        to_value=lambda run: run._asdict(),
    )


def newest_first(
    flo: "BlockingFlo",
    statuses: tuple[str | None, ...],
    since_ms: int,
    action: str | None = None,
    workflow: str | None = None,
) -> Iterator[ListedRun]:
    """Runs made since a time; pages are fetched as they are needed."""
    lists: list[Iterator[ListedRun]] = []
    for status in statuses:
        if workflow is None and status in (None, *RunStatus):
            asked = ListRuns(
                action=action, status=RunStatus(status) if status else None, limit=PAGE
            )
            lists.append(map(_of_action, items(flo, asked)))
        if action is None and status in (None, *WorkflowStatus):
            of_status = WorkflowStatus(status) if status else None
            query = ListWorkflowRuns(workflow=workflow, status=of_status, limit=PAGE)
            lists.append(map(_of_workflow, items(flo, query)))
    all_of_them = merge(*lists, key=lambda run: run.created_at_ms, reverse=True)
    return takewhile(lambda run: run.created_at_ms >= since_ms, all_of_them)


def items(flo: "BlockingFlo", query: Query[Any]) -> Iterator[Any]:
    while True:
        page = flo.call(query)
        yield from page.items
        if page.cursor is None:
            return
        query = msgspec.structs.replace(query, cursor=page.cursor)


def _of_action(run: Any) -> ListedRun:
    return ListedRun(
        run.run_id,
        "action",
        run.action,
        str(run.status),
        run.created_at_ms,
        run.finished_at_ms,
        run.error_code,
        run.error,
    )


def _of_workflow(run: Any) -> ListedRun:
    return ListedRun(
        run.run_id,
        "workflow",
        run.workflow,
        str(run.status),
        run.created_at_ms,
        run.finished_at_ms,
        None,
        None,
    )
