"""Block workers in processes of their own, as `flo worker blocks` starts them."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from flo.model.blocks.blocks import GetBlock
from flo.model.blocks.jobs import GetJob
from flo.model.blocks.ledger import GetLedger
from flo.model.errors import NotFound

EXAMPLES = Path(__file__).parents[3] / "examples"

HOLD = """
import asyncio, os, time
from flo import Params, block

class Gate(Params):
    folder: str

@block(package="gate", timeout=60)
async def hold(params: Gate) -> int:
    begun(params)
    while not os.path.exists(os.path.join(params.folder, "open")):
        await asyncio.sleep(0.01)
    return os.getpid()

@block(package="gate", timeout=60)
async def deaf(params: Gate) -> int:
    begun(params)
    while not os.path.exists(os.path.join(params.folder, "open")):
        time.sleep(0.01)
    return os.getpid()

def begun(params):
    with open(os.path.join(params.folder, "begun"), "a") as file:
        print(os.getpid(), file=file)
"""

WORKFLOW = """
kind: Workflow
name: {name}
version: "1"
start:
  run: "@blocks/gate/{name}:1"
  inputMapping: {{folder: $.input.folder}}
  transitions: {{success: flo.Completed, failure: flo.Failed}}
"""


@pytest.fixture
def folder(environment, tmp_path, monkeypatch):
    """Where the blocks are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "gates").mkdir()
    (tmp_path / "gates" / "gate.py").write_text(HOLD)
    return tmp_path


@contextmanager
def running(*arguments, **variables):
    command = [sys.executable, "-P", "-m", "flo.cli.app.main", "worker", "blocks", *arguments]
    environ = {**os.environ, **variables}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def until(condition):
    deadline_s = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    return found


def begun(folder, count=1):
    """The processes in which the block was begun, once it was begun so often."""

    def pids():
        file = folder / "begun"
        found = file.read_text().split() if file.exists() else []
        return [int(pid) for pid in found] if len(found) >= count else None

    return until(pids)


def started(client, folder, name="hold"):
    """A run of a workflow with this block, which is being executed."""
    until(lambda: knows(client, f"gate/{name}:1.0.0"))
    client.workflows.create(WORKFLOW.format(name=name))
    return client.workflows.start(name, {"folder": str(folder)})


def knows(client, block_id):
    """Whether the server knows the block, and a worker for it."""
    try:
        return client.call(GetBlock(block=block_id)).workers
    except NotFound:
        return None


def test_a_change_is_undone_when_the_check_after_it_fails(client, folder):
    with running("--dir", str(EXAMPLES / "blocks")) as process:
        until(lambda: knows(client, "network/set_vlan:1.2.0"))
        client.workflows.create(EXAMPLES / "set-vlan.yaml")
        good = client.workflows.start("set-vlan", {"device": 7, "vlan": 20})
        good.result(timeout=30)
        bad = client.workflows.start("set-vlan", {"device": 7, "vlan": 13})
        until(lambda: bad.status().status == "failed")
        process.terminate()
        _, err = process.communicate(timeout=30)

    assert process.returncode == 0
    ledger = client.call(GetLedger(run_id=bad.run_id))
    assert ledger.state == "failed_safe"
    assert [(entry.step, entry.state) for entry in ledger.entries] == [
        ("start", "rolled_back"),
        ("check", "needless"),
    ]
    said = [line.partition("flo.blocks  ")[2] for line in err.splitlines() if "flo.blocks" in line]
    assert said == [
        f"{good.run_id}/start: device 7: VLAN 1 -> 20",
        f"{bad.run_id}/start: device 7: VLAN 20 -> 13",
        f"{bad.run_id}/start: device 7: VLAN 20 again",
    ]


def test_a_worker_that_is_told_to_stop_finishes_its_job_and_ends_with_0(client, folder):
    with running("--dir", "gates") as process:
        run = started(client, folder)
        begun(folder)
        process.terminate()
        (folder / "open").touch()
        process.communicate(timeout=30)

    assert process.returncode == 0
    assert run.status().status == "completed"
    assert client.workers.list().items == []


@pytest.mark.parametrize("name", ["hold", "deaf"])
def test_a_job_that_does_not_end_in_time_is_handed_back_under_a_new_id(client, folder, name):
    """Whether it can be cancelled or not."""
    with running("--dir", "gates", SHUTDOWN_TIMEOUT="0.4") as first:
        run = started(client, folder, name)
        begun(folder)
        with running("--dir", "gates") as second:
            until(lambda: len(client.workers.list().items) == 2)
            first.terminate()
            _, err = first.communicate(timeout=30)
            assert begun(folder, 2) == [first.pid, second.pid]
            (folder / "open").touch()
            until(lambda: run.status().status == "completed")

    assert first.returncode == 1
    assert "are handed back" in err
    job = client.call(GetJob(job_id=f"block:gate:{name}:1.0.0:execute-1.2"))
    assert (job.attempt, job.status) == (2, "completed")


def test_the_job_of_a_worker_that_was_killed_is_done_by_another_under_a_new_id(client, folder):
    with running("--dir", "gates") as first:
        run = started(client, folder)
        begun(folder)
        with running("--dir", "gates") as second:
            until(lambda: len(client.workers.list().items) == 2)
            first.send_signal(signal.SIGKILL)
            (folder / "open").touch()
            assert begun(folder, 2) == [first.pid, second.pid]
            until(lambda: run.status().status == "completed")

    job = client.call(GetJob(job_id="block:gate:hold:1.0.0:execute-1.2"))
    assert (job.attempt, job.status) == (2, "completed")


def test_a_worker_that_the_server_has_forgotten_ends_with_1(client, folder):
    with running("--dir", "gates", HEARTBEAT_INTERVAL="0.05") as process:
        (worker,) = until(lambda: client.workers.list().items)
        client.workers.deregister(worker.worker_id)
        _, err = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "[worker_expired]" in err
    assert client.workers.list().items == []


def test_a_worker_that_may_rejoin_registers_again(client, folder):
    with running("--dir", "gates", "--on-expiry", "rejoin", HEARTBEAT_INTERVAL="0.05"):
        (worker,) = until(lambda: client.workers.list().items)
        client.workers.deregister(worker.worker_id)
        assert until(lambda: client.workers.list().items)[0].worker_id == worker.worker_id


def test_the_environment_and_a_file_say_what_to_run_and_under_which_name(client, folder):
    (folder / ".env").write_text("DIR_FUNCTION_BLOCKS=gates\nWORKER_NAME=lab-worker\n")

    with running(WORKER_IP_ADDRESS="10.0.0.50"):
        (worker,) = until(lambda: client.workers.list().items)

    assert worker.worker_id.startswith("lab-worker-")
    assert worker.metadata == {"ip_address": "10.0.0.50"}
    assert worker.worker_type == "block"


def test_blocks_can_be_shown_without_a_server(shell, folder, monkeypatch):
    monkeypatch.setenv("FLO_ENDPOINT", "127.0.0.1:1")

    shown = shell("flo worker blocks --dir gates --check")
    values = json.loads(shell("flo worker blocks --dir gates --check --format json").out)

    assert shown.code == 0
    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == [
        "gate/deaf:1.0.0",
        "gate/hold:1.0.0",
    ]
    assert values[0]["parameter_schema"]["required"] == ["folder"]


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("import no_such_module_at_all", 1, "[block_not_loadable]"),
        ("", 1, "[no_blocks]"),
    ],
)
def test_a_worker_that_cannot_begin_ends_with_1(shell, folder, source, code, said):
    (folder / "gates" / "gate.py").write_text("")
    (folder / "gates" / "broken_gate.py").write_text(source)

    printed = shell("flo worker blocks --dir gates")

    assert printed.code == code
    assert said in printed.err


def test_a_wrong_flag_is_a_usage_error(shell, folder):
    assert shell("flo worker blocks --lanes 0").code == 2


def test_a_block_that_asks_for_more_than_before_is_refused(client, folder):
    with running("--dir", "gates") as process:
        until(lambda: client.workers.list().items)
        process.terminate()
        process.wait(timeout=30)
    (folder / "gates" / "gate.py").write_text(
        HOLD.replace("folder: str", "folder: str\n    n: int")
    )

    with running("--dir", "gates") as process:
        _, err = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "[block_incompatible]" in err
    assert client.workers.list().items == []
