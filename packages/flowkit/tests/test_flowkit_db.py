"""The db handle: tasks, artifacts, events and workers as collections."""

import datetime

import pytest

import flowkit
from flowkit import Coordinator, Worker, WorkerConfig
from flowkit.db.query import matches, projected
from flowkit.protocol.messages import RunState
from flowkit.worker.handlers.base import Batch, BatchResult, RoleHandler
from flowkit.worker.handlers.echo import EchoHandler
from flowkit.worker.input.pull_adapters import PullAdapters, build_input_adapters


class Source(RoleHandler):
    role = "source"

    async def iter_batches(self, loaded):
        for number in range(3):
            yield Batch(batch_uid=f"b{number}", payload={"v": [number, number]})

    async def process_batch(self, batch, ctx):
        return BatchResult(success=True, metrics=batch.payload, artifacts_ref={"file": "f"})


@pytest.fixture
async def done(coord, start_worker, until):
    """A task of one source that has finished."""
    await start_worker(Source(), worker_id="w-1")
    graph = {"nodes": [{"node_id": "u", "type": "source"}]}
    return await until.ended(await coord.create_task(params={"kind": "x"}, graph=graph))


async def test_tasks_are_found_by_id_by_fields_and_by_dotted_paths(db, done, coord):
    other = await coord.create_task(params={}, graph={"nodes": [{"node_id": "n", "type": "q"}]})

    by_field = [task["id"] async for task in db.tasks.find({"status": "finished"})]
    by_path = await db.tasks.find_one({"params.kind": "x"}, {"id": 1, "graph.nodes.node_id": 1})

    assert by_field == [done["id"]]
    assert by_path == {"id": done["id"], "graph": {"nodes": [{"node_id": "u"}]}}
    assert await db.tasks.count_documents({}) == 2
    assert await db.tasks.find_one({"id": "nobody"}) is None
    assert await db.tasks.find_one({"graph.nodes.type": "q"}, {"id": 1}) == {"id": other}
    await coord.cancel_task(other)


async def test_artifacts(db, done):
    rows = await db.artifacts.find({"task_id": done["id"], "status": "partial"}).to_list()
    complete = await db.artifacts.find_one({"task_id": done["id"], "status": "complete"})

    assert [row["batch_uid"] for row in rows] == ["b0", "b1", "b2"]
    assert rows[1]["meta"] == {"v": [1, 1]}
    assert rows[1]["artifacts_ref"] == {
        "task_id": done["id"],
        "node_id": "u",
        "batch_uid": "b1",
    }
    assert rows[1]["handler_artifacts_ref"] == {"file": "f"}
    assert (rows[1]["worker_id"], rows[1]["attempt_epoch"], rows[1]["payload"]) == ("w-1", 1, None)
    assert "batch_uid" not in complete
    assert await db.artifacts.count_documents({"node_id": "u"}) == 4


async def test_events_in_their_order(db, done):
    kinds = [
        event["payload"]["kind"] async for event in db.worker_events.find({"task_id": done["id"]})
    ]
    one = await db.worker_events.find_one({"payload.kind": "BATCH_OK"})

    beats = kinds.count("TASK_HEARTBEAT")
    assert beats >= 1
    assert [kind for kind in kinds if kind != "TASK_HEARTBEAT"] == [
        "TASK_ACCEPTED",
        "BATCH_OK",
        "BATCH_OK",
        "BATCH_OK",
        "TASK_DONE",
    ]
    assert one["event_hash"]
    assert (one["payload"]["worker_id"], one["payload"]["batch_uid"]) == ("w-1", "b0")


async def test_metrics_and_workers(db, done):
    rows = await db.metrics_raw.find({"task_id": done["id"]}).to_list()
    worker = await db.worker_registry.find_one({"worker_id": "w-1"})

    assert [row["batch_uid"] for row in rows] == ["b0", "b1", "b2", "__final__"]
    assert rows[3]["final"] is True
    assert (worker["type"], worker["status"], worker["capacity"]) == (
        "source",
        "online",
        {"tasks": 1},
    )


async def test_fields_are_set_unset_and_added_to(db):
    at = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    await db.tasks.insert_one(
        {
            "id": "t",
            "graph": {"nodes": [{"node_id": "a", "type": "q"}, {"node_id": "b", "type": "q"}]},
            "coordinator": {"vars": {"v": 1}},
        }
    )

    await db.tasks.update_one(
        {"id": "t", "graph.nodes.node_id": "b"},
        {
            "$set": {"graph.nodes.$.note": at, "graph.nodes.0.note": "first", "own.field": [1]},
            "$inc": {"coordinator.vars.v": 2, "own.count": 1},
        },
    )
    await db.tasks.update_one({"id": "t"}, {"$unset": {"own.field": ""}})
    task = await db.tasks.find_one({"id": "t"})

    assert [one["note"] for one in task["graph"]["nodes"]] == ["first", at]
    assert task["own"] == {"count": 1}
    assert task["coordinator"]["vars"] == {"v": 3}
    missing = await db.tasks.update_one({"id": "nobody"}, {"$set": {"x": 1}})
    assert missing.matched_count == 0


async def test_a_cancel_flag_cancels(db, coord, until):
    task_id = await coord.create_task(params={}, graph={"nodes": [{"node_id": "n", "type": "q"}]})

    await db.tasks.update_one({"id": task_id}, {"$set": {"coordinator.cancelled": True}})
    task = await until.ended(task_id)

    assert task["coordinator"]["cancelled"] is True


async def test_artifacts_that_a_program_writes_itself(db, coord, start_worker, until, node):
    graph = {
        "nodes": [
            {"node_id": "outside", "type": "nobody"},
            {
                "node_id": "reads",
                "type": "echo",
                "depends_on": ["outside"],
                "io": {
                    "start_when": "first_batch",
                    "input_inline": {
                        "input_adapter": "pull.from_artifacts",
                        "input_args": {"from_node": "outside"},
                    },
                },
            },
        ]
    }
    task_id = await coord.create_task(params={}, graph=graph)
    await start_worker(EchoHandler())
    key = {"task_id": task_id, "node_id": "outside"}

    await db.artifacts.update_one(
        {**key, "batch_uid": "x"},
        {"$set": {"status": "partial", "meta": {"a": 1}}, "$setOnInsert": {"worker_id": "me"}},
        upsert=True,
    )
    await db.artifacts.update_one(key, {"$set": {"status": "complete"}}, upsert=True)
    task = await until.ended(task_id)

    assert task["status"] is RunState.finished
    written = await db.artifacts.find_one({**key, "batch_uid": "x"})
    assert (written["meta"], written["worker_id"]) == ({"a": 1}, "me")
    assert node(task, "outside")["status"] is RunState.finished
    echoed = await db.artifacts.find_one({"task_id": task_id, "node_id": "reads"})
    assert echoed["meta"] == {"echoed": 5}


async def test_collections_of_ones_own(db):
    await db.notes.insert_one({"_id": 1, "n": 1})
    await db.notes.update_one({"n": 1}, {"$inc": {"n": 1}, "$push": {"list": "x"}})
    await db["notes"].update_one({"n": 7}, {"$setOnInsert": {"new": True}}, upsert=True)

    rows = await db.notes.find({}).sort("n", -1).to_list()

    assert [(row["n"], row.get("new"), row.get("list")) for row in rows] == [
        (7, True, None),
        (2, None, ["x"]),
    ]
    assert (await db.notes.delete_many({"new": True})).deleted_count == 1
    assert await db.notes.count_documents({}) == 1


@pytest.mark.parametrize(
    ("query", "is_met"),
    [
        ({"a.b": 1}, True),
        ({"a.b": {"$in": [1, 2]}}, True),
        ({"a.b": {"$gt": 1}}, False),
        ({"a.b": {"$gte": 1, "$lt": 2}}, True),
        ({"list.x": 2}, True),
        ({"list": {"$elemMatch": {"x": 2, "y": 1}}}, False),
        ({"missing": None}, True),
        ({"missing": {"$exists": False}}, True),
        ({"a": {"$exists": True}}, True),
        ({"s": {"$regex": "^te"}}, True),
        ({"s": {"$ne": "text"}}, False),
        ({"s": {"$nin": ["x"]}}, True),
        ({"$or": [{"s": "x"}, {"a.b": 1}]}, True),
        ({"$and": [{"s": "text"}, {"a.b": 2}]}, False),
        ({"s": {"$not": {"$eq": "text"}}}, False),
        ({"tags": "red"}, True),
    ],
)
def test_filters(query, is_met):
    document = {
        "a": {"b": 1},
        "list": [{"x": 1, "y": 1}, {"x": 2}],
        "s": "text",
        "tags": ["red"],
    }

    assert matches(document, query) is is_met


def test_projections():
    document = {"a": {"b": 1, "c": 2}, "d": 3, "e": [{"f": 1, "g": 2}]}

    assert projected(document, {"a.b": 1, "e.f": 1, "_id": 0}) == {"a": {"b": 1}, "e": [{"f": 1}]}
    assert projected(document, {"a.b": 0, "e": 0}) == {"a": {"c": 2}, "d": 3}
    assert projected(document, None) is document


async def test_a_server_that_is_named(until):
    here = flowkit.open_db(namespace="named")
    there = flowkit.open_db(here.address, "named")

    task_id = await Coordinator(db=there).create_task(
        params={}, graph={"nodes": [{"node_id": "n", "type": "echo"}]}
    )
    found = await here.tasks.find_one({"id": task_id})
    await here.close()
    await there.close()

    assert found["id"] == task_id
    assert flowkit.open_db().address == here.address  # one server for a process


async def test_the_environment_names_a_server(monkeypatch, db):
    monkeypatch.setenv("FLO_ENDPOINT", "10.0.0.1:9000")

    assert flowkit.open_db().address == "10.0.0.1:9000"
    assert Worker(cfg=WorkerConfig()).db.address == "10.0.0.1:9000"


async def test_what_is_no_db_is_refused():
    with pytest.raises(TypeError, match="open_db"):
        Coordinator(db=object())


async def test_data_that_outlive_the_process_are_in_a_folder(tmp_path):
    db = flowkit.open_db(data_dir=tmp_path)
    await db.tasks.insert_one({"id": "t"})
    await db.close()
    db.shut_down()
    again = flowkit.open_db(data_dir=tmp_path)
    found = await again.tasks.find_one({"id": "t"}, {"id": 1})
    await again.close()
    again.shut_down()

    assert found == {"id": "t"}


async def test_adapters_that_a_program_calls_itself(db, done):
    adapters = PullAdapters(db=db)

    whole = [
        batch
        async for batch in adapters.iter_from_artifacts(
            task_id=done["id"], consumer_node="me", from_nodes=["u"], poll_ms=5
        )
    ]
    cut = [
        batch
        async for batch in adapters.iter_from_artifacts_rechunk(
            task_id=done["id"],
            consumer_node="me",
            from_nodes=["u"],
            size=1,
            poll_ms=5,
            meta_list_key="v",
        )
    ]

    assert [batch.payload["meta"] for batch in whole] == [{"v": [n, n]} for n in range(3)]
    assert [batch.payload["items"] for batch in cut] == [[n // 2] for n in range(6)]
    assert set(build_input_adapters(db=db)) == {
        "pull.from_artifacts",
        "pull.from_artifacts.rechunk:size",
    }
