"""flo bulk ...: rerun, cancel, signal or requeue all runs that fit, as one job."""

import time
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click
import msgspec

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import is_at_terminal
from flo.cli.app.options import Format, GlobalSettings, pass_settings
from flo.cli.app.output import count_text, show, show_list, time_text
from flo.cli.app.payload import read_json
from flo.cli.app.progress import progress as progress_shown
from flo.cli.app.say import say
from flo.cli.bulk.jobs import RUNS_MAX, BulkJob, BulkProgress, carry_out, keep, kept, names
from flo.cli.views.runs import FAILED, STATUSES, ListedRun, newest_first
from flo.cli.workflow.options import read_since
from flo.model.errors import Invalid

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

PREVIEWED = 5
LIVE = ("pending", "running", "waiting")


def _filters(command: Any) -> Any:
    for option in (
        click.option("--job", metavar="NAME", help="What the job is called; else it gets a name."),
        click.option("-y", "--yes", is_flag=True, help="Do not ask, even on a terminal."),
        click.option("--preview", is_flag=True, help="Show what it would be done to, and end."),
        click.option("--since", metavar="TIME", help="Only runs made since then, or 12h ago."),
        click.option(
            "-s", "--status", multiple=True, type=click.Choice(STATUSES), help="Only in these."
        ),
        click.option("--failed", is_flag=True, help="Only runs that have failed or timed out."),
    ):
        command = option(command)
    return command


of_workflow = click.option("-w", "--workflow", metavar="NAME", help="Only runs of this workflow.")
of_action = click.option("-a", "--action", metavar="NAME", help="Only runs of this action.")


@click.group(
    "bulk",
    cls=CommandGroup,
    examples=[
        "flo bulk rerun --failed --since 1d --from-failed-step",
        "flo bulk cancel --workflow process-order --preview",
        "flo bulk list",
    ],
)
def bulk() -> None:
    """Do the same to all runs that fit: preview it, see its progress, go on after a crash.

    What is to be done is kept on the server first, as a job. Whatever ends the command or the
    server meanwhile, `flo bulk resume JOB` goes on, and nothing is done twice.
    """


@bulk.command(
    "rerun",
    examples=[
        "flo bulk rerun --failed --since 1d --from-failed-step",
        "flo bulk rerun --failed --workflow process-order --preview",
    ],
)
@of_workflow
@click.option(
    "--from-failed-step", is_flag=True, help="Begin each with the step that it has failed at."
)
@_filters
@pass_settings
def rerun(settings: GlobalSettings, /, from_failed_step: bool, **chosen: Any) -> None:
    """Start a run again for every workflow run that fits; those that failed, unless said."""
    _run(settings, "rerun", chosen, FAILED, from_failed_step=from_failed_step)


@bulk.command(
    "cancel",
    examples=[
        "flo bulk cancel --workflow process-order --since 1h --reason 'a wrong price list'",
        "flo bulk cancel --action send-email --preview",
    ],
)
@of_workflow
@of_action
@click.option("-r", "--reason", default="", help="Why; it is kept with each run.")
@_filters
@pass_settings
def cancel(settings: GlobalSettings, /, reason: str, **chosen: Any) -> None:
    """End every run that fits and has not ended."""
    _run(settings, "cancel", chosen, LIVE, reason=reason)


@bulk.command(
    "signal",
    examples=['flo bulk signal --workflow process-order --type approval \'{"by":"anna"}\''],
)
@click.argument("payload", required=False)
@click.option("-t", "--type", "signal_type", required=True, metavar="TYPE", help="Its type.")
@of_workflow
@_filters
@pass_settings
def signal(
    settings: GlobalSettings, /, payload: str | None, signal_type: str, **chosen: Any
) -> None:
    """Send a signal to every workflow run that fits; those that wait, unless said."""
    value = None if payload is None else msgspec.json.decode(read_json(payload))
    _run(settings, "signal", chosen, ("waiting",), signal_type=signal_type, payload=value)


@bulk.command("requeue", examples=["flo bulk requeue --action charge-payment --since 1d"])
@of_action
@_filters
@pass_settings
def requeue(settings: GlobalSettings, /, **chosen: Any) -> None:
    """Run every dead letter of actions that fits again."""
    _run(settings, "requeue", chosen, FAILED)


@bulk.command("resume", examples=["flo bulk resume nightly"])
@click.argument("job")
@pass_settings
def resume(settings: GlobalSettings, job: str) -> None:
    """Go on with a job that was cut off; one that is done is only shown."""
    with settings.connect() as flo:
        found, done = kept(flo, job)
        _carry_out(settings, flo, found, done)


@bulk.command("list", examples=["flo bulk list"])
@pass_settings
def list_jobs(settings: GlobalSettings) -> None:
    """Show the jobs of the last 30 days, and how far each has come."""
    with settings.connect() as flo:
        jobs = [kept(flo, name) for name in names(flo)]
    show_list(
        settings.format,
        jobs,
        {
            "JOB": lambda one: one[0].job,
            "DOES": lambda one: one[0].operation,
            "MADE": lambda one: time_text(one[0].made_at_ms),
            "DONE": lambda one: f"{one[1].count} of {len(one[0].runs)}",
            "REFUSED": lambda one: len(one[1].refused),
        },
        none="no bulk jobs",
        cursor=None,
        to_value=lambda one: _value(*one),
    )


def _run(
    settings: GlobalSettings,
    operation: str,
    chosen: dict[str, Any],
    statuses: tuple[str, ...],
    **options: Any,
) -> None:
    preview, yes, name = chosen.pop("preview"), chosen.pop("yes"), chosen.pop("job")
    with settings.connect() as flo:
        found = _found(flo, operation, statuses, **chosen)
        _show_preview(settings, operation, found)
        if preview or not found:
            if settings.format is not Format.TEXT:
                value = {"operation": operation, "runs": [run.run_id for run in found]}
                show(settings.format, value, text="", raw="\n".join(value["runs"]))
            return
        if not yes and is_at_terminal():
            click.confirm(f"{operation} {count_text(len(found), 'run')}?", abort=True, err=True)
        job = BulkJob(
            job=name or f"{operation}-{uuid4().hex[:8]}",
            operation=operation,
            runs=[(run.kind, run.run_id) for run in found],
            made_at_ms=round(time.time() * 1_000),
            **options,
        )
        keep(flo, job)
        _carry_out(settings, flo, job, BulkProgress())


def _found(
    flo: "BlockingFlo",
    operation: str,
    usual: tuple[str, ...],
    *,
    failed: bool,
    status: tuple[str, ...],
    since: str | None,
    workflow: str | None = None,
    action: str | None = None,
) -> list[ListedRun]:
    statuses = (FAILED if failed else status) or usual
    since_ms = read_since(since, "--since") if since is not None else 0
    kinds = {"rerun": ("workflow",), "signal": ("workflow",), "requeue": ("action",)}
    wanted = kinds.get(operation, ("workflow",) if workflow is not None else ("action", "workflow"))
    runs = newest_first(flo, statuses, since_ms, action, workflow)
    found = list(islice((run for run in runs if run.kind in wanted), RUNS_MAX + 1))
    if len(found) > RUNS_MAX:
        raise Invalid(f"expected at most {RUNS_MAX} runs in a job; choose fewer, by --since")
    return found


def _show_preview(settings: GlobalSettings, operation: str, found: list[ListedRun]) -> None:
    if settings.format is not Format.TEXT:
        return
    by_name: dict[str, int] = {}
    for run in found:
        by_name[f"{run.kind} {run.name}"] = by_name.get(f"{run.kind} {run.name}", 0) + 1
    say(f"{operation}: {count_text(len(found), 'run')}")
    for name, count in by_name.items():
        say(f"  {count:>6}  {name}")
    shown = ", ".join(run.run_id for run in found[:PREVIEWED])
    if found:
        say(f"  {shown}{', …' if len(found) > PREVIEWED else ''}")


def _carry_out(
    settings: GlobalSettings, flo: "BlockingFlo", job: BulkJob, done: BulkProgress
) -> None:
    total = len(job.runs)
    if settings.format is Format.TEXT and done.count < total:
        say(f"Job {job.job}; if this is cut off, go on with: flo bulk resume {job.job}", err=True)
    with progress_shown(f"of {total} runs") as tell:
        done = carry_out(flo, job, done, tell)
    text = f"Job {job.job}: {done.count} of {total} runs, {len(done.refused)} refused"
    for run_id, why in islice(done.refused.items(), PREVIEWED):
        text += f"\n  {run_id}: {why}"
    show(settings.format, _value(job, done), text=text, raw=job.job)


def _value(job: BulkJob, done: BulkProgress) -> dict[str, Any]:
    return {
        "job": job.job,
        "operation": job.operation,
        "runs": len(job.runs),
        "done": done.count,
        "refused": done.refused,
        "made_at_ms": job.made_at_ms,
    }
