"""What the log remembers of the code that was executed, on a real server, also after a kill."""

import asyncio
from pathlib import Path

import pytest

from acceptance.command_line import shown
from flo import ActionContext, ActionWorker, Flo
from flo.model.errors import FloError
from flo.testing.process import ServerProcess


async def test_a_run_tells_how_long_it_took_by_the_clock_of_its_worker(
    server: ServerProcess, flo: Flo
) -> None:
    worker = ActionWorker(server.address, worker_id="anna")

    @worker.action("bake", max_retries=1, retry_delay_ms=1)
    async def bake(ctx: ActionContext) -> str:
        await asyncio.sleep(0.05)
        if ctx.attempt == 1:
            raise RuntimeError("burnt")
        return "bread"

    await flo.actions.register("bake")
    serving = asyncio.create_task(worker.serve())
    run = await flo.actions.invoke("bake")
    assert await run.result() == "bread"
    worker.stop()
    await serving
    server.kill()
    server.start()

    view = await flo.actions.status(run.run_id)
    assert view.took_ms is not None
    assert view.took_ms >= 50
    (attempt,) = view.attempts
    assert attempt.took_ms is not None
    assert attempt.took_ms >= 50
    assert attempt.held_ms is not None
    status = " ".join(shown(server, "action", "status", run.run_id).split())
    assert f"Took: {view.took_ms} ms" in status


async def test_a_worker_tells_which_code_it_runs(server: ServerProcess, flo: Flo) -> None:
    worker = ActionWorker(server.address, worker_id="anna", build_id="1.2-7f3a")

    @worker.action("count", effect="none")
    async def count(ctx: ActionContext, words: list[str]) -> int:
        return len(words)

    serving = asyncio.create_task(worker.serve())
    await flo.actions.register("count")
    run = await flo.actions.invoke("count", ["a", "b"])
    assert await run.result() == 2
    server.kill()
    server.start()

    (handler,) = (await flo.workers.get("anna")).handlers
    assert (handler.action, handler.effect) == ("count", "none")
    assert handler.input_schema == {"type": "array", "items": {"type": "string"}}
    assert handler.output_schema == {"type": "integer"}
    assert handler.code_digest is not None
    show = shown(server, "worker", "info", "anna")
    assert "Build ID: 1.2-7f3a" in show
    code = handler.code_digest[:12]
    assert f"count — effect: none, code {code}, array -> integer" in show
    worker.stop()
    await serving


ORDER = """
kind: Workflow
name: order
version: "1"
start:
  run: "@actions/bake"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""


async def test_the_text_of_a_run_outlives_the_version_and_no_other_takes_its_number(
    server: ServerProcess, flo: Flo, tmp_path: Path
) -> None:
    await flo.actions.register("bake")
    deployed = await flo.workflows.create(ORDER)
    run = await flo.workflows.start("order")
    await flo.workflows.cancel(run.run_id)
    await flo.workflows.delete("order")
    server.kill()
    server.start()

    assert shown(server, "workflow", "show", "order", "--version", "1").split() == ORDER.split()
    status = await flo.workflows.status(run.run_id)
    assert status.definition == deployed.definition
    with pytest.raises(FloError) as refusal:
        await flo.workflows.create(ORDER.replace("bake", "burn"))
    assert refusal.value.code == "version_exists"
    assert (await flo.workflows.create(ORDER)).definition == deployed.definition
