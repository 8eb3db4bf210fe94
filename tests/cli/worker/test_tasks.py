import json

import pytest

from cli.servers import running_server
from flo.testing.clock import ManualClock

TEN_O_CLOCK_MS = 1_773_482_400_000
"""2026-03-14 10:00:00"""


@pytest.fixture
def task(client):
    """process-order-1, in the hands of worker-1."""
    client.actions.register("process-order")
    client.actions.invoke("process-order", {"order": 1})
    (task,) = client.workers.claim("worker-1", ["process-order"]).tasks
    return task.task_id


def run_of(client):
    return client.actions.status("process-order-1")


def test_a_task_is_taken(shell, monkeypatch):
    with running_server(ManualClock(TEN_O_CLOCK_MS)) as server:
        monkeypatch.setenv("FLO_ENDPOINT", server.address)
        shell("flo action register process-order")
        shell("""flo action invoke process-order '{"order":1}'""")

        assert shell("flo worker await process-order --worker-id worker-1 --block 30000") == (
            0,
            "Task: process-order-1\n"
            "Action: process-order\n"
            'Payload: {"order":1}\n'
            "Attempt: 1\n"
            "Created: 2026-03-14 10:00:00+00:00\n",
            "",
        )


def test_there_may_be_no_task(shell):
    assert shell("flo worker await process-order -w worker-1 -b 0") == (0, "(no tasks)\n", "")
    assert shell("flo worker await process-order -w worker-1 -b 0 --format json").out == "[]\n"
    assert shell("flo worker await process-order -w worker-1 -b 0 -o raw").out == ""


def test_several_tasks_of_several_actions_are_taken_at_once(shell, client):
    for action in ("process-order", "send-email"):
        client.actions.register(action)
        client.actions.invoke(action)

    printed = shell("flo worker await process-order send-email -w worker-1 --max-tasks 5")

    one, other = printed.out.split("\n\n")
    assert {one.splitlines()[0], other.splitlines()[0]} == {
        "Task: process-order-1",
        "Task: send-email-1",
    }


def test_tasks_in_json_are_an_array_of_objects(shell, client):
    client.actions.register("process-order")
    client.actions.invoke("process-order", {"order": 1})

    (task,) = json.loads(shell("flo worker await process-order -w worker-1 --format json").out)

    assert task["task_id"] == "process-order-1"
    assert task["task_type"] == "process-order"
    assert task["payload"] == {"order": 1}
    assert task["payload_encoding"] == "json"
    assert task["attempt"] == 1
    assert task["lease_expires_at"] > task["created_at"]


def test_a_raw_task_is_its_id(shell, client):
    client.actions.register("process-order")
    client.actions.invoke("process-order")

    assert shell("flo worker await process-order -w worker-1 -o raw").out == "process-order-1\n"


def test_the_time_a_task_may_take_is_chosen_when_it_is_taken(shell, client):
    client.actions.register("process-order")
    client.actions.invoke("process-order")

    shell("flo worker await process-order -w worker-1 --timeout 3600000")

    run = run_of(client)
    assert run.lease_expires_at_ms - run.started_at_ms >= 3_600_000


def test_a_draining_worker_is_told_why_it_gets_nothing(shell, client):
    client.workers.register("worker-1", ["process-order"])
    client.workers.drain("worker-1")

    printed = shell("flo worker await process-order -w worker-1 -b 0")

    assert printed.code == 0
    assert printed.out == "(no tasks)\n"
    assert printed.err == "Worker 'worker-1' is draining: there are no more tasks for it\n"


@pytest.mark.parametrize("rest", ["", "process-order", "-w worker-1"])
def test_whoever_waits_says_who_it_is_and_for_what(shell, rest):
    assert shell(f"flo worker await {rest}").code == 2


def test_a_task_is_completed(shell, client, task):
    assert shell(
        f"flo worker complete {task} --worker-id worker-1 --action process-order"
        """ --result '{"status":"done"}'"""
    ) == (0, "OK\n", "")

    assert run_of(client).status == "completed"
    assert run_of(client).output == b'{"status":"done"}'
    assert run_of(client).outcome == "success"


def test_a_result_may_come_from_a_file_with_a_name_for_its_outcome(shell, client, task, tmp_path):
    (tmp_path / "result.bin").write_bytes(b"\x00\xff")

    printed = shell(
        f"flo worker complete {task} -w worker-1 -a process-order"
        f" --result @{tmp_path}/result.bin --raw --outcome approved --attempt 1 --format json"
    )

    assert json.loads(printed.out) == {"run_id": task, "status": "completed"}
    assert run_of(client).output == b"\x00\xff"
    assert run_of(client).outcome == "approved"


def test_without_a_result_it_is_empty(shell, client, task):
    assert shell(f"flo worker complete {task} -w worker-1 -o raw").out == "completed\n"

    assert run_of(client).output == b""


def test_a_task_fails_and_is_tried_again(shell, client, task):
    assert shell(
        f"flo worker fail {task} --worker-id worker-1 --action process-order"
        """ --error "Temporary failure" --retry"""
    ) == (0, "OK\n", "")

    assert run_of(client).status == "pending"
    assert run_of(client).attempts[0].error == "Temporary failure"


def test_a_task_fails_for_good(shell, client, task):
    assert shell(
        f"flo worker fail {task} --worker-id worker-1 --action process-order"
        """ --error "Invalid input" """
    ) == (0, "OK\n", "")

    assert run_of(client).status == "failed"
    assert run_of(client).error == "Invalid input"
    assert run_of(client).dead_lettered


def test_a_task_fails_for_good_and_is_no_dead_letter(shell, client, task):
    printed = shell(f"flo worker fail {task} -w worker-1 --no-dead-letter --format json")

    assert json.loads(printed.out) == {"run_id": task, "status": "failed"}
    assert not run_of(client).dead_lettered


def test_a_failure_in_raw_is_the_status_of_the_run(shell, task):
    assert shell(f"flo worker fail {task} -w worker-1 -r -o raw").out == "pending\n"


def test_a_task_is_kept_for_longer(shell, client, task):
    assert shell(
        f"flo worker touch {task} --worker-id worker-1 --action process-order --extend 600000"
    ) == (0, "OK\n", "")

    run = run_of(client)
    assert run.lease_expires_at_ms - run.started_at_ms >= 600_000


def test_a_touch_for_programs(shell, client, task):
    touched = json.loads(shell(f"flo worker touch {task} -w worker-1 --format json").out)

    assert touched == {"run_id": task, "lease_expires_at": run_of(client).lease_expires_at_ms}
    assert int(shell(f"flo worker touch {task} -w worker-1 -o raw").out) > 0


REPORTS = ["complete {}", "fail {} --error broken", "touch {}"]


@pytest.mark.parametrize("report", REPORTS)
def test_a_task_of_another_worker_is_refused(shell, task, report):
    printed = shell(f"flo worker {report.format(task)} -w worker-2")

    assert printed.code == 3
    assert "held by 'worker-1' as attempt 1 [lease_lost]" in printed.err


@pytest.mark.parametrize("report", REPORTS)
def test_another_attempt_is_refused(shell, task, report):
    assert shell(f"flo worker {report.format(task)} -w worker-1 --attempt 2").code == 3
    assert shell(f"flo worker {report.format(task)} -w worker-1 --attempt 0").code == 2


@pytest.mark.parametrize("report", REPORTS)
def test_a_task_of_another_action_is_a_wrong_line(shell, client, task, report):
    printed = shell(f"flo worker {report.format(task)} -w worker-1 -a send-email")

    assert printed.code == 2
    assert "task 'process-order-1' is one of 'process-order', not of 'send-email'" in printed.err
    assert run_of(client).status == "running"


@pytest.mark.parametrize("report", REPORTS)
def test_a_task_nobody_has_is_not_found(shell, report):
    assert shell(f"flo worker {report.format('process-order-9')} -w worker-1").code == 1
    assert shell(f"flo worker {report.format('nonsense')} -w worker-1 -a a").code == 1


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_says_whose_it_is(shell, task, report):
    assert shell(f"flo worker {report.format(task)}").code == 2
    assert shell(f"flo worker {report.format('')} -w worker-1 -a process-order").code == 2
