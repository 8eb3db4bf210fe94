"""The HTTP routes of consumer groups."""

import asyncio

import pytest
import pytest_asyncio

from flo.model.groups import GroupRecords
from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUP = "/streams/events/groups/mailers"
SETTINGS = {
    "mode": "shared",
    "ack_timeout_ms": 60_000,
    "max_deliveries": 10,
    "redelivery_delay_ms": 0,
    "slots": 256,
    "max_standbys": 65_535,
    "no_ack": False,
}


@pytest_asyncio.fixture(loop_scope="module")
async def events(http):
    """The world, with three records in a stream."""
    body = {"records": [{"payload": number} for number in (1, 2, 3)]}
    await http.post("/streams/events/records", body)
    return http


def stream_id(sequence):
    return f"{NOON_MS}-{sequence}"


async def take(http, consumer, limit=10, **options):
    """The payloads of the records that a consumer is given."""
    body = {"consumer": consumer, "limit": limit, "block_ms": 0, **options}
    status, found = await http.post(f"{GROUP}/read", body)
    assert status == 200
    return [record["payload"] for record in found["items"]]


async def group(http):
    status, found = await http.get(GROUP)
    assert status == 200
    return found


async def test_a_group_is_made_once_with_its_settings(http):
    wanted = {"mode": "key_shared", "ack_timeout_ms": 5_000, "max_deliveries": 3, "slots": 16}
    status, made = await http.post(GROUP, wanted)
    assert status == 201
    assert made == {
        "name": "mailers",
        "stream": "events",
        "namespace": "default",
        "settings": {**SETTINGS, **wanted},
        "created_at": NOON_MS,
        "lag": 0,
        "pending": 0,
        "waiting": 0,
        "dead": 0,
        "consumers": [],
    }
    assert await group(http) == made
    status, body = await http.post(GROUP, {})
    assert (status, body["error"]["code"]) == (409, "group_exists")


async def test_a_group_is_made_with_the_defaults_if_there_is_no_body(http):
    status, made = await http.post(GROUP)
    assert (status, made["settings"]) == (201, SETTINGS)


@pytest.mark.parametrize(
    ("start", "found"), [("0-0", [1, 2, 3]), (stream_id(2), [3]), ("$", []), (stream_id(9), [])]
)
async def test_a_group_begins_where_it_is_told_to(events, start, found):
    await events.post(GROUP, {"start": start})
    assert await take(events, "anna") == found


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "fair"},
        {"ack_timeout_ms": 0},
        {"max_deliveries": 0},
        {"slots": 4_097},
        {"start": "x"},
        {"settings": {}},
    ],
)
async def test_a_group_that_cannot_be_is_refused(events, body):
    assert (await events.post(GROUP, body))[0] == 400
    assert (await events.get("/streams/events"))[1]["groups"] == []


async def test_groups_are_listed_page_by_page(events):
    for name in ("a", "b", "c"):
        await events.post(f"/streams/events/groups/{name}")
    _, first = await events.get("/streams/events/groups", limit=2)
    _, second = await events.get("/streams/events/groups", limit=2, cursor=first["cursor"])
    assert [one["name"] for one in first["items"]] == ["a", "b"]
    assert [one["name"] for one in second["items"]] == ["c"]
    assert second["cursor"] is None


async def test_a_group_that_is_deleted_is_gone(events):
    await take(events, "anna")
    assert await events.delete(GROUP) == (204, None)
    for status, body in (
        await events.get(GROUP),
        await events.delete(GROUP),
        await events.get(f"{GROUP}/pending"),
        await events.post(f"{GROUP}/leave", {"consumer": "anna"}),
        await events.post(f"{GROUP}/ack", {"ids": [stream_id(1)]}),
        await events.post(f"{GROUP}/nack", {"ids": [stream_id(1)]}),
        await events.post(f"{GROUP}/touch", {"ids": [stream_id(1)], "consumer": "anna"}),
        await events.post(f"{GROUP}/claim", {"consumer": "anna"}),
    ):
        assert (status, body["error"]["code"]) == (404, "group_not_found")


async def test_a_consumer_joins_a_group_and_hears_its_settings(http):
    joined = (200, {"settings": SETTINGS})
    assert await http.post(f"{GROUP}/join", {"consumer": "anna"}) == joined
    assert await http.post(f"{GROUP}/join", {"consumer": "anna"}) == joined
    assert (await group(http))["consumers"] == [
        {"name": "anna", "joined_at": NOON_MS, "pending": 0, "is_chosen": False}
    ]


async def test_a_consumer_that_reads_joins_by_itself(events):
    status, found = await events.post(f"{GROUP}/read", {"consumer": "anna", "limit": 1})
    assert status == 200
    assert found == {
        "items": [
            {
                "stream_id": stream_id(1),
                "sequence": 1,
                "at_ms": NOON_MS,
                "payload": 1,
                "payload_encoding": "json",
                "headers": None,
                "key": None,
                "partition": 0,
                "deliveries": 1,
            }
        ],
        "draining": False,
    }
    (consumer,) = (await group(events))["consumers"]
    assert (consumer["name"], consumer["pending"]) == ("anna", 1)


async def test_a_consumer_that_may_not_join_is_told_so(events):
    await events.post(GROUP, {"mode": "exclusive", "max_standbys": 0})
    await events.post(f"{GROUP}/join", {"consumer": "anna"})
    for route in ("join", "read"):
        status, body = await events.post(f"{GROUP}/{route}", {"consumer": "boris"})
        assert (status, body["error"]["code"]) == (409, "group_locked")


async def test_consumers_share_the_records_of_a_group(events):
    assert await take(events, "anna", limit=2) == [1, 2]
    assert await take(events, "boris") == [3]
    assert await take(events, "anna") == []
    found = await group(events)
    assert (found["lag"], found["pending"], found["waiting"]) == (0, 3, 0)


async def test_what_is_acked_is_done(events):
    await take(events, "anna")
    ids = [stream_id(1), stream_id(2), stream_id(7)]
    assert await events.post(f"{GROUP}/ack", {"ids": ids}) == (200, {"count": 2})
    assert await events.post(f"{GROUP}/ack", {"ids": ids}) == (200, {"count": 0})
    assert (await group(events))["pending"] == 1


async def test_what_is_nacked_comes_again_after_its_delay(events):
    await take(events, "anna")
    nack = {"ids": [stream_id(1), stream_id(2)], "consumer": "anna"}
    assert await events.post(f"{GROUP}/nack", {**nack, "consumer": "boris"}) == (200, {"count": 0})
    assert await events.post(f"{GROUP}/nack", {**nack, "delay_ms": 500}) == (200, {"count": 2})
    assert await take(events, "boris") == []
    assert (await group(events))["waiting"] == 2
    events.clock.advance(500)
    _, found = await events.post(f"{GROUP}/read", {"consumer": "boris"})
    assert [record["deliveries"] for record in found["items"]] == [2, 2]


async def test_what_is_touched_stays_with_its_consumer(events):
    await take(events, "anna")
    touch = {"consumer": "anna", "ids": [stream_id(1)], "extend_ms": 600_000}
    assert await events.post(f"{GROUP}/touch", touch) == (200, {"count": 1})
    events.clock.advance(60_000)
    assert await take(events, "boris") == [2, 3]


async def test_what_others_let_lie_can_be_claimed(events):
    await take(events, "anna")
    events.clock.advance(20_000)
    claim = {"consumer": "boris", "min_idle_ms": 10_000, "limit": 2}
    status, body = await events.post(f"{GROUP}/claim", claim)
    assert (status, body["error"]["code"]) == (404, "consumer_not_joined")

    await events.post(f"{GROUP}/join", {"consumer": "boris"})
    _, first = await events.post(f"{GROUP}/claim", claim)
    _, second = await events.post(f"{GROUP}/claim", {**claim, "after": first["next"]})

    assert [(one["payload"], one["deliveries"]) for one in first["items"]] == [(1, 2), (2, 2)]
    assert [(one["payload"], one["deliveries"]) for one in second["items"]] == [(3, 2)]
    assert second["next"] is None


async def test_a_consumer_that_leaves_gives_back_what_it_holds(events):
    await take(events, "anna")
    for _ in range(2):
        assert await events.post(f"{GROUP}/leave", {"consumer": "anna"}) == (204, None)
    assert await take(events, "boris") == [1, 2, 3]


async def test_what_is_under_way_is_listed_page_by_page(events):
    await take(events, "anna", limit=2)
    events.clock.advance(1_000)
    await take(events, "boris")
    _, first = await events.get(f"{GROUP}/pending", limit=2)
    _, second = await events.get(f"{GROUP}/pending", limit=2, cursor=first["cursor"])
    _, of_boris = await events.get(f"{GROUP}/pending", consumer="boris")
    assert [one["stream_id"] for one in first["items"]] == [stream_id(1), stream_id(2)]
    assert second == of_boris
    assert second == {
        "items": [
            {
                "stream_id": stream_id(3),
                "consumer": "boris",
                "deliveries": 1,
                "delivered_at": NOON_MS + 1_000,
                "until_ms": NOON_MS + 61_000,
            }
        ],
        "cursor": None,
    }


async def test_a_read_waits_for_the_first_record(http):
    reading = asyncio.create_task(http.post(f"{GROUP}/read", {"consumer": "anna"}))
    await http.until_waiting(1)
    await http.post("/streams/events/records", {"payload": "there"})
    _, found = await reading
    assert [record["payload"] for record in found["items"]] == ["there"]


async def test_a_read_whose_time_is_over_finds_nothing(http):
    body = {"consumer": "anna", "block_ms": 5_000}
    reading = asyncio.create_task(http.post(f"{GROUP}/read", body))
    await http.until_waiting(1)
    http.clock.advance(5_000)
    assert await reading == (200, {"items": [], "draining": False})


async def test_a_record_is_kept_for_others_when_the_waiting_consumer_hangs_up(http):
    reading = asyncio.create_task(http.post(f"{GROUP}/read", {"consumer": "anna"}))
    await http.until_waiting(1)
    reading.cancel()
    await http.until_waiting(0)
    await http.post("/streams/events/records", {"payload": "there"})
    assert await take(http, "boris") == ["there"]


class LateEngine:
    """Takes records, and then is so slow to hand them over that the client has left."""

    def __init__(self):
        self.world = None
        self.is_late = True
        self.has_taken = asyncio.Event()

    async def ask(self, message, caller=None, keys=None):
        reply = await self.world.shard.ask(message)
        if isinstance(reply, GroupRecords) and self.is_late:
            self.has_taken.set()
            await asyncio.Event().wait()
        return reply


async def test_what_was_on_its_way_to_a_client_that_hung_up_comes_back_in_time(open_http):
    engine = LateEngine()
    async with open_http(engine=engine) as http:
        engine.world = http
        await http.post("/streams/events/records", {"payload": "there"})
        reading = asyncio.create_task(http.post(f"{GROUP}/read", {"consumer": "anna"}))
        await engine.has_taken.wait()
        engine.is_late = False
        reading.cancel()

        http.clock.advance(59_999)
        assert await take(http, "boris") == []
        http.clock.advance(1)
        assert await take(http, "boris") == ["there"]


async def test_what_a_registered_worker_settles_counts_for_it_and_its_drain_ends_the_wait(events):
    worker = {"worker_id": "w-1", "worker_type": "stream", "processes": ["events/mailers"]}
    await events.post("/workers", worker)
    await take(events, "anna", worker_id="w-1")
    await events.post(f"{GROUP}/ack", {"ids": [stream_id(1), stream_id(2)], "worker_id": "w-1"})
    await events.post(f"{GROUP}/nack", {"ids": [stream_id(3)], "worker_id": "w-1", "delay_ms": 1})
    body = {"consumer": "anna", "worker_id": "w-1"}
    reading = asyncio.create_task(events.post(f"{GROUP}/read", body))
    await events.until_waiting(1)
    await events.post("/workers/w-1/drain")
    assert await reading == (200, {"items": [], "draining": True})
    (process,) = (await events.get("/workers/w-1"))[1]["processes"]
    assert process["name"] == "events/mailers"
    assert (process["run_count"], process["fail_count"]) == (2, 1)


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("join", {}),
        ("join", {"consumer": "a b"}),
        ("join", None),
        ("leave", {}),
        ("read", {"consumer": "anna", "limit": 0}),
        ("read", {"consumer": "anna", "limit": 1_001}),
        ("read", {"consumer": "anna", "block_ms": 300_001}),
        ("read", {"limit": 1}),
        ("ack", {}),
        ("ack", {"ids": []}),
        ("ack", {"ids": ["x"]}),
        ("ack", {"ids": [stream_id(1)] * 1_001}),
        ("nack", {"ids": [stream_id(1)], "delay_ms": -1}),
        ("touch", {"ids": [stream_id(1)]}),
        ("touch", {"ids": [stream_id(1)], "consumer": "anna", "extend_ms": 0}),
        ("claim", {"consumer": "anna", "limit": 0}),
        ("claim", {"consumer": "anna", "after": "$"}),
    ],
)
async def test_what_makes_no_sense_is_refused_and_moves_nothing(events, route, body):
    await take(events, "anna", limit=1)
    before = await group(events)
    assert (await events.post(f"{GROUP}/{route}", body))[0] == 400
    assert await group(events) == before
