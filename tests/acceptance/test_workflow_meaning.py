"""What outcomes, failures and ends of workflows mean: a real server and the real command line."""

import json
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from flo.testing.process import ServerProcess
from wasm.guests import ECHO

STEPS_MAX = 256
BYTES = b"\x89PNG\xff\x00"


class Scene:
    """A server, a shell beside it, and a worker that does what it is told over HTTP."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self.server = server
        self._folder = folder
        self._http = httpx.Client(base_url=f"{server.http_url}/api/v1", timeout=60, verify=False)

    def close(self) -> None:
        self._http.close()

    def flo(self, *arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "flo.cli.app.main", "-e", self.server.address, *arguments]
        done = subprocess.run(
            command, cwd=self._folder, check=False, capture_output=True, text=True
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def shown(self, *arguments: str) -> Any:
        return json.loads(self.flo(*arguments, "--format", "json"))

    def deploy(self, name: str, body: str, *actions: str) -> None:
        (self._folder / "flow.yaml").write_text(
            f'kind: Workflow\nname: {name}\nversion: "1"\n{body}'
        )
        self.flo("workflow", "create", "-f", "flow.yaml")
        for action in actions:
            self.post("/actions", json={"name": action, "max_retries": 0})

    def register_guest(self, action: str) -> None:
        (self._folder / "guest.wasm").write_bytes(ECHO)
        self.flo("action", "register", action, "--wasm", "guest.wasm")

    def start(self, workflow: str) -> str:
        return str(self.post(f"/workflows/{workflow}/start")["run_id"])

    def run(self, run_id: str) -> Any:
        """The run as HTTP shows it, once it has ended or has waited a little."""
        return self._http.get(f"/workflow-runs/{run_id}", params={"wait_ms": 20_000}).json()

    def history(self, run_id: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        asked: dict[str, str | int] = {"limit": 1_000}
        while True:
            page = self._http.get(f"/workflow-runs/{run_id}/history", params=asked).json()
            entries += page["items"]
            if page["cursor"] is None:
                return entries
            asked["cursor"] = page["cursor"]

    def post(self, path: str, **given: Any) -> Any:
        answer = self._http.post(path, **given)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def task(self, action: str) -> dict[str, Any]:
        asked = {"actions": [action], "block_ms": 20_000}
        (task,) = self.post("/workers/anna/await", json=asked)["tasks"]
        return dict(task)

    def perform(self, action: str, **report: Any) -> dict[str, Any]:
        task = self.task(action)
        self.post(f"/tasks/{task['task_id']}/complete", json={"worker_id": "anna", **report})
        return task

    def fail(self, action: str, error: str = "boom") -> None:
        task = self.task(action)
        report = {"worker_id": "anna", "error": error, "retry": False}
        self.post(f"/tasks/{task['task_id']}/fail", json=report)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("meaning")
    with ServerProcess(folder / "data") as server:
        scene = Scene(server, folder)
        yield scene
        scene.close()


def test_a_circle_of_wasm_steps_ends_though_the_server_is_killed_on_the_way(scene: Scene) -> None:
    step = '{run: "@actions/echo", transitions: {success: again, failure: flo.Failed}}'
    scene.deploy("circle", f"start: {step}\nsteps:\n  again: {step}\n")
    scene.register_guest("echo")

    run_id = scene.start("circle")
    while sum(one["type"] == "step_completed" for one in scene.history(run_id)) < 10:
        pass
    scene.server.kill()
    scene.server.start()
    error = scene.flo("workflow", "watch", run_id, code=3)

    assert f"{STEPS_MAX} steps without a wait" in error
    done = sum(one["type"] == "step_completed" for one in scene.history(run_id))
    assert done == STEPS_MAX
    assert scene.shown("workflow", "status", run_id)["error_code"] == "too_many_steps"


PLANNED = """
plans:
  pay:
    selection: health-weighted
    health: {min_samples: 2, window_ms: 600000}
    executors:
      - {name: first, action: "@actions/pay-first", priority: 100,
         breaker: {failure_threshold: 2, cooldown_ms: 1}}
      - {name: second, action: "@actions/pay-second", priority: 50}
start: {run: "@plan/pay", transitions: {success: flo.Completed, failure: flo.Failed}}
"""


def test_an_executor_that_always_raises_scores_nothing_and_half_open_it_comes_last(
    scene: Scene,
) -> None:
    scene.deploy("paying", PLANNED, "pay-first", "pay-second")
    for _ in range(2):
        scene.start("paying")
        scene.fail("pay-first")
        scene.perform("pay-second")

    first, second = scene.shown("plan", "status", "paying", "pay")["executors"]
    assert (first["answered"], first["succeeded"], first["score"]) == (0, 0, 0)
    assert (second["answered"], second["succeeded"], second["score"]) == (1, 1, 1)
    assert first["breaker"] == "half_open"

    run_id = scene.start("paying")
    scene.perform("pay-second", outcome="failure", result="declined")
    scene.perform("pay-first")
    called = [one["detail"] for one in scene.history(run_id) if "executor_start" in one["type"]]
    assert called == ["second", "first"]
    _, second = scene.shown("plan", "status", "paying", "pay")["executors"]
    assert (second["answered"], second["succeeded"]) == (1, pytest.approx(2 / 3))


@pytest.mark.parametrize(
    ("transitions", "outcome", "terminal"),
    [
        ("timeout: Late, pending: Stuck", "timeout", "Late"),
        ("pending: Stuck", "pending", "Stuck"),
        ("success: flo.Completed", "failure", "flo.Failed"),
    ],
)
def test_a_poll_first_waits_for_its_base_delay_and_used_up_takes_what_there_is(
    scene: Scene, transitions: str, outcome: str, terminal: str
) -> None:
    name = f"poll-{outcome}"
    step = f'run: "@actions/{name}", poll: {{baseDelayMs: 70, maxAttempts: 1}}'
    ends = f"transitions: {{failure: flo.Failed, {transitions}}}"
    terminals = "terminals: {Late: timed_out, Stuck: failed}\n"
    scene.deploy(name, f"{terminals}start: {{{step}, {ends}}}\n", name)

    run_id = scene.start(name)
    scene.perform(name, outcome="pending")
    scene.perform(name, outcome="pending")

    run, history = scene.run(run_id), scene.history(run_id)
    assert (run["terminal"], run["steps"][0]["outcome"]) == (terminal, outcome)
    (scheduled,) = [one["at_ms"] for one in history if one["type"] == "poll_scheduled"]
    again = [one["at_ms"] for one in history if one["type"] == "step_started"][1]
    assert again >= scheduled + 70


def test_a_key_is_always_honoured_and_a_run_that_failed_says_how_to_run_it_again(
    scene: Scene,
) -> None:
    step = '{run: "@actions/charge", transitions: {success: flo.Completed, failure: flo.Failed}}'
    scene.deploy("keyed", f"idempotency: none\nstart: {step}\n", "charge")
    start = ("workflow", "start", "keyed", "--idempotency-key", "order-1")
    run_id = scene.flo(*start, "-o", "raw").strip()
    assert scene.flo(*start, "-o", "raw").strip() == run_id
    scene.fail("charge")
    scene.run(run_id)

    told = scene.flo(*start)
    assert told.splitlines() == [
        f"Workflow run {run_id} has failed and keeps this key.",
        f"Run it again with: flo workflow rerun {run_id}",
    ]
    known = scene.post("/workflows/keyed/start", headers={"Idempotency-Key": "order-1"})
    assert (known["run_id"], known["duplicate"], known["status"]) == (run_id, True, "failed")
    path = known["hint"].rpartition("POST /api/v1")[2]
    assert path == f"/workflow-runs/{run_id}/rerun"
    again = scene.flo(*told.splitlines()[1].partition("flo ")[2].split(), "-o", "raw").strip()
    assert again != run_id
    scene.perform("charge")
    assert scene.run(again)["status"] == "completed"


def test_a_signal_that_does_not_come_has_an_outcome_and_ends_are_told_by_name(
    scene: Scene,
) -> None:
    body = """
terminals: {Withdrawn: cancelled, Refused: failed}
start:
  waitForSignal: {type: approval, timeoutMs: 1, onTimeout: remind}
  transitions: {success: flo.Completed}
steps:
  remind:
    run: "@actions/remind"
    inputMapping: {how: $.steps.start.outcome}
    transitions: {success: Withdrawn, failure: Refused}
"""
    scene.deploy("approve", body, "remind")

    withdrawn = scene.start("approve")
    assert scene.perform("remind")["payload"] == {"how": "timeout"}
    refused = scene.start("approve")
    scene.fail("remind", "no_mail: the address is unknown")
    by_hand = scene.start("approve")
    scene.flo("workflow", "cancel", by_hand, "--reason", "changed my mind")
    for run_id in (withdrawn, refused, by_hand):
        scene.run(run_id)

    ends = [scene.shown("workflow", "history", run_id)[-1] for run_id in (withdrawn, refused)]
    assert [(one["type"], one["detail"]) for one in ends] == [
        ("workflow_cancelled", "Withdrawn"),
        ("workflow_failed", "Refused"),
    ]
    assert [one["error"] for one in ends] == [None, "no_mail: the address is unknown"]
    assert "workflow_cancelled" in scene.flo("workflow", "history", by_hand)
    assert scene.history(by_hand)[-1]["detail"] == "changed my mind"


def test_bytes_that_are_not_json_pass_through_a_bare_path_and_nothing_else(scene: Scene) -> None:
    for name, mapping in (
        ("whole", "$.steps.start.output"),
        ("part", "{it: $.steps.start.output}"),
    ):
        body = f"""
start: {{run: "@actions/paint", transitions: {{success: show}}}}
steps:
  show:
    run: "@actions/show"
    inputMapping: {mapping}
    transitions: {{success: flo.Completed, failure: flo.Failed}}
"""
        scene.deploy(name, body, "paint", "show")
    whole, part = scene.start("whole"), scene.start("part")
    for _ in (whole, part):
        scene.perform("paint", result=b64encode(BYTES).decode(), result_encoding="base64")

    shown = scene.perform("show")
    assert (b64decode(shown["payload"]), shown["payload_encoding"]) == (BYTES, "base64")
    assert scene.run(whole)["status"] == "completed"
    failed = scene.run(part)
    assert (failed["status"], failed["error_code"]) == ("failed", "payload_not_json")
    assert scene.shown("workflow", "status", part)["error_code"] == "payload_not_json"
