"""The HTTP routes of tasks."""

import pytest
import pytest_asyncio

from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def task(mail):
    """The world, with a task in the hands of anna."""
    await mail.post("/actions/send-mail/invoke", {"to": "alice"})
    await mail.post("/workers/anna/await", {"actions": ["send-mail"]})
    return mail


async def output_of(http, run_id):
    _, run = await http.get(f"/runs/{run_id}")
    return run["output"], run["output_encoding"]


@pytest.mark.parametrize(
    ("report", "output"),
    [
        ({"result": {"ok": True}}, ({"ok": True}, "json")),
        ({"result": None}, (None, "json")),
        ({}, (None, None)),
        ({"result": "gAD/", "result_encoding": "base64"}, ("gAD/", "base64")),
        ({"result": "plain words", "result_encoding": "text"}, ("plain words", "text")),
        ({"result": "{}", "result_encoding": "text"}, ({}, "json")),
        ({"result": "e30=", "result_encoding": "base64"}, ({}, "json")),
        ({"result": "", "result_encoding": "base64"}, (None, None)),
    ],
)
async def test_a_result_is_json_or_bytes_in_base64(task, report, output):
    completed = await task.post("/tasks/send-mail-1/complete", {"worker_id": "anna", **report})
    assert completed == (200, {"run_id": "send-mail-1", "status": "completed"})
    assert await output_of(task, "send-mail-1") == output


@pytest.mark.parametrize("result", ["%%%", "gA=", {"a": 1}, None])
async def test_a_result_that_is_not_the_base64_it_claims_is_refused(task, result):
    body = {"worker_id": "anna", "result": result, "result_encoding": "base64"}
    status, answer = await task.post("/tasks/send-mail-1/complete", body)
    assert status == 400
    assert answer["error"]["code"] == "invalid"


async def test_a_result_nested_too_deeply_is_refused(task):
    deep = b"[" * 100_000 + b"]" * 100_000
    content = b'{"worker_id": "anna", "result": ' + deep + b"}"
    status, body = await task.ask("POST", "/tasks/send-mail-1/complete", content=content)
    assert status == 400
    assert body["error"]["code"] == "invalid_json"


async def test_a_result_may_name_its_outcome(task):
    body = {"worker_id": "anna", "outcome": "bounced"}
    await task.post("/tasks/send-mail-1/complete", body)
    assert (await task.get("/runs/send-mail-1"))[1]["outcome"] == "bounced"


async def test_a_result_that_its_schema_refuses_leaves_the_task_to_its_worker(task):
    schema = {"type": "object", "required": ["sent_at"]}
    await task.put("/actions/send-mail", {"output_schema": schema})

    status, body = await task.post("/tasks/send-mail-1/complete", {"worker_id": "anna"})
    assert (status, body["error"]["code"]) == (400, "output_invalid")
    report = {"worker_id": "anna", "result": {}}
    _, body = await task.post("/tasks/send-mail-1/complete", report)
    assert body["error"]["details"]["problems"] == [
        {"path": "", "problem": '"sent_at" is a required property'}
    ]
    report = {"worker_id": "anna", "result": {"sent_at": 7}}
    assert (await task.post("/tasks/send-mail-1/complete", report))[0] == 200


async def test_a_failure_that_may_be_retried_sends_the_run_back(task):
    failure = {"error": "no answer", "code": "busy", "retry": True}
    body = {"worker_id": "anna", **failure, "took_ms": 1_200, "held_ms": 30}
    failed = await task.post("/tasks/send-mail-1/fail", body)
    assert failed == (200, {"run_id": "send-mail-1", "status": "pending"})
    _, run = await task.get("/runs/send-mail-1")
    assert run["attempts"] == [
        {
            "number": 1,
            "worker_id": "anna",
            "started_at": NOON_MS,
            "ended_at": NOON_MS,
            "error": "no answer",
            "error_code": "busy",
            "retryable": True,
            "end": "reported",
            "took_ms": 1_200,
            "held_ms": 30,
            "late_report": None,
        }
    ]


@pytest.mark.parametrize("dead_letter", [True, False])
async def test_a_failure_for_good_ends_the_run(task, dead_letter):
    body = {"worker_id": "anna", "error": "no such address", "dead_letter": dead_letter}
    failed = await task.post("/tasks/send-mail-1/fail", body)
    assert failed == (200, {"run_id": "send-mail-1", "status": "failed"})
    _, run = await task.get("/runs/send-mail-1")
    assert (run["error"], run["dead_lettered"]) == ("no such address", dead_letter)


async def test_a_touch_extends_the_lease(task):
    touched = await task.post(
        "/tasks/send-mail-1/touch", {"worker_id": "anna", "extend_ms": 90_000}
    )
    assert touched == (
        200,
        {"run_id": "send-mail-1", "lease_expires_at": NOON_MS + 90_000},
    )


@pytest.mark.parametrize("report", ["complete", "fail", "touch"])
@pytest.mark.parametrize("body", [{"worker_id": "boris"}, {"worker_id": "anna", "attempt": 7}])
async def test_whoever_does_not_hold_the_task_cannot_report_on_it(task, report, body):
    status, answer = await task.post(f"/tasks/send-mail-1/{report}", body)
    assert status == 409
    assert answer["error"]["code"] == "lease_lost"


@pytest.mark.parametrize("report", ["complete", "fail", "touch"])
async def test_a_task_that_never_was_cannot_be_reported_on(http, report):
    status, answer = await http.post(f"/tasks/send-mail-1/{report}", {"worker_id": "anna"})
    assert status == 404
    assert answer["error"]["code"] == "run_not_found"


@pytest.mark.parametrize("report", ["complete", "fail", "touch"])
async def test_a_report_says_whose_it_is(http, report):
    status, answer = await http.post(f"/tasks/send-mail-1/{report}", {})
    assert status == 400
    assert answer["error"]["message"] == "Object missing required field `worker_id`"
