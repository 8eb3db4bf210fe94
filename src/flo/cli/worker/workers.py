"""flo worker ..."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, aligned, show, show_list, time_text, to_json
from flo.cli.app.pages import collect, page_options
from flo.cli.app.payload import read_labels, read_object
from flo.cli.worker.run import run
from flo.cli.worker.tasks import await_tasks, complete, fail, touch
from flo.model.ids import ActionName, WorkerId
from flo.model.workers import CONCURRENCY_DEFAULT, ProcessView, WorkerView

F = TypeVar("F", bound=Callable[..., Any])

WORKER_COLUMNS: Columns[WorkerView] = {
    "WORKER ID": lambda worker: worker.worker_id,
    "TYPE": lambda worker: worker.worker_type,
    "STATUS": lambda worker: worker.status,
    "COMPLETED": lambda worker: worker.tasks_completed,
    "FAILED": lambda worker: worker.tasks_failed,
    "LOAD": lambda worker: f"{worker.current_load}/{worker.max_concurrency}",
    "MACHINE": lambda worker: worker.machine_id,
}


@click.group(
    cls=CommandGroup,
    examples=[
        "flo worker run emails:worker",
        "flo worker register worker-1 process-order send-email",
        "flo worker list",
    ],
)
def worker() -> None:
    """Run workers, do tasks by hand, see who works."""


def which_worker(command: F) -> F:
    """The worker meant, as an argument or as a flag."""
    flag = click.option(
        "-w", "--worker-id", "id_in_flag", metavar="ID", help="The worker, if not named before."
    )
    return click.argument("worker_id", metavar="[ID]", required=False)(flag(command))


@worker.command(
    "register",
    examples=[
        "flo worker register worker-1 process-order send-email",
        'flo worker register worker-2 render-video --labels \'{"gpu":true,"vram_gb":24}\'',
    ],
)
@click.argument("worker_id", metavar="ID")
@click.argument("types", metavar="ACTION...", nargs=-1, required=True)
@click.option("-l", "--labels", metavar="JSON", help="What it has to offer, as a flat JSON object.")
@click.option(
    "--metadata",
    metavar="FILE|JSON",
    help="Anything worth knowing; without --labels, its flat values are the labels.",
)
@click.option(
    "--max-concurrency",
    type=int,
    metavar="N",
    default=CONCURRENCY_DEFAULT,
    show_default=True,
    help="How many tasks it takes at a time.",
)
@click.option("--machine-id", metavar="NAME", help="Where it runs.")
@pass_settings
def register(
    settings: GlobalSettings,
    worker_id: WorkerId,
    types: tuple[ActionName, ...],
    labels: str | None,
    metadata: str | None,
    max_concurrency: int,
    machine_id: str | None,
) -> None:
    """Register the worker ID for tasks of these actions, or replace its registration."""
    offered, about = read_labels(labels), read_object(metadata, "--metadata")
    with settings.connect() as flo:
        known = flo.workers.register(
            worker_id,
            list(types),
            max_concurrency=max_concurrency,
            machine_id=machine_id,
            labels=offered,
            metadata=about,
        )
    show(settings.format, known, text=f"Registered worker: {worker_id}", raw=worker_id)


worker.add_command(await_tasks)
worker.add_command(complete)
worker.add_command(fail)
worker.add_command(touch)


@worker.command(
    "heartbeat",
    examples=[
        "flo worker heartbeat --worker-id worker-1",
        "flo worker heartbeat worker-1 --load 3",
    ],
)
@which_worker
@click.option(
    "--load",
    "current_load",
    type=int,
    metavar="N",
    default=0,
    help="How many tasks it has in hand.  [default: 0]",
)
@pass_settings
def heartbeat(
    settings: GlobalSettings,
    worker_id: WorkerId | None,
    id_in_flag: WorkerId | None,
    current_load: int,
) -> None:
    """Say that the worker ID is alive, and hear its status."""
    worker_id = _one_of(worker_id, id_in_flag)
    with settings.connect() as flo:
        known = flo.workers.heartbeat(worker_id, current_load)
    show(settings.format, known, text=f"Status: {known.status}", raw=known.status)


@worker.command(
    "drain", examples=["flo worker drain --worker-id worker-1", "flo worker drain worker-1"]
)
@which_worker
@pass_settings
def drain(
    settings: GlobalSettings, worker_id: WorkerId | None, id_in_flag: WorkerId | None
) -> None:
    """Give the worker ID no more tasks; those it has go on."""
    worker_id = _one_of(worker_id, id_in_flag)
    with settings.connect() as flo:
        known = flo.workers.drain(worker_id)
    show(settings.format, known, text=f"Draining worker: {worker_id}", raw=known.status)


@worker.command("deregister", examples=["flo worker deregister worker-1"])
@which_worker
@pass_settings
def deregister(
    settings: GlobalSettings, worker_id: WorkerId | None, id_in_flag: WorkerId | None
) -> None:
    """Forget the worker ID; what it still has is free for others at once."""
    worker_id = _one_of(worker_id, id_in_flag)
    with settings.connect() as flo:
        flo.workers.deregister(worker_id)
    value = {"worker_id": worker_id}
    show(settings.format, value, text=f"Deregistered worker: {worker_id}", raw=worker_id)


@worker.command(
    "list", aliases=["ls"], examples=["flo worker list", "flo worker list --format json"]
)
@page_options(limit_default=100)
@pass_settings
def list_workers(settings: GlobalSettings, limit: int, cursor: str | None) -> None:
    """List the registered workers."""
    with settings.connect() as flo:
        workers, cursor = collect(flo.workers.list, limit, cursor)
    show_list(settings.format, workers, WORKER_COLUMNS, none="no workers", cursor=cursor)


@worker.command("info", examples=["flo worker info worker-1"])
@which_worker
@pass_settings
def info(settings: GlobalSettings, worker_id: WorkerId | None, id_in_flag: WorkerId | None) -> None:
    """Show what there is to know of the worker ID."""
    worker_id = _one_of(worker_id, id_in_flag)
    with settings.connect() as flo:
        view = flo.workers.get(worker_id)
    show(settings.format, view, text=_details(view), raw=view.status)


worker.add_command(run)


def _one_of(worker_id: WorkerId | None, id_in_flag: WorkerId | None) -> WorkerId:
    match worker_id, id_in_flag:
        case (str(one), None) | (None, str(one)):
            return one
        case (str(one), str(other)) if one == other:
            return one
        case _:
            raise click.UsageError("name one worker, as ID or with --worker-id")


def _details(worker: WorkerView) -> str:
    processes = f"Processes ({len(worker.processes)})"
    return aligned(
        {
            "Worker ID": worker.worker_id,
            "Status": worker.status,
            "Type": worker.worker_type,
            "Current Load": f"{worker.current_load} / {worker.max_concurrency}",
            "Tasks Completed": worker.tasks_completed,
            "Tasks Failed": worker.tasks_failed,
            "Registered": time_text(worker.registered_at_ms),
            "Last Heartbeat": time_text(worker.last_heartbeat_ms),
            processes: "\n".join(map(_process_text, worker.processes)),
            "Labels": worker.labels and to_json(worker.labels, indent=0),
            "Metadata": worker.metadata and to_json(worker.metadata, indent=0),
            "Machine ID": worker.machine_id,
        }
    )


def _process_text(process: ProcessView) -> str:
    last_run = time_text(process.last_run_at_ms) or "never"
    counts = f"runs: {process.run_count}, fails: {process.fail_count}, last run: {last_run}"
    return f"{process.name} ({process.kind}) — {counts}"
