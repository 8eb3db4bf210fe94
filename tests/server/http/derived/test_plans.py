"""The HTTP routes of plans and events."""

import pytest
import pytest_asyncio

from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAY = """\
kind: Workflow
name: pay
version: "1"
plans:
  charge:
    selection: static-order
    executors:
      - name: first
        action: "@actions/charge-first"
        breaker: {failure_threshold: 1, cooldown_ms: 30000}
        rate_limit: {max_per_minute: 1}
      - name: second
        action: "@actions/charge-second"
    cache: {ttl_ms: 60000, key: "{input.order}", invalidate_on: [prices-changed]}
start:
  run: "@plan/charge"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
PLAN = "/workflows/pay/plans/charge"


@pytest_asyncio.fixture(loop_scope="module")
async def pay(http):
    """The world, with a workflow whose plan has two executors."""
    for name in ("charge-first", "charge-second"):
        await http.post("/actions", {"name": name, "max_retries": 0})
    status, body = await http.ask("POST", "/workflows", content=PAY)
    assert status == 201, body
    return http


async def take(http, action):
    _, assigned = await http.post("/workers/anna/await", {"actions": [action], "block_ms": 0})
    (task,) = assigned["tasks"]
    return f"/tasks/{task['task_id']}"


async def test_a_plan_that_was_never_used_shows_its_executors(pay):
    status, plan = await pay.get(PLAN)

    assert status == 200
    assert {name: value for name, value in plan.items() if name != "executors"} == {
        "workflow": "pay",
        "version": "1",
        "plan": "charge",
        "selection": "static-order",
        "at_ms": NOON_MS,
        "begun": 0,
        "min_samples": 10,
        "cached": 0,
    }
    first, second = plan["executors"]
    assert (first["name"], first["action"], first["breaker"]) == ("first", "charge-first", "closed")
    assert (second["name"], second["breaker"]) == ("second", "none")
    assert (first["is_measured"], first["free_at"]) == (False, NOON_MS)


async def test_a_plan_in_use_shows_its_breakers_windows_and_results(pay):
    await pay.post("/workflows/pay/start", {"order": 7})
    body = {"worker_id": "anna", "error": "down"}
    await pay.post(f"{await take(pay, 'charge-first')}/fail", body)
    await pay.post(f"{await take(pay, 'charge-second')}/complete", {"worker_id": "anna"})

    _, plan = await pay.get(PLAN, version="1")

    assert plan["executors"][0]["breaker"] == "open"
    assert plan["executors"][0]["free_at"] > NOON_MS
    assert (plan["begun"], plan["cached"]) == (1, 1)


async def test_an_event_makes_plans_forget_their_results(pay):
    await pay.post("/workflows/pay/start", {"order": 7})
    await pay.post(f"{await take(pay, 'charge-first')}/complete", {"worker_id": "anna"})

    assert await pay.post("/events/something-else") == (200, {"plans": 0, "results": 0})
    assert (await pay.get(PLAN))[1]["cached"] == 1
    assert await pay.post("/events/prices-changed", namespace="prod") == (
        200,
        {"plans": 0, "results": 0},
    )
    assert await pay.post("/events/prices-changed") == (200, {"plans": 1, "results": 1})
    assert (await pay.get(PLAN))[1]["cached"] == 0


async def test_the_name_of_an_event_has_a_bound(http):
    assert (await http.post(f"/events/{'x' * 10_000}"))[0] == 413


@pytest.mark.parametrize(
    ("path", "version", "code"),
    [
        ("/workflows/pay/plans/nobody", "latest", "plan_not_found"),
        ("/workflows/nobody/plans/charge", "latest", "workflow_not_found"),
        (PLAN, "7", "workflow_not_found"),
    ],
)
async def test_a_plan_that_is_not_there_is_not_found(pay, path, version, code):
    status, body = await pay.get(path, version=version)
    assert (status, body["error"]["code"]) == (404, code)
