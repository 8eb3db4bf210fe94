"""Takes the pictures of live views that the guides show: `python docs/screenshots.py`. Needs tmux.

A real server, two workers and a client that keeps them busy; the views run in a terminal of tmux,
whose screen is written down as an SVG.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from io import StringIO
from pathlib import Path
from threading import Thread

from rich.console import Console
from rich.text import Text

from flo import ActionContext, ActionWorker, Flo, NonRetryableError
from flo.testing.process import ServerProcess

FOLDER = Path(__file__).parent / "images"
WIDTH, HEIGHT = 110, 34
TMUX = ("tmux", "-L", "flo-screenshots")
LOAD_S = 4.0
ORDER = """
kind: Workflow
name: order
version: "1"
start:
  run: "@actions/charge-card"
  transitions: {success: approve, failure: flo.Failed}
steps:
  approve:
    waitForSignal: {type: approval, timeoutMs: 3600000}
    transitions: {success: flo.Completed, timeout: flo.Failed}
"""


def worker_of(address: str, name: str) -> ActionWorker:
    worker = ActionWorker(address, worker_id=name, concurrency=8)

    @worker.action("send-email")
    async def send_email(ctx: ActionContext) -> None:
        await asyncio.sleep(0.03)

    @worker.action("charge-card", max_retries=0)
    async def charge_card(ctx: ActionContext) -> None:
        await asyncio.sleep(0.05)
        if int(ctx.task_id.rpartition("-")[2]) % 9 == 0:
            raise NonRetryableError("the card was refused", code="card_refused")

    @worker.action("render-video")
    async def render_video(ctx: ActionContext) -> None:
        await asyncio.sleep(60)

    return worker


async def keep_busy(address: str, over: asyncio.Event) -> None:
    workers = [worker_of(address, name) for name in ("worker-eu-1", "worker-eu-2")]
    serving = [asyncio.ensure_future(worker.serve()) for worker in workers]
    async with Flo(address) as flo:
        for name in ("send-email", "charge-card", "render-video"):
            await flo.actions.register(name, if_changed=True)
        await flo.workflows.create(ORDER)
        await flo.actions.invoke_many("render-video", [None] * 2)
        await flo.workflows.start("order", run_id="order-7")
        while not over.is_set():
            await flo.actions.invoke_many("send-email", [None] * 18)
            await flo.actions.invoke_many("charge-card", [None] * 4)
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 0.1)
    for task in serving:
        task.cancel()


def shown(address: str, command: str, wait_s: float) -> str:
    """What a terminal shows after a while of this command, with its colours."""
    flo = f"{sys.executable} -m flo.cli.app.main"
    line = f"FLO_ENDPOINT={address} {command.replace('flo', flo, 1)}"
    size = ("-x", str(WIDTH), "-y", str(HEIGHT))
    subprocess.run([*TMUX, "new-session", "-d", *size, f"{line}; sleep 60"], check=True)
    try:
        time.sleep(wait_s)
        pane = [*TMUX, "capture-pane", "-e", "-p"]
        return subprocess.run(pane, check=True, capture_output=True, text=True).stdout
    finally:
        subprocess.run([*TMUX, "kill-server"], check=True)


def save(name: str, command: str, screen: str) -> None:
    console = Console(record=True, width=WIDTH, file=StringIO())
    console.print(Text.from_ansi(screen.rstrip()))
    console.save_svg(str(FOLDER / f"{name}.svg"), title=f"$ {command}")


def main() -> int:
    if shutil.which("tmux") is None:
        print("tmux is needed")
        return 1
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as data, ServerProcess(Path(data), http_port=-1) as server:
        loop, over = asyncio.new_event_loop(), asyncio.Event()
        busy = Thread(target=loop.run_until_complete, args=(keep_busy(server.address, over),))
        busy.start()
        time.sleep(LOAD_S)
        for name, command in (
            ("flo-top", "flo top"),
            ("flo-runs", "flo runs --failed --since 1h --limit 12"),
            ("flo-workflow-watch", "flo workflow watch order-7"),
        ):
            save(name, command, shown(server.address, command, LOAD_S))
        loop.call_soon_threadsafe(over.set)
        busy.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
