"""What explain, status, history and lists tell, on a real server, also after a kill."""

import asyncio
from pathlib import Path

import httpx
import pytest

from acceptance.command_line import called, shown
from flo import Flo, StreamContext, StreamWorker
from flo.model.errors import FloError
from flo.testing.process import ServerProcess

BY = "rpc 127.0.0.1"

ORDER = """
kind: Workflow
name: order
version: "1"
start:
  run: "@actions/charge"
  transitions: {success: approve, failure: flo.Failed}
steps:
  approve:
    waitForSignal: {type: approval}
    transitions: {success: flo.Completed}
"""
NIGHTLY = """
kind: Workflow
name: nightly
version: "1"
schedule: {interval: 3600000, input: {who: anna}, subject: "customer-{input.who}"}
start: {run: "@actions/charge", transitions: {success: flo.Completed, failure: flo.Failed}}
"""


async def test_who_did_it_is_told_of_runs_signals_and_workflow_runs(
    server: ServerProcess, flo: Flo
) -> None:
    await flo.actions.register("charge")
    invoked = await flo.actions.invoke("charge")
    await flo.actions.cancel(invoked.run_id, "sold")
    await flo.workflows.create(ORDER)
    run = await flo.workflows.start("order")
    await flo.workflows.signal(run.run_id, "hurry", {})
    await flo.workflows.cancel(run.run_id, "sold")
    server.kill()
    server.start()

    status = shown(server, "action", "status", invoked.run_id)
    history = shown(server, "workflow", "history", run.run_id)

    assert f"Invoked by: {BY}" in status
    assert f"Cancelled by: {BY}" in status
    for kind in ("workflow_started", "signal_received", "workflow_cancelled"):
        (line,) = [line for line in history.splitlines() if line.startswith(kind)]
        assert line.endswith(BY)
    (signal,) = (await flo.workflows.steps(run.run_id)).signals
    assert (signal.type, signal.actor) == ("hurry", BY)


async def test_a_workflow_run_tells_of_its_calls_and_of_late_reports_after_its_end(
    server: ServerProcess, flo: Flo
) -> None:
    await flo.actions.register("charge", max_retries=0)
    await flo.workflows.create(ORDER)
    run = await flo.workflows.start("order")
    await flo.workers.register("anna", ["charge"])
    await flo.workers.claim("anna", ["charge"])
    await flo.workers.deregister("anna")
    assert (await flo.workflows.status(run.run_id)).status == "failed"
    with pytest.raises(FloError) as refusal:
        await flo.workers.complete("charge-1", "anna", {"charged": 12}, attempt=1)
    assert refusal.value.code == "lease_lost"
    server.kill()
    server.start()

    status = shown(server, "workflow", "status", run.run_id, "--calls")
    history = shown(server, "workflow", "history", run.run_id, "--calls")
    explained = shown(server, "action", "explain", "charge-1")

    assert history.count("late_report start charge-1 by anna: success") == 1
    for text in (status, history):
        assert "start 1 1 charge charge-1" in text.partition("Calls of run")[2]
    ended, late = [line for line in explained.splitlines() if line.startswith("since")]
    assert "(position " in ended
    assert "(position " in late
    definition = (await flo.workflows.status(run.run_id)).definition or ""
    assert f"(definition {definition[:12]})" in status


async def test_what_is_about_a_subject_is_listed(server: ServerProcess, flo: Flo) -> None:
    await flo.actions.register("charge")
    await flo.workflows.create(ORDER)
    await flo.workflows.create(NIGHTLY)
    for subject in ("customer-anna", "customer-boris", None):
        await flo.actions.invoke("charge", subject=subject)
    await flo.workflows.start("order", subject="customer-anna")
    nightly = await flo.schedules.run_now("nightly")
    await flo.actions.cancel("charge-1")
    await flo.workflows.cancel("wfrun-1")
    server.kill()
    server.start()

    runs = shown(server, "action", "runs", "--subject", "customer-anna", "-o", "raw")
    executions = shown(server, "workflow", "list-runs", "--subject", "customer-anna", "-o", "raw")

    assert runs.split() == ["charge-5", "charge-4", "charge-1"]
    assert executions.split() == [nightly.run_id, "wfrun-1"]
    live = await flo.actions.runs("charge", "pending", subject="customer-anna")
    assert [one.run_id for one in live.items] == ["charge-5"]
    ended = await flo.workflows.runs(status="cancelled", subject="customer-anna")
    assert [(one.run_id, one.subject) for one in ended.items] == [("wfrun-1", "customer-anna")]


async def test_what_is_paused_or_disabled_says_since_when_and_by_whom(
    server: ServerProcess, flo: Flo
) -> None:
    await flo.actions.register("charge")
    await flo.workflows.create(NIGHTLY)
    await flo.schedules.pause("nightly")
    run = await flo.schedules.run_now("nightly")
    await flo.workflows.disable("nightly", "1")
    server.kill()
    server.start()

    (schedule,) = (await flo.schedules.list()).items
    assert schedule.paused_since is not None
    assert schedule.disabled_since is not None
    assert schedule.paused_since.position < schedule.disabled_since.position
    place = f"(position {schedule.disabled_since.position}) by {BY}"
    assert place in shown(server, "workflow", "list")
    assert place in shown(server, "workflow", "explain", run.run_id)


async def test_a_definition_is_found_by_its_digest_while_a_run_of_it_is_kept(
    server: ServerProcess, flo: Flo
) -> None:
    await flo.actions.register("charge")
    await flo.workflows.create(ORDER)
    run = await flo.workflows.start("order")
    digest = (await flo.workflows.status(run.run_id)).definition or ""
    await flo.workflows.delete("order")
    await flo.workflows.cancel(run.run_id)
    server.kill()
    server.start()

    assert shown(server, "workflow", "show", "--definition", digest[:8]).split() == ORDER.split()
    async with httpx.AsyncClient(base_url=f"{server.http_url}/api/v1") as http:
        found = (await http.get(f"/definitions/{digest[:12]}")).json()
        unknown = await http.get("/definitions/00000000")
    assert (found["text"], found["definition"], found["deleted"]) == (ORDER, digest, True)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "definition_not_found")


async def test_a_definition_with_a_warning_is_refused_if_that_is_wanted(
    server: ServerProcess, flo: Flo, tmp_path: Path
) -> None:
    file = tmp_path / "order.yaml"
    file.write_text(ORDER)  # it may wait for its signal for ever

    refused = called(server, "workflow", "create", "-f", str(file), "--strict")
    assert (refused.returncode, "[E503] error" in refused.stderr) == (3, True)
    assert (await flo.workflows.list()).items == []
    with pytest.raises(FloError):
        await flo.workflows.create(ORDER, strict=True)
    assert (await flo.workflows.create(ORDER)).created


async def test_a_stream_worker_tells_which_code_it_runs(server: ServerProcess, flo: Flo) -> None:
    worker = StreamWorker(
        server.address, stream="orders", group="billing", worker_id="anna", effect="keyed"
    )
    handled = asyncio.Event()

    @worker.handler
    async def bill(ctx: StreamContext, order: list[str]) -> None:
        handled.set()

    serving = asyncio.create_task(worker.serve())
    await flo.streams.append("orders", ["a"])
    await handled.wait()

    (handler,) = (await flo.workers.get("anna")).handlers
    assert (handler.action, handler.effect) == ("orders/billing", "keyed")
    assert handler.input_schema == {"type": "array", "items": {"type": "string"}}
    assert handler.code_digest is not None
    worker.stop()
    await serving
