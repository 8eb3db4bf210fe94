"""flo action dlq ..."""

from collections.abc import Callable

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.dead_letters import change_dead, check_choice, everything_of
from flo.cli.app.derive import YES, confirm, list_command, operation_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import Columns, time_text
from flo.cli.app.parameters import Argument
from flo.client.blocking import BlockingFlo
from flo.model.ids import RunId
from flo.model.runs import ListDeadRuns, PurgeDeadRuns, RequeueDeadRuns, RunView

ERROR_SHOWN_MAX = 60
NAMED = "name the runs"

DEAD_COLUMNS: Columns[RunView] = {
    "RUN ID": lambda run: run.run_id,
    "STATUS": lambda run: run.status,
    "ATTEMPTS": lambda run: run.attempt,
    "FAILED": lambda run: time_text(run.finished_at_ms),
    "CODE": lambda run: run.error_code,
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


WHICH = ("action", Argument("ids", "RUN"), everything_of("action"))
"""The dead letters that are meant: those named, or all."""


@operation_command(
    "requeue",
    RequeueDeadRuns,
    *WHICH,
    examples=[
        "flo action dlq requeue charge-payment charge-payment-1",
        "flo action dlq requeue charge-payment --all",
    ],
)
def requeue(settings: GlobalSettings, command: RequeueDeadRuns, everything: bool) -> None:
    """Run dead letters of ACTION again, with all their retries."""
    check_choice(command.ids, everything, NAMED)
    _change(settings, "Requeued", lambda flo: flo.actions.requeue(command.action, command.ids))


@operation_command(
    "purge",
    PurgeDeadRuns,
    *WHICH,
    YES,
    examples=[
        "flo action dlq purge charge-payment charge-payment-1",
        "flo action dlq purge charge-payment --all --yes",
    ],
)
def purge(settings: GlobalSettings, command: PurgeDeadRuns, everything: bool, yes: bool) -> None:
    """Forget dead letters of ACTION for good. On a terminal it asks first."""
    check_choice(command.ids, everything, NAMED)
    what = ", ".join(command.ids or ["all its dead letters"])
    confirm(f"Forget {what} of {command.action!r} for good?", yes)
    _change(settings, "Purged", lambda flo: flo.actions.purge(command.action, command.ids))


def _change(
    settings: GlobalSettings, word: str, change: Callable[[BlockingFlo], list[RunId]]
) -> None:
    change_dead(settings, word, "run", "run_ids", change)


dlq.add(
    list_command(
        "list",
        ListDeadRuns,
        "action",
        columns=DEAD_COLUMNS,
        none="no dead letters",
        limit=50,
        examples=["flo action dlq list send-email"],
    ),
    requeue,
    purge,
)
