"""flo worker ..."""

from typing import Any

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import list_command, plain_command
from flo.cli.app.output import Columns, aligned, time_text, to_json
from flo.cli.app.parameters import Argument, Either, Flag, Several
from flo.cli.worker.blocks import blocks
from flo.cli.worker.run import run
from flo.cli.worker.tasks import await_tasks, complete, fail, touch
from flo.model.workers import (
    DeregisterWorker,
    DrainWorker,
    GetWorker,
    HandlerInfo,
    Heartbeat,
    ListWorkers,
    ProcessView,
    RegisterWorker,
    WorkerConnection,
    WorkerView,
)

DIGEST_SHOWN = 12

WORKER = Either("worker_id", "-w", "--worker-id", what="worker", argument="ID", metavar="ID")

WORKER_COLUMNS: Columns[WorkerView] = {
    "WORKER ID": lambda worker: worker.worker_id,
    "TYPE": lambda worker: worker.worker_type,
    "STATUS": lambda worker: _status_text(worker),
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


def _status_text(worker: WorkerView) -> str:
    """With what is wrong with it, or with its connection, if anything is."""
    if worker.connection in (None, WorkerConnection.CONNECTED):
        is_stuck = worker.abandoned >= worker.max_concurrency
        return f"{worker.status} (stuck)" if is_stuck else worker.status
    return f"{worker.status} ({worker.connection})"


def _details(worker: WorkerView) -> str:
    processes = f"Processes ({len(worker.processes)})"
    return aligned(
        {
            "Worker ID": worker.worker_id,
            "Status": worker.status,
            "Type": worker.worker_type,
            "Current Load": f"{worker.current_load} / {worker.max_concurrency}",
            "Abandoned": f"{worker.abandoned} handlers do not stop" if worker.abandoned else None,
            "Tasks Completed": worker.tasks_completed,
            "Tasks Failed": worker.tasks_failed,
            "Registered": time_text(worker.registered_at_ms),
            "Connection": worker.connection,
            "Last Heartbeat": time_text(worker.last_heartbeat_ms),
            processes: "\n".join(map(_process_text, worker.processes)),
            "Build ID": worker.build_id,
            "Handlers": "\n".join(map(_handler_text, worker.handlers)),
            "Labels": worker.labels and to_json(worker.labels, indent=0),
            "Metadata": worker.metadata and to_json(worker.metadata, indent=0),
            "Machine ID": worker.machine_id,
        }
    )


def _handler_text(handler: HandlerInfo) -> str:
    code = f", code {handler.code_digest[:DIGEST_SHOWN]}" if handler.code_digest else ""
    takes = _type_text(handler.input_schema)
    gives = _type_text(handler.output_schema)
    types = f", {takes or 'anything'} -> {gives or 'anything'}" if takes or gives else ""
    return f"{handler.action} — effect: {handler.effect}{code}{types}"


def _type_text(schema: dict[str, Any] | None) -> str | None:
    """The name of the type that a schema is of, or what it says of itself."""
    if schema is None:
        return None
    reference = str(schema.get("$ref", "")).rpartition("/")[2]
    return str(schema.get("title") or reference or schema.get("type") or "a schema")


def _process_text(process: ProcessView) -> str:
    last_run = time_text(process.last_run_at_ms) or "never"
    counts = f"runs: {process.run_count}, fails: {process.fail_count}, last run: {last_run}"
    return f"{process.name} ({process.kind}) — {counts}"


worker.add(
    plain_command(
        "register",
        RegisterWorker,
        Argument("worker_id", "ID"),
        Several("processes", "-a", "--action", metavar="ACTION"),
        Flag("labels", "-l"),
        Flag("metadata", metavar="FILE|JSON"),
        "max_concurrency",
        Flag("machine_id", metavar="NAME"),
        text="Registered worker: {reply.worker_id}",
        raw="{reply.worker_id}",
        examples=[
            "flo worker register worker-1 process-order send-email",
            "flo worker register --action process-order --action send-email",
            'flo worker register worker-2 render-video --labels \'{"gpu":true,"vram_gb":24}\'',
        ],
        help="Register a worker, or replace its registration. Without ID the server makes one.",
    ),
    await_tasks,
    complete,
    fail,
    touch,
    plain_command(
        "heartbeat",
        Heartbeat,
        WORKER,
        Flag("current_load", "--load"),
        text="Status: {reply.status}",
        raw="{reply.status}",
        examples=[
            "flo worker heartbeat --worker-id worker-1",
            "flo worker heartbeat worker-1 --load 3",
        ],
    ),
    plain_command(
        "drain",
        DrainWorker,
        WORKER,
        text="Draining worker: {worker_id}",
        raw="{reply.status}",
        examples=["flo worker drain --worker-id worker-1", "flo worker drain worker-1"],
        help="Give the worker ID no more tasks; those it has go on.",
    ),
    plain_command(
        "deregister",
        DeregisterWorker,
        WORKER,
        text="Deregistered worker: {worker_id}",
        examples=["flo worker deregister worker-1"],
    ),
    list_command(
        "list",
        ListWorkers,
        Flag("all", "--all"),
        columns=WORKER_COLUMNS,
        none="no workers",
        examples=["flo worker list", "flo worker list --all", "flo worker list --format json"],
    ),
    plain_command(
        "info",
        GetWorker,
        WORKER,
        text=_details,
        raw="{reply.status}",
        examples=["flo worker info worker-1"],
    ),
    run,
    blocks,
)
