"""What a failure means, from the handler to every door: the SDK, the command line and HTTP."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from flo import BlockingFlo, RunUnsuccessful, WorkflowUnsuccessful
from flo.testing.process import ServerProcess

WORKER = """
import sys
from flo import ActionError, ActionWorker, NonRetryableError

worker = ActionWorker(sys.argv[1], worker_id="bank")

def charge(kind):
    if kind == "card":
        raise NonRetryableError("card refused", code="invalid_card")
    if kind == "word":
        raise NonRetryableError("invalid_card")
    if kind == "text":
        raise NonRetryableError("no such card")
    if kind == "closed":
        raise ActionError("the bank is closed", code="bank_closed")
    if kind == "bug":
        raise ValueError("not a card")
    return {"paid": kind}

for name in ("charge", "stripe", "adyen"):
    def handler(ctx):
        return charge(ctx.json().get(ctx.action_name, "fine"))
    worker.register_action(name, handler, max_retries=1, retry_delay_ms=1)
worker.run()
"""

STEP = """
kind: Workflow
name: pay
version: "1"
start:
  run: "@actions/charge"
  retry: {max_attempts: 3, initial_delay_ms: 1}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""

PLAN = """
kind: Workflow
name: pay-by-plan
version: "1"
plans:
  pay:
    selection: static-order
    errors: {fatal: [bank_closed]}
    executors:
      - {name: stripe, action: "@actions/stripe", priority: 2,
         retry: {max_attempts: 3, initial_delay_ms: 1}}
      - {name: adyen, action: "@actions/adyen", priority: 1,
         retry: {max_attempts: 3, initial_delay_ms: 1}}
start:
  run: "@plan/pay"
  retry: {max_attempts: 3, initial_delay_ms: 1}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""


class Bank:
    """A server with a worker that fails as its input says."""

    def __init__(self, server: ServerProcess, flo: BlockingFlo) -> None:
        self.server, self.flo = server, flo

    def type(self, line: str) -> Any:
        """What a command prints as JSON."""
        command = [sys.executable, "-m", "flo.cli.app.main", *shlex.split(line)[1:]]
        env = {**os.environ, "FLO_ENDPOINT": self.server.address}
        done = subprocess.run(
            [*command, "--format", "json"], env=env, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    def get(self, path: str) -> Any:
        answer = httpx.get(f"{self.server.http_url}/api/v1{path}")
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: Any) -> Any:
        answer = httpx.post(f"{self.server.http_url}/api/v1{path}", json=body)
        answer.raise_for_status()
        return answer.json()

    def runs(self, action: str) -> int:
        return len(self.flo.actions.runs(action).items)


@contextmanager
def a_worker(address: str, folder: Path) -> Iterator[None]:
    script = folder / "bank.py"
    script.write_text(WORKER, "utf-8")
    process = subprocess.Popen([sys.executable, str(script), address], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    folder = tmp_path_factory.mktemp("bank")
    server = ServerProcess(folder / "data")
    server.start()
    try:
        with BlockingFlo(server.address) as flo, a_worker(server.address, folder):
            _until(lambda: any(one.worker_id == "bank" for one in flo.workers.list().items))
            flo.workflows.create(STEP)
            flo.workflows.create(PLAN)
            yield Bank(server, flo)
    finally:
        server.stop()


def _until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("kind", "code", "retryable", "attempts"),
    [
        ("card", "invalid_card", False, 1),
        ("word", "invalid_card", False, 1),
        ("text", "NonRetryableError", False, 1),
        ("closed", "bank_closed", True, 2),
        ("bug", "ValueError", True, 2),
    ],
)
def test_a_run_tells_its_code_at_every_door(
    bank: Bank, kind: str, code: str, retryable: bool, attempts: int
) -> None:
    invocation = bank.flo.actions.invoke("charge", {"charge": kind})

    with pytest.raises(RunUnsuccessful) as raised:
        invocation.result(timeout=20)

    assert (raised.value.error_code, raised.value.retryable) == (code, retryable)
    shown = bank.type(f"flo action status {invocation.run_id}")
    over_http = bank.get(f"/runs/{invocation.run_id}")
    for run in (shown, over_http):
        assert (run["error_code"], run["retryable"]) == (code, retryable)
        assert run["dead_lettered"] is retryable
        ends = [(one["error_code"], one["end"]) for one in run["attempts"]]
        assert ends == [(code, "reported")] * attempts


def test_a_dead_letter_is_listed_with_its_code(bank: Bank) -> None:
    run_id = bank.flo.actions.invoke("stripe", {"stripe": "closed"}).wait(timeout=20).run_id

    (dead,) = [one for one in bank.type("flo action dlq list stripe") if one["run_id"] == run_id]

    assert dead["error_code"] == "bank_closed"


def test_a_step_that_cannot_be_retried_fails_at_once_at_every_door(bank: Bank) -> None:
    before = bank.runs("charge")
    handle = bank.flo.workflows.start("pay", {"charge": "card"})

    with pytest.raises(WorkflowUnsuccessful) as raised:
        handle.result(timeout=20)

    assert (raised.value.error_code, raised.value.retryable) == ("invalid_card", False)
    assert bank.runs("charge") == before + 1
    shown = bank.type(f"flo workflow status {handle.run_id} --format json")
    over_http = bank.get(f"/workflow-runs/{handle.run_id}")
    for run in (shown, over_http, shown["steps"][0], over_http["steps"][0]):
        assert (run["error_code"], run["retryable"]) == ("invalid_card", False)
        assert run["error"] == "invalid_card: card refused"
    history = bank.type(f"flo workflow history {handle.run_id}")
    assert "step_retry" not in [line["type"] for line in history]
    assert (history[-1]["type"], history[-1]["error_code"]) == ("workflow_failed", "invalid_card")


def test_a_step_that_can_be_retried_is(bank: Bank) -> None:
    before = bank.runs("charge")
    handle = bank.flo.workflows.start("pay", {"charge": "closed"})

    with pytest.raises(WorkflowUnsuccessful) as raised:
        handle.result(timeout=20)

    assert (raised.value.error_code, raised.value.retryable) == ("bank_closed", True)
    assert bank.runs("charge") == before + 3


def test_the_next_executor_is_called_at_once(bank: Bank) -> None:
    before = bank.runs("stripe")
    handle = bank.flo.workflows.start("pay-by-plan", {"stripe": "card"})

    assert handle.result(timeout=20) == {"paid": "fine"}
    assert bank.runs("stripe") == before + 1


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("card", ("invalid_card: card refused", "invalid_card", False)),
        ("closed", ("bank_closed: the bank is closed", "bank_closed", False)),
    ],
)
def test_a_plan_hands_its_error_on(bank: Bank, kind: str, error: tuple[str, str, bool]) -> None:
    before = bank.runs("adyen")
    handle = bank.flo.workflows.start("pay-by-plan", {"stripe": "card", "adyen": kind})

    run = handle.wait(timeout=20)

    assert (run.error, run.error_code, run.retryable) == error
    assert bank.runs("adyen") == before + 1


def test_a_shell_script_and_curl_fail_with_codes(bank: Bank) -> None:
    bank.type("flo action register by-hand --max-retries 0")
    for number in (1, 2):
        bank.flo.actions.invoke("by-hand")
        bank.type("flo worker await by-hand --worker-id me")
        if number == 1:
            bank.type(
                "flo worker fail by-hand-1 --worker-id me --code invalid_card"
                " --error 'card refused' --no-dead-letter"
            )
        else:
            report = {"worker_id": "me", "error": "too late", "code": "bank_closed"}
            bank.post("/tasks/by-hand-2/fail", report)

    first, second = bank.get("/runs/by-hand-1"), bank.get("/runs/by-hand-2")
    assert (first["error_code"], first["retryable"]) == ("invalid_card", False)
    assert (second["error_code"], second["retryable"]) == ("bank_closed", True)
