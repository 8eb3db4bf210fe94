"""The HTTP routes of runs."""

import asyncio

import pytest

from flo.model.ids import PAYLOAD_LENGTH_MAX
from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def complete(http, run_id, body=None):
    action = run_id.rpartition("-")[0]
    await http.post("/workers/anna/await", {"actions": [action], "block_ms": 0})
    return await http.post(f"/tasks/{run_id}/complete", {"worker_id": "anna", **(body or {})})


async def test_an_invocation_is_queued_and_has_an_id(mail):
    invoked = await mail.post("/actions/send-mail/invoke", {"to": "alice"})
    assert invoked == (202, {"run_id": "send-mail-1", "duplicate": False, "inline": False})


async def test_a_run_shows_everything_about_itself(mail):
    options = {"priority": 200, "delay_ms": 500, "idempotency_key": "k1", "labels": '{"gpu":true}'}
    options["subject"] = "customer-7"
    await mail.post("/actions/send-mail/invoke", {"to": "alice"}, **options)
    assert await mail.get("/runs/send-mail-1") == (
        200,
        {
            "run_id": "send-mail-1",
            "action": "send-mail",
            "namespace": "default",
            "status": "pending",
            "priority": 200,
            "attempt": 0,
            "input": {"to": "alice"},
            "input_encoding": "json",
            "created_at": NOON_MS,
            "ready_at": NOON_MS + 500,
            "started_at": None,
            "finished_at": None,
            "worker_id": None,
            "lease_expires_at": None,
            "output": None,
            "output_encoding": None,
            "outcome": None,
            "error": None,
            "error_code": None,
            "retryable": None,
            "dead_lettered": False,
            "idempotency_key": "k1",
            "labels": {"gpu": True},
            "attempts": [],
            "cause": {
                "kind": "caller",
                "workflow_run_id": None,
                "branch": None,
                "step": None,
                "visit": None,
                "attempt": None,
            },
            "subject": "customer-7",
            "took_ms": None,
            "held_ms": None,
            "by": None,
            "cancelled_by": None,
        },
    )


async def test_a_run_that_ended_shows_its_output(mail):
    await mail.post("/actions/send-mail/invoke", {"to": "alice"})
    await complete(mail, "send-mail-1", {"result": [1, 2.0, None], "outcome": "sent"})

    _, run = await mail.get("/runs/send-mail-1")

    assert (run["status"], run["outcome"], run["attempt"]) == ("completed", "sent", 1)
    assert (run["output"], run["output_encoding"]) == ([1, 2.0, None], "json")


async def test_json_is_handed_on_to_the_letter(mail):
    exact = b'{"big": 123456789012345678901234567890, "same": 1.0, "twice": 1, "twice": 2}'
    headers = {"content-type": "application/json; charset=utf-8"}
    await mail.ask("POST", "/actions/send-mail/invoke", content=exact, headers=headers)

    answer = await mail.client.get("/api/v1/runs/send-mail-1")

    assert exact in answer.content


@pytest.mark.parametrize(
    ("content", "shown", "encoding"),
    [
        (b"\x80\x00\xff", "gAD/", "base64"),
        (b"plain words", "plain words", "text"),
        (b'"\xff"', "Iv8i", "base64"),
        (b"[" * 100_000, "[" * 100_000, "text"),
        (b'{"to": "alice"}', {"to": "alice"}, "json"),
        (b"null", None, "json"),
        (b"", None, None),
    ],
)
async def test_bytes_are_shown_as_json_if_they_are_and_as_base64_if_not(
    mail, content, shown, encoding
):
    headers = {"content-type": "application/octet-stream"}
    await mail.ask("POST", "/actions/send-mail/invoke", content=content, headers=headers)

    _, run = await mail.get("/runs/send-mail-1")

    assert (run["input"], run["input_encoding"]) == (shown, encoding)


@pytest.mark.parametrize("content", [b"{", b'{"a":1}x', b'"\xff"', b"NaN", b"[" * 100_000])
async def test_what_says_it_is_json_must_be(mail, content):
    headers = {"content-type": "application/json"}
    status, body = await mail.ask(
        "POST", "/actions/send-mail/invoke", content=content, headers=headers
    )
    assert status == 400
    assert body["error"]["code"] == "invalid_json"


async def test_the_largest_input_fits_and_one_byte_more_does_not(mail):
    path = "/actions/send-mail/invoke"
    assert (await mail.ask("POST", path, content=b"x" * PAYLOAD_LENGTH_MAX))[0] == 202
    status, body = await mail.ask("POST", path, content=b"x" * (PAYLOAD_LENGTH_MAX + 1))
    assert status == 413
    assert body["error"]["code"] == "too_large"


async def test_the_same_idempotency_key_never_makes_two_runs(mail):
    path = "/actions/send-mail/invoke"
    header = {"Idempotency-Key": "order-7"}
    first = await mail.ask("POST", path, headers=header)
    again = await mail.ask("POST", path, params={"idempotency_key": "order-7"})
    both = await mail.ask("POST", path, headers=header, params={"idempotency_key": "order-7"})
    assert first == (202, {"run_id": "send-mail-1", "duplicate": False, "inline": False})
    assert again == both == (202, {"run_id": "send-mail-1", "duplicate": True, "inline": False})


async def test_two_different_idempotency_keys_are_one_too_many(mail):
    status, body = await mail.ask(
        "POST",
        "/actions/send-mail/invoke",
        headers={"Idempotency-Key": "a"},
        params={"idempotency_key": "b"},
    )
    assert status == 400
    assert "expected one idempotency key, got 'b'" in body["error"]["message"]


@pytest.mark.parametrize("labels", ["gpu", "[]", '{"gpu": null}', "{", ""])
async def test_labels_that_are_no_object_are_refused(mail, labels):
    status, body = await mail.post("/actions/send-mail/invoke", labels=labels)
    assert status == 400
    assert body["error"]["message"].startswith("labels: ")


@pytest.mark.parametrize("option", [{"priority": 256}, {"priority": -1}, {"delay_ms": -1}])
async def test_options_out_of_range_are_refused(mail, option):
    status, body = await mail.post("/actions/send-mail/invoke", **option)
    assert status == 400
    assert next(iter(option)) in body["error"]["message"]


async def test_only_what_is_registered_can_be_invoked(http):
    status, body = await http.post("/actions/nobody/invoke")
    assert status == 404
    assert body["error"]["code"] == "action_not_found"


async def test_an_input_that_its_schema_refuses_is_told_where_and_why(http):
    schema = {"properties": {"to": {"type": "string"}}, "required": ["subject"]}
    await http.post("/actions", {"name": "send-mail", "input_schema": schema})

    status, body = await http.post("/actions/send-mail/invoke", {"to": 7})

    assert (status, body["error"]["code"]) == (400, "input_invalid")
    assert sorted(body["error"]["details"]["problems"], key=lambda problem: problem["path"]) == [
        {"path": "", "problem": '"subject" is a required property'},
        {"path": "/to", "problem": '7 is not of type "string"'},
    ]
    assert (await http.get("/actions/send-mail/runs"))[1]["items"] == []


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b'"\\ud800"', b"1e400", b"[" * 300 + b"]" * 300, b"[" * 100_000]
)
async def test_an_input_that_cannot_be_held_against_its_schema_is_refused(http, content):
    await http.post("/actions", {"name": "send-mail", "input_schema": {"type": "object"}})
    status, body = await http.ask("POST", "/actions/send-mail/invoke", content=content)
    assert (status, body["error"]["code"]) == (400, "input_invalid")


async def test_whoever_waits_for_an_invocation_hears_how_it_ended(mail):
    waiting = asyncio.create_task(mail.post("/actions/send-mail/invoke", {}, wait_ms=60_000))
    _, assigned = await mail.post("/workers/anna/await", {"actions": ["send-mail"]})
    await complete(mail, assigned["tasks"][0]["task_id"], {"result": "sent"})

    status, run = await waiting

    assert status == 200
    assert (run["status"], run["output"]) == ("completed", "sent")


async def test_a_wait_that_is_over_shows_the_run_as_it_is(mail):
    waiting = asyncio.create_task(mail.post("/actions/send-mail/invoke", {}, wait_ms=1_000))
    await mail.post("/workers/anna/await", {"actions": ["send-mail"]})
    await mail.until_waiting(1)
    mail.clock.advance(1_000)

    status, run = await waiting

    assert status == 200
    assert (run["run_id"], run["status"]) == ("send-mail-1", "running")


async def test_a_run_can_be_waited_for_later(mail):
    await mail.post("/actions/send-mail/invoke", {})
    waiting = asyncio.create_task(mail.get("/runs/send-mail-1", wait_ms=60_000))
    await complete(mail, "send-mail-1", {"result": "sent"})
    assert (await waiting)[1]["output"] == "sent"


async def test_waiting_for_a_run_that_ended_takes_no_time(mail):
    await mail.post("/actions/send-mail/invoke", {})
    await complete(mail, "send-mail-1")
    assert (await mail.get("/runs/send-mail-1", wait_ms=60_000))[1]["status"] == "completed"


@pytest.mark.parametrize("params", [{}, {"wait_ms": 60_000}, {"namespace": "elsewhere"}])
async def test_a_run_that_never_was_is_not_found(http, params):
    status, body = await http.get("/runs/send-mail-1", **params)
    assert status == 404
    assert body["error"]["code"] == "run_not_found"


async def test_runs_are_listed_the_newest_first_page_by_page(mail):
    for number in range(3):
        await mail.post("/actions/send-mail/invoke", number)

    status, first = await mail.get("/actions/send-mail/runs", limit=2)
    _, second = await mail.get("/actions/send-mail/runs", limit=2, cursor=first["cursor"])

    assert status == 200
    assert [run["input"] for run in first["items"]] == [2, 1]
    assert [run["input"] for run in second["items"]] == [0]
    assert second["cursor"] is None


async def test_runs_are_listed_by_status(mail):
    await mail.post("/actions/send-mail/invoke", 1)
    await mail.post("/actions/send-mail/invoke", 2)
    await complete(mail, "send-mail-1")
    for status, run_ids in (
        ("completed", ["send-mail-1"]),
        ("pending", ["send-mail-2"]),
        ("failed", []),
    ):
        _, page = await mail.get("/actions/send-mail/runs", status=status)
        assert [run["run_id"] for run in page["items"]] == run_ids


async def test_a_run_that_waits_is_cancelled(mail):
    await mail.post("/actions/send-mail/invoke", {})
    cancelled = await mail.post("/runs/send-mail-1/cancel")
    assert cancelled == (200, {"run_id": "send-mail-1", "status": "cancelled"})
    _, run = await mail.get("/runs/send-mail-1")
    assert (run["status"], run["error"]) == ("cancelled", None)
    body = {"actions": ["send-mail"], "block_ms": 0}
    assert (await mail.post("/workers/anna/await", body))[1]["tasks"] == []


@pytest.mark.parametrize(
    ("body", "params", "reason"),
    [
        ({"reason": "sent by hand"}, {}, "sent by hand"),
        (None, {"reason": "sent by hand"}, "sent by hand"),
        ({}, {"reason": "sent by hand"}, "sent by hand"),
        ({"reason": "same"}, {"reason": "same"}, "same"),
        ({"reason": None}, {}, None),
        ({}, {}, None),
    ],
)
async def test_the_reason_of_a_cancel_is_its_error(mail, body, params, reason):
    await mail.post("/actions/send-mail/invoke", {})
    await mail.post("/runs/send-mail-1/cancel", body, **params)
    assert (await mail.get("/runs/send-mail-1"))[1]["error"] == reason


async def test_two_different_reasons_are_one_too_many(mail):
    await mail.post("/actions/send-mail/invoke", {})
    status, body = await mail.post("/runs/send-mail-1/cancel", {"reason": "a"}, reason="b")
    assert status == 400
    assert body["error"]["message"] == (
        "expected one reason, got 'b' as a parameter and 'a' in the body"
    )
    assert (await mail.get("/runs/send-mail-1"))[1]["status"] == "pending"


async def test_whoever_waits_for_a_run_hears_that_it_was_cancelled(mail):
    waiting = asyncio.create_task(mail.post("/actions/send-mail/invoke", {}, wait_ms=60_000))
    await mail.until_waiting(1)
    await mail.post("/runs/send-mail-1/cancel")
    assert (await waiting)[1]["status"] == "cancelled"


@pytest.mark.parametrize("report", ["complete", "fail", "touch"])
async def test_reports_on_a_cancelled_task_are_refused(mail, report):
    await mail.post("/actions/send-mail/invoke", {})
    await mail.post("/workers/anna/await", {"actions": ["send-mail"]})
    await mail.post("/runs/send-mail-1/cancel")
    body = {"worker_id": "anna", "attempt": 1}
    status, answer = await mail.post(f"/tasks/send-mail-1/{report}", body)
    assert (status, answer["error"]["code"]) in [(404, "run_not_found"), (409, "lease_lost")]
    assert (await mail.get("/runs/send-mail-1"))[1]["status"] == "cancelled"


async def test_only_a_run_that_is_there_and_has_not_ended_can_be_cancelled(mail):
    status, body = await mail.post("/runs/send-mail-1/cancel")
    assert (status, body["error"]["code"]) == (404, "run_not_found")
    await mail.post("/actions/send-mail/invoke", {})
    await complete(mail, "send-mail-1")
    status, body = await mail.post("/runs/send-mail-1/cancel")
    assert (status, body["error"]["code"]) == (409, "run_has_ended")
