"""flo worker await, complete, fail, touch: a worker's tasks, done by hand or by a shell script."""

import click

from flo.cli.app.derive import operation_command, plain_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import lines, payload_text, show, time_text
from flo.cli.app.parameters import Argument, Flag, number_type
from flo.cli.app.payload import JSON_UNLESS_RAW, raw_flag
from flo.cli.app.say import say
from flo.model.ids import ActionName, parse_run_id
from flo.model.runs import Claim, Complete, Fail, Task, Touch

BLOCK_MS_DEFAULT = 5_000


def _check_action(
    context: click.Context, option: click.Parameter, action: ActionName | None
) -> None:
    """A task is named after its action, so that a mistake is seen before it is sent."""
    task = context.params.get("run_id") or ""
    parts = parse_run_id(task)
    if action is not None and parts is not None and parts[0] != action:
        raise click.BadParameter(
            f"task {task!r} is one of {parts[0]!r}, not of {action!r}", context, option
        )


TASK = (
    Argument("run_id", "TASK", is_eager=True),
    Flag("worker_id", "-w", metavar="ID"),
    click.Option(
        ["-a", "--action"],
        metavar="NAME",
        callback=_check_action,
        expose_value=False,
        help="The action of the task; a task of another is refused.",
    ),
    Flag(
        "attempt",
        type=click.IntRange(min=1),
        default=None,
        help="The attempt that is meant.  [default: the one the worker has now]",
    ),
)
"""The task that is meant, and which worker's attempt at it."""


@operation_command(
    "await",
    Claim,
    Argument("actions", "ACTION"),
    Flag("worker_id", "-w", metavar="ID", help="The worker that asks."),
    Flag("block_ms", "-b", default=BLOCK_MS_DEFAULT),
    click.Option(
        ["-t", "--timeout", "lease_ms"],
        type=number_type(Touch, "extend_ms"),
        metavar="MS",
        help="How long the task may take.  [default: the timeout of its action]",
    ),
    "max_tasks",
    examples=[
        "flo worker await process-order --worker-id worker-1 --block 30000",
        "flo worker await process-order send-email -w worker-1 --max-tasks 5 --format json",
    ],
)
def await_tasks(settings: GlobalSettings, command: Claim, lease_ms: int | None) -> None:
    """Wait for a task of these actions, and take it."""
    worker_id = command.worker_id
    with settings.connect() as flo:
        assigned = flo.call(command)
        if lease_ms is not None:
            for task in assigned.tasks:
                flo.workers.touch(task.task_id, worker_id, attempt=task.attempt, extend_ms=lease_ms)
    text = "\n\n".join(map(_task_text, assigned.tasks)) or "(no tasks)"
    raw = "\n".join(task.task_id for task in assigned.tasks)
    show(settings.format, assigned.tasks, text=text, raw=raw)
    if assigned.draining:
        say(f"Worker {worker_id!r} is draining: there are no more tasks for it", err=True)


complete = plain_command(
    "complete",
    Complete,
    *TASK,
    Flag(
        "output",
        "--result",
        metavar="RESULT",
        type=JSON_UNLESS_RAW,
        help="JSON, or anything with --raw; - is stdin, @ a file.",
    ),
    raw_flag(),
    Flag("outcome", metavar="NAME"),
    text="OK",
    raw="{reply.status}",
    examples=[
        "flo worker complete process-order-1 --worker-id worker-1 --action process-order"
        ' --result \'{"status":"done"}\'',
        "flo worker complete review-order-1 -w worker-1 -a review-order --outcome approved",
    ],
    help="Report the result of TASK.",
)

fail = plain_command(
    "fail",
    Fail,
    *TASK,
    "error",
    Flag("code", metavar="CODE"),
    Flag("retry", "-r"),
    Flag("dead_letter", "--dead-letter/--no-dead-letter", show_default=True),
    text="OK",
    raw="{reply.status}",
    examples=[
        "flo worker fail process-order-1 --worker-id worker-1 --action process-order"
        ' --error "Temporary failure" --retry',
        "flo worker fail process-order-1 --worker-id worker-1 --action process-order"
        ' --error "Invalid input"',
        "flo worker fail review-order-1 -w worker-1 --code invalid_card --error 'card refused'"
        " --no-dead-letter",
    ],
    help="Report that TASK has failed: for good, or to be tried again.",
    more="Without --retry and with --no-dead-letter it is not retryable: a workflow step that "
    "waits for it fails at once.",
)

touch = plain_command(
    "touch",
    Touch,
    *TASK,
    "extend_ms",
    text="OK",
    raw="{reply.lease_expires_at_ms}",
    examples=[
        "flo worker touch process-order-1 --worker-id worker-1 --action process-order"
        " --extend 30000",
    ],
    help="Keep TASK for longer than the timeout of its action.",
)


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
