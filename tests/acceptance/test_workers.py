"""Work that would never end, on real processes: handlers that hang or leave in odd ways, loops.

Every way out of a handler is a report, a stuck worker ends so that its supervisor can start it
again, and a workflow run that goes on for ever is delayed, and stopped.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flo import BlockingFlo, RunStatus
from flo.testing.process import ServerProcess

STUCK_EXIT_CODE = 4

WAYS_OUT = """
import asyncio
from flo import ActionWorker

class Odd(BaseException):
    pass

KINDS = [GeneratorExit, KeyboardInterrupt, SystemExit, asyncio.CancelledError, Odd]

worker = ActionWorker(worker_id="clara")

def add(kind):
    async def at_once(ctx):
        raise kind("no")

    async def later(ctx):
        await asyncio.sleep(0.01)
        raise kind("no")

    def thread(ctx):
        raise kind("no")

    for name, handler in ("at-once", at_once), ("later", later), ("thread", thread):
        action = f"{kind.__name__}-{name}"
        worker.register_action(action, handler, timeout_ms=3_600_000, max_retries=0)

for kind in KINDS:
    add(kind)

@worker.action("cancels-itself", timeout_ms=3_600_000, max_retries=0)
async def cancels_itself(ctx):
    asyncio.current_task().cancel()
    await asyncio.sleep(60)
"""

STREAM_WAYS_OUT = """
from flo import StreamWorker

worker = StreamWorker(stream="orders", worker_id="boris")

@worker.handler
async def handle(ctx):
    raise {"1": GeneratorExit, "2": KeyboardInterrupt, "3": SystemExit}[ctx.record.key]("no")
"""

HANGING = """
import asyncio, threading
from flo import ActionWorker

worker = ActionWorker(
    worker_id="anna", concurrency=3, action_timeout=0.5, cancel_grace=0.2, stuck_timeout=1
)

@worker.action("thread", timeout_ms=3_600_000, max_retries=0)
def thread(ctx):
    threading.Event().wait()

@worker.action("deaf", timeout_ms=3_600_000, max_retries=0)
async def deaf(ctx):
    while True:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            pass

@worker.action("quick", timeout_ms=3_600_000)
async def quick(ctx):
    return "done"
"""


LOOP = """
kind: Workflow
name: loop
version: "{version}"
limits: {limits}
start: {{sleep: 1ms, transitions: {{success: again}}}}
steps:
  again: {{sleep: 1ms, transitions: {{success: again}}}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data")) as server:
        yield server


@contextmanager
def worker_process(
    server: ServerProcess, tmp_path: Path, text: str, *flags: str
) -> Iterator[subprocess.Popen[str]]:
    """`flo worker run` of this text, from its registration until the end of the block."""
    (tmp_path / "tasks.py").write_text(text)
    command = [sys.executable, "-m", "flo.cli.app.main", "--host", server.address]
    process = subprocess.Popen(
        [*command, "worker", "run", "tasks.py", *flags],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        while " serves " not in process.stderr.readline():
            assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.communicate()


def shown_workers(server: ServerProcess) -> str:
    command = [sys.executable, "-m", "flo.cli.app.main", "--host", server.address]
    listed = [*command, "worker", "list"]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout


def test_every_way_out_of_a_handler_is_a_report_and_the_worker_goes_on(
    server: ServerProcess, tmp_path: Path
) -> None:
    kinds = ("GeneratorExit", "KeyboardInterrupt", "SystemExit", "CancelledError", "Odd")
    names = [f"{kind}-{how}" for kind in kinds for how in ("at-once", "later", "thread")]
    with BlockingFlo(server.address) as flo, worker_process(server, tmp_path, WAYS_OUT) as worker:
        runs = [flo.actions.invoke(name) for name in [*names, "cancels-itself"]]
        ended = [flo.actions.wait(run.run_id, timeout=20) for run in runs]
        assert [one.status for one in ended] == [RunStatus.FAILED] * len(runs)
        errors = [(one.error or "").split(":")[0] for one in ended]
        assert errors == [name.split("-")[0] for name in names] + ["CancelledError"]
        assert worker.poll() is None


def test_every_way_out_of_a_handler_of_records_is_a_nack(
    server: ServerProcess, tmp_path: Path
) -> None:
    with BlockingFlo(server.address) as flo:
        group = flo.streams.group("orders", "default")
        flo.streams.create("orders")
        group.create(max_deliveries=1, ack_timeout=3_600)
        for key in "123":
            flo.streams.append("orders", key=key)
        with worker_process(server, tmp_path, STREAM_WAYS_OUT) as worker:
            while len(group.dead().items) < 3:
                assert worker.poll() is None


@pytest.mark.parametrize("action", ["thread", "deaf"])
def test_a_worker_whose_handlers_all_hang_ends_and_the_next_one_goes_on(
    server: ServerProcess, tmp_path: Path, action: str
) -> None:
    with BlockingFlo(server.address) as flo:
        with worker_process(server, tmp_path, HANGING) as worker:
            hung = [flo.actions.invoke(action) for _ in range(3)]
            waiting = flo.actions.invoke("quick") if _all_ended(flo, hung) else None
            assert worker.wait(timeout=60) == STUCK_EXIT_CODE
            assert worker.stderr is not None
            assert "worker anna is stuck: each of its 3 places" in worker.stderr.read()
        assert "anna" not in [one.worker_id for one in flo.workers.list().items]
        assert waiting is not None
        with worker_process(server, tmp_path, HANGING):  # as a supervisor would
            assert flo.actions.wait(waiting.run_id, timeout=30).output == b'"done"'


def _all_ended(flo: BlockingFlo, runs: list) -> bool:
    return all(flo.actions.wait(run.run_id, timeout=30).status is RunStatus.FAILED for run in runs)


def test_a_stuck_worker_that_stays_is_shown_as_unhealthy(
    server: ServerProcess, tmp_path: Path
) -> None:
    """The control: without the exit, nothing is ever taken again."""
    with (
        BlockingFlo(server.address) as flo,
        worker_process(server, tmp_path, HANGING, "--no-exit-when-stuck") as worker,
    ):
        _all_ended(flo, [flo.actions.invoke("thread") for _ in range(3)])
        assert worker.stderr is not None
        while "is stuck" not in worker.stderr.readline():
            assert worker.poll() is None
        (shown,) = [line for line in shown_workers(server).splitlines() if "anna" in line]
        assert "unhealthy (stuck)" in shown
        assert "3/3" in shown
        waiting = flo.actions.invoke("quick")
        (cause,) = flo.actions.explain(waiting.run_id).causes
        assert (cause.code, worker.poll()) == ("worker_stuck", None)


def test_a_loop_without_an_end_is_stopped_and_says_why(server: ServerProcess) -> None:
    with BlockingFlo(server.address) as flo:
        flo.workflows.create(LOOP.format(version=1, limits="{steps: 300}"))
        run = flo.workflows.start("loop")
        assert run.wait(timeout=60).status == "failed"
        shown = flo.workflows.status(run.run_id)
        assert (shown.error_code, len(shown.steps)) == ("step_limit_reached", 2)
        assert "300 steps are the most that the run may have" in (shown.error or "")


def test_a_loop_that_is_too_fast_is_delayed(server: ServerProcess) -> None:
    with BlockingFlo(server.address) as flo:
        flo.workflows.create(LOOP.format(version=2, limits="{steps_per_second: 1}"))
        run = flo.workflows.start("loop")
        while flo.workflows.explain(run.run_id).causes[0].code != "step_rate":
            assert flo.workflows.status(run.run_id).status == "waiting"
        run.cancel()
