"""A status line on the terminal while a run is waited for."""

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

POLL_S = 1.0
"""How often the status line looks at the run."""


@contextmanager
def status_line(flo: "BlockingFlo", run_id: RunId) -> Iterator[None]:
    """While this lasts, a terminal shows how the run is doing; what is not one is left alone."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    ended = threading.Event()
    with Console(stderr=True).status(f"{run_id}  {RunStatus.PENDING}") as status:
        watch = threading.Thread(target=_watch, args=(flo, run_id, status, ended), daemon=True)
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join(POLL_S)


def _watch(flo: "BlockingFlo", run_id: RunId, status: "Status", ended: threading.Event) -> None:
    while not ended.wait(POLL_S):
        try:
            run = flo.actions.status(run_id)
        except FloError:  # the wait for the run fails with it too
            continue
        if not ended.is_set():
            status.update(_progress(run))


def _progress(run: RunView) -> str:
    if run.status is not RunStatus.RUNNING:
        return f"{run.run_id}  {run.status}"
    return f"{run.run_id}  {run.status} on {run.worker_id}, attempt {run.attempt}"
