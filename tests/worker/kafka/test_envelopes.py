"""Events of pipelines as FlowKit's envelopes."""

import json

from flo.worker.kafka.envelopes import (
    KafkaEnvelope,
    announced,
    mirrored,
    read_envelope,
    snapshot_of,
)

EVENT = {
    "number": 4,
    "at_ms": 7,
    "kind": "BATCH_OK",
    "pipeline_id": "pipe-1",
    "node_id": "index",
    "step_type": "indexer",
    "attempt_epoch": 2,
    "worker_id": "anna",
    "payload": {"batch_uid": "b0", "metrics": {"word": "é"}},
    "dedup_id": "d",
    "fenced": False,
}


def test_an_event_of_a_worker_goes_to_the_topic_of_its_type():
    topic, key, value = mirrored(EVENT)

    assert (topic, key) == ("status.indexer.v1", "pipe-1:index")
    assert "é" in value.decode()
    envelope = json.loads(value)
    assert envelope["payload"] == {
        "kind": "BATCH_OK",
        "worker_id": "anna",
        "batch_uid": "b0",
        "metrics": {"word": "é"},
    }
    names = ("v", "msg_type", "role", "task_id", "node_id", "step_type", "attempt_epoch", "ts_ms")
    assert [envelope[name] for name in names] == [
        *(1, "event", "worker", "pipe-1", "index", "indexer", 2, 7)
    ]


def test_a_cancel_is_a_signal_to_its_worker():
    payload = {"reason": "enough", "cancel_token": None, "deadline_ts_ms": 9}
    topic, key, value = mirrored({**EVENT, "kind": "CANCEL", "payload": payload})

    envelope = json.loads(value)
    assert (topic, key) == ("signals.v1", "anna")
    assert envelope["payload"] == {"sig": "CANCEL", **payload}
    assert (envelope["target_worker_id"], envelope["role"]) == ("anna", "coordinator")


def test_a_start_is_not_mirrored():
    assert mirrored({**EVENT, "kind": "TASK_START"}) is None


def test_what_is_no_envelope_is_none():
    assert read_envelope(b"hello") is None
    assert read_envelope(b'{"task_id": 1}') is None
    extended = b'{"dedup_id":"d","task_id":"t","node_id":"n","new_field":1}'
    assert read_envelope(extended) == KafkaEnvelope(dedup_id="d", task_id="t", node_id="n")


def test_a_node_that_does_not_exist_is_not_answered():
    query = KafkaEnvelope(dedup_id="d", task_id="t", node_id="n")
    assert snapshot_of(query, None, 0) is None


def test_workers_come_and_go():
    class Worker:
        worker_id = "anna"
        processes = ()
        build_id = None
        max_concurrency = 2

    came, gone = (announced(Worker, online=online, now_ms=1) for online in (True, False))
    assert (came.topic, came.key) == ("workers.announce.v1", None)
    assert json.loads(came.value)["payload"]["capacity"] == {"tasks": 2}
    assert json.loads(gone.value)["payload"] == {"kind": "WORKER_OFFLINE", "worker_id": "anna"}
