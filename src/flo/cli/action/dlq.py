"""flo action dlq ..."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, count_text, show, show_list, time_text
from flo.cli.app.pages import collect, page_options
from flo.model.ids import RunId
from flo.model.runs import RunPage, RunView

ERROR_SHOWN_MAX = 60

F = TypeVar("F", bound=Callable[..., Any])

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


def which_runs(command: F) -> F:
    """The dead letters meant: those named, or all."""
    everything = click.option(
        "-a", "--all", "everything", is_flag=True, help="All dead letters of the action."
    )
    runs = click.argument("runs", metavar="[RUN]...", nargs=-1)
    return click.argument("action")(runs(everything(command)))


@dlq.command("list", aliases=["ls"], examples=["flo action dlq list send-email"])
@click.argument("action")
@page_options(limit_default=50)
@pass_settings
def list_dead(settings: GlobalSettings, action: str, limit: int, cursor: str | None) -> None:
    """List the dead letters of ACTION, the newest first."""
    with settings.connect() as flo:

        def ask(limit: int, cursor: str | None) -> RunPage:
            return flo.actions.dead(action, limit, cursor)

        runs, cursor = collect(ask, limit, cursor)
    show_list(settings.format, runs, DEAD_COLUMNS, none="no dead letters", cursor=cursor)


@dlq.command(
    "requeue",
    examples=[
        "flo action dlq requeue charge-payment charge-payment-1",
        "flo action dlq requeue charge-payment --all",
    ],
)
@which_runs
@pass_settings
def requeue(
    settings: GlobalSettings, action: str, runs: tuple[RunId, ...], everything: bool
) -> None:
    """Run dead letters of ACTION again, with all their retries."""
    _check_choice(runs, everything)
    with settings.connect() as flo:
        requeued = flo.actions.requeue(action, runs or None)
    _show(settings, "Requeued", requeued)


@dlq.command(
    "purge",
    examples=[
        "flo action dlq purge charge-payment charge-payment-1",
        "flo action dlq purge charge-payment --all --yes",
    ],
)
@which_runs
@click.option("-y", "--yes", is_flag=True, help="Do not ask, even on a terminal.")
@pass_settings
def purge(
    settings: GlobalSettings, action: str, runs: tuple[RunId, ...], everything: bool, yes: bool
) -> None:
    """Forget dead letters of ACTION for good. On a terminal it asks first."""
    _check_choice(runs, everything)
    if not yes and sys.stdin.isatty():
        what = "all its dead letters" if everything else ", ".join(runs)
        click.confirm(f"Forget {what} of {action!r} for good?", abort=True, err=True)
    with settings.connect() as flo:
        purged = flo.actions.purge(action, runs or None)
    _show(settings, "Purged", purged)


def _check_choice(runs: tuple[RunId, ...], everything: bool) -> None:
    if everything == bool(runs):
        raise click.UsageError("name the runs, or say --all")


def _show(settings: GlobalSettings, word: str, run_ids: list[RunId]) -> None:
    text = f"{word} {count_text(len(run_ids), 'run')}" if run_ids else "(no dead letters)"
    show(settings.format, {"run_ids": run_ids}, text=text, raw="\n".join(run_ids))
