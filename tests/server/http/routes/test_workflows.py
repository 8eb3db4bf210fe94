"""The HTTP routes of workflow definitions."""

import json
from hashlib import sha256
from unittest.mock import ANY

import jsonschema_rs
import pytest

from flo.model.workflows import TEXT_LENGTH_MAX
from flo.testing.clock import NOON_MS
from flo.workflow.document.read import read

pytestmark = pytest.mark.asyncio(loop_scope="module")

ORDER = """\
kind: Workflow
name: order
version: "1"
start:
  run: "@actions/charge"
  transitions: {success: approval, failure: flo.Failed}
steps:
  approval:
    waitForSignal: {type: approved, timeoutMs: 60000, onTimeout: flo.Failed}
    transitions: {success: flo.Completed}
"""
ORDER_2 = ORDER.replace('version: "1"', 'version: "2"').replace("charge", "pay")
IN_JSON = {
    "kind": "Workflow",
    "name": "order",
    "version": "1",
    "start": {"sleep": "1s", "transitions": {"success": "flo.Completed"}},
}
WRONG = """\
kind: Workflow
name: order
version: "1"
start:
  run: "@actions/charge"
  transitions:
    success: shp
    failure: flo.Failed
steps:
  ship:
    run: "@actions/ship"
    retrys: 3
    transitions: {success: flo.Completed}
"""
PARALLEL = """\
kind: Workflow
name: fan
version: "1"
start:
  parallel:
    join: any
    branches:
      post: "@actions/post"
      mail:
        run: "@actions/mail"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
DEPLOYED = {
    "name": "order",
    "version": "1",
    "created": True,
    "problems": [],
    "definition": sha256(ORDER.encode()).hexdigest(),
}


async def deploy(http, text=ORDER, path="/workflows", **options):
    """Deploy a definition whose actions are there."""
    for name in ("charge", "pay"):
        await http.post("/actions", {"name": name})
    return await http.ask("POST", path, content=text.encode(), **options)


async def test_a_definition_is_deployed_and_the_same_again_changes_nothing(http):
    assert await deploy(http) == (201, DEPLOYED)
    assert await deploy(http) == (200, {**DEPLOYED, "created": False})


@pytest.mark.parametrize(
    "kind", [None, "application/yaml", "text/plain", "application/json", "image/png", "nonsense"]
)
async def test_the_text_may_come_as_any_type(http, kind):
    headers = {"content-type": kind} if kind else {}
    assert await deploy(http, headers=headers) == (201, DEPLOYED)
    assert (await http.get("/workflows/order"))[1]["text"] == ORDER


async def test_the_text_may_be_json(http):
    assert await http.post("/workflows", IN_JSON) == (
        201,
        {**DEPLOYED, "definition": ANY},
    )
    _, workflow = await http.get("/workflows/order")
    assert json.loads(workflow["text"]) == IN_JSON


async def test_the_text_may_stand_within_json(http):
    await http.post("/actions", {"name": "charge"})
    assert await http.post("/workflows", {"text": ORDER}) == (201, DEPLOYED)
    assert await deploy(http) == (200, {**DEPLOYED, "created": False})


async def test_another_text_needs_another_version(http):
    await deploy(http)
    status, body = await deploy(http, ORDER.replace("60000", "70000"))
    assert (status, body["error"]["code"]) == (409, "version_exists")
    assert (await deploy(http, ORDER_2))[0] == 201


async def test_a_wrong_definition_is_refused_with_every_problem_and_its_place(http):
    status, body = await deploy(http, WRONG)

    assert (status, body["error"]["code"]) == (422, "invalid_workflow")
    problems = body["error"]["details"]["problems"]
    assert [(one["code"], one["line"], one["column"]) for one in problems] == [
        ("E201", 7, 14),
        ("E114", 12, 5),
    ]
    assert problems[0]["severity"] == "error"
    assert "ship" in problems[0]["hint"]
    assert "shp" in body["error"]["message"]
    assert (await http.get("/workflows"))[1]["items"] == []


async def test_a_definition_is_validated_and_not_deployed(http):
    assert await deploy(http, path="/workflows/validate") == (
        200,
        {"valid": True, "name": "order", "version": "1", "problems": []},
    )
    assert (await http.get("/workflows"))[1]["items"] == []


async def test_a_wrong_definition_is_an_answer_when_it_is_only_validated(http):
    status, body = await http.post("/workflows/validate", {"text": WRONG})

    assert (status, body["valid"], body["name"]) == (200, False, None)
    assert [one["code"] for one in body["problems"]] == ["E201", "E114"]
    assert body["problems"][1] == {
        "code": "E114",
        "severity": "error",
        "message": body["problems"][1]["message"],
        "line": 12,
        "column": 5,
        "path": "steps.ship.retrys",
        "hint": "did you mean 'retry'?",
    }


async def test_warnings_let_a_definition_pass_and_are_told(http):
    text = ORDER.replace(", failure: flo.Failed", "")

    _, validated = await deploy(http, text, "/workflows/validate")
    status, deployed = await deploy(http, text)

    assert (status, validated["valid"]) == (201, True)
    assert {one["severity"] for one in validated["problems"]} == {"warning"}
    assert deployed["problems"] == validated["problems"]


async def test_strictly_a_warning_is_an_error(http):
    text = ORDER.replace(", failure: flo.Failed", "")

    status, strict = await deploy(http, text, "/workflows/validate?strict=true")
    _, fine = await deploy(http, ORDER, "/workflows/validate?strict=true")

    assert (status, strict["valid"], fine["valid"]) == (200, False, True)
    assert {one["severity"] for one in strict["problems"]} == {"error"}


async def test_strictly_a_definition_with_a_warning_is_not_deployed(http):
    text = ORDER.replace(", failure: flo.Failed", "")

    status, refused = await deploy(http, text, "/workflows?strict=true")
    allowed, _ = await deploy(http, text)

    assert (status, refused["error"]["code"], allowed) == (422, "invalid_workflow", 201)


@pytest.mark.parametrize("path", ["/workflows", "/workflows/validate"])
@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", "invalid"), (b" \n\t", "invalid"), (b"name: \xff\xfe", "invalid_text")],
)
async def test_what_is_no_text_is_refused(http, path, content, code):
    status, body = await http.ask("POST", path, content=content)
    assert (status, body["error"]["code"]) == (400, code)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"text": 7}',
        b'{"text": "kind: Workflow", "name": "order"}',
        b'{"text": "\\ud800"}',
        b"just some words",
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
        b"\x00",
    ],
)
async def test_what_is_no_definition_is_refused_with_its_problems(http, content):
    status, body = await http.ask("POST", "/workflows", content=content)
    assert (status, body["error"]["code"]) == (422, "invalid_workflow")
    assert body["error"]["details"]["problems"]


async def test_a_text_that_is_too_long_is_refused(http):
    longest = ORDER + "#" * (TEXT_LENGTH_MAX - len(ORDER))
    assert (await deploy(http, longest + "#"))[0] == 413
    assert (await deploy(http, longest + "#" * 5 * TEXT_LENGTH_MAX))[0] == 413
    assert (await deploy(http, longest))[0] == 201


async def test_a_workflow_shows_everything_about_itself(http):
    await deploy(http)
    http.clock.advance(500)
    await deploy(http, ORDER_2)

    assert await http.get("/workflows/order") == (
        200,
        {
            "name": "order",
            "namespace": "default",
            "version": "2",
            "versions": ["1", "2"],
            "enabled": True,
            "created_at": NOON_MS + 500,
            "live_runs": 0,
            "definition": sha256(ORDER_2.encode()).hexdigest(),
            "disabled_since": None,
            "text": ORDER_2,
            "graph": {
                "nodes": [
                    {"name": "start", "kind": "run", "label": "@actions/pay", "inside": None},
                    {
                        "name": "approval",
                        "kind": "signal",
                        "label": "signal approved",
                        "inside": None,
                    },
                    {
                        "name": "flo.Failed",
                        "kind": "terminal",
                        "label": "failed",
                        "inside": None,
                    },
                    {
                        "name": "flo.Completed",
                        "kind": "terminal",
                        "label": "completed",
                        "inside": None,
                    },
                ],
                "edges": [
                    {"source": "start", "target": "approval", "label": "success"},
                    {"source": "start", "target": "flo.Failed", "label": "failure"},
                    {"source": "approval", "target": "flo.Completed", "label": "success"},
                    {"source": "approval", "target": "flo.Failed", "label": "timeout"},
                ],
            },
        },
    )


async def test_an_older_version_is_shown_if_asked_for(http):
    await deploy(http)
    await deploy(http, ORDER_2)
    _, older = await http.get("/workflows/order", version="1")
    assert (older["version"], older["text"]) == ("1", ORDER)
    assert older["graph"]["nodes"][0]["label"] == "@actions/charge"


async def test_the_graph_says_which_nodes_are_branches(http):
    await deploy(http, PARALLEL)
    _, workflow = await http.get("/workflows/fan")
    inside = {node["name"]: node["inside"] for node in workflow["graph"]["nodes"]}
    assert inside["post"] == inside["mail"] == "start"
    assert inside["start"] is None
    assert {"source": "start", "target": "post", "label": "branch"} in workflow["graph"]["edges"]


@pytest.mark.parametrize(("name", "version"), [("nobody", "latest"), ("order", "7")])
async def test_what_is_not_deployed_is_not_found(http, name, version):
    await deploy(http)
    status, body = await http.get(f"/workflows/{name}", version=version)
    assert (status, body["error"]["code"]) == (404, "workflow_not_found")


async def test_a_workflow_named_like_a_route_is_found_all_the_same(http):
    await deploy(http, ORDER.replace("name: order", "name: validate"))
    status, workflow = await http.get("/workflows/%76alidate")
    assert (status, workflow["name"]) == (200, "validate")


async def test_workflows_are_listed_by_name_without_their_texts(http):
    for name in ("order", "bill", "ship"):
        await deploy(http, ORDER.replace("name: order", f"name: {name}"))

    _, first = await http.get("/workflows", limit=2)
    _, second = await http.get("/workflows", limit=2, cursor=first["cursor"])

    assert [one["name"] for one in first["items"] + second["items"]] == ["bill", "order", "ship"]
    assert second["cursor"] is None
    assert first["items"][0] == {
        "name": "bill",
        "namespace": "default",
        "version": "1",
        "versions": ["1"],
        "enabled": True,
        "created_at": NOON_MS,
        "live_runs": 0,
        "definition": first["items"][0]["definition"],
        "disabled_since": None,
    }


async def test_a_workflow_that_is_disabled_is_not_started_until_it_is_enabled(http):
    await deploy(http)

    assert await http.put("/workflows/order/disable") == (204, None)
    status, body = await http.post("/workflows/order/start")
    assert (status, body["error"]["code"]) == (409, "workflow_disabled")
    assert (await http.get("/workflows/order"))[1]["enabled"] is False

    assert await http.put("/workflows/order/enable") == (204, None)
    assert (await http.post("/workflows/order/start"))[0] == 202


async def test_one_version_is_disabled_and_enabled(http):
    await deploy(http)

    assert await http.put("/workflows/order/disable", version="1") == (204, None)
    status, body = await http.post("/workflows/order/start")
    assert (status, body["error"]["code"]) == (409, "workflow_disabled")
    assert (await http.put("/workflows/order/disable", version="9"))[0] == 404

    assert await http.put("/workflows/order/enable", version="1") == (204, None)
    assert (await http.post("/workflows/order/start"))[0] == 202


async def test_one_version_is_deleted_or_all(http):
    await deploy(http)
    await deploy(http, ORDER_2)

    assert await http.delete("/workflows/order", version="2") == (204, None)
    assert (await http.get("/workflows/order"))[1]["versions"] == ["1"]
    assert await http.delete("/workflows/order") == (204, None)
    assert (await http.get("/workflows/order"))[0] == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/workflows/nobody/enable"),
        ("PUT", "/workflows/nobody/disable"),
        ("DELETE", "/workflows/nobody"),
        ("DELETE", "/workflows/order?version=7"),
        ("POST", "/workflows/nobody/start"),
    ],
)
async def test_nothing_can_be_done_with_what_is_not_deployed(http, method, path):
    await deploy(http)
    status, body = await http.ask(method, path)
    assert (status, body["error"]["code"]) == (404, "workflow_not_found")


async def test_workflows_of_different_namespaces_do_not_know_each_other(http):
    await http.ask("POST", "/workflows", content=ORDER, params={"namespace": "prod"})
    assert (await http.get("/workflows"))[1]["items"] == []
    assert (await http.get("/workflows/order"))[0] == 404
    assert (await http.get("/workflows/order", namespace="prod"))[0] == 200


async def test_the_schema_of_definitions_fits_those_that_can_be_read_and_no_others(http):
    status, schema = await http.get("/workflow-schema.json")
    validator = jsonschema_rs.validator_for(schema)
    assert status == 200
    assert read(json.dumps(IN_JSON)).definition is not None
    assert validator.is_valid(IN_JSON)
    assert not validator.is_valid({**IN_JSON, "stat": {}})
    assert not validator.is_valid({**IN_JSON, "start": {"sleep": True}})
