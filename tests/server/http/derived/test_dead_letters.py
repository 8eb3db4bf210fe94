"""The HTTP routes of dead letters."""

import pytest
import pytest_asyncio

pytestmark = pytest.mark.asyncio(loop_scope="module")

TAKE = {"actions": ["send-mail"], "block_ms": 0}


@pytest_asyncio.fixture(loop_scope="module")
async def dead(mail):
    """The world, with three dead letters."""
    for number in (1, 2, 3):
        await mail.post("/actions/send-mail/invoke", {"number": number})
    await mail.post("/workers/anna/await", {**TAKE, "max_tasks": 3})
    for number in (1, 2, 3):
        body = {"worker_id": "anna", "error": f"no address {number}"}
        await mail.post(f"/tasks/send-mail-{number}/fail", body)
    return mail


async def dead_letters(http):
    _, page = await http.get("/actions/send-mail/dlq")
    return [run["run_id"] for run in page["items"]]


async def purge(http, body, action="send-mail"):
    return await http.ask("DELETE", f"/actions/{action}/dlq", json=body)


async def test_dead_letters_are_listed_the_newest_first_page_by_page(dead):
    status, first = await dead.get("/actions/send-mail/dlq", limit=2)
    _, second = await dead.get("/actions/send-mail/dlq", limit=2, cursor=first["cursor"])

    assert status == 200
    assert [run["error"] for run in first["items"]] == ["no address 3", "no address 2"]
    assert [run["input"] for run in second["items"]] == [{"number": 1}]
    assert all(run["dead_lettered"] for run in first["items"])
    assert second["cursor"] is None


async def test_what_did_not_fail_for_good_is_no_dead_letter(mail):
    for _ in range(3):
        await mail.post("/actions/send-mail/invoke", {})
    await mail.post("/workers/anna/await", {**TAKE, "max_tasks": 2})
    await mail.post("/tasks/send-mail-1/complete", {"worker_id": "anna"})
    body = {"worker_id": "anna", "error": "no", "dead_letter": False}
    await mail.post("/tasks/send-mail-2/fail", body)
    assert await dead_letters(mail) == []


async def test_a_requeued_dead_letter_is_pending_again_and_keeps_its_past(dead):
    requeued = await dead.post("/actions/send-mail/dlq/send-mail-2/requeue")

    assert requeued == (200, {"run_ids": ["send-mail-2"], "more": False})
    assert await dead_letters(dead) == ["send-mail-3", "send-mail-1"]
    _, run = await dead.get("/runs/send-mail-2")
    assert (run["status"], run["dead_lettered"]) == ("pending", False)
    assert [attempt["error"] for attempt in run["attempts"]] == ["no address 2"]
    _, assigned = await dead.post("/workers/anna/await", TAKE)
    task = assigned["tasks"][0]
    assert (task["task_id"], task["attempt"]) == ("send-mail-2", 2)


async def test_some_dead_letters_are_requeued_together(dead):
    body = {"run_ids": ["send-mail-1", "send-mail-3"]}
    status, requeued = await dead.post("/actions/send-mail/dlq/requeue", body)
    assert status == 200
    assert sorted(requeued["run_ids"]) == ["send-mail-1", "send-mail-3"]
    assert requeued["more"] is False
    assert await dead_letters(dead) == ["send-mail-2"]


async def test_all_dead_letters_are_requeued_call_by_call(dead):
    _, first = await dead.post("/actions/send-mail/dlq/requeue", {"limit": 2})
    _, second = await dead.post("/actions/send-mail/dlq/requeue", {})
    _, third = await dead.post("/actions/send-mail/dlq/requeue", {})
    assert (len(first["run_ids"]), first["more"]) == (2, True)
    assert (len(second["run_ids"]), second["more"]) == (1, False)
    assert third == {"run_ids": [], "more": False}
    assert (await dead.get("/actions/send-mail"))[1]["runs"]["pending"] == 3


async def test_a_purged_dead_letter_is_forgotten(dead):
    assert await dead.delete("/actions/send-mail/dlq/send-mail-2") == (204, None)
    assert await dead_letters(dead) == ["send-mail-3", "send-mail-1"]
    assert (await dead.get("/runs/send-mail-2"))[1]["error"]["code"] == "run_not_found"


async def test_some_dead_letters_are_purged_together(dead):
    status, purged = await purge(dead, {"run_ids": ["send-mail-1", "send-mail-3"]})
    assert status == 200
    assert sorted(purged["run_ids"]) == ["send-mail-1", "send-mail-3"]
    assert await dead_letters(dead) == ["send-mail-2"]


async def test_all_dead_letters_are_purged_call_by_call(dead):
    _, first = await purge(dead, {"limit": 2})
    _, second = await purge(dead, {})
    assert (len(first["run_ids"]), first["more"]) == (2, True)
    assert (len(second["run_ids"]), second["more"]) == (1, False)
    assert (await dead.get("/actions/send-mail"))[1]["runs"]["failed"] == 0


async def test_the_dead_letters_of_an_action_that_was_deleted_can_still_be_purged(dead):
    await dead.delete("/actions/send-mail")
    assert (await dead.post("/actions/send-mail/dlq/requeue", {}))[0] == 404
    assert len((await purge(dead, {}))[1]["run_ids"]) == 3


@pytest.mark.parametrize(
    ("run_id", "status", "code"),
    [
        ("send-mail-9", 404, "run_not_found"),
        ("ship-1", 404, "run_not_found"),
        ("send-mail-4", 409, "not_dead"),
        ("send-mail-5", 409, "not_dead"),
    ],
)
async def test_only_dead_letters_of_the_action_are_requeued_or_purged(dead, run_id, status, code):
    for _ in range(2):
        await dead.post("/actions/send-mail/invoke", {})
    await dead.post("/workers/anna/await", TAKE)
    await dead.post("/tasks/send-mail-4/complete", {"worker_id": "anna"})
    both = {"run_ids": ["send-mail-1", run_id]}

    for answer in (
        await dead.post(f"/actions/send-mail/dlq/{run_id}/requeue"),
        await dead.delete(f"/actions/send-mail/dlq/{run_id}"),
        await dead.post("/actions/send-mail/dlq/requeue", both),
        await purge(dead, both),
    ):
        assert (answer[0], answer[1]["error"]["code"]) == (status, code)
    assert await dead_letters(dead) == ["send-mail-3", "send-mail-2", "send-mail-1"]


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"run_ids": []},
        {"run_ids": "send-mail-1"},
        {"run_ids": [1]},
        {"run_ids": ["send-mail-1"] * 1_001},
        {"limit": 0},
        {"limit": 1_001},
        {"run_id": "send-mail-1"},
    ],
)
async def test_whoever_does_not_say_clearly_which_letters_is_refused(dead, body):
    assert (await dead.post("/actions/send-mail/dlq/requeue", body))[0] == 400
    assert (await purge(dead, body))[0] == 400
    assert len(await dead_letters(dead)) == 3
