"""Waiting for a run, with a live line for those who watch a terminal."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flo.model.errors import FloError
from flo.model.ids import RunId
from flo.model.runs import RunStatus, RunView

if TYPE_CHECKING:
    from rich.status import Status

    from flo.client.blocking import BlockingFlo

GLANCE_S = 1.0
"""How often the live line looks at the run."""


@contextmanager
def live_line(flo: "BlockingFlo", run_id: RunId) -> Iterator[None]:
    """While this lasts, a terminal shows how the run is doing; what is not one is left alone."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    ended = threading.Event()
    with Console(stderr=True).status(f"{run_id}  {RunStatus.PENDING}") as line:
        watch = threading.Thread(target=_watch, args=(flo, run_id, line, ended), daemon=True)
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join(GLANCE_S)


def _watch(flo: "BlockingFlo", run_id: RunId, line: "Status", ended: threading.Event) -> None:
    while not ended.wait(GLANCE_S):
        try:
            run = flo.actions.status(run_id)
        except FloError:  # whoever waits for the run hears of it too
            continue
        if not ended.is_set():
            line.update(_progress(run))


def _progress(run: RunView) -> str:
    if run.status is not RunStatus.RUNNING:
        return f"{run.run_id}  {run.status}"
    return f"{run.run_id}  {run.status} on {run.worker_id}, attempt {run.attempt}"
