"""flo block, flo job, flo lock, flo remediation, against a real server."""

import json
from pathlib import Path

import pytest

from cli.blocks.by_hand import ByHand

EXAMPLES = Path(__file__).parents[3] / "examples"
BLOCKS = EXAMPLES / "blocks"


@pytest.fixture
def run(shell, client):
    """A run that holds its locks, and whose first step is executed."""
    assert shell(f"flo block register --dir {BLOCKS}").code == 0
    worker = ByHand(client)
    client.workflows.create(EXAMPLES / "set-vlan.yaml")
    run = client.workflows.start("set-vlan", {"device": 7, "vlan": 20})
    worker.acquire()
    return worker, run.run_id


def test_blocks_are_registered_listed_shown_and_deleted(shell):
    first = shell(f"flo block register --dir {BLOCKS} --format json")
    again = shell(f"flo block register --dir {BLOCKS}")

    assert [one["created"] for one in json.loads(first.out)] == [True, True]
    assert again.out.splitlines()[1].split() == ["network/reachable:1.0.0", "no"]
    listed = shell("flo block list --format raw").out.splitlines()
    assert [line.split()[0] for line in listed] == [
        "network/reachable:1.0.0",
        "network/set_vlan:1.2.0",
    ]
    shown = shell("flo block show network/set_vlan:1").out
    assert "Kind:                    idempotent, reversible" in shown
    assert shell("flo block delete network/set_vlan:1.2.0").code == 0
    assert shell("flo block show network/set_vlan:1").code == 1


def test_jobs_and_locks_are_seen_while_a_run_goes_on(shell, run):
    worker, run_id = run
    task = worker.take("execute")

    jobs = json.loads(shell(f"flo job list --run {run_id} --format json").out)
    locks = shell("flo lock list --prefix device:").out

    assert [(job["job_id"], job["status"]) for job in jobs] == [(f"{task.task_id}.1", "running")]
    assert f"device:7  {run_id} (exclusive, token " in locks
    assert "Step:         start" in shell(f"flo job show {task.task_id}.1").out
    assert "State:    running" in shell(f"flo remediation show {run_id}").out
    refused = shell("flo lock release device:7 --reason 'I want it'")
    assert refused.code == 3


def test_what_was_left_undone_is_rolled_back_again_and_resolved(shell, run):
    worker, run_id = run
    worker.report(worker.take("execute"), data={"previous": 1})
    worker.report(worker.take("execute"), success=False, message="does not answer")
    worker.report(worker.take("rollback"), success=False, message="no route")

    assert shell(f"flo remediation show {run_id} --format raw").out == "failed_unsafe\n"
    assert "kept)" in shell("flo lock list").out
    assert shell(f"flo remediation rollback {run_id}").code == 0
    worker.report(worker.take("rollback"), success=False, message="no route")
    assert shell(f"flo remediation resolve {run_id}").code == 2
    resolved = shell(f"flo remediation resolve {run_id} --note 'restored by hand'")
    assert resolved.out == f"{run_id} is failed_safe\n"
    assert "restored by hand" in shell(f"flo remediation show {run_id}").out
    assert shell("flo lock list").out == "(no locks)\n"


def test_a_lock_that_was_kept_is_released_with_a_reason(shell, run):
    worker, _ = run
    worker.report(worker.take("execute"), data={"previous": 1})
    worker.report(worker.take("execute"), success=False, message="does not answer")
    worker.report(worker.take("rollback"), success=False, message="no route")

    assert shell("flo lock release device:7").code == 2
    released = shell("flo lock release device:7 --reason 'the device is gone'")
    assert (released.code, released.out) == (0, "Released lock: device:7\n")
    assert shell("flo lock list").out == "(no locks)\n"


def test_a_block_is_tried_without_a_server(shell, monkeypatch):
    monkeypatch.setenv("FLO_ENDPOINT", "127.0.0.1:1")
    params = '\'{"device":9,"vlan":20}\''

    done = shell(f"flo block test network/set_vlan:1 {params} --dir {BLOCKS}")
    keys = shell(
        f"flo block test network/set_vlan:1 {params} --dir {BLOCKS} -p acquire --format json"
    )
    failed = shell(
        f'flo block test network/reachable:1 \'{{"device":9,"vlan":13}}\' --dir {BLOCKS}'
    )
    missing = shell(f"flo block test network/other:1 --dir {BLOCKS}")

    assert (done.code, json.loads(done.out)["data"]) == (0, {"previous": 1})
    assert json.loads(keys.out)["locks"] == ["device:9"]
    assert (failed.code, json.loads(failed.out)["code"]) == (3, "unreachable")
    assert missing.code == 1
