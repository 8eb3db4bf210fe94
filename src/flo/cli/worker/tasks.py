"""flo worker await, complete, fail, touch: a worker's tasks, done by hand or by a shell script."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import lines, payload_text, show, time_text
from flo.cli.app.payload import read_payload
from flo.model.ids import ActionName, RunId, WorkerId, parse_run_id
from flo.model.runs import OUTCOME_SUCCESS, Task

BLOCK_MS_DEFAULT = 5_000
EXTEND_MS_DEFAULT = 30_000

F = TypeVar("F", bound=Callable[..., Any])

worker_flag = click.option(
    "-w", "--worker-id", metavar="ID", required=True, help="The worker that has the task."
)


def _check_action(
    context: click.Context, option: click.Parameter, action: ActionName | None
) -> None:
    """A task is named after its action, so that a mistake is seen before it is sent."""
    task = context.params.get("task") or ""
    parts = parse_run_id(task)
    if action is not None and parts is not None and parts[0] != action:
        raise click.BadParameter(
            f"task {task!r} is one of {parts[0]!r}, not of {action!r}", context, option
        )


def which_task(command: F) -> F:
    """The task meant, and which worker's attempt at it."""
    action = click.option(
        "-a",
        "--action",
        metavar="NAME",
        callback=_check_action,
        expose_value=False,
        help="The action of the task; a task of another is refused.",
    )
    attempt = click.option(
        "--attempt",
        type=click.IntRange(min=1),
        metavar="N",
        help="The attempt that is meant.  [default: the one the worker has now]",
    )
    task = click.argument("task", is_eager=True)
    return task(worker_flag(action(attempt(command))))


@click.command(
    "await",
    cls=FloCommand,
    examples=[
        "flo worker await process-order --worker-id worker-1 --block 30000",
        "flo worker await process-order send-email -w worker-1 --max-tasks 5 --format json",
    ],
)
@click.argument("types", metavar="ACTION...", nargs=-1, required=True)
@click.option("-w", "--worker-id", metavar="ID", required=True, help="The worker that asks.")
@click.option(
    "-b",
    "--block",
    "block_ms",
    type=int,
    metavar="MS",
    default=BLOCK_MS_DEFAULT,
    show_default=True,
    help="How long to wait for a task.",
)
@click.option(
    "-t",
    "--timeout",
    "lease_ms",
    type=int,
    metavar="MS",
    help="How long the task may take.  [default: the timeout of its action]",
)
@click.option(
    "--max-tasks",
    type=int,
    metavar="N",
    default=1,
    show_default=True,
    help="How many tasks to take at most.",
)
@pass_settings
def await_tasks(
    settings: GlobalSettings,
    types: tuple[ActionName, ...],
    worker_id: WorkerId,
    block_ms: int,
    lease_ms: int | None,
    max_tasks: int,
) -> None:
    """Wait for a task of these actions, and take it."""
    with settings.connect() as flo:
        assigned = flo.workers.claim(worker_id, list(types), max_tasks=max_tasks, block_ms=block_ms)
        if lease_ms is not None:
            for task in assigned.tasks:
                flo.workers.touch(task.task_id, worker_id, attempt=task.attempt, extend_ms=lease_ms)
    text = "\n\n".join(map(_task_text, assigned.tasks)) or "(no tasks)"
    raw = "\n".join(task.task_id for task in assigned.tasks)
    show(settings.format, assigned.tasks, text=text, raw=raw)
    if assigned.draining:
        click.echo(f"Worker {worker_id!r} is draining: there are no more tasks for it", err=True)


@click.command(
    "complete",
    cls=FloCommand,
    examples=[
        "flo worker complete process-order-1 --worker-id worker-1 --action process-order"
        ' --result \'{"status":"done"}\'',
        "flo worker complete review-order-1 -w worker-1 -a review-order --outcome approved",
    ],
)
@which_task
@click.option("--result", metavar="RESULT", help="Any text, usually JSON; - is stdin, @ a file.")
@click.option(
    "--outcome",
    metavar="NAME",
    default=OUTCOME_SUCCESS,
    show_default=True,
    help="The branch that a workflow takes from here.",
)
@pass_settings
def complete(
    settings: GlobalSettings,
    task: RunId,
    worker_id: WorkerId,
    attempt: int | None,
    result: str | None,
    outcome: str,
) -> None:
    """Report the result of TASK."""
    output = read_payload(result)
    with settings.connect() as flo:
        accepted = flo.workers.complete(
            task, worker_id, output, attempt=attempt or 0, outcome=outcome
        )
    show(settings.format, accepted, text="OK", raw=accepted.status)


@click.command(
    "fail",
    cls=FloCommand,
    examples=[
        "flo worker fail process-order-1 --worker-id worker-1 --action process-order"
        ' --error "Temporary failure" --retry',
        "flo worker fail process-order-1 --worker-id worker-1 --action process-order"
        ' --error "Invalid input"',
    ],
)
@which_task
@click.option("--error", metavar="TEXT", default="", help="What went wrong.")
@click.option("-r", "--retry", is_flag=True, help="Try again, while the action has retries left.")
@click.option(
    "--dead-letter/--no-dead-letter",
    default=True,
    help="Whether a run that has failed for good is kept for a requeue.  [default: it is]",
)
@pass_settings
def fail(
    settings: GlobalSettings,
    task: RunId,
    worker_id: WorkerId,
    attempt: int | None,
    error: str,
    retry: bool,
    dead_letter: bool,
) -> None:
    """Report that TASK has failed: for good, or to be tried again."""
    with settings.connect() as flo:
        accepted = flo.workers.fail(
            task,
            worker_id,
            error,
            attempt=attempt or 0,
            retry=retry,
            dead_letter=dead_letter,
        )
    show(settings.format, accepted, text="OK", raw=accepted.status)


@click.command(
    "touch",
    cls=FloCommand,
    examples=[
        "flo worker touch process-order-1 --worker-id worker-1 --action process-order"
        " --extend 30000",
    ],
)
@which_task
@click.option(
    "--extend",
    "extend_ms",
    type=int,
    metavar="MS",
    default=EXTEND_MS_DEFAULT,
    show_default=True,
    help="How long from now the task may take.",
)
@pass_settings
def touch(
    settings: GlobalSettings, task: RunId, worker_id: WorkerId, attempt: int | None, extend_ms: int
) -> None:
    """Keep TASK for longer than the timeout of its action."""
    with settings.connect() as flo:
        touched = flo.workers.touch(task, worker_id, attempt=attempt or 0, extend_ms=extend_ms)
    show(settings.format, touched, text="OK", raw=f"{touched.lease_expires_at_ms or ''}")


def _task_text(task: Task) -> str:
    return lines(
        {
            "Task": task.task_id,
            "Action": task.task_type,
            "Payload": payload_text(task.payload),
            "Attempt": task.attempt,
            "Created": time_text(task.created_at_ms),
        }
    )
