"""What a run leaves behind: processes, files, callbacks."""

import asyncio
import os
import signal
import sys

from flo import BatchResult, RoleHandler
from flo.testing.handlers import run_handler
from flo.worker.pipelines.cancel import CancelSource

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


def handler_of(process):
    class Uses(RoleHandler):
        role = "uses"

        async def process_batch(self, batch, ctx):
            return await process(ctx) or BatchResult(success=True)

    return Uses()


async def cancel_once_there(path, ctx):
    while not path.exists():  # noqa: ASYNC110 -- another process makes it
        await asyncio.sleep(0.01)
    ctx.cancel_flag.cancel(CancelSource.SERVER, "test")


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_program_and_its_exit_code():
    codes = []

    async def process(ctx):
        codes.append(await ctx.run_subprocess(sys.executable, "-c", "raise SystemExit(3)"))

    run = await run_handler(handler_of(process))

    assert (run.status, codes) == ("finished", [3])


async def test_a_program_ends_with_the_run_and_so_do_its_children(tmp_path):
    started = tmp_path / "pid"
    script = (
        "import pathlib, subprocess, sys\n"
        f"child = subprocess.Popen({list(SLEEP)!r})\n"
        f"pathlib.Path({str(started) + '.new'!r}).write_text(str(child.pid))\n"
        f"pathlib.Path({str(started) + '.new'!r}).rename({str(started)!r})\n"
        "child.wait()\n"
    )

    async def process(ctx):
        cancelling = asyncio.create_task(cancel_once_there(started, ctx))
        try:
            await ctx.run_subprocess(sys.executable, "-c", script)
        finally:
            await cancelling

    run = await run_handler(handler_of(process))

    assert run.status == "cancelled"
    pid = int(started.read_text())
    for _ in range(500):  # the child of a child is reaped by the system
        if not is_alive(pid) or _is_zombie(pid):
            break
        await asyncio.sleep(0.01)
    else:
        raise AssertionError("the child still runs")


async def test_a_program_that_does_not_heed_sigterm_is_killed(tmp_path):
    started = tmp_path / "started"
    script = (
        "import pathlib, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(started)!r}).touch()\n"
        "time.sleep(600)\n"
    )

    async def process(ctx):
        cancelling = asyncio.create_task(cancel_once_there(started, ctx))
        try:
            await ctx.run_subprocess(sys.executable, "-c", script, grace_ms=50)
        finally:
            await cancelling

    run = await run_handler(handler_of(process))

    assert run.status == "cancelled"


async def test_everything_is_cleared_away_whatever_the_end(tmp_path):
    folder, file = tmp_path / "folder", tmp_path / "file"
    calls, processes = [], []

    async def later():
        calls.append("async")

    def broken():
        calls.append("broken")
        raise OSError

    async def process(ctx):
        folder.mkdir()
        (folder / "inside").touch()
        file.touch()
        ctx.register_temp_path(folder)
        ctx.register_temp_path(str(file))
        ctx.register_temp_path(tmp_path / "never there")
        processes.append(await asyncio.create_subprocess_exec(*SLEEP))
        ctx.register_subprocess(processes[0])
        ctx.on_cleanup(lambda: calls.append("first"))
        ctx.on_cleanup(broken)
        ctx.on_cleanup(later)
        raise ValueError("x")

    run = await run_handler(handler_of(process))

    assert run.status == "failed"
    assert calls == ["async", "broken", "first"]
    assert not folder.exists()
    assert not file.exists()
    assert processes[0].returncode == -signal.SIGTERM


async def test_a_place_to_keep_things_between_batches():
    class Counts(RoleHandler):
        role = "counts"

        async def process_batch(self, batch, ctx):
            ctx.kv["n"] = ctx.kv.get("n", 0) + 1
            assert (ctx.task_id, ctx.node_id, ctx.worker_id) == ("test", "counts", "test-worker")
            assert ctx.remaining_ms() is None
            assert not ctx.cancelled()
            return BatchResult(success=True, metrics={"n": ctx.kv["n"]})

    first = await run_handler(Counts())
    second = await run_handler(Counts())

    assert first.results[0].metrics == second.results[0].metrics == {"n": 1}


def _is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
