"""flo workflow watch: what happens in a run, as it happens.

history ──new entries──▸ stdout
   ▲                        │
   └── wait for the end, a glance at most ──▸ ended: how
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import click

from flo.cli.command import Command
from flo.cli.options import Format, Settings, pass_settings
from flo.cli.output import NOTHING, payload_text, time_text, to_json
from flo.cli.printable import printable
from flo.cli.workflow_options import connected
from flo.cli.workflow_runs import place_text, run_value
from flo.model.errors import TimedOut
from flo.model.ids import RunId
from flo.model.workflows import (
    ENDED,
    HistoryView,
    WaitView,
    WorkflowRunView,
    WorkflowStatus,
)

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

GLANCE_S = 1.0
"""How long nothing new is looked for, unless the run ends."""
TYPE_WIDTH = 20
STEP_WIDTH = 16

LiveLine: TypeAlias = Callable[[WorkflowRunView], None]


@click.command(
    "watch",
    cls=Command,
    examples=["flo workflow watch wfrun-2", "flo workflow watch wfrun-2 --format json"],
)
@click.argument("run")
@pass_settings
def watch(settings: Settings, run: RunId) -> None:
    """Show what happens in the run RUN, as it happens, until it ends.

    With --format json there is one object per line: each entry of the history, then the run. The
    exit code is 3 if the run ends unsuccessfully. Leaving with Ctrl-C does nothing to it.
    """
    with connected(settings) as flo:
        following = Following(flo, run)
        with live_line() as update:
            while True:
                view = flo.workflows.status(run)
                for entry in following.new_entries():
                    click.echo(_entry_text(settings.format, entry))
                if view.status in ENDED:
                    break
                update(view)
                _glance(flo, run)
    _show_end(settings, view)


class Following:
    """Reads a history on from where it has come to."""

    def __init__(self, flo: "BlockingFlo", run_id: RunId) -> None:
        self._flo = flo
        self._run_id = run_id
        self._cursor: str | None = None
        self._seen = 0
        """How many entries of the page at the cursor have been shown."""

    def new_entries(self) -> Iterator[HistoryView]:
        while True:
            page = self._flo.workflows.history(self._run_id, cursor=self._cursor)
            yield from page.items[self._seen :]
            if page.cursor is None:
                self._seen = len(page.items)
                return
            self._cursor, self._seen = page.cursor, 0


@contextmanager
def live_line() -> Iterator[LiveLine]:
    """A terminal shows what the run waits for; what is not one is left alone."""
    if not sys.stderr.isatty():
        yield lambda run: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as line:
        yield lambda run: line.update(Text(_progress(run)))


def _glance(flo: "BlockingFlo", run_id: RunId) -> None:
    try:
        flo.workflows.wait(run_id, GLANCE_S)
    except TimedOut:
        return


def _entry_text(form: Format, entry: HistoryView) -> str:
    match form:
        case Format.JSON:
            return to_json(entry, indent=-1)
        case Format.RAW:
            return entry.type
        case Format.TEXT:
            step = place_text(entry) or NOTHING
            detail = entry.detail if entry.detail != entry.step else ""
            text = f"{entry.type:<{TYPE_WIDTH}}  {step:<{STEP_WIDTH}}  {detail}"
            return printable(f"{time_text(entry.at_ms)}  {text}").replace("\n", " ").rstrip()


def _show_end(settings: Settings, run: WorkflowRunView) -> None:
    from flo.client.workflow_handle import WorkflowUnsuccessful

    if settings.format is Format.JSON:
        click.echo(to_json(run_value(run), indent=-1))
    if run.status is not WorkflowStatus.COMPLETED:
        unsuccessful = WorkflowUnsuccessful(run)
        unsuccessful.add_note(f"See why with: flo workflow explain {run.run_id}")
        raise unsuccessful
    if settings.format is Format.TEXT:
        output = payload_text(run.output)
        click.echo(printable(f"{run.run_id} is {run.status}{f': {output}' if output else ''}"))


def _progress(run: WorkflowRunView) -> str:
    paused = ", paused" if run.paused else ""
    waits = "; ".join(_wait_text(wait) for wait in run.waits)
    return printable(f"{run.run_id}  {run.status}{paused}  {waits}")


def _wait_text(wait: WaitView) -> str:
    what = wait.signal or wait.awaited or time_text(wait.until_ms)
    return f"{wait.walk or wait.step}: {wait.phase}{f' {what}' if what else ''}"
