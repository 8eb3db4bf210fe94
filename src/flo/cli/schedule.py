"""flo schedule ..."""

from zoneinfo import ZoneInfo

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import list_command, plain_command
from flo.cli.app.output import Columns, duration_text, since_text, time_text
from flo.cli.app.parameters import Flag
from flo.model.schedules import (
    TIMES_MAX,
    GetSchedule,
    ListSchedules,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
    ScheduleView,
)

SECOND_MS = 1_000

SCHEDULE_COLUMNS: Columns[ScheduleView] = {
    "WORKFLOW": lambda schedule: schedule.workflow,
    "WHEN": lambda schedule: _when(schedule),
    "STATE": lambda schedule: _state(schedule),
    "NEXT": lambda schedule: _both_zones(schedule, schedule.next_at_ms),
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


def _times(schedule: ScheduleView) -> str:
    return "\n".join(str(_both_zones(schedule, at_ms)) for at_ms in schedule.times)


def _both_zones(schedule: ScheduleView, at_ms: int | None) -> str | None:
    """A moment as it is here, and as the clocks of the schedule show it if that is different."""
    here = time_text(at_ms)
    if here is None or schedule.cron is None:
        return here
    try:
        there = time_text(at_ms, ZoneInfo(schedule.timezone))
    except (KeyError, ValueError, OSError):
        return here  # this machine does not know the zone
    return here if there == here else f"{here} ({there} {schedule.timezone})"


def _when(schedule: ScheduleView) -> str:
    if schedule.cron is not None:
        return f"{schedule.cron} ({schedule.timezone})"
    interval_ms = schedule.interval_ms or 0
    is_even = interval_ms % SECOND_MS == 0
    return f"every {duration_text(interval_ms) if is_even else f'{interval_ms} ms'}"


def _state(schedule: ScheduleView) -> str:
    since = since_text(schedule.disabled_since or schedule.paused_since)
    if since is None:
        return "active"
    return f"{'paused' if schedule.enabled else 'disabled'} since {since}"


schedule.add(
    list_command(
        "list",
        ListSchedules,
        columns=SCHEDULE_COLUMNS,
        none="no schedules",
        examples=["flo schedule list", "flo schedule list --format json"],
    ),
    plain_command(
        "next",
        GetSchedule,
        "workflow",
        Flag("times", "-t", type=click.IntRange(1, TIMES_MAX)),
        text=lambda view: _times(view) or f"(never: it is {_state(view)})",
        raw=lambda view: "\n".join(str(time_text(at_ms)) for at_ms in view.times),
        examples=[
            "flo schedule next reconcile-accounts",
            "flo schedule next reconcile-accounts --times 10",
        ],
        help="Show when the workflow WORKFLOW starts next, here and in its time zone.",
    ),
    plain_command(
        "pause",
        PauseSchedule,
        "workflow",
        text="Schedule of {workflow!r} paused",
        also={"paused": True},
        examples=["flo schedule pause reconcile-accounts"],
    ),
    plain_command(
        "resume",
        ResumeSchedule,
        "workflow",
        text="Schedule of {workflow!r} resumed",
        also={"paused": False},
        examples=["flo schedule resume reconcile-accounts"],
    ),
    plain_command(
        "run-now",
        RunSchedule,
        "workflow",
        text="Started workflow run: {reply.run_id}",
        raw="{reply.run_id}",
        json=["reply.run_id", "workflow"],
        examples=["flo schedule run-now reconcile-accounts"],
    ),
)
