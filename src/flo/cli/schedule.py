"""flo schedule ..."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, duration_text, show, show_list, time_text
from flo.cli.app.pages import collect, page_options
from flo.model.schedules import TIMES_MAX, ScheduleView
from flo.model.workflows import WorkflowName

SECOND_MS = 1_000

SCHEDULE_COLUMNS: Columns[ScheduleView] = {
    "WORKFLOW": lambda schedule: schedule.workflow,
    "WHEN": lambda schedule: _when(schedule),
    "STATE": lambda schedule: _state(schedule),
    "NEXT": lambda schedule: time_text(schedule.next_at_ms),
    "LAST": lambda schedule: time_text(schedule.last_at_ms),
    "LAST RUN": lambda schedule: schedule.last_run_id,
    "LIVE": lambda schedule: f"{schedule.live_runs} / {schedule.max_concurrent}",
    "SKIPPED": lambda schedule: schedule.skipped,
}


@click.group(
    cls=CommandGroup,
    examples=["flo schedule list", "flo schedule next reconcile-accounts"],
)
def schedule() -> None:
    """See when workflows start by themselves; hold them back."""


@schedule.command(
    "list", aliases=["ls"], examples=["flo schedule list", "flo schedule list --format json"]
)
@page_options(limit_default=100)
@pass_settings
def list_schedules(settings: GlobalSettings, limit: int, cursor: str | None) -> None:
    """List the schedules of all workflows; times are in UTC."""
    with settings.connect() as flo:
        schedules, cursor = collect(flo.schedules.list, limit, cursor)
    show_list(settings.format, schedules, SCHEDULE_COLUMNS, none="no schedules", cursor=cursor)


@schedule.command(
    "next",
    examples=[
        "flo schedule next reconcile-accounts",
        "flo schedule next reconcile-accounts --times 10",
    ],
)
@click.argument("workflow")
@click.option(
    "-t",
    "--times",
    type=click.IntRange(1, TIMES_MAX),
    metavar="N",
    default=5,
    show_default=True,
    help="How many times to show.",
)
@pass_settings
def show_next(settings: GlobalSettings, workflow: WorkflowName, times: int) -> None:
    """Show when the workflow WORKFLOW starts next, in UTC."""
    with settings.connect() as flo:
        view = flo.schedules.get(workflow, times)
    shown = "\n".join(str(time_text(at_ms)) for at_ms in view.times)
    show(settings.format, view, text=shown or f"(never: it is {_state(view)})", raw=shown)


@schedule.command("pause", examples=["flo schedule pause reconcile-accounts"])
@click.argument("workflow")
@pass_settings
def pause(settings: GlobalSettings, workflow: WorkflowName) -> None:
    """Start no runs of WORKFLOW by its schedule until it is resumed; by hand they still start."""
    with settings.connect() as flo:
        flo.schedules.pause(workflow)
    value = {"workflow": workflow, "paused": True}
    show(settings.format, value, text=f"Schedule of {workflow!r} paused", raw=workflow)


@schedule.command("resume", examples=["flo schedule resume reconcile-accounts"])
@click.argument("workflow")
@pass_settings
def resume(settings: GlobalSettings, workflow: WorkflowName) -> None:
    """Let the schedule of WORKFLOW start runs again; times that have passed are not caught up."""
    with settings.connect() as flo:
        flo.schedules.resume(workflow)
    value = {"workflow": workflow, "paused": False}
    show(settings.format, value, text=f"Schedule of {workflow!r} resumed", raw=workflow)


@schedule.command("run-now", examples=["flo schedule run-now reconcile-accounts"])
@click.argument("workflow")
@pass_settings
def run_now(settings: GlobalSettings, workflow: WorkflowName) -> None:
    """Start a run of WORKFLOW now, with the input of its schedule; its times stay as they are."""
    with settings.connect() as flo:
        run = flo.schedules.run_now(workflow)
    value = {"run_id": run.run_id, "workflow": workflow}
    show(settings.format, value, text=f"Started workflow run: {run.run_id}", raw=run.run_id)


def _when(schedule: ScheduleView) -> str:
    if schedule.cron is not None:
        return f"{schedule.cron} ({schedule.timezone})"
    interval_ms = schedule.interval_ms or 0
    is_even = interval_ms % SECOND_MS == 0
    return f"every {duration_text(interval_ms) if is_even else f'{interval_ms} ms'}"


def _state(schedule: ScheduleView) -> str:
    if not schedule.enabled:
        return "disabled"
    return "paused" if schedule.paused else "active"
