"""Every call of a workflow run is told, before and after a kill: command line, HTTP and SDK."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from flo import CallView, Flo
from flo.testing.process import ServerProcess

TEXT = """
kind: Workflow
name: order
version: "1"
start: {run: "@actions/check", transitions: {success: charge, again: start}}
steps:
  charge:
    run: "@actions/charge"
    input_mapping: "$.steps.start.output"
    retry: {max_attempts: 2, initial_delay_ms: 1}
    transitions: {success: approve}
  approve: {waitForSignal: {type: approval}, transitions: {success: flo.Completed}}
"""


class Worker:
    """Does what it is told, over HTTP."""

    def __init__(self, server: ServerProcess) -> None:
        self._http = httpx.Client(base_url=f"{server.http_url}/api/v1", timeout=30, verify=False)

    def post(self, path: str, body: Any = None) -> Any:
        answer = self._http.post(path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def get(self, path: str, **asked: Any) -> Any:
        answer = self._http.get(path, params=asked)
        answer.raise_for_status()
        return answer.json()

    def report(self, action: str, how: str, **report: Any) -> None:
        asked = {"actions": [action], "block_ms": 10_000}
        (task,) = self.post("/workers/anna/await", asked)["tasks"]
        self.post(f"/tasks/{task['task_id']}/{how}", {"worker_id": "anna", **report})

    def close(self) -> None:
        self._http.close()


def flo(server: ServerProcess, *arguments: str) -> str:
    command = [sys.executable, "-m", "flo.cli.app.main", "-e", server.address, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


async def told_by_the_sdk(address: str) -> list[CallView]:
    async with Flo(address) as client:
        return [call async for call in client.workflows.run("wfrun-1").steps()]


def test_every_call_is_told_on_every_road_also_after_a_kill(tmp_path: Path) -> None:
    (tmp_path / "order.yaml").write_text(TEXT)
    with ServerProcess(tmp_path / "data") as server:
        worker = Worker(server)
        for action in ("check", "charge"):
            worker.post("/actions", {"name": action, "max_retries": 0})
        flo(server, "workflow", "create", "-f", str(tmp_path / "order.yaml"))
        worker.post("/workflows/order/start", {"id": 7})
        worker.report("check", "complete", result=1, outcome="again")
        worker.report("check", "complete", result=2)
        worker.report("charge", "fail", error="busy", code="busy", retry=False)
        server.kill()
        server.start()
        worker.report("charge", "complete", result={"paid": True})
        flo(server, "workflow", "signal", "wfrun-1", "--type", "approval", '{"by": "anna"}')

        page = worker.get("/workflow-runs/wfrun-1/steps")
        brief = [
            (one["step"], one["visit"], one["attempt"], one["run_id"], one["outcome"])
            for one in page["items"]
        ]
        assert brief == [
            ("start", 1, 1, "check-1", "again"),
            ("start", 2, 1, "check-2", "success"),
            ("charge", 1, 1, "charge-1", "failure"),
            ("charge", 1, 2, "charge-2", "success"),
            ("approve", 1, 1, None, "success"),
        ]
        outputs = [one["output"] for one in page["items"]]
        assert outputs == [1, 2, None, {"paid": True}, {"by": "anna"}]
        assert page["items"][2]["error_code"] == "busy"
        (first, second) = [one["input_digest"] for one in page["items"][2:4]]
        assert first == second  # the same input
        assert [(one["type"], one["payload"]) for one in page["signals"]] == [
            ("approval", {"by": "anna"})
        ]

        by_sdk = asyncio.run(told_by_the_sdk(server.address))
        assert [(one.step, one.visit, one.attempt, one.run_id) for one in by_sdk] == [
            one[:4] for one in brief
        ]
        table = flo(server, "workflow", "steps", "wfrun-1").splitlines()
        assert table[0] == "Steps of run: wfrun-1"
        assert len(table) == 2 + len(brief)
        assert json.loads(flo(server, "workflow", "steps", "wfrun-1", "--format", "json"))

        status = flo(server, "action", "status", "charge-2")
        assert "step charge of wfrun-1, visit 1, attempt 2" in status
        run = worker.get("/runs/charge-1")
        assert run["cause"]["workflow_run_id"] == "wfrun-1"
        assert (run["cause"]["step"], run["cause"]["attempt"]) == ("charge", 1)
        worker.close()
