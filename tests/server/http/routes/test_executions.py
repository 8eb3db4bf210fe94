"""The HTTP routes of workflow runs."""

import asyncio
from hashlib import sha256

import pytest
import pytest_asyncio

from flo.model.errors import Unavailable
from flo.model.ids import PAYLOAD_LENGTH_MAX
from flo.model.workflows import StartWorkflow, WaitForWorkflow, WorkflowBegun
from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

ORDER = """\
kind: Workflow
name: order
version: "1"
searchAttributes:
  - {name: customer, type: string, from: $.input.customer}
  - {name: amount, type: number, from: $.input.amount}
output: $.steps.approval.output
start:
  run: "@actions/charge"
  transitions: {success: approval, failure: flo.Failed}
steps:
  approval:
    waitForSignal: {type: approved, timeoutMs: 60000, onTimeout: flo.Failed}
    transitions: {success: flo.Completed}
"""
SHORT = """\
kind: Workflow
name: short
version: "1"
idempotency: optional
start:
  run: "@actions/charge"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
STRICT = SHORT.replace("optional", "required").replace("name: short", "name: strict")
RUN = "/workflow-runs/wfrun-1"
UNKNOWN = {"status": None, "hint": None, "warnings": []}
"""What is said of a key that no run had before."""


@pytest_asyncio.fixture(loop_scope="module")
async def shop(http):
    """The world, with an action that charges and workflows that use it."""
    await http.post("/actions", {"name": "charge", "max_retries": 0})
    for text in (ORDER, SHORT, STRICT):
        status, _ = await http.ask("POST", "/workflows", content=text)
        assert status == 201
    return http


async def perform(http, action="charge", **report):
    """Let a worker do the next task of this action."""
    _, assigned = await http.post("/workers/anna/await", {"actions": [action], "block_ms": 0})
    (task,) = assigned["tasks"]
    body = {"worker_id": "anna", **report}
    status, _ = await http.post(f"/tasks/{task['task_id']}/complete", body)
    assert status == 200
    return task


async def test_a_run_is_started_and_has_an_id(shop):
    started = await shop.post("/workflows/order/start", {"customer": "42"})
    assert started == (202, {"run_id": "wfrun-1", "duplicate": False, **UNKNOWN})


async def test_the_id_of_a_run_may_be_chosen_once(shop):
    started = await shop.post("/workflows/order/start", {"customer": "42"}, run_id="order-7")
    assert started == (202, {"run_id": "order-7", "duplicate": False, **UNKNOWN})
    assert (await shop.get("/workflow-runs/order-7"))[1]["status"] == "waiting"

    status, body = await shop.post("/workflows/order/start", {}, run_id="order-7")
    assert (status, body["error"]["code"]) == (409, "run_exists")
    status, body = await shop.post("/workflows/order/start", {}, run_id="wfrun-7")
    assert (status, body["error"]["code"]) == (400, "invalid_run_id")


async def test_a_run_shows_everything_about_itself(shop):
    payload = {"customer": "42", "amount": 7}
    await shop.post("/workflows/order/start", payload, subject="customer-42")
    await perform(shop, result={"paid": True})
    await shop.post(f"{RUN}/signal", {"type": "greeting"})
    _, history = await shop.get(f"{RUN}/history")

    assert await shop.get(RUN) == (
        200,
        {
            "run_id": "wfrun-1",
            "workflow": "order",
            "version": "1",
            "definition": sha256(ORDER.encode()).hexdigest(),
            "namespace": "default",
            "status": "waiting",
            "paused": False,
            "current_step": "approval",
            "input": {"customer": "42", "amount": 7},
            "input_encoding": "json",
            "output": None,
            "output_encoding": None,
            "error": None,
            "error_code": None,
            "retryable": None,
            "terminal": None,
            "created_at": NOON_MS,
            "finished_at": None,
            "idempotency_key": None,
            "triggered_by": "manual",
            "attributes": {"customer": "42", "amount": 7},
            "parent": None,
            "origin": None,
            "steps": [
                {
                    "step": "start",
                    "outcome": "success",
                    "output": {"paid": True},
                    "output_encoding": "json",
                    "error": None,
                    "error_code": None,
                    "retryable": None,
                    "at_ms": NOON_MS,
                }
            ],
            "waits": [
                {
                    "branch": "",
                    "step": "approval",
                    "phase": "signal",
                    "attempt": 1,
                    "until_ms": NOON_MS + 60_000,
                    "awaited": None,
                    "signal": "approved",
                }
            ],
            "signals": ["greeting"],
            "undone": [],
            "history_count": len(history["items"]),
            "subject": "customer-42",
        },
    )


async def test_a_signal_moves_a_run_on_and_its_end_shows_the_output(shop):
    await shop.post("/workflows/order/start", {})
    await perform(shop)

    body = {"type": "approved", "payload": {"by": "boss", "sum": 1.0}}
    assert await shop.post(f"{RUN}/signal", body) == (200, {"warning": None})

    _, run = await shop.get(RUN)
    assert (run["status"], run["terminal"]) == ("completed", "flo.Completed")
    assert (run["output"], run["output_encoding"]) == ({"by": "boss", "sum": 1.0}, "json")
    assert (run["finished_at"], run["waits"]) == (NOON_MS, [])


async def test_the_payload_of_a_signal_may_be_bytes(shop):
    await shop.post("/workflows/order/start", {})
    await perform(shop)
    body = {"type": "approved", "payload": "gAD/", "payload_encoding": "base64"}
    assert (await shop.post(f"{RUN}/signal", body))[0] == 200
    _, run = await shop.get(RUN)
    assert (run["steps"][-1]["output"], run["steps"][-1]["output_encoding"]) == ("gAD/", "base64")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"type": 7},
        {"type": "approved", "payload": "%", "payload_encoding": "base64"},
        {"type": "approved", "payload": 7, "payload_encoding": "base64"},
        {"type": "approved", "payload": 7, "payload_encoding": "hex"},
        {"type": "approved", "colour": "red"},
    ],
)
async def test_a_signal_that_does_not_fit_is_refused(shop, body):
    await shop.post("/workflows/order/start", {})
    assert (await shop.post(f"{RUN}/signal", body))[0] == 400
    assert (await shop.get(RUN))[1]["signals"] == []


async def test_the_type_of_a_signal_has_a_bound(shop):
    await shop.post("/workflows/order/start", {})
    status, body = await shop.post(f"{RUN}/signal", {"type": "t" * 10_000})
    assert (status, body["error"]["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("content", "shown", "encoding"),
    [
        (b"\x80\x00\xff", "gAD/", "base64"),
        (b'{"to": "alice"}', {"to": "alice"}, "json"),
        (b"null", None, "json"),
        (b"", {}, "json"),
    ],
)
async def test_the_input_is_what_came_and_an_empty_object_if_nothing_did(
    shop, content, shown, encoding
):
    await shop.ask("POST", "/workflows/order/start", content=content)
    _, run = await shop.get(RUN)
    assert (run["input"], run["input_encoding"]) == (shown, encoding)


async def test_an_input_that_says_it_is_json_must_be(shop):
    headers = {"content-type": "application/json"}
    status, body = await shop.ask("POST", "/workflows/order/start", content=b"{", headers=headers)
    assert (status, body["error"]["code"]) == (400, "invalid_json")


async def test_an_input_that_is_too_large_is_refused(shop):
    content = b"x" * (PAYLOAD_LENGTH_MAX + 1)
    status, body = await shop.ask("POST", "/workflows/order/start", content=content)
    assert (status, body["error"]["code"]) == (413, "too_large")


async def test_the_same_idempotency_key_never_makes_two_runs(shop):
    path, header = "/workflows/short/start", {"Idempotency-Key": "order-7"}
    first = await shop.ask("POST", path, headers=header)
    again = await shop.ask("POST", path, params={"idempotency_key": "order-7"})
    both = await shop.ask("POST", path, headers=header, params={"idempotency_key": "order-7"})
    assert first == (202, {"run_id": "wfrun-1", "duplicate": False, **UNKNOWN})
    known = {
        "run_id": "wfrun-1",
        "duplicate": True,
        "status": "waiting",
        "hint": None,
        "warnings": [],
    }
    assert again == both == (202, known)


async def test_a_run_that_was_cancelled_keeps_its_key_and_the_answer_says_how_to_run_it_again(shop):
    path = "/workflows/order/start"
    await shop.post(path, {"customer": "42"}, idempotency_key="order-7")
    await shop.post(f"{RUN}/cancel")

    _, known = await shop.post(path, {"customer": "42"}, idempotency_key="order-7")

    assert (known["run_id"], known["status"]) == ("wfrun-1", "cancelled")
    assert known["hint"].endswith("run it again: POST /api/v1/workflow-runs/wfrun-1/rerun")


async def test_two_different_idempotency_keys_are_one_too_many(shop):
    status, body = await shop.ask(
        "POST",
        "/workflows/short/start",
        headers={"Idempotency-Key": "a"},
        params={"idempotency_key": "b"},
    )
    assert status == 400
    assert "expected one idempotency key, got 'b'" in body["error"]["message"]


async def test_a_workflow_that_wants_a_key_is_not_started_without(shop):
    status, body = await shop.post("/workflows/strict/start")
    assert (status, body["error"]["code"]) == (400, "idempotency_key_required")


async def test_a_run_is_started_in_the_version_that_was_asked_for(shop):
    await shop.ask("POST", "/workflows", content=SHORT.replace('"1"', '"2"'))
    await shop.post("/workflows/short/start")
    await shop.post("/workflows/short/start", version="1")
    assert [(await shop.get(f"/workflow-runs/wfrun-{n}"))[1]["version"] for n in (1, 2)] == [
        "2",
        "1",
    ]
    assert (await shop.post("/workflows/short/start", version="7"))[0] == 404


async def test_whoever_waits_for_a_start_hears_how_the_run_ended(shop):
    waiting = asyncio.create_task(shop.post("/workflows/short/start", {}, wait_ms=60_000))
    await shop.until_waiting(1)
    await perform(shop, result="paid")

    status, run = await waiting

    assert (status, run["status"], run["steps"][0]["output"]) == (200, "completed", "paid")


async def test_a_wait_that_is_over_shows_the_run_as_it_is(shop):
    waiting = asyncio.create_task(shop.post("/workflows/short/start", {}, wait_ms=1_000))
    await shop.until_waiting(1)
    shop.clock.advance(1_000)

    status, run = await waiting

    assert (status, run["run_id"], run["finished_at"]) == (200, "wfrun-1", None)


async def test_a_run_can_be_waited_for_later(shop):
    await shop.post("/workflows/short/start")
    waiting = asyncio.create_task(shop.get(RUN, wait_ms=60_000))
    await shop.until_waiting(1)
    await perform(shop)
    assert (await waiting)[1]["status"] == "completed"


async def test_waiting_for_a_run_that_ended_takes_no_time(shop):
    await shop.post("/workflows/short/start")
    await perform(shop)
    assert (await shop.get(RUN, wait_ms=60_000))[1]["status"] == "completed"


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/workflows/short/start"), ("GET", "/workflow-runs/wfrun-1")]
)
async def test_a_wait_is_given_up_when_its_client_leaves(shop, method, path):
    await shop.post("/workflows/short/start")
    waiting = asyncio.create_task(shop.ask(method, path, params={"wait_ms": 60_000}))
    await shop.until_waiting(1)

    waiting.cancel()

    await shop.until_waiting(0)


@pytest.mark.parametrize("wait_ms", [-1, 300_001, "long"])
async def test_a_wait_out_of_range_is_refused_before_anything_is_started(shop, wait_ms):
    assert (await shop.post("/workflows/short/start", wait_ms=wait_ms))[0] == 400
    assert (await shop.get("/workflow-runs"))[1]["items"] == []


class StoppingEngine:
    """Starts runs, but stops before it can tell how they end."""

    async def ask(self, message, caller=None, keys=None):
        if isinstance(message, WaitForWorkflow):
            raise Unavailable("stopping", code="server_stopping")
        assert isinstance(message, StartWorkflow)
        return WorkflowBegun(run_id="wfrun-7")


async def test_who_cannot_wait_is_told_which_run_was_started(open_http):
    async with open_http(engine=StoppingEngine()) as http:
        status, body = await http.post("/workflows/short/start", wait_ms=1_000)
    assert (status, body["error"]["details"]) == (503, {"run_id": "wfrun-7"})


async def test_runs_are_listed_the_newest_first_page_by_page(shop):
    for _ in range(3):
        await shop.post("/workflows/order/start", {"customer": "42"})

    _, first = await shop.get("/workflow-runs", limit=2)
    _, second = await shop.get("/workflow-runs", limit=2, cursor=first["cursor"])

    assert [run["run_id"] for run in first["items"]] == ["wfrun-3", "wfrun-2"]
    assert second == {
        "items": [
            {
                "run_id": "wfrun-1",
                "workflow": "order",
                "version": "1",
                "status": "waiting",
                "created_at": NOON_MS,
                "finished_at": None,
                "attributes": {"customer": "42"},
                "subject": None,
            }
        ],
        "cursor": None,
    }


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        ({}, [3, 2, 1]),
        ({"workflow": "order"}, [3, 2]),
        ({"workflow": "nobody"}, []),
        ({"status": "completed"}, [1]),
        ({"status": "waiting"}, [3, 2]),
        ({"where": 'customer = "42" and amount > 100'}, [3]),
        ({"where": 'customer = "42"', "workflow": "short"}, []),
        ({"since_ms": NOON_MS + 500}, [3]),
        ({"namespace": "elsewhere"}, []),
    ],
)
async def test_runs_are_found_by_what_they_are(shop, filters, numbers):
    await shop.post("/workflows/short/start")
    await perform(shop)
    await shop.post("/workflows/order/start", {"customer": "42", "amount": 7})
    shop.clock.advance(500)
    await shop.post("/workflows/order/start", {"customer": "42", "amount": 700})

    status, page = await shop.get("/workflow-runs", **filters)

    assert status == 200
    assert [run["run_id"] for run in page["items"]] == [f"wfrun-{number}" for number in numbers]


@pytest.mark.parametrize(
    "filters",
    [
        {"status": "lost"},
        {"where": "customer ="},
        {"where": "(" * 1_000},
        {"since_ms": "noon"},
        {"limit": 0},
        {"limit": 1_001},
        {"cursor": "x"},
        {"colour": "red"},
    ],
)
async def test_a_list_that_cannot_be_is_refused(shop, filters):
    assert (await shop.get("/workflow-runs", **filters))[0] == 400


async def test_a_history_is_told_from_the_beginning_page_by_page(shop):
    await shop.post("/workflows/short/start")
    await perform(shop)
    _, whole = await shop.get(f"{RUN}/history")

    told, cursor = [], None
    while True:
        params = {"cursor": cursor} if cursor else {}
        _, page = await shop.get(f"{RUN}/history", limit=2, **params)
        assert len(page["items"]) <= 2
        told += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            break

    assert told == whole["items"]
    assert told[0]["type"] == "workflow_started"
    assert told[-1]["type"] == "workflow_completed"
    fields = {"type", "at_ms", "step", "detail", "attempt", "branch", "error", "error_code"}
    assert told[0].keys() == {*fields, "by"}


async def test_a_run_explains_what_it_waits_for(shop):
    await shop.post("/workflows/order/start")
    await perform(shop)

    status, explanation = await shop.get(f"{RUN}/explain")

    assert (status, explanation["status"]) == (200, "waiting")
    assert explanation["next_at"] == NOON_MS + 60_000
    assert any("approved" in reason for reason in explanation["reasons"])
    assert any(advice.startswith("flo workflow signal") for advice in explanation["advice"])


@pytest.mark.parametrize(
    ("body", "error"), [({"reason": "out of stock"}, "out of stock"), (None, "")]
)
async def test_a_run_is_cancelled_and_its_action_with_it(shop, body, error):
    await shop.post("/workflows/order/start")

    assert await shop.post(f"{RUN}/cancel", body) == (204, None)

    _, run = await shop.get(RUN)
    assert run["status"] == "cancelled"
    assert error in (run["error"] or "")
    assert (await shop.get("/runs/charge-1"))[1]["status"] == "cancelled"


async def test_a_run_that_is_paused_begins_nothing_until_it_is_resumed(shop):
    await shop.post("/workflows/order/start")
    assert await shop.post(f"{RUN}/pause") == (204, None)
    await perform(shop)

    _, paused = await shop.get(RUN)
    assert (paused["paused"], paused["waits"][0]["phase"]) == (True, "between")

    assert await shop.post(f"{RUN}/resume") == (204, None)
    _, resumed = await shop.get(RUN)
    assert (resumed["paused"], resumed["current_step"]) == (False, "approval")


async def test_a_run_is_repeated_from_a_step_on(shop):
    await shop.post("/workflows/order/start", {"customer": "42"})
    await perform(shop, result="paid")
    await shop.post(f"{RUN}/cancel")

    rerun = await shop.post(f"{RUN}/rerun", {"step": "approval", "input": {"customer": "43"}})

    assert rerun == (202, {"run_id": "wfrun-2", "duplicate": False, **UNKNOWN})
    _, run = await shop.get("/workflow-runs/wfrun-2")
    assert (run["origin"], run["current_step"]) == ("wfrun-1", "approval")
    assert (run["input"], run["steps"][0]["output"]) == ({"customer": "43"}, "paid")


async def test_a_run_is_repeated_as_it_was_if_nothing_is_said(shop):
    await shop.post("/workflows/order/start", {"customer": "42"})
    assert (await shop.post(f"{RUN}/rerun"))[0] == 202
    _, run = await shop.get("/workflow-runs/wfrun-2")
    assert (run["input"], run["current_step"], run["steps"]) == ({"customer": "42"}, "start", [])


async def test_a_run_is_repeated_with_bytes_and_in_another_version(shop):
    await shop.post("/workflows/short/start")
    await shop.ask("POST", "/workflows", content=SHORT.replace('"1"', '"2"'))
    body = {"input": "gAD/", "input_encoding": "base64", "version": "2"}
    assert (await shop.post(f"{RUN}/rerun", body))[0] == 202
    _, run = await shop.get("/workflow-runs/wfrun-2")
    assert (run["version"], run["input"], run["input_encoding"]) == ("2", "gAD/", "base64")


async def test_a_rerun_from_a_step_that_is_not_there_is_refused_with_those_that_are(shop):
    await shop.post("/workflows/order/start")
    status, body = await shop.post(f"{RUN}/rerun", {"step": "shp"})
    assert (status, body["error"]["code"]) == (400, "step_not_found")
    assert "approval" in body["error"]["message"]


@pytest.mark.parametrize("action", ["signal", "cancel", "pause", "resume"])
async def test_a_run_that_has_ended_is_not_to_be_moved(shop, action):
    await shop.post("/workflows/short/start")
    await perform(shop)
    body = {"type": "approved"} if action == "signal" else None
    status, answer = await shop.post(f"{RUN}/{action}", body)
    assert (status, answer["error"]["code"]) == (409, "run_has_ended")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "?wait_ms=60000"),
        ("GET", "?namespace=elsewhere"),
        ("GET", "/history"),
        ("GET", "/explain"),
        ("POST", "/signal"),
        ("POST", "/cancel"),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/rerun"),
    ],
)
async def test_a_run_that_never_was_is_not_found(http, method, path):
    body = {"type": "approved"} if path == "/signal" else None
    status, answer = await http.ask(method, f"{RUN}{path}", json=body)
    assert (status, answer["error"]["code"]) == (404, "run_not_found")
