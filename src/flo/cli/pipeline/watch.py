"""flo pipeline watch: the nodes of a pipeline as they go on, until it ends.

At a terminal the tree is drawn again and again, with rates and bars; elsewhere there is a line for
every change of a node.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import Format, GlobalSettings, pass_settings
from flo.cli.app.output import time_text, to_json
from flo.cli.app.say import say
from flo.cli.pipeline.progress import (
    batches_text,
    has_ended,
    header_text,
    pipeline_text,
)
from flo.cli.workflow.watch import StatusLine, retrying
from flo.core.printable import printable
from flo.model.errors import TimedOut
from flo.model.pipelines.names import NodeStatus, PipelineStatus
from flo.model.pipelines.views import NodeView, PipelineView

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

POLL_S = 0.25
RATE_S = 3.0
"""Over how long a rate is taken."""
ID_WIDTH = 16

Shows = Callable[[PipelineView], None]


@click.command(
    "watch",
    cls=FloCommand,
    examples=["flo pipeline watch pipe-1", "flo pipeline watch pipe-1 --format json"],
)
@click.argument("pipeline")
@pass_settings
def watch(settings: GlobalSettings, pipeline: str) -> None:
    """Show the nodes of the pipeline PIPELINE as they go on, until it ends.

    With --format json there is one object per line: each change of a node, then the pipeline. The
    exit code is 3 if the pipeline fails or is cancelled. Leaving with Ctrl-C does nothing to it. A
    server that is restarted meanwhile is waited for.
    """
    with settings.connect() as flo:
        show_until_end(settings, flo, pipeline)


def show_until_end(settings: GlobalSettings, flo: "BlockingFlo", pipeline_id: str) -> None:
    """Show a pipeline until it ends, and how it ends; an error if it does not finish."""
    with _shown(settings.format) as show:
        for view in _polls(flo, pipeline_id):
            show(view)
    show_end(settings, view)


def show_end(settings: GlobalSettings, pipeline: PipelineView) -> None:
    from flo.client.handles.pipeline import PipelineUnsuccessful

    if settings.format is Format.JSON:
        say(to_json(pipeline, indent=-1))
    elif settings.format is Format.RAW:
        say(str(pipeline.status))
    elif not _is_terminal():
        say(header_text(pipeline, _now_ms()))
    if pipeline.status is not PipelineStatus.FINISHED:
        unsuccessful = PipelineUnsuccessful(pipeline)
        unsuccessful.add_note(f"See how far it came with: flo pipeline status {pipeline.id}")
        unsuccessful.add_note(f"Run what is left again with: flo pipeline retry {pipeline.id}")
        raise unsuccessful


class BatchRates:
    """How many batches a second each node has handled of late."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, dict[str, int]]] = deque()

    def add(self, pipeline: PipelineView, at_s: float) -> dict[str, float]:
        """The rates, now that the pipeline looks like this."""
        counts = {
            node.node_id: max(node.batches, node.batches_in)
            for node in pipeline.nodes
            if node.status is NodeStatus.RUNNING
        }
        self._seen.append((at_s, counts))
        while len(self._seen) > 2 and at_s - self._seen[0][0] > RATE_S:
            self._seen.popleft()
        since_s, before = self._seen[0]
        if at_s <= since_s:
            return {}
        return {
            name: (count - before[name]) / (at_s - since_s)
            for name, count in counts.items()
            if name in before
        }


class NodeChanges:
    """Which nodes have another status than they had."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[NodeStatus, int]] = {}

    def of(self, pipeline: PipelineView) -> list[NodeView]:
        changed = []
        for node in pipeline.nodes:
            state = (node.status, node.attempt_epoch)
            if self._known.get(node.node_id) != state:
                self._known[node.node_id] = state
                changed.append(node)
        return changed


def _polls(flo: "BlockingFlo", pipeline_id: str) -> Iterator[PipelineView]:
    """The pipeline as it is, again and again, until it has ended."""
    line = StatusLine(None)
    view = flo.pipelines.status(pipeline_id)
    while True:
        yield view
        if has_ended(view):
            return
        view = retrying(line, partial(_poll, flo, pipeline_id))


def _poll(flo: "BlockingFlo", pipeline_id: str) -> PipelineView:
    try:
        return flo.pipelines.wait(pipeline_id, POLL_S)
    except TimedOut:
        return flo.pipelines.status(pipeline_id)


@contextmanager
def _shown(form: Format) -> Iterator[Shows]:
    """Where a pipeline is shown as it goes on."""
    if form is not Format.TEXT or not _is_terminal():
        changes = NodeChanges()

        def say_changes(view: PipelineView) -> None:
            for node in changes.of(view):
                _say_change(form, node)

        yield say_changes
        return
    from rich.live import Live
    from rich.text import Text

    rates = BatchRates()
    with Live(auto_refresh=False) as live:
        yield lambda view: live.update(
            Text(pipeline_text(view, _now_ms(), rates.add(view, time.monotonic()))), refresh=True
        )


def _say_change(form: Format, node: NodeView) -> None:
    match form:
        case Format.JSON:
            say(to_json({"node_id": node.node_id, "status": node.status, **_counts(node)}, -1))
        case Format.RAW:
            say(f"{node.node_id} {node.status}")
        case Format.TEXT:
            detail = ", ".join(filter(None, [batches_text(node), node.last_error]))
            at = time_text(node.last_event_at_ms or _now_ms())
            text = f"{at}  {node.node_id:<{ID_WIDTH}}  {node.status:<10}  {detail}"
            say(printable(text).rstrip())


def _counts(node: NodeView) -> dict[str, object]:
    return {
        "attempt_epoch": node.attempt_epoch,
        "batches": node.batches,
        "batches_in": node.batches_in,
        "last_error": node.last_error,
    }


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
