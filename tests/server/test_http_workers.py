"""The HTTP routes of workers."""

import asyncio

import pytest

from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANNA = {"worker_id": "anna", "actions": ["send-mail"]}


async def test_a_worker_registers_and_is_known(http):
    body = {**ANNA, "max_concurrency": 3, "machine_id": "host-1", "labels": {"gpu": True, "gb": 24}}
    assert await http.post("/workers", body) == (201, {"worker_id": "anna", "status": "idle"})
    assert await http.get("/workers/anna") == (
        200,
        {
            "worker_id": "anna",
            "worker_type": "action",
            "status": "idle",
            "namespace": "default",
            "max_concurrency": 3,
            "current_load": 0,
            "tasks_completed": 0,
            "tasks_failed": 0,
            "registered_at_ms": NOON_MS,
            "last_heartbeat_ms": NOON_MS,
            "machine_id": "host-1",
            "labels": {"gpu": True, "gb": 24},
            "processes": [
                {
                    "name": "send-mail",
                    "kind": "action",
                    "run_count": 0,
                    "fail_count": 0,
                    "last_run_at_ms": None,
                }
            ],
        },
    )


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
                "created_at_ms": NOON_MS,
                "attempt": 1,
                "lease_expires_at_ms": NOON_MS + 30_000,
            }
            for number in range(2)
        ],
        "draining": False,
    }


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
