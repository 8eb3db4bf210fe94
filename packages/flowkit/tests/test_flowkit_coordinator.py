"""Tasks from their graph to their result, as a program written for FlowKit sees them."""

import asyncio

import pytest

from flo import Unavailable
from flowkit import Coordinator, CoordinatorConfig, Worker
from flowkit.coordinator.runner import Envelope, EventKind, MsgType, Role, RunState
from flowkit.worker.handlers.base import Batch, BatchResult, RoleHandler

RECHUNK = "pull.from_artifacts.rechunk:size"


class Indexer(RoleHandler):
    role = "indexer"

    def __init__(self, batches=3, fails=0, permanent=False):
        self._batches, self._fails, self._permanent = batches, fails, permanent

    async def iter_batches(self, loaded):
        for number in range(self._batches):
            yield Batch(batch_uid=f"b{number}", payload={"skus": [number, number + 100]})

    async def process_batch(self, batch, ctx):
        if self._fails and batch.batch_uid == "b1":
            self._fails -= 1
            return BatchResult(success=False, reason_code="broken", permanent=self._permanent)
        return BatchResult(success=True, metrics={"skus": batch.payload["skus"], "count": 2})


class Waits(RoleHandler):
    """Its batch goes on until the run is cancelled."""

    role = "waits"

    def __init__(self):
        self.started = asyncio.Event()
        self.reason = None

    async def process_batch(self, batch, ctx):
        self.started.set()
        await ctx.cancel_flag.wait()
        self.reason = ctx.cancel_reason
        await ctx.raise_if_cancelled()


def indexer(**more):
    return {"node_id": "u", "type": "indexer", **more}


def function(name, depends_on=(), node_id="f", **arguments):
    return {
        "node_id": node_id,
        "type": "coordinator_fn",
        "depends_on": list(depends_on),
        "io": {"fn": name, "fn_args": arguments},
    }


async def test_a_graph_with_enum_states_tuples_and_nodes_without_most_fields(
    coord, start_worker, until, node
):
    await start_worker(Indexer())
    graph = {
        "schema_version": "1.0",
        "nodes": [
            indexer(status=RunState.queued, attempt_epoch=0, lease={}, stats={}),
            function("noop", ("u",)),
        ],
        "edges": [("u", "f")],
    }

    task = await until.ended(await coord.create_task(params={"a": 1}, graph=graph))

    assert task["status"] is RunState.finished
    assert str(node(task, "u")["status"]) == "RunState.finished"
    assert (task["params"], task["id"]) == ({"a": 1}, task["pipeline_id"])
    assert node(task, "u")["attempt_epoch"] == 1
    assert task["result"] == {
        "nodes": [{"node_id": "u", "stats": {}}, {"node_id": "f", "stats": {}}]
    }


async def test_metrics_are_aggregated_on_demand(coord, start_worker, until, node):
    await start_worker(Indexer())
    graph = {"nodes": [indexer(), function("metrics.aggregate", ("u",), node_id="u2")]}
    graph["nodes"][1]["io"]["fn_args"] = {"node_id": "u", "mode": "sum"}

    task = await until.ended(await coord.create_task(params={}, graph=graph))

    assert node(task, "u")["stats"] == {"count": 6.0}
    assert {"node_id": "u", "stats": {"count": 6.0}} in task["result"]["nodes"]


async def test_metrics_count_a_batch_that_failed_first_and_then_succeeded(
    coord, start_worker, until, node
):
    await start_worker(Indexer(fails=1))
    graph = {
        "nodes": [
            indexer(retry_policy={"max": 1, "backoff_sec": 0}),
            function("metrics.aggregate", ("u",), node_id="agg"),
        ]
    }
    graph["nodes"][1]["io"]["fn_args"] = {"node_id": "u"}

    task = await until.ended(await coord.create_task(params={}, graph=graph))

    assert node(task, "u")["stats"] == {"count": 6.0}
    assert node(task, "u")["attempt_epoch"] == 2


async def test_functions_of_ones_own_and_those_of_variables(coord, until, db, node):
    async def double(task_id, *, key):
        task = await db.tasks.find_one({"id": task_id})
        value = task["coordinator"]["vars"][key]
        await coord.adapters["vars.set"](task_id, kv={"doubled": value * 2})

    coord.adapters["my.double"] = double
    graph = {
        "nodes": [
            function("vars.set", node_id="a", kv={"n": 20}),
            function("vars.incr", ("a",), node_id="b", key="n"),
            function("my.double", ("b",), node_id="c", key="n"),
            function("vars.unset", ("c",), node_id="d", keys=["n"]),
        ]
    }

    task = await until.ended(await coord.create_task(params={}, graph=graph))

    assert task["status"] == "finished"
    assert task["coordinator"]["vars"] == {"doubled": 42}


async def test_a_function_that_fails_is_tried_again(coord, until, node):
    calls = []

    async def flaky(task_id):
        calls.append(task_id)
        if len(calls) == 1:
            raise RuntimeError("not yet")

    coord.adapters["flaky"] = flaky
    graph = {"nodes": [{**function("flaky"), "retry_policy": {"max": 2, "backoff_sec": 0}}]}

    task = await until.ended(await coord.create_task(params={}, graph=graph))

    assert (task["status"], len(calls)) == ("finished", 2)
    assert node(task, "f")["attempt_epoch"] == 2


async def test_an_unknown_function_is_deferred(coord, until, node):
    graph = {"nodes": [{**function("nowhere"), "retry_policy": {"max": 5, "backoff_sec": 60}}]}
    task_id = await coord.create_task(params={}, graph=graph)

    task = await until.that(task_id, lambda task: node(task, "f")["status"] == "deferred")

    assert "nowhere" in node(task, "f")["last_error"]
    assert node(task, "f")["next_retry_at_ms"]
    await coord.cancel_task(task_id)


async def test_a_merge_writes_an_artifact_and_merges_nothing(coord, start_worker, until, db):
    await start_worker(Indexer())
    merge = function("merge.generic", ("u",), from_nodes=["u"], target={"x": 1})
    graph = {"nodes": [indexer(), merge]}

    task = await until.ended(await coord.create_task(params={}, graph=graph))

    artifact = await db.artifacts.find_one({"task_id": task["id"], "node_id": "f"})
    assert (artifact["status"], artifact["meta"]["merged_from"]) == ("complete", ["u"])
    assert artifact["meta"]["partial_batches"] == 3
    assert artifact["meta"]["complete_nodes"] == ["u"]


async def test_functions_run_only_while_a_coordinator_does(db, until, node):
    coordinator = Coordinator(db=db)
    task_id = await coordinator.create_task(
        params={}, graph={"nodes": [function("vars.set", kv={"a": 1})]}
    )
    before = await db.tasks.find_one({"id": task_id})
    await coordinator.start()
    await until.ended(task_id)
    await coordinator.restart()
    again = await coordinator.create_task(
        params={}, graph={"nodes": [function("vars.set", kv={"a": 1})]}
    )
    task = await until.ended(again)
    await coordinator.stop()

    assert node(before, "f")["status"] == "queued"
    assert node(task, "f")["attempt_epoch"] == 1


async def test_a_permanent_failure_fails_the_task(coord, start_worker, until, node):
    await start_worker(Indexer(fails=1, permanent=True))
    graph = {"nodes": [indexer(), {"node_id": "later", "type": "nobody", "depends_on": ["u"]}]}

    task = await until.ended(await coord.create_task(params={}, graph=graph))

    assert task["status"] is RunState.failed
    assert node(task, "u")["status"] is RunState.failed
    assert node(task, "u")["last_error"] == "broken"
    assert task["coordinator"]["cancel_reason"] == "hard_fail:broken"
    assert node(task, "later")["status"] is RunState.cancelling
    assert node(task, "later")["attempt_epoch"] == 0
    assert not node(task, "later")["started_at"]


async def test_retries_are_bounded(coord, start_worker, until, node):
    await start_worker(Indexer(fails=100))
    graph = {"nodes": [indexer(retry_policy={"max": 2, "backoff_sec": 0})]}

    task = await until.ended(await coord.create_task(params={}, graph=graph))

    assert (task["status"], node(task, "u")["attempt_epoch"]) == ("failed", 3)


@pytest.mark.parametrize(
    "route",
    [
        {"input_adapter": "unknown.adapter", "input_args": {}},
        {"input_adapter": RECHUNK, "input_args": {"from_nodes": ["u"], "poll_ms": 10}},
        {"input_adapter": RECHUNK, "input_args": {"from_nodes": ["nobody"], "size": 2}},
    ],
)
async def test_a_route_that_cannot_be_gives_an_id_and_then_fails(
    route, coord, start_worker, until, node
):
    await start_worker(Indexer())
    graph = {"nodes": [indexer(io={"input_inline": route})]}

    task = await until.ended(await coord.create_task(params={}, graph=graph))

    assert (task["status"], node(task, "u")["attempt_epoch"]) == ("failed", 1)


async def test_what_can_never_become_ready_is_let_pass_with_a_warning(coord, caplog, db, node):
    caplog.set_level("WARNING")

    task_id = await coord.create_task(params={}, graph={"nodes": [indexer(depends_on=["nobody"])]})

    task = await db.tasks.find_one({"id": task_id})
    assert node(task, "u")["status"] == "queued"
    assert [one for one in caplog.records if getattr(one, "event", "") == "coord.task.warning"]


async def test_a_task_without_nodes_waits(coord, db):
    task_id = await coord.create_task(params={}, graph={"nodes": [], "edges": []})

    task = await db.tasks.find_one({"id": task_id})

    assert task["graph"]["nodes"] == []
    assert task["status"] in ("queued", "running")
    assert await coord.cancel_task(task_id)


async def test_cancelling(coord, start_worker, until, node, db):
    waits = Waits()
    await start_worker(waits)
    graph = {
        "nodes": [
            {"node_id": "w", "type": "waits"},
            {"node_id": "after", "type": "waits", "depends_on": ["w"]},
        ]
    }
    task_id = await coord.create_task(params={}, graph=graph)
    await asyncio.wait_for(waits.started.wait(), 20)
    await coord.adapters["vars.set"](task_id, kv={"kept": 1})

    assert await coord.cancel_task(task_id, reason="enough")
    task = await until.ended(task_id)

    assert waits.reason == "enough"
    assert task["status"] is RunState.finished
    assert task["coordinator"]["cancelled"] is True
    assert task["coordinator"]["cancel_reason"] == "enough"
    assert task["coordinator"]["vars"] == {"kept": 1}
    assert node(task, "w")["status"] in (RunState.cancelling, RunState.deferred)
    assert node(task, "after")["status"] is RunState.cancelling
    assert not await coord.cancel_task("nobody")
    assert await coord.cancel_task(task_id, reason="again")  # it has ended: nothing changes


@pytest.mark.parametrize("name", ["cascade_cancel", "_cascade_cancel"])
async def test_the_other_names_of_cancelling(name, coord, until):
    task_id = await coord.create_task(params={}, graph={"nodes": [indexer()]})

    await getattr(coord, name)(task_id, reason="r")

    assert (await until.ended(task_id))["coordinator"]["cancel_reason"] == "r"


async def test_silence_defers_a_task_and_then_fails_it(db, until, node):
    cfg = CoordinatorConfig(heartbeat_soft_sec=0.2, heartbeat_hard_sec=1.5)
    coordinator = Coordinator(db=db, cfg=cfg)
    task_id = await coordinator.create_task(params={}, graph={"nodes": [indexer()]})

    await until.that(task_id, lambda task: task["status"] == "deferred")
    task = await until.ended(task_id)

    assert task["status"] is RunState.failed
    assert task["coordinator"]["liveness"]["state"] == "dead"


async def test_limits_of_the_configuration(db, start_worker, until):
    cfg = CoordinatorConfig(max_global_running=1, max_type_concurrency={"waits": 1})
    coordinator = Coordinator(db=db, cfg=cfg)
    await coordinator.start()
    waits = [Waits(), Waits()]
    for one in waits:
        await start_worker(one)
    graph = {"nodes": [{"node_id": name, "type": "waits"} for name in ("a", "b")]}
    task_id = await coordinator.create_task(params={}, graph=graph)
    task = await until.that(
        task_id, lambda task: "running" in [one["status"] for one in task["graph"]["nodes"]]
    )
    await coordinator.cancel_task(task_id)
    await until.ended(task_id)
    await coordinator.stop()

    assert sorted(one["status"].value for one in task["graph"]["nodes"]) == ["queued", "running"]


async def test_functions_may_be_run_one_by_one_without_a_running_coordinator(db):
    coordinator = Coordinator(db=db)
    graph = {
        "nodes": [
            function("vars.set", node_id="a", kv={"n": 1, "m.o": 2}),
            function("vars.incr", ("a",), node_id="b", key="n"),
            function("vars.unset", ("b",), node_id="c", keys=["m.o"]),
        ]
    }
    task_id = await coordinator.create_task(params={}, graph=graph)
    times = []
    for node_id in ("a", "b", "c"):
        task = await db.tasks.find_one({"id": task_id})
        one = next(node for node in task["graph"]["nodes"] if node["node_id"] == node_id)
        await coordinator._run_coordinator_fn({"id": task_id, "graph": graph}, one)
        times.append((await db.tasks.find_one({"id": task_id}))["updated_at"])

    task = await db.tasks.find_one({"id": task_id})

    assert {node["status"] for node in task["graph"]["nodes"]} == {RunState.finished}
    assert task["coordinator"]["vars"] == {"n": 2}
    assert times == sorted(set(times))


async def test_a_function_that_fails_by_hand_leaves_its_node(db, node):
    coordinator = Coordinator(db=db)
    task_id = await coordinator.create_task(params={}, graph={"nodes": [function("nowhere")]})
    task = await db.tasks.find_one({"id": task_id})

    await coordinator._run_coordinator_fn(task, node(task, "f"))

    assert node(await db.tasks.find_one({"id": task_id}), "f")["status"] == "queued"


async def test_names_that_programs_use_though_they_are_half_private(coord):
    assert coord.bus.topic_status("x") == "status.x.v1"
    assert coord.clock.now_ms() > 0


async def test_forged_and_doubled_events_change_nothing(coord, start_worker, until, node, db):
    await start_worker(Indexer())
    graph = {"nodes": [indexer(), function("metrics.aggregate", ("u",), node_id="agg")]}
    graph["nodes"][1]["io"]["fn_args"] = {"node_id": "u"}
    waits = Waits()
    await start_worker(waits)
    graph["nodes"].append({"node_id": "w", "type": "waits"})
    task_id = await coord.create_task(params={}, graph=graph)
    await asyncio.wait_for(waits.started.wait(), 20)
    await until.that(task_id, lambda task: node(task, "agg")["status"] == "finished")
    before = await db.worker_events.count_documents({"task_id": task_id, "node_id": "u"})

    forged = Envelope(
        msg_type=MsgType.event,
        role=Role.worker,
        dedup_id="stale",
        task_id=task_id,
        node_id="u",
        step_type="indexer",
        attempt_epoch=0,
        payload={"kind": EventKind.BATCH_OK, "worker_id": "WZ", "metrics": {"count": 999}},
    )
    for _ in range(2):
        await coord.bus.send(coord.bus.topic_status("indexer"), "k", forged)
    await coord.adapters["metrics.aggregate"](task_id, node_id="u")
    task = await db.tasks.find_one({"id": task_id})
    events = await db.worker_events.count_documents({"task_id": task_id, "node_id": "u"})
    await coord.cancel_task(task_id)

    assert node(task, "u")["stats"] == {"count": 6.0}
    assert events > before
    assert await db.worker_events.find_one({"event_hash": "stale"})


async def test_a_slow_node_is_deferred_for_its_silence_and_finishes_all_the_same(
    db, start_worker, until, node
):
    cfg = CoordinatorConfig(heartbeat_soft_sec=0.2, heartbeat_hard_sec=30)
    coordinator = Coordinator(db=db, cfg=cfg)
    waits = Waits()
    await start_worker(waits, hb_interval_sec=60.0)
    task_id = await coordinator.create_task(
        params={}, graph={"nodes": [{"node_id": "w", "type": "waits"}]}
    )
    task = await until.that(task_id, lambda task: task["status"] == "deferred")
    await coordinator.cancel_task(task_id)
    ended = await until.ended(task_id)

    assert node(task, "w")["status"] == "running"
    assert task["coordinator"]["liveness"]["state"] == "suspected"
    assert ended["status"] == "finished"


async def test_a_coordinator_that_stops_in_a_function_leaves_it_to_another(db, until, node):
    started = asyncio.Event()

    async def hangs(task_id):
        started.set()
        await asyncio.Event().wait()

    async def works(task_id):
        pass

    first = Coordinator(db=db, adapters={"my.fn": hangs})
    second = Coordinator(db=db, adapters={"my.fn": works})
    await first.start()
    task_id = await first.create_task(params={}, graph={"nodes": [function("my.fn")]})
    await asyncio.wait_for(started.wait(), 20)
    await first.stop()
    await second.start()
    task = await until.ended(task_id)
    await second.stop()

    assert (task["status"], node(task, "f")["attempt_epoch"]) == ("finished", 2)


async def test_a_server_that_is_not_there_is_said_at_once():
    nowhere = Coordinator(db="127.0.0.1:1")

    with pytest.raises(Unavailable, match="cannot reach"):
        await nowhere.start()
    with pytest.raises(Unavailable, match="cannot reach"):
        await Worker(db="127.0.0.1:1", roles=["echo"]).start()


async def test_a_coordinator_goes_on_after_a_function_that_cancelled_its_own_task(coord, until):
    calls = []

    async def cancels_its_own_task(task_id):
        calls.append(task_id)
        await coord.cancel_task(task_id)

    coord.adapters["my.fn"] = cancels_its_own_task
    task_id = await coord.create_task(params={}, graph={"nodes": [function("my.fn")]})
    task = await until.ended(task_id)
    again = await coord.create_task(params={}, graph={"nodes": [function("noop")]})

    assert (task["status"], len(calls)) == ("finished", 1)
    assert (await until.ended(again))["status"] == "finished"  # the coordinator goes on
