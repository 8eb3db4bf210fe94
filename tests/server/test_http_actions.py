"""The HTTP routes of actions."""

from urllib.parse import quote

import pytest

from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_action_is_created_once_and_then_replaced(http):
    assert await http.post("/actions", {"name": "ship"}) == (201, {"name": "ship", "version": 1})
    assert await http.post("/actions", {"name": "ship"}) == (200, {"name": "ship", "version": 2})


async def test_a_worker_that_announces_the_same_settings_makes_no_new_version(http):
    await http.post("/actions", {"name": "ship"})
    _, announced = await http.post("/actions", {"name": "ship", "if_changed": True})
    assert announced == {"name": "ship", "version": 1}


async def test_an_action_shows_its_settings_its_runs_and_its_workers(http):
    settings = {"timeout_ms": 5_000, "max_retries": 1, "retry_delay_ms": 10, "description": "go"}
    await http.post("/actions", {"name": "ship", **settings})
    await http.post("/actions/ship/invoke", {"order": 1})
    await http.post("/actions/ship/invoke", {"order": 2})
    await http.post("/workers", {"worker_id": "anna", "actions": ["ship"]})
    await http.post("/workers", {"worker_id": "boris", "actions": ["bill"]})

    status, action = await http.get("/actions/ship")

    assert status == 200
    assert [run["input"] for run in action.pop("recent_runs")] == [{"order": 2}, {"order": 1}]
    assert action == {
        "name": "ship",
        "namespace": "default",
        "type": "user",
        "version": 1,
        "enabled": True,
        "created_at_ms": NOON_MS,
        "updated_at_ms": NOON_MS,
        "runs": {
            "pending": 2,
            "running": 0,
            "completed": 0,
            "failed": 0,
            "cancelled": 0,
            "timed_out": 0,
        },
        "workers": ["anna"],
        **settings,
    }


async def test_all_workers_of_an_action_are_found_however_many_there_are(http, monkeypatch):
    monkeypatch.setattr("flo.server.http_actions.LIST_LIMIT_MAX", 2)
    await http.post("/actions", {"name": "ship"})
    for worker_id in ("anna", "boris", "carla", "dora", "emil"):
        await http.post("/workers", {"worker_id": worker_id, "actions": ["ship"]})

    _, action = await http.get("/actions/ship")

    assert action["workers"] == ["anna", "boris", "carla", "dora", "emil"]


async def test_actions_are_listed_page_by_page(http):
    for name in ("a", "b", "c"):
        await http.post("/actions", {"name": name})

    status, first = await http.get("/actions", limit=2)
    _, second = await http.get("/actions", limit=2, cursor=first["cursor"])

    assert status == 200
    assert [action["name"] for action in first["items"]] == ["a", "b"]
    assert [action["name"] for action in second["items"]] == ["c"]
    assert second["cursor"] is None


async def test_a_change_touches_only_what_it_names(http):
    await http.post("/actions", {"name": "ship", "timeout_ms": 5_000, "description": "by air"})

    changed = await http.put("/actions/ship", {"max_retries": 9, "description": "by sea"})

    assert changed == (200, {"name": "ship", "version": 2})
    _, action = await http.get("/actions/ship")
    assert (action["timeout_ms"], action["max_retries"]) == (5_000, 9)
    assert action["description"] == "by sea"


async def test_what_is_not_registered_can_be_neither_seen_nor_changed_nor_deleted(http):
    for answer in (
        await http.get("/actions/ship"),
        await http.put("/actions/ship", {"max_retries": 9}),
        await http.delete("/actions/ship"),
    ):
        status, body = answer
        assert status == 404
        assert body["error"]["code"] == "action_not_found"


async def test_a_deleted_action_is_gone(http):
    await http.post("/actions", {"name": "ship"})
    assert await http.delete("/actions/ship") == (204, None)
    assert (await http.get("/actions"))[1] == {"items": [], "cursor": None}


async def test_namespaces_know_nothing_of_each_other(http):
    await http.post("/actions", {"name": "ship"}, namespace="prod")
    assert (await http.get("/actions/ship"))[0] == 404
    assert (await http.get("/actions/ship", namespace="prod"))[1]["namespace"] == "prod"


@pytest.mark.parametrize("name", ["größe", "отправить", "v1.2:eu@home", "..a", "100", "_"])
async def test_a_name_may_have_odd_characters(http, name):
    assert (await http.post("/actions", {"name": name}))[0] == 201
    assert (await http.get(f"/actions/{quote(name)}"))[1]["name"] == name


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a\n", "%", "x" * 257])
async def test_a_name_that_cannot_be_is_refused(http, name):
    status, body = await http.post("/actions", {"name": name})
    assert status == 400
    assert body["error"]["code"] == "invalid_action_name"


async def test_a_slash_within_a_name_leads_to_no_other_route(mail):
    status, body = await mail.post("/actions/send-mail%2Finvoke")
    assert status == 405
    assert body["error"]["details"] == {"allowed": ["DELETE", "GET", "OPTIONS", "PUT"]}
    assert (await mail.get("/actions/send-mail%2Fruns"))[1]["error"]["code"] == "action_not_found"


async def test_a_name_in_broken_utf8_is_a_name_nobody_has(http):
    assert (await http.get("/actions/%ff%fe"))[1]["error"]["code"] == "action_not_found"
