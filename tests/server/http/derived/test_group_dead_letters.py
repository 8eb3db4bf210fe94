"""The HTTP routes of the dead letters of consumer groups."""

import pytest
import pytest_asyncio

from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUP = "/streams/events/groups/mailers"


@pytest_asyncio.fixture(loop_scope="module")
async def dead(http):
    """The world, with a group that has given up three records."""
    body = {"records": [{"payload": number} for number in (1, 2, 3)]}
    await http.post("/streams/events/records", body)
    await http.post(GROUP, {"max_deliveries": 1})
    await take(http)
    await http.post(f"{GROUP}/nack", {"ids": [stream_id(number) for number in (1, 2, 3)]})
    http.clock.advance(1_000)
    assert await take(http) == []
    return http


def stream_id(sequence):
    return f"{NOON_MS}-{sequence}"


async def take(http):
    _, found = await http.post(f"{GROUP}/read", {"consumer": "anna", "block_ms": 0})
    return [record["payload"] for record in found["items"]]


async def dead_letters(http):
    _, page = await http.get(f"{GROUP}/dlq")
    return [one["payload"] for one in page["items"]]


async def purge(http, body):
    return await http.ask("DELETE", f"{GROUP}/dlq", json=body)


async def test_a_dead_letter_has_all_that_was_in_its_record(dead):
    status, page = await dead.get(f"{GROUP}/dlq", limit=1)
    assert status == 200
    assert page["items"] == [
        {
            "stream_id": stream_id(3),
            "sequence": 3,
            "at_ms": NOON_MS,
            "payload": 3,
            "payload_encoding": "json",
            "headers": None,
            "key": None,
            "partition": 0,
            "deliveries": 1,
            "died_at": NOON_MS + 1_000,
        }
    ]
    assert (await dead.get(GROUP))[1]["dead"] == 3


async def test_dead_letters_are_listed_page_by_page_the_newest_first(dead):
    _, first = await dead.get(f"{GROUP}/dlq", limit=2)
    _, second = await dead.get(f"{GROUP}/dlq", limit=2, cursor=first["cursor"])
    assert [one["payload"] for one in first["items"]] == [3, 2]
    assert [one["payload"] for one in second["items"]] == [1]
    assert second["cursor"] is None


async def test_dead_letters_are_requeued_by_id_or_all_of_them(dead):
    one = await dead.post(f"{GROUP}/dlq/requeue", {"ids": [stream_id(2)]})
    assert one == (200, {"ids": [stream_id(2)], "more": False})
    assert await take(dead) == [2]
    assert await dead.post(f"{GROUP}/dlq/requeue", {"limit": 1}) == (
        200,
        {"ids": [stream_id(3)], "more": True},
    )
    assert (await dead.post(f"{GROUP}/dlq/requeue", {}))[1]["more"] is False
    assert await take(dead) == [1, 3]
    assert await dead_letters(dead) == []


async def test_dead_letters_are_purged_by_id_or_all_of_them(dead):
    one = await purge(dead, {"ids": [stream_id(2)]})
    assert one == (200, {"ids": [stream_id(2)], "more": False})
    assert await dead_letters(dead) == [3, 1]
    assert (await purge(dead, {}))[1] == {"ids": [stream_id(3), stream_id(1)], "more": False}
    assert await dead_letters(dead) == []
    assert await take(dead) == []


async def test_a_dead_letter_outlives_its_record_but_cannot_be_handed_out_any_more(dead):
    await dead.post("/streams/events/trim", {"max_length": 0})
    assert await dead_letters(dead) == [3, 2, 1]
    status, body = await dead.post(f"{GROUP}/dlq/requeue", {"ids": [stream_id(1)]})
    assert (status, body["error"]["code"]) == (409, "record_trimmed")


async def test_what_is_no_letter_is_refused_with_all_that_was_named_beside_it(dead):
    both = {"ids": [stream_id(1), stream_id(9)]}
    for status, body in (
        await dead.post(f"{GROUP}/dlq/requeue", both),
        await purge(dead, both),
    ):
        assert (status, body["error"]["code"]) == (404, "dead_letter_not_found")
    assert len(await dead_letters(dead)) == 3


@pytest.mark.parametrize(
    "body", [None, [], {"ids": []}, {"ids": "x"}, {"ids": ["x"]}, {"limit": 0}, {"limit": 1_001}]
)
async def test_whoever_does_not_say_clearly_which_letters_is_refused(dead, body):
    assert (await dead.post(f"{GROUP}/dlq/requeue", body))[0] == 400
    assert (await purge(dead, body))[0] == 400
    assert len(await dead_letters(dead)) == 3
