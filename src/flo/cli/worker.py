"""flo worker ..."""

import click

from flo.cli.command import Group
from flo.cli.options import Settings, pass_settings
from flo.cli.output import Columns, show_list
from flo.cli.pages import collect, page_options
from flo.model.workers import WorkerView

WORKER_COLUMNS: Columns[WorkerView] = {
    "WORKER ID": lambda worker: worker.worker_id,
    "TYPE": lambda worker: worker.worker_type,
    "STATUS": lambda worker: worker.status,
    "COMPLETED": lambda worker: worker.tasks_completed,
    "FAILED": lambda worker: worker.tasks_failed,
    "LOAD": lambda worker: f"{worker.current_load}/{worker.max_concurrency}",
    "MACHINE": lambda worker: worker.machine_id,
}


@click.group(cls=Group, examples=["flo worker list"])
def worker() -> None:
    """See who does the work."""


@worker.command(
    "list", aliases=["ls"], examples=["flo worker list", "flo worker list --format json"]
)
@page_options(limit_default=100)
@pass_settings
def list_workers(settings: Settings, limit: int, cursor: str | None) -> None:
    """List the registered workers."""
    with settings.connect() as flo:
        workers, cursor = collect(flo.workers.list, limit, cursor)
    show_list(settings.format, workers, WORKER_COLUMNS, none="no workers", cursor=cursor)
