"""Nodes in the hands of workers: starts, batches handed over exactly once, ends."""

import pytest
from msgspec.structs import replace

from engine.pipelines.pipes import (
    LINE,
    PipelineWorkerStub,
    is_ok,
    node,
    node_now,
    pipeline,
    pull,
    statuses,
    submit,
    uids,
)
from flo.engine.ticks import Tick
from flo.engine.workers.presence import Disconnect, LoseWorker
from flo.model.errors import Conflict, NotFound, TooLarge
from flo.model.pipelines.names import META_LENGTH_MAX, Verdict
from flo.model.pipelines.pipelines import (
    CancelPipeline,
    ConfigurePipelines,
    PipelineSettings,
    ReadPipelineEvents,
    SubmitPipeline,
    WaitPipeline,
)
from flo.model.pipelines.work import (
    AwaitNode,
    HeartbeatNode,
    PutArtifact,
    ReleaseNode,
    ReportBatch,
    WatchNode,
)
from flo.model.workers import DrainWorker, RegisterWorker, WorkerType
from given import ANNA, BORIS, Later, given

NO_BACKOFF = {"max": 2, "backoff_sec": 0}


def running(graph=LINE, **settings):
    engine = given(SubmitPipeline(graph=graph, **settings))
    producer = PipelineWorkerStub(engine, ANNA, "indexer")
    producer.take()
    return engine, producer


# Starts


def test_a_node_without_dependencies_is_given_to_the_first_who_asks():
    engine, anna = running()

    assert (anna.start.node, anna.start.role, anna.start.epoch) == ("u", "indexer", 1)
    assert PipelineWorkerStub(engine, BORIS, "indexer").take() is None
    assert statuses(engine) == {"u": "running", "v": "queued"}


def test_a_worker_that_drains_is_given_no_node():
    known = RegisterWorker(worker_id=ANNA, processes=["indexer"])
    engine = given(known, submit(node("u", "indexer")), DrainWorker(worker_id=ANNA))

    reply = engine.execute(AwaitNode(worker_id=ANNA, roles=["indexer"])).reply

    assert (reply.starts, reply.draining) == ([], True)


def test_a_start_that_was_not_heard_is_given_again_under_the_same_epoch():
    _, anna = running()
    first = anna.start

    again = anna.take()

    assert (again.epoch, again.resumed) == (1, True)
    assert again.lease_id != first.lease_id
    assert anna.take(holds=[("pipe-1", "u", 1)]) is None


def test_reports_of_the_lease_before_are_fenced_when_a_worker_took_its_node_again():
    engine, anna = running()
    before = anna.start.lease_id
    anna.take()

    reply = anna.report("b0", lease_id=before)

    assert reply.verdict is Verdict.FENCED
    assert uids(engine, "u") == []


def test_a_consumer_starts_with_the_first_batch():
    engine, anna = running()
    boris = PipelineWorkerStub(engine, BORIS, "enricher")
    assert boris.take() is None

    anna.report("b0")

    assert boris.take().node == "v"
    assert node_now(engine, "v").started_on_first_batch


def test_a_consumer_of_an_empty_source_finishes_without_a_batch():
    engine, anna = running()
    anna.complete()
    boris = PipelineWorkerStub(engine, BORIS, "enricher")
    boris.take()

    assert boris.next("u").end
    boris.complete()

    assert pipeline(engine).status == "finished"


# Leases


def test_a_node_whose_lease_ended_goes_to_another_with_the_next_epoch():
    engine, anna = running()
    engine.execute(Later(60_001), Tick())

    boris = PipelineWorkerStub(engine, BORIS, "indexer")

    assert boris.take().epoch == 2
    assert anna.report("late").verdict is Verdict.FENCED


def test_a_heartbeat_keeps_the_lease():
    engine, anna = running()

    engine.execute(Later(50_000))
    beat = HeartbeatNode(**anna.at, worker_id=ANNA)
    assert is_ok(engine.execute(beat).reply)
    engine.execute(Later(50_000), Tick())

    assert statuses(engine)["u"] == "running"


def test_the_nodes_of_a_lost_worker_are_taken_over_at_once():
    worker = RegisterWorker(
        worker_id=ANNA,
        processes=["indexer"],
        worker_type=WorkerType.PIPELINE,
        connection_bound=True,
        incarnation="one",
    )
    known = {"worker_id": ANNA, "namespace": "default", "incarnation": "one"}
    engine = given(worker, SubmitPipeline(graph=LINE))
    PipelineWorkerStub(engine, ANNA, "indexer").take()

    engine.execute(
        Disconnect(**known, since_ms=engine.now_ms), LoseWorker(**known, since_ms=engine.now_ms)
    )

    assert PipelineWorkerStub(engine, BORIS, "indexer").take().epoch == 2


def test_a_node_that_costs_too_many_workers_fails():
    engine, anna = running()
    for _ in range(21):
        engine.execute(Later(60_001), Tick())
        anna.take()

    assert pipeline(engine).status == "failed"
    assert node_now(engine, "u").last_error == "lost_too_often"


def test_a_released_node_is_offered_at_once_unless_it_is_kept():
    engine, anna = running()
    boris = PipelineWorkerStub(engine, BORIS, "indexer")

    engine.execute(ReleaseNode(**anna.at, keep=True))
    assert boris.take() is None
    engine.execute(ReleaseNode(**anna.at))

    assert boris.take().epoch == 2


# Batches


def test_a_batch_reported_twice_counts_once():
    engine, anna = running()

    first, second = (anna.report("b0", meta={"count": 3}) for _ in range(2))

    assert is_ok(first)
    assert second.verdict is Verdict.DUPLICATE
    assert uids(engine, "u") == ["b0"]
    assert node_now(engine, "u").batches == 1


def test_batches_are_handed_over_in_order_and_once():
    engine, anna = running()
    for number in range(5):
        anna.report(f"b{number}", meta={"n": number})
    boris = PipelineWorkerStub(engine, BORIS, "enricher")
    boris.take()

    first = boris.next("u", max_batches=3)
    held = [("u", one.number) for one in first.items]
    rest = boris.next("u", max_batches=3, holds=held)

    assert [one.batch_uid for one in first.items] == ["b0", "b1", "b2"]
    assert [one.batch_uid for one in rest.items] == ["b3", "b4"]
    assert first.items[1].meta == b'{"n":1}'


def test_what_the_worker_never_heard_of_is_handed_over_again():
    engine, anna = running()
    anna.report("b0")
    boris = PipelineWorkerStub(engine, BORIS, "enricher")
    boris.take()

    lost, again = boris.next("u"), boris.next("u")

    assert lost.items == again.items
    assert node_now(engine, "v").in_progress == 1


def test_the_next_attempt_gets_what_is_in_progress_and_never_what_is_done():
    engine, anna = running()
    for number in range(4):
        anna.report(f"b{number}")
    boris = PipelineWorkerStub(engine, BORIS, "enricher")
    boris.take()
    boris.next("u", max_batches=3)
    boris.report("b0", "u", 0)
    boris.report("b1", "u", 1, failure="oops")
    engine.execute(Later(60_001), Tick())

    boris.take()
    again = boris.next("u", max_batches=10)

    assert boris.start.epoch == 2
    assert [one.batch_uid for one in again.items] == ["b1", "b2", "b3"]
    assert boris.report("b0", "u", 0).verdict is Verdict.DUPLICATE
    assert uids(engine, "v") == ["b0"]


def test_parts_of_a_batch_that_are_recorded_are_named_to_the_next_attempt():
    engine, anna = running()
    anna.report("b0", meta={"skus": [1, 2, 3]})
    boris = PipelineWorkerStub(engine, BORIS, "enricher")
    boris.take()
    boris.next("u")
    boris.report("c0", "u", 0, done=False)
    assert boris.report("c0", "u", 0, done=False).verdict is Verdict.DUPLICATE
    engine.execute(Later(60_001), Tick())

    boris.take()
    (batch,) = boris.next("u").items
    boris.report("c1", "u", 0)

    assert batch.done_uids == ["c0"]
    assert uids(engine, "v") == ["c0", "c1"]
    assert node_now(engine, "v").in_progress == 0


def test_an_input_can_be_done_without_a_result():
    engine, anna = running()
    anna.report("b0")
    anna.complete()
    boris = PipelineWorkerStub(engine, BORIS, "enricher")
    boris.take()
    boris.next("u")

    with pytest.raises(Conflict) as refusal:
        boris.complete()
    assert refusal.value.code == "input_in_progress"
    assert is_ok(boris.finish_input("u", 0))
    assert boris.finish_input("u", 0).verdict is Verdict.DUPLICATE
    assert boris.next("u").end
    assert is_ok(boris.complete())


def test_an_input_that_was_never_taken_is_refused():
    engine, anna = running()
    anna.report("b0")
    boris = PipelineWorkerStub(engine, BORIS, "enricher")
    boris.take()

    with pytest.raises(Conflict) as refusal:
        boris.report("b0", "u", 0)
    assert refusal.value.code == "input_not_taken"


def test_two_consumers_get_every_batch_each():
    engine = given(submit(node("u", "indexer"), node("v", io=pull("u")), node("w", io=pull("u"))))
    anna = PipelineWorkerStub(engine, ANNA, "indexer")
    anna.take()
    anna.report("b0")
    seen = []
    for name in (BORIS, "clara"):
        worker = PipelineWorkerStub(engine, name, "worker")
        worker.take()
        seen += [(worker.start.node, one.batch_uid) for one in worker.next("u").items]

    assert seen == [("v", "b0"), ("w", "b0")]


def test_a_late_report_is_written_down_as_fenced():
    engine, anna = running()
    engine.execute(Later(60_001), Tick())
    PipelineWorkerStub(engine, BORIS, "indexer").take()

    anna.report("late")

    page = engine.query(ReadPipelineEvents(id="pipe-1"))
    assert [(one.kind, one.fenced) for one in page.items][-1] == ("BATCH_OK", True)


def test_a_meta_that_is_too_large_is_refused():
    _, anna = running()

    with pytest.raises(TooLarge, match="the meta of a batch"):
        anna.engine.execute(
            ReportBatch(**anna.at, batch_uid="b", meta=b"x" * (META_LENGTH_MAX + 1))
        )


def test_an_artifact_put_in_the_middle_of_a_batch_is_handed_over_once():
    engine, _ = running()
    put = PutArtifact(id="pipe-1", node="u", epoch=1, batch_uid="x", meta=b'{"a":1}')
    engine.execute(put, put)
    boris = PipelineWorkerStub(engine, BORIS, "enricher")
    boris.take()

    assert [one.batch_uid for one in boris.next("u").items] == ["x"]
    assert boris.next("u", holds=[("u", 0)]).items == []


def test_a_node_that_is_not_there():
    _, anna = running()

    with pytest.raises(NotFound) as refusal:
        anna.engine.execute(ReportBatch(id="pipe-1", node="nobody", epoch=1, batch_uid="b"))
    assert refusal.value.code == "pipeline_node_not_found"


def test_a_source_that_is_no_node_of_the_graph_is_refused():
    engine = given(submit(node("u", "indexer")))
    anna = PipelineWorkerStub(engine)
    anna.take()

    with pytest.raises(NotFound, match="nobody") as refused:
        anna.next("nobody")

    assert refused.value.code == "source_not_found"


def test_who_speaks_of_a_pipeline_that_has_ended_is_fenced():
    _, anna = running(graph={"nodes": [node("u", "indexer")]})
    anna.complete()

    assert anna.report("b0").verdict is Verdict.FENCED


# Failures


def test_a_failed_node_is_tried_again_as_often_as_its_policy_says():
    engine, anna = running(
        {"nodes": [node("u", "indexer", retry_policy={"max": 2, "backoff_sec": 1.5})]}
    )
    epochs = []
    while anna.start is not None:
        epochs.append(anna.start.epoch)
        anna.fail()
        assert anna.take() is None
        engine.execute(Later(1_500), Tick())
        anna.take()

    assert epochs == [1, 2, 3]
    assert pipeline(engine).status == "failed"
    assert pipeline(engine).cancel_reason == "hard_fail:oops"


@pytest.mark.parametrize(("reason", "permanent"), [("oops", True), ("bad_input", False)])
def test_a_permanent_failure_ends_the_pipeline(reason, permanent):
    engine, anna = running()

    anna.fail(reason, permanent)

    assert pipeline(engine).status == "failed"
    assert statuses(engine) == {"u": "failed", "v": "cancelled"}


def test_a_failure_reported_twice_counts_once():
    engine, anna = running({"nodes": [node("u", "indexer", retry_policy=NO_BACKOFF)]})

    anna.fail()

    assert anna.fail().verdict is Verdict.DUPLICATE
    assert node_now(engine, "u").retries == 1


def test_a_success_after_a_failure_counts_in_the_metrics():
    total = node("sum", "coordinator_fn", "u", io={
        "fn": "metrics.aggregate", "fn_args": {"node_id": "u"}})  # fmt: skip
    engine, anna = running({"nodes": [node("u", "indexer", retry_policy=NO_BACKOFF), total]})
    anna.report("b0", meta={"count": 2, "names": ["x"]})
    anna.report("b1", failure="oops")
    anna.fail()
    engine.execute(Tick())
    anna.take()
    anna.report("b0", meta={"count": 2})
    anna.report("b1", meta={"count": 5, "flag": True, "text": "3"})

    anna.complete(count=1)

    assert node_now(engine, "u").stats == {"count": 8.0, "flag": 1.0, "text": 3.0}


# Cancel


def test_a_cancelled_node_has_until_its_deadline_to_stop():
    engine, anna = running(cancel_grace_ms=1_000)

    engine.execute(CancelPipeline(id="pipe-1", reason="enough"))
    watched = engine.query(WatchNode(**anna.at))

    assert (watched.verdict, watched.reason) == (Verdict.CANCELLED, "enough")
    assert watched.deadline_at_ms == engine.now_ms + 1_000
    assert anna.report("b0").verdict is Verdict.CANCELLED
    assert statuses(engine) == {"u": "cancelling", "v": "cancelled"}
    engine.execute(Later(1_000), Tick())
    assert pipeline(engine).status == "cancelled"


def test_a_worker_that_stops_in_time_ends_the_pipeline_at_once():
    engine, anna = running()

    engine.execute(CancelPipeline(id="pipe-1"), ReleaseNode(**anna.at))

    assert pipeline(engine).status == "cancelled"
    assert engine.query(WaitPipeline(id="pipe-1")).pipeline.cancel_reason == "user_request"


# Limits


def test_limits_hold_back_nodes_until_there_is_room():
    settings = PipelineSettings(max_global_running=2, max_type_concurrency={"indexer": 1})
    engine = given(
        ConfigurePipelines(settings=settings),
        submit(node("a", "indexer"), node("b", "indexer"), node("c"), node("d")),
    )

    ask = AwaitNode(worker_id=ANNA, roles=["indexer", "worker"], max_nodes=10)
    starts = list(engine.execute(ask).reply.starts)
    again = replace(ask, holds=[("pipe-1", "a", 1)])
    starts += engine.execute(again).reply.starts

    assert [one.node for one in starts] == ["a", "c"]
    all_held = replace(ask, holds=[("pipe-1", "a", 1), ("pipe-1", "c", 1)])
    assert not engine.execute(all_held).reply.starts
    anna = PipelineWorkerStub(engine, ANNA)
    anna.start = starts[0]
    anna.complete()
    boris = PipelineWorkerStub(engine, BORIS)
    assert boris.take().node == "b"
    assert boris.take(holds=[("pipe-1", "b", 1)]) is None


def test_a_producer_waits_while_a_consumer_is_too_far_behind():
    engine, anna = running(backlog_max=2)

    assert not anna.report("b0").wait
    assert anna.report("b1").wait
    boris = PipelineWorkerStub(engine, BORIS, "enricher")
    boris.take()
    boris.next("u", max_batches=1)

    assert not anna.report("b1").wait  # it was recorded
    assert anna.report("b2").wait
