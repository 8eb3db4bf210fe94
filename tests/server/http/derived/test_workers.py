"""The HTTP routes of workers."""

import asyncio

import pytest

from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANNA = {"worker_id": "anna", "processes": ["send-mail"]}


async def test_a_worker_registers_and_is_known(http):
    body = {
        **ANNA,
        "max_concurrency": 3,
        "machine_id": "host-1",
        "labels": {"gpu": True, "gb": 24},
        "metadata": {"version": "1.2", "tags": ["a", "b"]},
        "build_id": "1.2-7f3a",
        "handlers": [
            {"action": "send-mail", "effect": "keyed", "input_schema": {"type": "object"}}
        ],
    }
    assert await http.post("/workers", body) == (201, {"worker_id": "anna", "status": "active"})
    assert await http.get("/workers/anna") == (
        200,
        {
            "worker_id": "anna",
            "worker_type": "action",
            "status": "active",
            "namespace": "default",
            "max_concurrency": 3,
            "current_load": 0,
            "tasks_completed": 0,
            "tasks_failed": 0,
            "registered_at": NOON_MS,
            "last_heartbeat": NOON_MS,
            "machine_id": "host-1",
            "labels": {"gpu": True, "gb": 24},
            "metadata": {"version": "1.2", "tags": ["a", "b"]},
            "processes": [
                {
                    "name": "send-mail",
                    "kind": "action",
                    "run_count": 0,
                    "fail_count": 0,
                    "last_run_at": None,
                }
            ],
            "connection": None,
            "build_id": "1.2-7f3a",
            "handlers": [
                {
                    "action": "send-mail",
                    "effect": "keyed",
                    "code_digest": None,
                    "input_schema": {"type": "object"},
                    "output_schema": None,
                }
            ],
            "abandoned": 0,
        },
    )


async def test_the_flat_values_of_the_metadata_serve_as_labels(http):
    metadata = {"gpu": True, "zone": "eu", "tags": ["a"], "more": {"deep": 1}}
    await http.post("/workers", {**ANNA, "metadata": metadata})
    _, anna = await http.get("/workers/anna")
    assert anna["metadata"] == metadata
    assert anna["labels"] == {"gpu": True, "zone": "eu"}


async def test_a_worker_of_streams_says_so(http):
    await http.post("/workers", {**ANNA, "worker_type": "stream"})
    _, anna = await http.get("/workers/anna")
    assert (anna["worker_type"], anna["processes"][0]["kind"]) == ("stream", "stream_consumer")


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": ["gpu"]},
        {"metadata": "gpu: true"},
        {"metadata": "[1]"},
        {"metadata": {"long": "x" * 20_000}},
        {"metadata": {"large": 2**64}},
        {"metadata": {"deep": {"and": [{"large": -(2**64)}]}}},
        {"labels": {"gb": 2**64}},
        {"labels": {"gpu": None}},
        {"worker_type": "lazy"},
        {"worker_type": 0},
        {"incarnation": 7},
    ],
)
async def test_a_registration_that_does_not_fit_is_refused(http, wrong):
    assert (await http.post("/workers", {**ANNA, **wrong}))[0] in (400, 413)
    assert (await http.get("/workers"))[1]["items"] == []


async def test_a_drain_lasts_as_long_as_the_process_of_the_worker(http):
    first = {**ANNA, "incarnation": "first"}
    await http.post("/workers", first)
    await http.post("/workers/anna/drain")
    assert (await http.post("/workers", first))[1]["status"] == "draining"
    second = {**ANNA, "incarnation": "second"}
    assert (await http.post("/workers", second))[1]["status"] == "active"


async def test_workers_are_listed_page_by_page(http):
    for worker_id in ("anna", "boris"):
        await http.post("/workers", {**ANNA, "worker_id": worker_id})
    status, page = await http.get("/workers", limit=1)
    assert status == 200
    assert [worker["worker_id"] for worker in page["items"]] == ["anna"]
    assert (await http.get("/workers", cursor=page["cursor"]))[1]["cursor"] is None


@pytest.mark.parametrize(("body", "status"), [({"current_load": 2}, "active"), (None, "idle")])
async def test_a_heartbeat_says_how_busy_a_worker_is(http, body, status):
    await http.post("/workers", ANNA)
    known = await http.post("/workers/anna/heartbeat", body)
    assert known == (200, {"worker_id": "anna", "status": status})


async def test_a_worker_told_to_drain_hears_so_wherever_it_asks(http):
    await http.post("/workers", ANNA)
    draining = (200, {"worker_id": "anna", "status": "draining"})
    assert await http.post("/workers/anna/drain") == draining
    assert await http.post("/workers/anna/heartbeat", {"current_load": 1}) == draining
    assert await http.post("/workers/anna/await", {"actions": ["send-mail"]}) == (
        200,
        {"tasks": [], "draining": True},
    )


async def test_a_worker_that_leaves_is_gone_and_may_leave_twice(http):
    await http.post("/workers", ANNA)
    assert await http.delete("/workers/anna") == (204, None)
    assert await http.delete("/workers/anna") == (204, None)
    for answer in (
        await http.get("/workers/anna"),
        await http.post("/workers/anna/heartbeat", {}),
        await http.post("/workers/anna/drain"),
    ):
        assert answer[0] == 404
        assert answer[1]["error"]["code"] == "worker_not_found"


async def test_a_worker_takes_as_many_tasks_as_it_asks_for(mail):
    for number in range(3):
        await mail.post("/actions/send-mail/invoke", {"number": number})

    status, assigned = await mail.post(
        "/workers/anna/await", {"actions": ["send-mail"], "max_tasks": 2}
    )

    assert status == 200
    assert assigned == {
        "tasks": [
            {
                "task_id": f"send-mail-{number + 1}",
                "task_type": "send-mail",
                "payload": {"number": number},
                "payload_encoding": "json",
                "created_at": NOON_MS,
                "attempt": 1,
                "lease_expires_at": NOON_MS + 30_000,
                "timeout_ms": 30_000,
                "trace": None,
                "secrets": {},
            }
            for number in range(2)
        ],
        "draining": False,
    }


async def test_a_task_that_asks_for_labels_goes_to_a_worker_that_has_them(mail):
    await mail.post("/workers", {**ANNA, "labels": {"gpu": True, "gb": 16}})
    boris = {"gpu": True, "gb": 24, "zone": "eu"}
    await mail.post("/workers", {**ANNA, "worker_id": "boris", "labels": boris})
    await mail.post("/actions/send-mail/invoke", {}, labels='{"gpu":true,"gb":24}')

    body = {"actions": ["send-mail"], "block_ms": 0}
    assert (await mail.post("/workers/anna/await", body))[1]["tasks"] == []
    assert len((await mail.post("/workers/boris/await", body))[1]["tasks"]) == 1


async def test_bytes_reach_a_worker_as_base64(mail):
    await mail.ask("POST", "/actions/send-mail/invoke", content=b"\x80")
    _, assigned = await mail.post("/workers/anna/await", {"actions": ["send-mail"]})
    task = assigned["tasks"][0]
    assert (task["payload"], task["payload_encoding"]) == ("gA==", "base64")


async def test_a_worker_that_waits_gets_what_comes(mail):
    waiting = asyncio.create_task(mail.post("/workers/anna/await", {"actions": ["send-mail"]}))
    await mail.post("/actions/send-mail/invoke", {"to": "alice"})
    assert (await waiting)[1]["tasks"][0]["payload"] == {"to": "alice"}


async def test_a_worker_that_does_not_want_to_wait_goes_away_empty(mail):
    body = {"actions": ["send-mail"], "block_ms": 0}
    assert await mail.post("/workers/anna/await", body) == (200, {"tasks": [], "draining": False})


async def test_a_task_is_kept_for_others_when_the_waiting_worker_hangs_up(mail):
    waiting = asyncio.create_task(mail.post("/workers/anna/await", {"actions": ["send-mail"]}))
    await mail.until_waiting(1)
    waiting.cancel()
    await mail.until_waiting(0)
    await mail.post("/actions/send-mail/invoke", {"to": "alice"})

    _, assigned = await mail.post("/workers/boris/await", {"actions": ["send-mail"]})

    assert assigned["tasks"][0]["attempt"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"actions": []},
        {"actions": "send-mail"},
        {"actions": ["send-mail"], "max_tasks": 0},
        {"actions": ["send-mail"], "block_ms": 300_001},
    ],
)
async def test_a_wait_that_makes_no_sense_is_refused(http, body):
    assert (await http.post("/workers/anna/await", body))[0] == 400


async def test_a_worker_hears_at_once_that_its_task_was_cancelled(mail):
    await mail.post("/workers", ANNA)
    await mail.post("/actions/send-mail/invoke", {})
    await mail.post("/workers/anna/await", {"actions": ["send-mail"]})
    waiting = asyncio.create_task(mail.get("/workers/anna/notifications"))
    await mail.until_waiting(1)

    await mail.post("/runs/send-mail-1/cancel")

    status, notifications = await waiting
    assert status == 200
    assert (notifications["cancelled"], notifications["draining"]) == (["send-mail-1"], False)
    heard = {"last": notifications["last"], "cancelled": [], "draining": False}
    assert await mail.get(
        "/workers/anna/notifications", after=notifications["last"], block_ms=0
    ) == (
        200,
        heard,
    )


async def test_notifications_that_came_before_they_were_asked_for_are_not_missed(mail):
    await mail.post("/workers", ANNA)
    _, before = await mail.get("/workers/anna/notifications", block_ms=0)
    for number in (1, 2):
        await mail.post("/actions/send-mail/invoke", {})
        await mail.post("/workers/anna/await", {"actions": ["send-mail"]})
        await mail.post(f"/runs/send-mail-{number}/cancel")

    _, notifications = await mail.get("/workers/anna/notifications", after=before["last"])

    assert notifications["cancelled"] == ["send-mail-1", "send-mail-2"]


async def test_a_worker_hears_at_once_that_it_is_to_drain(http):
    await http.post("/workers", ANNA)
    waiting = asyncio.create_task(http.get("/workers/anna/notifications"))
    await http.until_waiting(1)
    await http.post("/workers/anna/drain")
    assert (await waiting)[1]["draining"] is True


async def test_a_worker_that_waits_for_notifications_in_vain_is_told_so(http):
    await http.post("/workers", ANNA)
    waiting = asyncio.create_task(http.get("/workers/anna/notifications", after=3, block_ms=1_000))
    await http.until_waiting(1)
    http.clock.advance(1_000)
    status, notifications = await waiting
    assert status == 200
    assert (notifications["cancelled"], notifications["draining"]) == ([], False)


async def test_nobody_waits_for_the_notifications_of_a_worker_that_hung_up(http):
    await http.post("/workers", ANNA)
    waiting = asyncio.create_task(http.get("/workers/anna/notifications"))
    await http.until_waiting(1)
    waiting.cancel()
    await http.until_waiting(0)


async def test_there_are_no_notifications_for_a_stranger(http):
    status, body = await http.get("/workers/anna/notifications")
    assert (status, body["error"]["code"]) == (404, "worker_not_found")


@pytest.mark.parametrize("wrong", [{"after": -1}, {"after": "x"}, {"block_ms": 300_001}])
async def test_a_wait_for_notifications_that_makes_no_sense_is_refused(http, wrong):
    await http.post("/workers", ANNA)
    status, body = await http.get("/workers/anna/notifications", **wrong)
    assert status == 400
    assert next(iter(wrong)) in body["error"]["message"]


async def test_a_worker_without_an_id_is_given_one(http):
    body = {"processes": ["send-mail"], "machine_id": "host-1"}
    (first_status, first), (_, second) = [await http.post("/workers", body) for _ in range(2)]
    assert (first_status, first["status"]) == (201, "active")
    assert first["worker_id"].startswith("host-1-")
    assert first["worker_id"] != second["worker_id"]


async def test_metadata_may_be_text_and_labels_may_be_nested(http):
    body = {**ANNA, "metadata": '{"gpu": true}', "labels": {"gpu": True, "disk": {"gb": 5}}}
    await http.post("/workers", body)
    _, anna = await http.get("/workers/anna")
    assert anna["metadata"] == {"gpu": True}
    assert anna["labels"] == {"gpu": True, "disk": {"gb": 5}}


async def test_a_claim_of_what_the_worker_did_not_register_is_refused(mail):
    await mail.post("/workers", ANNA)
    status, answer = await mail.post("/workers/anna/await", {"actions": ["ship"], "block_ms": 0})
    assert (status, answer["error"]["code"]) == (409, "action_not_registered")
