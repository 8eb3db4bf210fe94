import json


def test_workers_are_listed_with_what_they_have_done(shell, client):
    assert shell("flo worker list").out == "(no workers)\n"
    client.actions.register("send-email")
    client.workers.register("worker-1", ["send-email"], machine_id="host-01")
    client.workers.register("worker-2", ["send-email"], max_concurrency=4)
    client.actions.invoke("send-email")
    client.workers.claim("worker-1", ["send-email"])
    client.workers.complete("send-email-1", "worker-1")
    client.workers.heartbeat("worker-2", current_load=3)

    assert shell("flo worker list").out.splitlines() == [
        "WORKER ID  TYPE    STATUS  COMPLETED  FAILED  LOAD  MACHINE",
        "worker-1   action  idle    1          0       0/10  host-01",
        "worker-2   action  active  0          0       3/4   -",
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
