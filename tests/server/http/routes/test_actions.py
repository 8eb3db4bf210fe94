"""The HTTP routes of actions."""

import asyncio
from urllib.parse import quote

import pytest

from flo.model.actions import RegisterAction
from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

ORDER = {
    "type": "object",
    "properties": {"order": {"type": "integer"}},
    "required": ["order"],
}


NO_LIMITS = {
    "concurrency_max": None,
    "concurrency_key": "",
    "max_per_second": None,
    "max_per_minute": None,
    "max_per_hour": None,
}


async def test_an_action_is_created_once_and_then_replaced(http):
    assert await http.post("/actions", {"name": "ship"}) == (201, {"name": "ship", "version": 1})
    assert await http.post("/actions", {"name": "ship"}) == (200, {"name": "ship", "version": 2})


async def test_a_worker_that_announces_the_same_settings_makes_no_new_version(http):
    await http.post("/actions", {"name": "ship"})
    _, announced = await http.post("/actions", {"name": "ship", "if_changed": True})
    assert announced == {"name": "ship", "version": 1}


async def test_an_action_shows_its_settings_its_runs_and_its_workers(http):
    settings = {"timeout_ms": 5_000, "max_retries": 1, "retry_delay_ms": 10, "description": "go"}
    settings |= {"input_schema": ORDER, "output_schema": None}
    limits = {"concurrency_max": 2, "max_per_second": 5}
    await http.post("/actions", {"name": "ship", "limits": limits, **settings})
    await http.post("/actions/ship/invoke", {"order": 1})
    await http.post("/actions/ship/invoke", {"order": 2})
    await http.post("/workers", {"worker_id": "anna", "processes": ["ship"]})
    await http.post("/workers", {"worker_id": "boris", "processes": ["bill"]})

    status, action = await http.get("/actions/ship")

    assert status == 200
    assert [run["input"] for run in action.pop("recent_runs")] == [{"order": 2}, {"order": 1}]
    assert action == {
        "name": "ship",
        "namespace": "default",
        "type": "user",
        "version": 1,
        "enabled": True,
        "created_at": NOON_MS,
        "updated_at": NOON_MS,
        "runs": {
            "pending": 2,
            "running": 0,
            "completed": 0,
            "failed": 0,
            "cancelled": 0,
            "timed_out": 0,
        },
        "workers": ["anna"],
        "wasm_digest": None,
        "wasm_entrypoint": None,
        "wasm_memory_limit": None,
        "limits": {**NO_LIMITS, "concurrency_max": 2, "max_per_second": 5},
        "disabled_since": None,
        "secrets": [],
        **settings,
    }


async def test_all_workers_of_an_action_are_found_however_many_there_are(http, monkeypatch):
    monkeypatch.setattr("flo.server.http.routes.actions.LIST_LIMIT_MAX", 2)
    await http.post("/actions", {"name": "ship"})
    for worker_id in ("anna", "boris", "carla", "dora", "emil"):
        await http.post("/workers", {"worker_id": worker_id, "processes": ["ship"]})

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


async def test_a_change_that_changes_nothing_makes_no_new_version(http):
    await http.post("/actions", {"name": "ship", "max_retries": 9})
    for body in ({}, {"max_retries": 9}, {"enabled": True}, {"enabled": False}):
        assert await http.put("/actions/ship", body) == (200, {"name": "ship", "version": 1})


async def test_changes_that_come_at_once_undo_nothing(http):
    await http.post("/actions", {"name": "ship", "description": "by air"})
    changes = {"timeout_ms": 1, "max_retries": 2, "retry_delay_ms": 3, "description": "by sea"}

    await asyncio.gather(
        *(http.put("/actions/ship", {setting: value}) for setting, value in changes.items())
    )

    _, action = await http.get("/actions/ship")
    assert changes.items() <= action.items()
    assert action["version"] == 5


async def test_what_comes_while_a_change_is_made_is_not_undone_by_it(open_http):
    engine = HesitantEngine()
    async with open_http(engine=engine) as http:
        engine.shard = http.shard
        await http.post("/actions", {"name": "ship"})
        changing = asyncio.create_task(http.put("/actions/ship", {"description": "by sea"}))
        await engine.hesitates.wait()
        deleting = asyncio.create_task(http.delete("/actions/ship"))
        await asyncio.wait((deleting,), timeout=0.1)
        engine.go_on.set()

        assert await deleting == (204, None)
        assert (await changing)[0] == 404
        assert (await http.get("/actions/ship"))[0] == 404


class HesitantEngine:
    """A shard that takes its time before it changes an action."""

    def __init__(self):
        self.hesitates = asyncio.Event()
        self.go_on = asyncio.Event()

    async def ask(self, message, caller=None, keys=None):
        if isinstance(message, RegisterAction) and message.if_changed:
            self.hesitates.set()
            await self.go_on.wait()
        return await self.shard.ask(message)


async def test_a_disabled_action_takes_no_new_runs_until_it_is_enabled(http):
    await http.post("/actions", {"name": "ship"})
    await http.post("/actions/ship/invoke", {"order": 1})

    await http.put("/actions/ship", {"enabled": False})

    status, body = await http.post("/actions/ship/invoke", {"order": 2})
    assert (status, body["error"]["code"]) == (409, "action_disabled")
    assert (await http.get("/actions/ship"))[1]["enabled"] is False
    _, assigned = await http.post("/workers/anna/await", {"actions": ["ship"]})
    assert assigned["tasks"][0]["task_id"] == "ship-1"
    await http.put("/actions/ship", {"enabled": True})
    assert (await http.post("/actions/ship/invoke", {"order": 2}))[0] == 202


async def test_an_action_is_changed_and_switched_in_one_go(http):
    await http.post("/actions", {"name": "ship"})
    changed = await http.put("/actions/ship", {"max_retries": 9, "enabled": False})
    assert changed == (200, {"name": "ship", "version": 2})
    _, action = await http.get("/actions/ship")
    assert (action["max_retries"], action["enabled"]) == (9, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout_ms": -1},
        {"timeout_ms": None},
        {"enabled": 1},
        {"enabled": None},
        {"input_schema": {"type": "no such"}},
        {"input_schema": True},
        {"name": "sail"},
    ],
)
async def test_a_change_that_is_refused_changes_nothing(http, wrong):
    await http.post("/actions", {"name": "ship"})
    _, before = await http.get("/actions/ship")
    change = {"max_retries": 9, "enabled": False, "output_schema": ORDER, **wrong}
    assert (await http.put("/actions/ship", change))[0] == 400
    assert (await http.get("/actions/ship"))[1] == before


async def test_a_schema_is_put_in_force_and_taken_away(http):
    await http.post("/actions", {"name": "ship", "output_schema": ORDER})

    await http.put("/actions/ship", {"input_schema": ORDER})
    assert (await http.post("/actions/ship/invoke", {}))[0] == 400
    await http.put("/actions/ship", {"max_retries": 1})
    assert (await http.post("/actions/ship/invoke", {}))[0] == 400
    await http.put("/actions/ship", {"input_schema": None})
    assert (await http.post("/actions/ship/invoke", {}))[0] == 202

    _, action = await http.get("/actions/ship")
    assert (action["input_schema"], action["output_schema"]) == (None, ORDER)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "orders"},
        {"$ref": "#/nowhere"},
        {"$ref": "http://example.com/order.json"},
        {"maximum": 2**64},
        {"description": "x" * 70_000},
    ],
)
async def test_what_is_no_schema_or_cannot_be_kept_is_refused(http, schema):
    for side in ("input_schema", "output_schema"):
        status, _ = await http.post("/actions", {"name": "ship", side: schema})
        assert status in (400, 413)
    assert (await http.get("/actions"))[1]["items"] == []


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


@pytest.mark.parametrize("name", ["größe", "отправить", "v1.2:eu@home", "a..", "100", "_"])
async def test_a_name_may_have_odd_characters(http, name):
    assert (await http.post("/actions", {"name": name}))[0] == 201
    assert (await http.get(f"/actions/{quote(name)}"))[1]["name"] == name


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a\n", "%", "..", "--help", "x" * 257])
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


# Limits


async def claimed(http, worker_id="anna"):
    body = {"actions": ["charge"], "max_tasks": 10, "block_ms": 0}
    _, answer = await http.post(f"/workers/{worker_id}/await", body)
    return [task["task_id"] for task in answer["tasks"]]


async def test_limits_hold_across_workers_and_are_changed_on_their_own(http):
    limits = {"concurrency_max": 1, "concurrency_key": "{input.who}"}
    await http.post("/actions", {"name": "charge", "timeout_ms": 70_000, "limits": limits})
    for who in "ppqp":
        await http.post("/actions/charge/invoke", {"who": who})

    assert await claimed(http) == ["charge-1", "charge-3"]
    assert await claimed(http, "boris") == []
    await http.put("/actions/charge", {"limits": {**limits, "concurrency_max": 2}})
    assert await claimed(http, "boris") == ["charge-2"]
    assert await http.put("/actions/charge", {"max_retries": 9}) == (
        200,
        {"name": "charge", "version": 3},
    )

    _, action = await http.get("/actions/charge")
    assert action["limits"] == {**NO_LIMITS, **limits, "concurrency_max": 2}
    assert (action["timeout_ms"], action["max_retries"]) == (70_000, 9)
    await http.put("/actions/charge", {"limits": None})
    _, action = await http.get("/actions/charge")
    assert action["limits"] is None
    assert await claimed(http, "boris") == ["charge-4"]


async def test_a_rate_holds_across_workers_until_its_window_is_over(http):
    await http.post("/actions", {"name": "charge", "limits": {"max_per_second": 2}})
    for _ in range(4):
        await http.post("/actions/charge/invoke")

    assert await claimed(http) == ["charge-1", "charge-2"]
    assert await claimed(http, "boris") == []
    http.clock.advance(999)
    assert await claimed(http, "boris") == []
    http.clock.advance(1)
    assert await claimed(http, "boris") == ["charge-3", "charge-4"]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"concurrency_max": 0}, "concurrency_max"),
        ({"max_per_hour": -1}, "max_per_hour"),
        ({"concurrency_key": "{input.who}"}, "needs concurrency_max"),
        ({"concurrency_max": 1, "concurrency_key": "{input"}, "concurrency_key"),
        ({"concurrency_max": "many"}, "concurrency_max"),
        ({"per_second": 5}, "per_second"),
    ],
)
async def test_limits_that_cannot_work_are_refused(http, limits, said):
    status, problem = await http.post("/actions", {"name": "charge", "limits": limits})

    assert status == 400
    assert said in str(problem)
