import json

import pytest

from cli.servers import running_server
from flo.testing.clock import ManualClock

TEN_O_CLOCK_MS = 1_773_482_400_000
"""2026-03-14 10:00:00"""


def test_a_worker_registers_for_its_actions(shell, client):
    assert shell("flo worker register worker-1 process-order send-email") == (
        0,
        "Registered worker: worker-1\n",
        "",
    )

    processes = client.workers.get("worker-1").processes
    assert [process.name for process in processes] == ["process-order", "send-email"]


def test_every_field_of_a_registration_has_a_flag(shell, client):
    shell(
        """flo worker register worker-1 render-video --labels '{"gpu":true,"vram_gb":24}'"""
        """ --metadata '{"version":"1.2","tags":["a"]}' --max-concurrency 4 --machine-id host-01"""
    )

    worker = client.workers.get("worker-1")
    assert worker.labels == {"gpu": True, "vram_gb": 24}
    assert worker.metadata == {"version": "1.2", "tags": ["a"]}
    assert worker.max_concurrency == 4
    assert worker.machine_id == "host-01"


def test_flat_metadata_are_labels(shell, client):
    shell("""flo worker register worker-1 render-video --metadata '{"gpu":true,"tags":["a"]}'""")

    assert client.workers.get("worker-1").labels == {"gpu": True}


def test_a_registration_for_programs(shell):
    printed = shell("flo worker register worker-1 send-email --format json")

    assert json.loads(printed.out) == {"worker_id": "worker-1", "status": "active"}
    assert shell("flo worker register worker-1 send-email -o raw").out == "worker-1\n"


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        ("worker-1", 2),
        ("", 2),
        ("worker-1 a --labels gpu", 2),
        ("worker-1 a --metadata '[]'", 2),
        ("worker-1 a --max-concurrency 0", 2),
        ("'two words' a", 3),
    ],
)
def test_a_registration_that_cannot_be_is_refused(shell, rest, code):
    assert shell(f"flo worker register {rest}").code == code


@pytest.mark.parametrize("name", ["worker-1", "--worker-id worker-1", "-w worker-1"])
def test_a_worker_is_named_before_or_by_a_flag(shell, name):
    shell("flo worker register worker-1 send-email")

    assert shell(f"flo worker heartbeat {name} --load 3") == (0, "Status: active\n", "")
    assert shell(f"flo worker info {name} -o raw").out == "active\n"
    assert shell(f"flo worker drain {name}") == (0, "Draining worker: worker-1\n", "")
    assert shell(f"flo worker deregister {name}") == (0, "Deregistered worker: worker-1\n", "")


@pytest.mark.parametrize("verb", ["heartbeat", "drain", "deregister", "info"])
@pytest.mark.parametrize("names", ["", "worker-1 --worker-id worker-2"])
def test_one_worker_is_named(shell, verb, names):
    printed = shell(f"flo worker {verb} {names}")

    assert printed.code == 2
    assert "name one worker" in printed.err


def test_a_worker_may_be_named_twice(shell):
    shell("flo worker register worker-1 send-email")

    assert shell("flo worker drain worker-1 -w worker-1").code == 0


@pytest.mark.parametrize("verb", ["heartbeat", "drain", "info"])
def test_a_worker_nobody_registered_is_not_found(shell, verb):
    assert shell(f"flo worker {verb} nobody") == (
        1,
        "",
        "Error: worker 'nobody' is not registered [worker_not_found]\n"
        "See which there are with: flo worker list\n",
    )


def test_a_heartbeat_brings_the_status(shell):
    shell("flo worker register worker-1 send-email")

    assert shell("flo worker heartbeat --worker-id worker-1").out == "Status: idle\n"
    shell("flo worker drain --worker-id worker-1")
    assert shell("flo worker heartbeat --worker-id worker-1 --load 1 -o raw").out == "draining\n"
    assert json.loads(shell("flo worker heartbeat worker-1 --format json").out) == {
        "worker_id": "worker-1",
        "status": "draining",
    }


def test_a_drain_for_programs(shell):
    shell("flo worker register worker-1 send-email")

    assert json.loads(shell("flo worker drain worker-1 --format json").out) == {
        "worker_id": "worker-1",
        "status": "draining",
    }
    assert shell("flo worker drain worker-1 -o raw").out == "draining\n"


def test_a_worker_that_has_left_is_forgotten(shell):
    shell("flo worker register worker-1 send-email")

    printed = shell("flo worker deregister worker-1 --format json")

    assert json.loads(printed.out) == {"worker_id": "worker-1"}
    assert shell("flo worker list").out == "(no workers)\n"
    assert shell("flo worker deregister worker-1 -o raw").out == "worker-1\n"


def test_everything_there_is_to_know_of_a_worker(shell, monkeypatch):
    with running_server(ManualClock(TEN_O_CLOCK_MS)) as server:
        monkeypatch.setenv("FLO_ENDPOINT", server.address)
        shell("flo action register process-order")
        shell("flo action invoke process-order")
        shell(
            "flo worker register worker-1 process-order send-email"
            """ --labels '{"gpu":true}' --metadata '{"version":"1.2"}' --machine-id host-01"""
        )
        shell("flo worker await process-order -w worker-1")
        shell("flo worker complete process-order-1 -w worker-1")
        shell("flo worker heartbeat worker-1 --load 2")

        assert shell("flo worker info worker-1").out.splitlines() == [
            "Worker ID:       worker-1",
            "Status:          active",
            "Type:            action",
            "Current Load:    0 / 10",
            "Tasks Completed: 1",
            "Tasks Failed:    0",
            "Registered:      2026-03-14 10:00:00+00:00",
            "Last Heartbeat:  2026-03-14 10:00:00+00:00",
            "Processes (2):   process-order (action) — runs: 1, fails: 0,"
            " last run: 2026-03-14 10:00:00+00:00",
            "                 send-email (action) — runs: 0, fails: 0, last run: never",
            'Labels:          {"gpu": true}',
            'Metadata:        {"version": "1.2"}',
            "Machine ID:      host-01",
        ]


def test_a_worker_in_json_is_the_whole_record(shell):
    shell("flo worker register worker-1 send-email --machine-id host-01")

    worker = json.loads(shell("flo worker info worker-1 --format json").out)

    assert worker["worker_id"] == "worker-1"
    assert worker["status"] == "active"
    assert worker["machine_id"] == "host-01"
    assert worker["processes"] == [
        {
            "name": "send-email",
            "kind": "action",
            "run_count": 0,
            "fail_count": 0,
            "last_run_at": None,
        }
    ]


def test_workers_are_listed_with_what_they_have_done(shell, client):
    assert shell("flo worker list").out == "(no workers)\n"
    client.actions.register("send-email")
    client.workers.register("worker-1", ["send-email"], machine_id="host-01")
    client.workers.register("worker-2", ["send-email"], max_concurrency=4)
    client.actions.invoke("send-email")
    client.workers.claim("worker-1", ["send-email"])
    client.workers.complete("send-email-1", "worker-1")
    client.workers.heartbeat("worker-2")

    assert shell("flo worker list").out.splitlines() == [
        "WORKER ID  TYPE    STATUS  COMPLETED  FAILED  LOAD  MACHINE",
        "worker-1   action  active  1          0       0/10  host-01",
        "worker-2   action  idle    0          0       0/4   -",
    ]


def test_workers_in_json_are_an_array_of_objects(shell, client):
    client.workers.register("worker-1", ["send-email"], labels={"gpu": True})

    (worker,) = json.loads(shell("flo worker ls --format json").out)

    assert worker["worker_id"] == "worker-1"
    assert worker["labels"] == {"gpu": True}
    assert worker["processes"][0]["name"] == "send-email"


def test_raw_workers_are_their_ids(shell, client):
    client.workers.register("worker-1", ["send-email"])

    assert shell("flo worker list -o raw").out == "worker-1\n"


def test_a_worker_without_an_id_is_given_one(shell, client):
    printed = shell("flo worker register --action send-email -a process-order --machine-id host")

    (worker,) = client.workers.list().items
    assert printed.out == f"Registered worker: {worker.worker_id}\n"
    assert worker.worker_id.startswith("host-")
    assert [one.name for one in worker.processes] == ["send-email", "process-order"]


def test_an_id_and_actions_may_be_named_in_both_ways(shell, client):
    shell("flo worker register worker-1 send-email --action process-order")

    processes = client.workers.get("worker-1").processes
    assert [one.name for one in processes] == ["send-email", "process-order"]


def test_a_worker_that_performs_nothing_is_not_registered(shell):
    printed = shell("flo worker register worker-1")

    assert printed.code == 2
    assert "name at least one ACTION, or more with --action" in printed.err
