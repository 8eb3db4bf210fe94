"""`make demo`: a server, a worker and a client, each in a process of its own.

A few dozen actions go through: some need a second attempt, and one is given up after three and
kept as a dead letter. Then an order goes through a workflow, and waits on its way for an approval.
Nothing needs to be installed or started first.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from flo import Flo, Invocation, RunView, WorkflowHandle
from flo.testing.process import ServerProcess

WORKER = Path(__file__).with_name("demo_worker.py")
ORDER_WORKER = Path(__file__).with_name("order_actions.py")
ORDER = Path(__file__).with_name("order-processing.yaml")
WAY_TO_APPROVAL = ("start", "process_payment", "check_approval", "await_approval")
IMAGES = 30
ORDERS = 6

console = Console()


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="flo-demo-") as folder,
        ServerProcess(Path(folder)) as server,
    ):
        console.print(f"[bold]Server[/]  RPC at {server.address}, HTTP API at {server.http_url}")
        console.print(f"        its data is in {folder}")
        workers = [
            subprocess.Popen([sys.executable, str(worker), server.address])
            for worker in (WORKER, ORDER_WORKER)
        ]
        for worker in workers:
            console.print(f"[bold]Worker[/]  process {worker.pid}, up to 8 tasks at a time")
        console.print()
        try:
            asyncio.run(client(server))
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait()
        server.stop()
    console.print("\nYour turn: [bold]make serve[/], then the five-minute tour in README.md")


async def client(server: ServerProcess) -> None:
    async with Flo(server.address) as flo:
        await flo.actions.register("resize-image", max_retries=3, retry_delay_ms=200)
        await flo.actions.register("charge-card", max_retries=2, retry_delay_ms=200)
        images = [{"name": f"photo-{number}.png"} for number in range(1, IMAGES + 1)]
        orders = [{"order": number, "amount": 100 * number} for number in range(1, ORDERS)]
        orders[3]["amount"] = 5_000
        invocations = await flo.actions.invoke_many("resize-image", images)
        invocations += await flo.actions.invoke_many("charge-card", orders)
        urgent = await flo.actions.invoke("charge-card", {"order": 99, "amount": 5}, priority=200)
        runs = await watch([*invocations, urgent])
        show(runs)
        console.print(
            f"\nEvery run can be asked for again, for example:\n"
            f"  flo action status {runs[0].run_id} --host {server.address}\n"
            f"  curl {server.http_url}/api/v1/actions/charge-card/runs"
        )
        await process_order(flo)


async def process_order(flo: Flo) -> None:
    """A workflow: the order is large, so somebody has to approve it before it is shipped."""
    for name in ("validate-order", "charge-payment", "check-approval-needed", "ship-order"):
        await flo.actions.register(name, max_retries=0)
    await flo.workflows.create(ORDER)
    order = {"order_id": "ORD-1", "amount": 900}
    run = await flo.workflows.start("order-processing", order, idempotency_key="ORD-1")
    console.print(f"\n[bold]Workflow[/]  {ORDER.name}, run {run}: an order of 900\n")
    steps = 0
    while steps < len(WAY_TO_APPROVAL):
        steps = await show_steps(run, steps)
    explanation = await run.explain()
    console.print(f"  [yellow]{explanation.summary}[/]")
    console.print(f"  [yellow]$ {explanation.advice[0]}[/]")
    await asyncio.sleep(1.0)
    await run.signal("approval", {"approved_by": "finance"})
    ended = await run.wait(timeout=30)
    await show_steps(run, steps)
    console.print(f"  [green]●[/] {ended.terminal}: {(ended.output or b'').decode()}")
    console.print(f"\n  flo workflow history {run} tells all of it.")


async def show_steps(run: WorkflowHandle, known: int) -> int:
    """Print the steps that have begun since; how many have by now."""
    begun = [entry async for entry in run.history() if entry.type == "step_started"]
    for entry in begun[known:]:
        console.print(f"  [green]●[/] {entry.step}")
    return len(begun)


async def watch(invocations: list[Invocation]) -> list[RunView]:
    """Wait for all of them, with a bar that moves."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console,
    )  # fmt: skip
    task = bar.add_task("Actions", total=len(invocations))
    with Live(bar, console=console, refresh_per_second=10):
        for waiting in asyncio.as_completed([one.wait(timeout=30) for one in invocations]):
            await waiting
            bar.advance(task)
    return [await one.status() for one in invocations]


def show(runs: list[RunView]) -> None:
    table = Table("RUN ID", "STATUS", "ATTEMPTS", "MS", "RESULT", box=None, pad_edge=False)
    for run in runs:
        if run.attempt > 1 or run.status != "completed" or run in (runs[0], runs[-1]):
            ended_ms = (run.finished_at_ms or 0) - run.created_at_ms
            result = (run.error or (run.output or b"").decode()).partition("\n")[0]
            table.add_row(run.run_id, run.status, str(run.attempt), str(ended_ms), result)
    console.print("\nThe first, the last, and all that did not go smoothly:\n")
    console.print(table)
    statuses = Counter(run.status.value for run in runs)
    retried = sum(run.attempt > 1 and run.status == "completed" for run in runs)
    dead = [run.run_id for run in runs if run.dead_lettered]
    console.print(
        f"\n{statuses['completed']} completed, {retried} of them after a retry; "
        f"{len(dead)} dead-lettered: {', '.join(dead)}"
    )


if __name__ == "__main__":
    main()
