"""The HTTP routes of pipelines."""

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")

GRAPH = {"nodes": [{"node_id": "index", "type": "indexer"}]}


async def test_a_worker_over_http_takes_a_pipeline_to_its_end(http):
    status, submitted = await http.ask("POST", "/pipelines", json={"graph": GRAPH})
    assert (status, submitted["duplicate"]) == (202, False)
    path = f"/pipelines/{submitted['id']}"

    asked = {"roles": ["indexer"]}
    status, given = await http.ask("POST", "/workers/anna/await-nodes", json=asked)
    (start,) = given["starts"]
    assert (status, start["node"], start["epoch"]) == (200, "index", 1)
    batch = {"epoch": 1, "batch_uid": "b0", "meta": {"files": [1, 2]}}
    status, reported = await http.ask("POST", f"{path}/nodes/index/batches", json=batch)
    assert (status, reported["verdict"]) == (200, "ok")
    status, done = await http.ask(
        "POST", f"{path}/nodes/index/complete", json={"epoch": 1, "meta": {"all": True}}
    )
    assert (status, done["verdict"]) == (200, "ok")

    status, ended = await http.get(f"{path}/end")
    assert (status, ended["pipeline"]["status"]) == (200, "finished")
    status, page = await http.get(f"{path}/artifacts", node="index")
    assert [item["meta"] for item in page["items"]] == [{"files": [1, 2]}, {"all": True}]
    status, events = await http.get(f"{path}/events", limit=2)
    assert [item["kind"] for item in events["items"]] == ["TASK_START", "TASK_ACCEPTED"]
    status, refused = await http.ask("POST", f"{path}/cancel")
    assert (status, refused["error"]["code"]) == (409, "pipeline_has_ended")


async def test_a_stored_graph_is_put_started_and_deleted(http):
    status, stored = await http.ask("PUT", "/pipeline-graphs/index", json={"graph": GRAPH})
    assert (status, stored) == (200, {"name": "index", "version": 1, "changed": True})
    status, _ = await http.ask("POST", "/pipelines", json={"name": "index", "params": {"a": 1}})
    assert status == 202
    status, listed = await http.get("/pipelines", name="index")
    assert [item["status"] for item in listed["items"]] == ["queued"]
    path = f"/pipelines/{listed['items'][0]['id']}"
    status, cancelled = await http.ask("POST", f"{path}/cancel", json={"reason": "enough"})
    assert (status, cancelled["status"]) == (200, "cancelled")
    status, again = await http.ask("POST", f"{path}/retry")
    assert (status, again["status"]) == (200, "running")
    assert (await http.ask("DELETE", "/pipeline-graphs/index"))[0] == 204
    assert (await http.get("/pipeline-graphs/index"))[0] == 404


async def test_a_graph_with_a_mistake_is_refused_with_all_that_is_wrong(http):
    graph = {"nodes": [{"node_id": "a", "type": "x", "depends_on": ["b"], "fan_in": "some"}]}
    status, refused = await http.ask("POST", "/pipelines", json={"graph": graph})
    assert (status, refused["error"]["code"]) == (422, "invalid_graph")
    assert len(refused["error"]["details"]["problems"]) == 2


async def test_settings_functions_and_patches(http):
    body = {"max_global_running": 4, "max_type_concurrency": {"indexer": 1}}
    assert (await http.ask("PUT", "/pipeline-settings", json=body))[0] == 204
    status, held = await http.get("/pipeline-settings")
    assert (status, held["max_global_running"]) == (200, 4)
    _, submitted = await http.ask("POST", "/pipelines", json={"graph": GRAPH})
    path = f"/pipelines/{submitted['id']}"
    status, called = await http.ask(
        "POST", f"{path}/functions/vars.set", json={"arguments": {"region": "eu"}}
    )
    assert (status, called["result"]) == (200, {"ok": True, "touched": 1})
    patch = {"inc": {"coordinator.vars.count": 2}}
    assert (await http.ask("POST", f"{path}/patch", json=patch))[0] == 200
    assert (await http.get(path))[1]["vars"] == {"region": "eu", "count": 2}
