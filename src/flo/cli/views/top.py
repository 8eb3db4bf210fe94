"""flo top: what a server is doing now, again and again.

sample ──▸ sample ──▸ …      what is there: actions, workers, runs
    └─ rates ─┘              what has changed between two of them
"""

import sys
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import Format, GlobalSettings, pass_settings
from flo.cli.app.output import duration_text, table, to_json
from flo.cli.app.say import say
from flo.cli.views.runs import items
from flo.core.printable import printable
from flo.model.actions import ListActions
from flo.model.runs import ListRuns, RunStatus
from flo.model.workers import ListWorkers

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

RECENT = 100
"""Times of execution are those of so many runs that were queued last, and have completed."""
LINES = 8
ERROR_SHOWN_MAX = 50
_ENDED = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.TIMED_OUT)
_BAD = (RunStatus.FAILED, RunStatus.TIMED_OUT)


class Sample(NamedTuple):
    """What is there at a time."""

    at_s: float
    actions: Mapping[str, Mapping[str, int]]
    """How many runs of each action have each status."""
    workers: list[Any]
    running: list[Any]
    completed: list[Any]
    failed: list[Any]


class ActionLine(NamedTuple):
    action: str
    pending: int
    running: int
    queued_per_s: float
    ended_per_s: float
    failed_per_s: float
    average_ms: int | None
    longest_ms: int | None


class Picture(NamedTuple):
    """What is shown of two samples."""

    actions: list[ActionLine]
    workers: list[dict[str, Any]]
    longest: list[dict[str, Any]]
    failing: list[dict[str, Any]]


@click.command(
    "top",
    cls=FloCommand,
    examples=["flo top", "flo top --once", "flo top --interval 0.5 --namespace shop"],
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait before looking again.",
)
@click.option("--once", is_flag=True, help="Show one picture, of one interval, and end.")
@pass_settings
def top(settings: GlobalSettings, interval: float, once: bool) -> None:
    """Show what a server is doing now: rates, queues, workers, what is slow, what fails.

    It goes on until Ctrl-C. Where nobody looks, because the output is no terminal, and with --once
    there is one picture; with --format json there is one object per line.
    """
    once = once or not sys.stdout.isatty()
    with settings.connect() as flo:
        frames = _frames(flo, interval)
        if settings.format is not Format.TEXT:
            for frame in islice(frames, 1 if once else None):
                say(to_json(_value(frame), indent=0).replace("\n", ""))
        elif once:
            say(text_of(next(frames), _heading(settings, interval)))
        else:
            _show_live(frames, _heading(settings, interval))


def _heading(settings: GlobalSettings, interval: float) -> str:
    namespace = settings.namespace or "default"
    return f"flo top · {settings.address} · namespace {namespace} · every {interval:g} s"


def _show_live(frames: Iterator[Picture], heading: str) -> None:
    from rich.live import Live
    from rich.text import Text

    with Live(Text(f"{heading}\n…"), screen=True, auto_refresh=False) as live:
        for frame in frames:
            live.update(Text(printable(text_of(frame, heading))), refresh=True)


def _frames(flo: "BlockingFlo", interval: float) -> Iterator[Picture]:
    before = sample(flo)
    while True:
        time.sleep(interval)
        now = sample(flo)
        yield frame_of(before, now)
        before = now


def sample(flo: "BlockingFlo") -> Sample:
    def last(status: RunStatus, limit: int) -> list[Any]:
        return flo.call(ListRuns(status=status, limit=limit)).items

    return Sample(
        time.time(),
        {action.name: action.runs for action in items(flo, ListActions())},
        list(items(flo, ListWorkers())),
        last(RunStatus.RUNNING, RECENT),
        last(RunStatus.COMPLETED, RECENT),
        last(RunStatus.FAILED, LINES),
    )


def frame_of(before: Sample, now: Sample) -> Picture:
    """Rates by what has changed; the busiest actions first."""
    seconds = max(now.at_s - before.at_s, 0.001)
    times: dict[str, list[int]] = {}
    for run in now.completed:
        if run.took_ms is not None:
            times.setdefault(run.action, []).append(run.took_ms)
    actions = [
        _line(name, before.actions.get(name, {}), counts, seconds, times.get(name, []))
        for name, counts in now.actions.items()
    ]
    actions.sort(key=lambda line: (-(line.pending + line.running), -line.ended_per_s, line.action))
    started = [run for run in now.running if run.started_at_ms is not None]
    started.sort(key=lambda run: int(run.started_at_ms))
    return Picture(
        actions,
        [
            {
                "worker": worker.worker_id,
                "status": str(worker.status),
                "load": f"{worker.current_load}/{worker.max_concurrency}",
                "completed": worker.tasks_completed,
                "failed": worker.tasks_failed,
            }
            for worker in now.workers
        ],
        [
            {
                "run": run.run_id,
                "running_ms": max(round(now.at_s * 1_000) - run.started_at_ms, 0),
                "attempt": run.attempt,
                "worker": run.worker_id,
            }
            for run in started[:LINES]
        ],
        [
            {
                "run": run.run_id,
                "ago_ms": max(round(now.at_s * 1_000) - (run.finished_at_ms or 0), 0),
                "code": run.error_code,
                "error": run.error,
            }
            for run in now.failed
        ],
    )


def _line(
    name: str,
    before: Mapping[str, int],
    now: Mapping[str, int],
    seconds: float,
    times: list[int],
) -> ActionLine:
    ended = _sum(now, _ENDED) - _sum(before, _ENDED)
    live = (RunStatus.PENDING, RunStatus.RUNNING)
    queued = ended + _sum(now, live) - _sum(before, live)
    return ActionLine(
        name,
        now[RunStatus.PENDING],
        now[RunStatus.RUNNING],
        max(queued, 0) / seconds,
        max(ended, 0) / seconds,
        max(_sum(now, _BAD) - _sum(before, _BAD), 0) / seconds,
        round(sum(times) / len(times)) if times else None,
        max(times, default=None),
    )


def _sum(counts: Mapping[str, int], statuses: tuple[RunStatus, ...]) -> int:
    return sum(counts.get(status, 0) for status in statuses)


def text_of(frame: Picture, heading: str) -> str:
    parts = [heading, _summary(frame), ""]
    parts.append(
        table(
            {
                "ACTION": lambda line: line.action,
                "PENDING": lambda line: line.pending,
                "RUNNING": lambda line: line.running,
                "QUEUED/S": lambda line: f"{line.queued_per_s:.1f}",
                "ENDED/S": lambda line: f"{line.ended_per_s:.1f}",
                "FAILED/S": lambda line: f"{line.failed_per_s:.1f}",
                "AVERAGE MS": lambda line: line.average_ms,
                "LONGEST MS": lambda line: line.longest_ms,
            },
            frame.actions[:LINES],
        )
    )
    if more := len(frame.actions) - LINES:
        parts += [f"… and {more} more actions"] if more > 0 else []
    parts += _section("WORKERS", frame.workers)
    parts += _section("RUNNING LONGEST", frame.longest)
    parts += _section("FAILED LAST", frame.failing)
    return "\n".join(parts)


def _summary(frame: Picture) -> str:
    queued, ended, failed = (
        sum(getattr(line, name) for line in frame.actions)
        for name in ("queued_per_s", "ended_per_s", "failed_per_s")
    )
    pending = sum(line.pending for line in frame.actions)
    running = sum(line.running for line in frame.actions)
    return (
        f"{queued:.1f} queued/s, {ended:.1f} ended/s, {failed:.1f} failed/s · "
        f"{pending} pending, {running} running · {len(frame.workers)} workers"
    )


def _section(title: str, rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    columns = {
        name.removesuffix("_ms").upper(): (lambda row, name=name: _cell(name, row[name]))
        for name in rows[0]
    }
    return ["", title, table(columns, rows[:LINES])]


def _cell(name: str, value: Any) -> object:
    if name.endswith("_ms"):
        return duration_text(value)
    return str(value)[:ERROR_SHOWN_MAX] if name == "error" else value


def _value(frame: Picture) -> dict[str, Any]:
    return frame._asdict() | {"actions": [line._asdict() for line in frame.actions]}
