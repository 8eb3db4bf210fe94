"""What HTTP requests may take of the memory."""

import pytest

from flo.server.budget import MemoryBudget, Part

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOTAL = 2_000_000
INVOKE = "/api/v1/actions/send/invoke"


def is_given_back(budget):
    return set(budget.parts.values()) == {0}


async def test_a_body_without_room_is_refused_with_when_to_try_again(open_http):
    budget = MemoryBudget(TOTAL)
    async with open_http(budget=budget) as world:
        await world.post("/actions", {"name": "send"})

        answer = await world.client.post(INVOKE, content=bytes(TOTAL))

        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["error"]["code"] == "overloaded"
        assert answer.json()["error"]["details"] == {"retry_after_ms": 200}
        assert (await world.client.post(INVOKE, content=b"1")).status_code == 202
        assert is_given_back(budget)


async def test_without_a_budget_the_same_body_is_taken_in(open_http):
    async with open_http() as world:
        await world.post("/actions", {"name": "send"})

        assert (await world.client.post(INVOKE, content=bytes(TOTAL))).status_code == 202


async def test_new_work_is_refused_when_the_state_is_too_large_and_deletions_are_not(open_http):
    state_length = 0
    budget = MemoryBudget(TOTAL, state_length=lambda: state_length)
    async with open_http(budget=budget) as world:
        await world.post("/actions", {"name": "send"})
        state_length = TOTAL
        budget.look()

        answer = await world.client.post(INVOKE, content=b"1")
        deleted = await world.client.delete("/api/v1/actions/send")

        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert deleted.status_code == 204
        assert is_given_back(budget)


async def test_a_full_server_can_still_be_watched(open_http):
    budget = MemoryBudget(TOTAL)
    async with open_http(budget=budget) as world:
        budget.change(Part.REQUESTS, TOTAL)

        paths = ("/health", "/ready", "/metrics", "/api/v1/actions")
        statuses = [(await world.client.get(path)).status_code for path in paths]

        assert statuses == [200, 200, 200, 429]
