"""flo workflow watch: what happens in a run, as it happens.

run ──is there more history?──▸ new entries ──▸ stdout
 ▲                                  │
 └── wait for the end, a poll at most ──▸ ended: how

The end is known at once. For everything else the run is polled: soon after something has
happened, and less often while nothing does. A server that goes away meanwhile is waited for.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import Format, GlobalSettings, pass_settings
from flo.cli.app.output import NOTHING, payload_text, time_text, to_json
from flo.cli.app.say import say
from flo.cli.workflow.progress import detail_text, place_text, run_value
from flo.core.printable import printable
from flo.model.errors import TimedOut, Unavailable
from flo.model.executions.history import HistoryView
from flo.model.ids import RunId
from flo.model.workflows import (
    ENDED,
    WaitView,
    WorkflowRunView,
    WorkflowStatus,
)

if TYPE_CHECKING:
    from rich.status import Status

    from flo.client.blocking import BlockingFlo

POLL_S_MIN = 0.05
POLL_S_MAX = 1.0
"""How long nothing new is looked for, unless the run ends."""
RETRY_S = 1.0
"""The pause before a server that is away is asked again."""
TYPE_WIDTH = 20
STEP_WIDTH = 16

_AWAY = frozenset({"unreachable", "connection_lost", "server_stopping"})
_Answer = TypeVar("_Answer")


@click.command(
    "watch",
    cls=FloCommand,
    examples=["flo workflow watch wfrun-2", "flo workflow watch wfrun-2 --format json"],
)
@click.argument("run")
@pass_settings
def watch(settings: GlobalSettings, run: RunId) -> None:
    """Show what happens in the run RUN, as it happens, until it ends.

    With --format json there is one object per line: each entry of the history, then the run. The
    exit code is 3 if the run ends unsuccessfully. Leaving with Ctrl-C does nothing to it. A server
    that is restarted meanwhile is waited for.
    """
    with settings.connect() as flo:
        history = HistoryReader(flo, run)
        with status_line() as line:
            for view in polls(flo, run, line):
                read = partial(history.entries_up_to, view.history_count)
                for entry in retrying(line, read):
                    line.hide()
                    say(_entry_text(settings.format, entry))
                line.show(view)
    _show_end(settings, view)


def polls(flo: "BlockingFlo", run_id: RunId, line: "StatusLine") -> Iterator[WorkflowRunView]:
    """The run as it is, again and again, until it has ended."""
    run = flo.workflows.status(run_id)
    pause_s = POLL_S_MIN
    while True:
        yield run
        if run.status in ENDED:
            return
        known, run = run, retrying(line, partial(_poll, flo, run_id, pause_s))
        is_new = run.history_count > known.history_count
        pause_s = POLL_S_MIN if is_new else min(2 * pause_s, POLL_S_MAX)


def retrying(line: "StatusLine", ask: Callable[[], _Answer]) -> _Answer:
    """Ask again and again while the server is away."""
    is_reported = False
    while True:
        try:
            return ask()
        except Unavailable as error:
            if error.code not in _AWAY:
                raise
            if not is_reported:
                line.hide()
                say(f"Waiting for the server: {error.message}", err=True)
            is_reported = True
            time.sleep(RETRY_S)


class HistoryReader:
    """Reads a history, and later goes on from there."""

    def __init__(self, flo: "BlockingFlo", run_id: RunId) -> None:
        self._flo = flo
        self._run_id = run_id
        self._cursor: str | None = None
        self._seen = 0
        """How many entries of the page at the cursor have been shown."""

        self._count = 0
        """How many there were altogether."""

    def entries_up_to(self, count: int) -> list[HistoryView]:
        """Those that have not been read; nothing is asked if there are none by this count."""
        found: list[HistoryView] = []
        cursor, seen = self._cursor, self._seen
        while self._count + len(found) < count:
            page = self._flo.workflows.history(self._run_id, cursor=cursor)
            found += page.items[seen:]
            if page.cursor is None:
                seen = len(page.items)
                break
            cursor, seen = page.cursor, 0
        self._cursor, self._seen = cursor, seen
        self._count += len(found)
        return found


class StatusLine:
    """What the run waits for, under what has happened; without a terminal there is none."""

    def __init__(self, status: "Status | None") -> None:
        self._status = status

    def show(self, run: WorkflowRunView) -> None:
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(_progress(run)))
            self._status.start()

    def hide(self) -> None:
        """Make room for what has happened."""
        if self._status is not None:
            self._status.stop()


@contextmanager
def status_line() -> Iterator[StatusLine]:
    if not sys.stderr.isatty():
        yield StatusLine(None)
        return
    from rich.console import Console

    line = StatusLine(Console(stderr=True).status(""))
    try:
        yield line
    finally:
        line.hide()


def _poll(flo: "BlockingFlo", run_id: RunId, pause_s: float) -> WorkflowRunView:
    try:
        return flo.workflows.wait(run_id, pause_s)
    except TimedOut:
        return flo.workflows.status(run_id)


def _entry_text(form: Format, entry: HistoryView) -> str:
    match form:
        case Format.JSON:
            return to_json(entry, indent=-1)
        case Format.RAW:
            return entry.type
        case Format.TEXT:
            step = place_text(entry) or NOTHING
            is_said = entry.type.startswith("step_") and entry.detail == entry.step
            detail = entry.error or "" if is_said else detail_text(entry)
            text = f"{entry.type:<{TYPE_WIDTH}}  {step:<{STEP_WIDTH}}  {detail}"
            return printable(f"{time_text(entry.at_ms)}  {text}").replace("\n", " ").rstrip()


def _show_end(settings: GlobalSettings, run: WorkflowRunView) -> None:
    from flo.client.handles.execution import WorkflowUnsuccessful

    if settings.format is Format.JSON:
        say(to_json(run_value(run), indent=-1))
    if run.status is not WorkflowStatus.COMPLETED:
        unsuccessful = WorkflowUnsuccessful(run)
        unsuccessful.add_note(f"See why with: flo workflow explain {run.run_id}")
        if run.idempotency_key is not None:
            key = run.idempotency_key
            unsuccessful.add_note(f"It keeps its idempotency key {key!r}. Run it again with:")
            unsuccessful.add_note(f"  flo workflow rerun {run.run_id}")
        raise unsuccessful
    if settings.format is Format.TEXT:
        output = payload_text(run.output)
        say(f"{run.run_id} is {run.status}{f': {output}' if output else ''}")


def _progress(run: WorkflowRunView) -> str:
    paused = ", paused" if run.paused else ""
    waits = "; ".join(_wait_text(wait) for wait in run.waits)
    return printable(f"{run.run_id}  {run.status}{paused}  {waits}")


def _wait_text(wait: WaitView) -> str:
    what = wait.signal or wait.awaited or time_text(wait.until_ms)
    return f"{wait.branch or wait.step}: {wait.phase}{f' {what}' if what else ''}"
