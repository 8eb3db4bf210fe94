"""The HTTP routes of namespaces."""

import pytest

from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

NO_RUNS = dict.fromkeys(("pending", "running", "completed", "failed", "cancelled", "timed_out"), 0)


async def names(http, **params):
    return [
        namespace["name"] for namespace in (await http.get("/namespaces", **params))[1]["items"]
    ]


async def test_a_namespace_is_made_and_shown(http):
    assert await http.post("/namespaces", {"name": "prod"}) == (201, {"name": "prod"})
    assert await http.get("/namespaces/prod") == (
        200,
        {
            "name": "prod",
            "created_at": NOON_MS,
            "actions": 0,
            "workers": 0,
            "runs": NO_RUNS,
            "streams": 0,
            "keys": 0,
        },
    )


async def test_a_namespace_shows_how_much_there_is_in_it(http):
    await http.post("/actions", {"name": "ship"}, namespace="prod")
    await http.post("/actions", {"name": "bill"}, namespace="prod")
    await http.post("/workers", {"worker_id": "anna", "processes": ["ship"]}, namespace="prod")
    for _ in range(2):
        await http.post("/actions/ship/invoke", {}, namespace="prod")
    await http.post("/actions/bill/invoke", {}, namespace="prod")
    await http.post("/runs/bill-1/cancel", namespace="prod")
    await http.post("/streams", {"name": "events"}, namespace="prod")
    for key in ("a", "b", "c"):
        await http.ask("PUT", f"/kv/{key}", params={"namespace": "prod"}, content=b"1")

    _, prod = await http.get("/namespaces/prod")

    assert (prod["actions"], prod["workers"]) == (2, 1)
    assert prod["runs"] == {**NO_RUNS, "pending": 2, "cancelled": 1}
    assert (prod["streams"], prod["keys"]) == (1, 3)


async def test_namespaces_are_listed_page_by_page_and_default_is_always_there(http):
    assert await names(http) == ["default"]
    await http.post("/namespaces", {"name": "prod"})
    await http.post("/actions", {"name": "ship"}, namespace="staging")

    _, first = await http.get("/namespaces", limit=2)

    assert [namespace["name"] for namespace in first["items"]] == ["default", "prod"]
    assert await names(http, cursor=first["cursor"]) == ["staging"]


@pytest.mark.parametrize("name", ["prod", "default"])
async def test_a_namespace_is_made_once(http, name):
    await http.post("/namespaces", {"name": "prod"})
    status, body = await http.post("/namespaces", {"name": name})
    assert (status, body["error"]["code"]) == (409, "namespace_exists")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "größe", "x" * 64])
async def test_a_namespace_that_cannot_be_is_refused(http, name):
    status, body = await http.post("/namespaces", {"name": name})
    assert (status, body["error"]["code"]) == (400, "invalid_namespace")


async def test_an_empty_namespace_is_deleted(http):
    await http.post("/namespaces", {"name": "prod"})
    assert await http.delete("/namespaces/prod") == (204, None)
    assert await names(http) == ["default"]


async def test_a_namespace_with_something_in_it_is_deleted_by_force_only(http):
    await http.post("/actions", {"name": "ship"}, namespace="prod")
    await http.post("/actions/ship/invoke", {}, namespace="prod")

    status, body = await http.delete("/namespaces/prod")
    assert (status, body["error"]["code"]) == (409, "namespace_not_empty")
    assert (await http.delete("/namespaces/prod", force="false"))[0] == 409
    assert await http.delete("/namespaces/prod", force="true") == (204, None)

    assert (await http.get("/actions", namespace="prod"))[1]["items"] == []
    assert (await http.get("/runs/ship-1", namespace="prod"))[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [("POST", "/streams/events/records", b'{"payload": 1}'), ("PUT", "/kv/a", b"1")],
)
async def test_what_is_in_a_stream_or_a_key_is_something_too(http, method, path, content):
    await http.ask(method, path, params={"namespace": "prod"}, content=content)

    assert (await http.delete("/namespaces/prod"))[1]["error"]["code"] == "namespace_not_empty"
    assert await http.delete("/namespaces/prod", force="true") == (204, None)

    assert (await http.get(path, namespace="prod"))[0] == 404


async def test_the_default_namespace_stays(http):
    status, body = await http.delete("/namespaces/default", force="true")
    assert (status, body["error"]["code"]) == (409, "namespace_is_default")


async def test_a_namespace_that_is_not_there_can_be_neither_seen_nor_deleted(http):
    for answer in (
        await http.get("/namespaces/prod"),
        await http.delete("/namespaces/prod"),
        await http.delete("/namespaces/prod", force="true"),
    ):
        assert (answer[0], answer[1]["error"]["code"]) == (404, "namespace_not_found")


async def test_a_namespace_lives_in_no_other(http):
    status, body = await http.get("/namespaces", namespace="prod")
    assert (status, body["error"]["code"]) == (400, "unknown_parameter")


async def test_force_is_yes_or_no(http):
    status, body = await http.delete("/namespaces/prod", force="perhaps")
    assert status == 400
    assert "force" in body["error"]["message"]
