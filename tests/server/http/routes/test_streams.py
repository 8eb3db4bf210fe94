"""The HTTP routes of streams."""

import asyncio

import pytest
import pytest_asyncio

from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENTS = {
    "name": "events",
    "namespace": "default",
    "created_at": NOON_MS,
    "partitions": 1,
    "max_age_ms": None,
    "max_length": None,
    "max_bytes": None,
    "count": 0,
    "bytes": 0,
    "first_id": None,
    "last_id": None,
    "groups": [],
}


@pytest_asyncio.fixture(loop_scope="module")
async def events(http):
    """The world, with three records in a stream."""
    body = {"records": [{"payload": number} for number in (1, 2, 3)]}
    await http.post("/streams/events/records", body)
    return http


def stream_id(sequence):
    return f"{NOON_MS}-{sequence}"


async def payloads(http, **params):
    status, page = await http.get("/streams/events/records", **params)
    assert status == 200
    return [record["payload"] for record in page["items"]]


async def test_a_stream_is_made_once(http):
    assert await http.post("/streams", {"name": "events"}) == (201, EVENTS)
    status, body = await http.post("/streams", {"name": "events"})
    assert (status, body["error"]["code"]) == (409, "stream_exists")


async def test_a_stream_is_made_with_what_it_keeps(http):
    bounds = {"max_age_ms": 60_000, "max_length": 100, "max_bytes": 5_000}
    made = await http.post("/streams", {"name": "events", "partitions": 4, **bounds})
    assert made == (201, {**EVENTS, "partitions": 4, **bounds})
    assert await http.get("/streams/events") == (200, made[1])


async def test_an_alteration_touches_only_the_bounds_it_names(http):
    await http.post("/streams", {"name": "events", "max_length": 100, "max_bytes": 5_000})
    status, altered = await http.put("/streams/events", {"max_length": 7, "max_bytes": None})
    assert status == 200
    assert altered == {**EVENTS, "max_length": 7}
    assert await http.put("/streams/events", {}) == (200, altered)


async def test_alterations_at_the_same_time_do_not_undo_each_other(http):
    await http.post("/streams", {"name": "events"})
    await asyncio.gather(
        http.put("/streams/events", {"max_length": 7}),
        http.put("/streams/events", {"max_bytes": 900}),
        http.put("/streams/events", {"max_age_ms": 5_000}),
    )
    _, stream = await http.get("/streams/events")
    assert (stream["max_length"], stream["max_bytes"], stream["max_age_ms"]) == (7, 900, 5_000)


async def test_streams_are_listed_page_by_page(http):
    for name in ("a-1", "a-2", "b-1", "a-3"):
        await http.post("/streams", {"name": name})
    _, first = await http.get("/streams", prefix="a-", limit=2)
    _, second = await http.get("/streams", prefix="a-", limit=2, cursor=first["cursor"])
    assert [stream["name"] for stream in first["items"]] == ["a-1", "a-2"]
    assert [stream["name"] for stream in second["items"]] == ["a-3"]
    assert second["cursor"] is None


async def test_a_stream_that_is_deleted_is_gone(events):
    assert await events.delete("/streams/events") == (204, None)
    for status, body in (
        await events.get("/streams/events"),
        await events.get("/streams/events/records"),
        await events.delete("/streams/events"),
        await events.put("/streams/events", {"max_length": 1}),
        await events.post("/streams/events/trim", {}),
    ):
        assert (status, body["error"]["code"]) == (404, "stream_not_found")


async def test_streams_of_two_namespaces_have_nothing_to_do_with_each_other(events):
    await events.post("/streams/events/records", {"payload": "other"}, namespace="prod")
    assert await payloads(events) == [1, 2, 3]
    assert await payloads(events, namespace="prod") == ["other"]


async def test_one_record_makes_its_stream_and_is_read_as_it_was_sent(http):
    record = {"payload": {"to": "alice"}, "headers": {"trace": "7"}, "key": "alice"}
    appended = await http.post("/streams/events/records", record)
    first = stream_id(1)
    assert appended == (201, {"stream_id": first, "last_id": first, "count": 1})
    assert await http.get("/streams/events/records") == (
        200,
        {
            "items": [
                {
                    "stream_id": first,
                    "sequence": 1,
                    "at_ms": NOON_MS,
                    "partition": 0,
                    "payload_encoding": "json",
                    **record,
                }
            ],
            "last": first,
        },
    )


async def test_several_records_are_appended_together(http):
    body = {"records": [{"payload": number} for number in range(1_000)]}
    status, appended = await http.post("/streams/events/records", body)
    assert (status, appended["count"]) == (201, 1_000)
    assert (appended["stream_id"], appended["last_id"]) == (stream_id(1), stream_id(1_000))


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({"payload": None}, (None, "json")),
        ({"payload": "gAD/", "payload_encoding": "base64"}, ("gAD/", "base64")),
        ({"payload": "e30=", "payload_encoding": "base64"}, ({}, "json")),
        ({"payload": "", "payload_encoding": "base64"}, (None, None)),
    ],
)
async def test_a_payload_is_json_or_bytes_in_base64(http, sent, read):
    await http.post("/streams/events/records", sent)
    _, page = await http.get("/streams/events/records")
    (record,) = page["items"]
    assert (record["payload"], record["payload_encoding"]) == read


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        [],
        {"records": []},
        {"records": None},
        {"records": [{}]},
        {"records": [{"payload": 1}], "payload": 1},
        {"records": [{"payload": 1}], "key": "k"},
        {"records": [{"payload": 1}] * 1_001},
        {"records": [{"payload": 1}, {"payload": "%", "payload_encoding": "base64"}]},
        {"key": "k"},
        {"payload": 1, "headers": {"a": 1}},
        {"payload": 1, "partition": 1},
        {"payload": 1, "partition": -1},
        {"payload": 1, "payload_encoding": "hex"},
        {"payload": 1, "topic": "x"},
    ],
)
async def test_what_is_no_record_is_refused_and_makes_no_stream(http, body):
    assert (await http.post("/streams/events/records", body))[0] == 400
    assert (await http.get("/streams/events"))[0] == 404


async def test_a_page_says_where_to_go_on(events):
    _, first = await events.get("/streams/events/records", limit=2)
    _, second = await events.get("/streams/events/records", after=first["last"])
    _, third = await events.get("/streams/events/records", after=second["last"])
    assert [record["payload"] for record in first["items"]] == [1, 2]
    assert [record["payload"] for record in second["items"]] == [3]
    assert third == {"items": [], "last": second["last"]}


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({}, [1, 2, 3]),
        ({"after": stream_id(1)}, [2, 3]),
        ({"after": "$"}, []),
        ({"until": stream_id(2)}, [1, 2]),
        ({"after": stream_id(1), "until": stream_id(2)}, [2]),
        ({"last": 2}, [2, 3]),
        ({"last": 2, "limit": 1}, [2]),
        ({"partition": 0}, [1, 2, 3]),
        ({"key": "alice"}, [1, 2, 3]),
    ],
)
async def test_a_read_takes_what_lies_between_its_ends(events, params, found):
    assert await payloads(events, **params) == found


async def test_a_read_of_a_partition_or_a_key_sees_nothing_else(http):
    await http.post("/streams", {"name": "events", "partitions": 8})
    for name in ("alice", "bob"):
        await http.post("/streams/events/records", {"payload": name, "key": name})
    _, page = await http.get("/streams/events/records")
    alice, bob = (record["partition"] for record in page["items"])
    assert alice != bob
    assert await payloads(http, key="alice") == ["alice"]
    assert await payloads(http, partition=bob) == ["bob"]


@pytest.mark.parametrize(
    "params",
    [
        {"after": "x"},
        {"until": "$"},
        {"last": -1},
        {"limit": 0},
        {"limit": 1_001},
        {"block_ms": 300_001},
        {"partition": 1},
        {"partition": "x"},
        {"from": "0-0"},
    ],
)
async def test_a_read_that_makes_no_sense_is_refused(events, params):
    assert (await events.get("/streams/events/records", **params))[0] == 400


async def test_a_read_waits_for_the_first_record_even_of_a_stream_that_is_yet_to_be_made(http):
    reading = asyncio.create_task(http.get("/streams/events/records", block_ms=30_000))
    await http.until_waiting(1)
    await http.post("/streams/events/records", {"payload": "there"})
    status, page = await reading
    assert (status, page["last"]) == (200, stream_id(1))
    assert [record["payload"] for record in page["items"]] == ["there"]


async def test_a_read_whose_time_is_over_says_where_it_was(events):
    reading = asyncio.create_task(events.get("/streams/events/records", after="$", block_ms=5_000))
    await events.until_waiting(1)
    events.clock.advance(5_000)
    assert await reading == (200, {"items": [], "last": stream_id(3)})


async def test_a_read_is_given_up_when_its_client_leaves(events):
    reading = asyncio.create_task(events.get("/streams/events/records", after="$", block_ms=60_000))
    await events.until_waiting(1)
    reading.cancel()
    await events.until_waiting(0)


async def test_a_trim_says_what_goes_and_a_dry_run_lets_nothing_go(events):
    bounds = {"max_length": 1}
    wanted = {"removed": 2, "first_id": stream_id(3)}
    assert await events.post("/streams/events/trim", {**bounds, "dry_run": True}) == (200, wanted)
    assert await payloads(events) == [1, 2, 3]
    assert await events.post("/streams/events/trim", bounds) == (200, wanted)
    assert await payloads(events) == [3]


async def test_a_trim_without_bounds_goes_by_what_the_stream_keeps(events):
    assert (await events.post("/streams/events/trim", {}))[1]["removed"] == 0
    await events.put("/streams/events", {"max_length": 2})
    assert (await events.post("/streams/events/trim", {}))[1]["removed"] == 1
    trimmed = await events.post("/streams/events/trim", {"before": stream_id(3)})
    assert trimmed == (200, {"removed": 1, "first_id": stream_id(3)})


@pytest.mark.parametrize("body", [None, {"max_length": -1}, {"before": "x"}, {"length": 1}])
async def test_a_trim_that_makes_no_sense_lets_nothing_go(events, body):
    assert (await events.post("/streams/events/trim", body))[0] == 400
    assert await payloads(events) == [1, 2, 3]


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"name": ""},
        {"name": "a b"},
        {"name": "a", "partitions": 0},
        {"name": "a", "partitions": 1_025},
        {"name": "a", "max_length": 0},
        {"name": "a", "max_age_ms": -1},
        {"name": "a", "retention": {}},
    ],
)
async def test_a_stream_that_cannot_be_is_refused(http, body):
    assert (await http.post("/streams", body))[0] == 400
    assert await http.get("/streams") == (200, {"items": [], "cursor": None})
