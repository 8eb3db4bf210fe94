"""flo action dlq ..."""

from collections.abc import Sequence

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import YES, confirm, list_command, operation_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import Columns, count_text, show, time_text
from flo.cli.app.parameters import Argument
from flo.model.ids import RunId
from flo.model.runs import ListDead, PurgeDead, RequeueDead, RunView

ERROR_SHOWN_MAX = 60

DEAD_COLUMNS: Columns[RunView] = {
    "RUN ID": lambda run: run.run_id,
    "STATUS": lambda run: run.status,
    "ATTEMPTS": lambda run: run.attempt,
    "FAILED": lambda run: time_text(run.finished_at_ms),
    "ERROR": lambda run: (run.error or "")[:ERROR_SHOWN_MAX],
}


@click.group(
    "dlq",
    cls=CommandGroup,
    examples=["flo action dlq list send-email", "flo action dlq requeue send-email --all"],
)
def dlq() -> None:
    """See dead letters, run them again, or forget them.

    A dead letter is a run that has failed for good: by its last retry, or because its worker said
    so.
    """


EVERYTHING = click.Option(
    ["-a", "--all", "everything"], is_flag=True, help="All dead letters of the action."
)
WHICH = ("action", Argument("run_ids", "RUN"), EVERYTHING)
"""The dead letters that are meant: those named, or all."""


@operation_command(
    "requeue",
    RequeueDead,
    *WHICH,
    examples=[
        "flo action dlq requeue charge-payment charge-payment-1",
        "flo action dlq requeue charge-payment --all",
    ],
)
def requeue(settings: GlobalSettings, command: RequeueDead, everything: bool) -> None:
    """Run dead letters of ACTION again, with all their retries."""
    _check_choice(command.run_ids, everything)
    with settings.connect() as flo:
        requeued = flo.actions.requeue(command.action, command.run_ids)
    _show(settings, "Requeued", requeued)


@operation_command(
    "purge",
    PurgeDead,
    *WHICH,
    YES,
    examples=[
        "flo action dlq purge charge-payment charge-payment-1",
        "flo action dlq purge charge-payment --all --yes",
    ],
)
def purge(settings: GlobalSettings, command: PurgeDead, everything: bool, yes: bool) -> None:
    """Forget dead letters of ACTION for good. On a terminal it asks first."""
    _check_choice(command.run_ids, everything)
    what = ", ".join(command.run_ids or ["all its dead letters"])
    confirm(f"Forget {what} of {command.action!r} for good?", yes)
    with settings.connect() as flo:
        purged = flo.actions.purge(command.action, command.run_ids)
    _show(settings, "Purged", purged)


def _check_choice(run_ids: Sequence[RunId] | None, everything: bool) -> None:
    if everything == bool(run_ids):
        raise click.UsageError("name the runs, or say --all")


def _show(settings: GlobalSettings, word: str, run_ids: list[RunId]) -> None:
    text = f"{word} {count_text(len(run_ids), 'run')}" if run_ids else "(no dead letters)"
    show(settings.format, {"run_ids": run_ids}, text=text, raw="\n".join(run_ids))


dlq.add(
    list_command(
        "list",
        ListDead,
        "action",
        columns=DEAD_COLUMNS,
        none="no dead letters",
        limit=50,
        examples=["flo action dlq list send-email"],
    ),
    requeue,
    purge,
)
