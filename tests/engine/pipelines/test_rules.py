"""Pipelines: submit, readiness, functions, routing, cancel, retry, archive, snapshot."""

import pytest

from engine.pipelines.pipes import (
    LINE,
    PipelineWorkerStub,
    graph,
    node,
    node_now,
    pipeline,
    pull,
    statuses,
    submit,
    uids,
)
from flo.engine.pipelines import folds
from flo.engine.ticks import Tick
from flo.model.errors import Conflict, Invalid, NotFound, Rejected
from flo.model.namespaces import DeleteNamespace
from flo.model.pipelines.pipelines import (
    CallPipelineFunction,
    CancelPipeline,
    ConfigurePipelines,
    DeletePipelineGraph,
    GetPipelineGraph,
    ListArtifacts,
    ListPipelineGraphs,
    ListPipelines,
    PatchPipeline,
    PipelineSettings,
    PublishPipeline,
    ReadPipelineEvents,
    RetryPipeline,
    SubmitPipeline,
)
from flo.model.pipelines.work import RecordPipelineEvent, ReportBatch
from flo.model.streams import ReadStream
from flo.shard.snapshot import dump, fingerprint, load
from given import ANNA, DEFAULT, EngineHarness, Later, given, replayed


def run_to_the_end(engine, *roles):
    """One worker runs whatever is ready, each source with one batch."""
    worker = PipelineWorkerStub(engine, ANNA, *roles)
    while worker.take() is not None:
        while batches := worker.next(*worker.start.sources).items if worker.start.sources else []:
            for one in batches:
                worker.report(one.batch_uid, one.from_node, one.number)
        if not worker.start.sources:
            worker.report(f"{worker.start.node}-0")
        worker.complete()


# Submit


def test_pipelines_are_numbered():
    engine = given()

    first, second = (engine.execute(submit(node("u"))).reply.id for _ in range(2))

    assert (first, second) == ("pipe-1", "pipe-2")


def test_the_same_key_or_id_never_makes_two_even_when_the_first_has_ended():
    engine = given()
    keyed, chosen = submit(node("u"), idempotency_key="k"), submit(node("u"), id="mine")
    for command in (keyed, chosen):
        first = engine.execute(command).reply
        run_to_the_end(engine)
        engine.state.spaces[DEFAULT].pipelines.keys.run_ids.clear()
        again = engine.execute(command).reply

        assert not first.duplicate
        assert (again.id, again.duplicate) == (first.id, True)
    assert pipeline(engine, "mine").status == "finished"


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ([], "at least one node"),
        ([node("u", "worker", "x")], "'x', which is no node"),
        ([node("u", "worker", "v"), node("v", "worker", "u")], "waits for itself"),
        ([node("u", fan_in="any")], "depends_on is empty"),
        ([node("u", fan_in="some")], "'all', 'any' or 'count:N'"),
        ([node("u", fan_in="count:2")], "0 dependencies"),
        ([node("u", io=pull("x"))], "'x', which is no node"),
        ([node("u", colour="red")], "no field 'colour'"),
        ([node("u", retry_policy={"max": -1})], "expected max"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused_and_a_lenient_one_warned_of(nodes, problem):
    with pytest.raises(Invalid, match=problem) as refusal:
        given(submit(*nodes))
    assert refusal.value.code == "invalid_graph"

    reply = given().execute(submit(*nodes, lenient=True)).reply
    assert any(problem in one for one in reply.warnings)


def test_two_nodes_of_one_name_are_never_taken():
    with pytest.raises(Invalid, match="there twice"):
        given(submit(node("u"), node("u"), lenient=True))


def test_an_empty_graph_taken_leniently_has_finished():
    assert pipeline(given(submit(lenient=True))).status == "finished"


# Readiness


@pytest.mark.parametrize(
    ("fan_in", "finished", "is_started"),
    [
        ("all", ["a", "b"], False),
        ("all", ["a", "b", "c"], True),
        ("ANY", ["b"], True),
        ("count:2", ["a"], False),
        ("count:2", ["a", "c"], True),
        ("count:0", [], True),
    ],
)
def test_a_node_starts_when_enough_of_its_dependencies_have_finished(fan_in, finished, is_started):
    engine = given(
        submit(
            *(node(one, f"role-{one}") for one in "abc"),
            node("d", "last", "a", "b", "c", fan_in=fan_in),
        )
    )
    for one in finished:
        run_to_the_end(engine, f"role-{one}")

    assert node_now(engine, "d").is_ready is is_started


def test_an_async_edge_starts_a_node_with_the_first_batch_of_its_parent():
    edge = {"from": "u", "to": "v", "mode": "async", "trigger": "on_batch"}
    document = graph(node("u", "indexer"), node("v", "last", "u"), edges_ex=[edge])
    engine = given(SubmitPipeline(graph=document))
    anna = PipelineWorkerStub(engine, ANNA, "indexer")
    anna.take()

    anna.report("b0")

    assert node_now(engine, "v").is_ready


def test_a_node_whose_artifact_is_complete_already_needs_no_worker():
    merge = {"fn": "merge.generic", "fn_args": {"from_nodes": ["u"], "target": {"node_id": "v"}}}
    engine = given(
        submit(node("u"), node("m", "coordinator_fn", "u", io=merge), node("v", "last", "m"))
    )

    run_to_the_end(engine)

    assert pipeline(engine).status == "finished"
    assert b'"partial_batches":1' in node_now(engine, "v").complete


def test_a_node_that_waits_for_a_worker_needs_none_once_its_artifact_is_complete():
    engine = given(submit(node("u", "indexer"), node("v", "last", "u")))
    waited = node_now(engine, "u").is_ready

    engine.execute(
        CallPipelineFunction(
            id="pipe-1",
            function="merge.generic",
            arguments={"from_nodes": [], "target": {"node_id": "u"}},
        )
    )

    assert waited
    assert (node_now(engine, "u").status, node_now(engine, "u").attempt_epoch) == ("finished", 1)
    assert node_now(engine, "v").is_ready
    assert PipelineWorkerStub(engine, ANNA, "indexer").take() is None


# Routing


ROUTED = graph(
    node("u", "indexer", routing={"on_success": ["yes"], "on_failure": ["no"]}),
    node("yes", "worker"),
    node("no", "worker"),
    node("after", "worker", "yes"),
)


def test_routing_goes_one_way_and_skips_the_other():
    engine = given(SubmitPipeline(graph=ROUTED))

    run_to_the_end(engine)

    assert statuses(engine) == {
        "u": "finished", "yes": "finished", "no": "skipped", "after": "finished",
    }  # fmt: skip


def test_a_failure_that_is_handled_does_not_end_the_pipeline():
    engine = given(SubmitPipeline(graph=ROUTED))
    anna = PipelineWorkerStub(engine, ANNA, "indexer")
    anna.take()

    anna.fail(permanent=True)
    run_to_the_end(engine)

    assert pipeline(engine).status == "finished"
    assert statuses(engine) == {
        "u": "failed", "yes": "skipped", "no": "finished", "after": "skipped",
    }  # fmt: skip


# Functions


def call(function, **arguments):
    return CallPipelineFunction(id="pipe-1", function=function, arguments=arguments)


def test_functions_change_variables():
    engine = given(submit(node("u")))

    results = [
        engine.execute(command).reply.result
        for command in (
            call("vars.set", kv={"a.b": 1, "c": {"d": b"x", "e": 2}}),
            call("vars.merge", data={"a": {"f": 3}}),
            call("vars.incr", key="a.b", by=2),
            call("vars.unset", keys=["c.d", "c.e", "none"]),
            call("noop"),
        )
    ]

    assert pipeline(engine).vars == {"a": {"b": 3, "f": 3}}
    assert [one.get("touched") for one in results] == [3, 1, None, 3, None]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("vars.set", {"kv": {"a..b": 1}}),
        ("vars.set", {"kv": {"$a": 1}}),
        ("vars.set", {"kv": {f"k{one}": 1 for one in range(257)}}),
        ("vars.set", {"kv": {"a": "x" * 65_537}}),
        ("vars.set", {"kv": {".".join("abcdefghijklmno"): 1}}),
        ("vars.set", {"kv": {"t": "eyJhbGciOi.eyJzdWIiOi.x"}, "block_sensitive": True}),
        ("vars.incr", {"key": "a", "by": "1"}),
        ("vars.incr", {"key": "a", "by": float("inf")}),
        ("vars.unset", {"keys": "a"}),
        ("merge.generic", {"from_nodes": ["u"]}),
        ("metrics.aggregate", {"node_id": "nobody"}),
        ("vars.explode", {}),
    ],
)
def test_functions_refuse_what_makes_no_sense(function, arguments):
    engine = given(submit(node("u")))

    with pytest.raises(Invalid) as refusal:
        engine.execute(call(function, **arguments))

    assert refusal.value.code == "bad_function_args"
    assert pipeline(engine).vars == {}


def test_a_function_that_fails_is_tried_again_and_then_fails_the_pipeline():
    bad = {"fn": "vars.incr", "fn_args": {"key": "a", "by": "x"}}
    policy = {"max": 1, "backoff_sec": 10}
    engine = given(submit(node("f", "coordinator_fn", io=bad, retry_policy=policy)))
    assert statuses(engine) == {"f": "deferred"}

    engine.execute(Later(10_000), Tick())

    assert pipeline(engine).cancel_reason == "hard_fail:bad_function_args"


def test_functions_that_the_server_does_not_know_or_may_not_run_go_to_a_coordinator():
    known = node("f", "coordinator_fn", io={"fn": "noop"})
    custom = node("g", "coordinator_fn", io={"fn": "mine", "fn_args": {"x": 1}})
    engine = given(submit(known, functions_outside=True), submit(custom))
    coordinator = PipelineWorkerStub(engine, ANNA, "coordinator_fn")

    names = [coordinator.take().function]
    coordinator.complete()
    names.append(coordinator.take().function)

    assert names == ["noop", "mine"]
    assert coordinator.start.arguments == {"x": 1}


# Cancel, deadlines


def test_cancel_closes_queued_and_deferred_nodes_at_once():
    engine = given(
        submit(node("u", "indexer", retry_policy={"backoff_sec": 100}), node("v", "last", "u"))
    )
    anna = PipelineWorkerStub(engine, ANNA, "indexer")
    anna.take()
    anna.fail()

    reply = engine.execute(CancelPipeline(id="pipe-1")).reply

    assert reply.status == "cancelled"
    assert statuses(engine) == {"u": "cancelled", "v": "cancelled"}
    with pytest.raises(Conflict):
        engine.execute(CancelPipeline(id="pipe-1"))
    with pytest.raises(NotFound):
        engine.execute(CancelPipeline(id="pipe-9"))


def test_a_pipeline_that_takes_too_long_fails():
    engine = given(submit(node("u"), timeout_ms=1_000))

    engine.execute(Later(1_000), Tick())

    assert (pipeline(engine).status, pipeline(engine).cancel_reason) == ("failed", "timeout")


def test_silence_defers_a_pipeline_and_then_fails_it():
    engine = given(submit(node("u", "indexer"), soft_ms=1_000, hard_ms=5_000))
    engine.execute(Later(1_000), Tick())
    assert pipeline(engine).status == "deferred"
    anna = PipelineWorkerStub(engine, ANNA, "indexer")
    anna.take()
    assert pipeline(engine).status == "running"

    engine.execute(Later(4_999), Tick(), Later(1), Tick())

    assert pipeline(engine).cancel_reason == "heartbeat_timeout"


# Retry


def test_an_ended_pipeline_is_tried_again_and_keeps_what_was_recorded():
    engine = given(SubmitPipeline(graph=LINE))
    anna = PipelineWorkerStub(engine, ANNA, "indexer")
    boris = PipelineWorkerStub(engine, "boris", "enricher")
    anna.take()
    anna.report("b0")
    anna.report("b1")
    anna.complete()
    boris.take()
    boris.next("u")
    boris.report("b0", "u", 0)
    boris.fail(permanent=True)
    assert pipeline(engine).status == "failed"

    engine.execute(RetryPipeline(id="pipe-1"))
    boris.take()
    again = boris.next("u")
    boris.report("b1", "u", 1)
    boris.complete()

    assert boris.start.epoch == 2
    assert [one.batch_uid for one in again.items] == ["b1"]
    assert uids(engine, "v") == ["b0", "b1"]
    assert pipeline(engine).status == "finished"
    with pytest.raises(Conflict) as refusal:
        engine.execute(RetryPipeline(id="pipe-1"))
    assert refusal.value.code == "nothing_to_retry"


def test_one_node_of_an_ended_pipeline_is_tried_again_with_what_belongs_to_it():
    engine = given(
        submit(node("u", "indexer"), node("v", "last", "u"), node("w", "other"), node("x", "last"))
    )
    anna = PipelineWorkerStub(engine, ANNA, "indexer")
    anna.take()
    anna.fail(permanent=True)

    engine.execute(RetryPipeline(id="pipe-1", node="u"))

    assert statuses(engine) == {"u": "queued", "v": "queued", "w": "cancelled", "x": "cancelled"}


def test_a_deferred_node_is_tried_again_when_someone_says_so():
    engine = given(submit(node("u", "indexer")))
    anna = PipelineWorkerStub(engine, ANNA, "indexer")
    anna.take()
    anna.fail()

    engine.execute(RetryPipeline(id="pipe-1", node="u"))

    assert anna.take().epoch == 2


# Patches, events from outside


def test_patches_change_variables_and_cancel():
    engine = given(submit(node("u"), node("v")))

    engine.execute(
        PatchPipeline(
            id="pipe-1",
            set={"coordinator.vars.a": 1, "note": "x"},
            inc={"coordinator.vars.a": 0, "hits": 2},
        ),
        PatchPipeline(id="pipe-1", inc={"hits": 1}, unset=["note"]),
    )
    assert (pipeline(engine).vars, pipeline(engine).extra) == ({"a": 0}, {"hits": 3})
    engine.execute(PatchPipeline(id="pipe-1", set={"nodes.u.coordinator.cancelled": True}))
    assert statuses(engine) == {"u": "cancelled", "v": "queued"}
    engine.execute(PatchPipeline(id="pipe-1", set={"coordinator.cancelled": True}))

    assert pipeline(engine).status == "cancelled"


def outside(kind, epoch=1, **payload):
    return RecordPipelineEvent(
        id="pipe-1", node="u", kind=kind, attempt_epoch=epoch, payload=payload, dedup_id=kind
    )


def test_events_from_outside_are_fenced_before_they_are_read():
    engine = given(submit(node("u", "indexer")))
    PipelineWorkerStub(engine, ANNA, "indexer").take()

    fenced = engine.execute(outside("BATCH_OK", epoch=7)).reply
    with pytest.raises(Invalid):
        engine.execute(outside("BATCH_OK"))
    for _ in range(2):
        engine.execute(outside("BATCH_OK", batch_uid="b0", metrics={"count": 1}))
    engine.execute(outside("TASK_DONE", metrics={}))

    assert fenced.verdict == "fenced"
    assert uids(engine, "u") == ["b0"]
    assert pipeline(engine).status == "finished"


def test_a_failure_from_outside_may_come_before_the_start():
    engine = given(submit(node("u", "indexer")))

    engine.execute(outside("TASK_FAILED", epoch=0, reason_code="x", permanent=True))

    assert pipeline(engine).status == "failed"


def test_the_events_of_all_pipelines_can_go_to_a_stream():
    settings = PipelineSettings(event_stream="pipeline-events")
    engine = given(ConfigurePipelines(settings=settings), submit(node("u")))

    run_to_the_end(engine)

    page = engine.query(ReadStream(stream="pipeline-events"))
    kinds = [one.kind for one in engine.query(ReadPipelineEvents(id="pipe-1")).items]
    assert kinds == ["TASK_START", "TASK_ACCEPTED", "BATCH_OK", "TASK_DONE"]
    assert len(page.items) == len(kinds)


# Lists, stored graphs


def test_lists_have_what_is_live_and_what_has_ended():
    engine = given(submit(node("u")), submit(node("u")))
    run_to_the_end(engine)
    engine.execute(submit(node("u")))

    first = engine.query(ListPipelines(limit=2))
    rest = engine.query(ListPipelines(limit=2, cursor=first.cursor))

    assert [one.id for one in first.items] == ["pipe-3", "pipe-2"]
    assert [(one.id, str(one.status)) for one in rest.items] == [("pipe-1", "finished")]
    assert [one.id for one in engine.query(ListPipelines(status="queued")).items] == ["pipe-3"]


def test_a_graph_is_stored_and_started_by_name():
    engine = given(PublishPipeline(name="etl", graph=LINE))

    assert not engine.execute(PublishPipeline(name="etl", graph=LINE)).reply.changed
    engine.execute(SubmitPipeline(name="etl"))

    assert pipeline(engine).graph_name == "etl"
    assert engine.query(GetPipelineGraph(name="etl")).version == 1
    engine.execute(DeletePipelineGraph(name="etl"))
    assert engine.query(ListPipelineGraphs()).items == []
    with pytest.raises(NotFound) as refusal:
        engine.execute(SubmitPipeline(name="etl"))
    assert refusal.value.code == "pipeline_graph_not_found"


def test_artifacts_are_read_on_after_the_last_and_end_with_the_complete_ones():
    engine = given(submit(node("u")))
    run_to_the_end(engine)

    page = engine.query(ListArtifacts(id="pipe-1"))
    nothing = engine.query(ListArtifacts(id="pipe-1", after=page.last))

    assert [one.status for one in page.items] == ["partial", "complete"]
    assert (nothing.ended, [one.status for one in nothing.items]) == (True, ["complete"])


# Bounds


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "command",
    [
        submit(node("u"), params={"a": nested(200)}),
        submit(node("u"), params={"a": 2**70}),
        call("vars.set", kv={"a": nested(200)}),
        call("vars.incr", key="big", by=2**63),
        PatchPipeline(id="pipe-1", set={"a": nested(200)}),
        PatchPipeline(id="pipe-1", inc={"a": float("inf")}),
        PatchPipeline(id="pipe-1", set={"a": "x" * 2_000_000}),
        RecordPipelineEvent(
            id="pipe-1", node="u", kind="BATCH_OK", attempt_epoch=1, payload={"a": nested(200)}
        ),
        ReportBatch(
            id="pipe-1",
            node="u",
            epoch=1,
            batch_uid="b",
            meta=b'{"a":' + b"[" * 200 + b"]" * 200 + b"}",
        ),
        ReportBatch(id="pipe-1", node="u", epoch=1, batch_uid="b", artifacts_ref=b"nothing"),
    ],
)
def test_what_the_log_could_not_hold_is_refused(command):
    engine = given(submit(node("u")), call("vars.set", kv={"big": 2**63}))
    before = fingerprint(engine.state)

    with pytest.raises(Rejected):
        engine.execute(command)

    assert fingerprint(engine.state) == before


def test_variables_together_have_a_bound():
    engine = given(submit(node("u")))
    values = {f"k{one}": "x" * 60_000 for one in range(60)}
    engine.execute(call("vars.set", kv=values))

    with pytest.raises(Invalid, match="together"):
        engine.execute(call("vars.merge", data={"more": values}))


def test_of_too_many_ended_pipelines_the_oldest_journal_goes(monkeypatch):
    monkeypatch.setattr(folds, "ENDED_KEPT_MAX", 1)
    engine = given(submit(node("u")), submit(node("u")))

    run_to_the_end(engine)

    assert pipeline(engine, "pipe-1").status == "finished"
    assert uids(engine, "u", "pipe-2") == ["u-0"]
    with pytest.raises(NotFound) as refusal:
        engine.query(ListArtifacts(id="pipe-1"))
    assert refusal.value.code == "pipeline_forgotten"


# What is kept


def test_a_snapshot_and_a_replay_give_the_same_state():
    engine = given(SubmitPipeline(graph=LINE, idempotency_key="k", soft_ms=100_000))
    anna = PipelineWorkerStub(engine, ANNA, "indexer")
    anna.take()
    for number in range(3):
        anna.report(f"b{number}", meta={"count": 1})
    boris = PipelineWorkerStub(engine, "boris", "enricher")
    boris.take()
    boris.next("u", max_batches=2)
    boris.report("part", "u", 0, done=False)
    engine.execute(submit(node("x"), node("y")), CancelPipeline(id="pipe-2"), submit(node("z")))

    loaded = load(list(dump(engine.state)))

    assert fingerprint(loaded) == fingerprint(engine.state)
    assert fingerprint(replayed(engine.log)) == fingerprint(engine.state)
    other = EngineHarness(loaded, engine.now_ms)
    other.records, other.archive = engine.records, engine.archive
    boris.engine = other
    again = boris.next("u", max_batches=10)
    assert [(one.number, one.done_uids) for one in again.items] == [(0, ["part"]), (1, []), (2, [])]
    other.execute(Later(60_000), Tick())
    assert statuses(other)["u"] == "queued"


def test_a_deleted_namespace_leaves_nothing_behind():
    engine = given(submit(node("u"), namespace="prod", timeout_ms=1_000))

    engine.execute(DeleteNamespace(name="prod", force=True))
    engine.execute(Later(1_000), Tick())

    assert engine.state.journals == set()
    assert engine.state.due.next_at_ms() is None
