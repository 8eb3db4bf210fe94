"""The HTTP routes of keys and values."""

import asyncio

import pytest

from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def put(http, key, value, params=None, **headers):
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    return await http.ask("PUT", f"/kv/{key}", content=value, params=params, headers=sent)


async def delete(http, key, **headers):
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    return await http.ask("DELETE", f"/kv/{key}", headers=sent)


async def value_of(http, key):
    status, found = await http.get(f"/kv/{key}")
    return found["value"] if status == 200 else None


def refusal(answer):
    return answer[0], answer[1]["error"]["code"]


async def test_a_value_is_read_as_it_was_put(http):
    assert await put(http, "config", b'{"a": 1}') == (200, {"version": 1})
    assert await http.get("/kv/config") == (
        200,
        {
            "key": "config",
            "value": {"a": 1},
            "value_encoding": "json",
            "version": 1,
            "expires_at": None,
        },
    )


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"null", (None, "json")),
        (b"\x80\x00\xff", ("gAD/", "base64")),
        (b"hello", ("hello", "text")),
        (b"", (None, None)),
    ],
)
async def test_a_value_may_be_any_bytes(http, body, shown):
    await put(http, "k", body)
    _, found = await http.get("/kv/k")
    assert (found["value"], found["value_encoding"]) == shown


async def test_what_says_that_it_is_json_must_be(http):
    assert refusal(await put(http, "k", b"{", content_type="application/json")) == (
        400,
        "invalid_json",
    )


async def test_a_value_is_bounded(http):
    assert (await put(http, "k", bytes(256 * 1024)))[0] == 200
    assert refusal(await put(http, "k", bytes(256 * 1024 + 1))) == (413, "too_large")


async def test_the_version_is_the_etag(http):
    answer = await http.client.put("/api/v1/kv/k", content=b"1")
    assert answer.headers["etag"] == '"1"'
    assert (await http.client.get("/api/v1/kv/k")).headers["etag"] == '"1"'
    head = await http.client.head("/api/v1/kv/k")
    assert (head.status_code, head.headers["etag"], head.content) == (200, '"1"', b"")


async def test_a_key_that_does_not_exist_is_not_found(http):
    assert refusal(await http.get("/kv/k")) == (404, "key_not_found")
    assert refusal(await http.get("/kv/k/history")) == (404, "key_not_found")
    assert refusal(await http.post("/kv/k/expire", {"ttl_ms": 5})) == (404, "key_not_found")
    assert await delete(http, "k") == (200, {"existed": False})


async def test_keys_of_two_namespaces_have_nothing_to_do_with_each_other(http):
    await put(http, "k", b"1")
    assert (await http.get("/kv/k", namespace="prod"))[0] == 404
    await put(http, "k", b"2", {"namespace": "prod"})
    assert await value_of(http, "k") == 1


@pytest.mark.parametrize("tag", ['"1"', "1"])
async def test_a_put_with_if_match_changes_only_the_version_it_names(http, tag):
    await put(http, "k", b"1")
    assert await put(http, "k", b"2", if_match=tag) == (200, {"version": 2})
    status, body = await put(http, "k", b"3", if_match=tag)
    assert (status, body["error"]["code"]) == (409, "version_mismatch")
    assert body["error"]["details"] == {"key": "k", "expected": 1, "actual": 2}
    assert await value_of(http, "k") == 2


async def test_of_those_who_compare_and_set_at_once_one_wins(http):
    await put(http, "k", b"0")
    answers = await asyncio.gather(
        *[put(http, "k", b"%d" % number, if_match='"1"') for number in range(1, 9)]
    )
    assert sorted(status for status, _ in answers) == [200] + [409] * 7


async def test_a_put_may_ask_that_the_key_does_not_exist(http):
    assert (await put(http, "k", b"1", if_none_match="*"))[0] == 200
    assert refusal(await put(http, "k", b"2", if_none_match="*")) == (409, "condition_failed")
    assert refusal(await put(http, "k", b"2", if_match='"0"')) == (409, "version_mismatch")
    assert (await put(http, "other", b"2", if_match='"0"'))[0] == 200


async def test_a_put_may_ask_that_the_key_exists(http):
    assert refusal(await put(http, "k", b"1", if_match="*")) == (409, "condition_failed")
    await put(http, "k", b"1")
    assert (await put(http, "k", b"2", if_match="*"))[0] == 200


async def test_a_delete_with_if_match_deletes_only_the_version_it_names(http):
    await put(http, "k", b"1")
    assert refusal(await delete(http, "k", if_match='"7"')) == (409, "version_mismatch")
    assert await delete(http, "k", if_match='"1"') == (200, {"existed": True})
    assert (await http.get("/kv/k"))[0] == 404


@pytest.mark.parametrize("tag", ["", "x", 'W/"1"', '"1", "2"', "-1", '""', "²", "9" * 19])
async def test_a_tag_that_is_no_version_is_refused(http, tag):
    header = {"if-match": tag.encode()}
    for method in ("PUT", "DELETE"):
        status, body = await http.ask(method, "/kv/k", headers=header)
        assert (status, body["error"]["code"]) == (400, "invalid")


async def test_conditions_that_make_no_sense_are_refused(http):
    assert refusal(await put(http, "k", b"1", if_none_match='"1"')) == (400, "invalid")
    assert refusal(await put(http, "k", b"1", if_none_match="*", if_match="*")) == (400, "invalid")
    assert refusal(await delete(http, "k", if_match="*")) == (400, "invalid")


async def test_a_key_is_gone_when_its_time_is_over(http):
    await put(http, "k", b"1", {"ttl_ms": 5_000})
    assert (await http.get("/kv/k"))[1]["expires_at"] == NOON_MS + 5_000
    http.clock.advance(4_999)
    assert await value_of(http, "k") == 1
    http.clock.advance(1)
    assert (await http.get("/kv/k"))[0] == 404


async def test_when_a_key_is_gone_can_be_changed(http):
    await put(http, "k", b"1", {"ttl_ms": 5_000})
    answer = await http.client.post("/api/v1/kv/k/expire", json={"ttl_ms": None})
    assert (answer.json(), answer.headers["etag"]) == ({"version": 1}, '"1"')
    http.clock.advance(5_000)
    assert await value_of(http, "k") == 1
    await http.post("/kv/k/expire", {"ttl_ms": 10})
    http.clock.advance(10)
    assert (await http.get("/kv/k"))[0] == 404


@pytest.mark.parametrize("body", [None, {}, {"ttl_ms": 0}, {"ttl_ms": "5"}, {"ttl": 5}])
async def test_an_expiry_that_makes_no_sense_is_refused(http, body):
    await put(http, "k", b"1")
    assert (await http.post("/kv/k/expire", body))[0] == 400
    assert (await http.get("/kv/k"))[1]["expires_at"] is None


async def test_a_number_is_counted_up_and_down(http):
    assert await http.post("/kv/hits/increment") == (200, {"version": 1, "value": 1})
    assert (await http.post("/kv/hits/increment", {"delta": 41}))[1]["value"] == 42
    assert (await http.post("/kv/hits/increment", {"delta": -2}))[1]["value"] == 40
    assert await value_of(http, "hits") == 40


async def test_what_is_no_number_is_not_counted(http):
    await put(http, "k", b"{}")
    assert refusal(await http.post("/kv/k/increment", {})) == (409, "wrong_type")
    assert (await http.post("/kv/k/increment", {"delta": 1.5}))[0] == 400


async def test_the_history_has_every_value_since_the_key_was_made(http):
    for number in (1, 2, 3):
        await put(http, "k", b"%d" % number)
    status, history = await http.get("/kv/k/history")
    assert status == 200
    assert history["items"][0] == {
        "version": 3,
        "at_ms": NOON_MS,
        "value": 3,
        "value_encoding": "json",
    }
    assert [one["value"] for one in history["items"]] == [3, 2, 1]
    assert len((await http.get("/kv/k/history", limit=2))[1]["items"]) == 2
    assert (await http.get("/kv/k/history", limit=66))[0] == 400


async def test_keys_are_listed_in_order_page_by_page(http):
    for key in ("b", "a/2", "a/1", "a/3"):
        await put(http, key, b"1")
    _, first = await http.get("/kv", prefix="a/", limit=2)
    _, second = await http.get("/kv", prefix="a/", limit=2, cursor=first["cursor"])
    assert first["items"][0] == {
        "key": "a/1",
        "version": 3,
        "at_ms": NOON_MS,
        "expires_at": None,
        "value": None,
        "value_encoding": None,
    }
    assert [one["key"] for one in first["items"] + second["items"]] == ["a/1", "a/2", "a/3"]
    assert second["cursor"] is None


async def test_keys_are_listed_with_their_values_if_asked_for(http):
    await put(http, "a", b"1")
    await put(http, "b", b"\xff")
    _, page = await http.get("/kv", values="true")
    shown = [(one["value"], one["value_encoding"]) for one in page["items"]]
    assert shown == [(1, "json"), ("/w==", "base64")]
    assert (await http.get("/kv", limit=0))[0] == 400
    assert (await http.get("/kv", values="perhaps"))[0] == 400


async def test_a_get_waits_for_the_key_to_exist(http):
    getting = asyncio.create_task(http.get("/kv/k", wait_ms=30_000))
    await http.until_waiting(1)
    await put(http, "other", b"0")
    await put(http, "k", b"1")
    status, found = await getting
    assert (status, found["value"], found["version"]) == (200, 1, 2)


async def test_a_get_waits_for_another_version(http):
    await put(http, "k", b"1")
    assert (await http.get("/kv/k", wait_ms=30_000, newer_than=0))[1]["value"] == 1
    getting = asyncio.create_task(http.get("/kv/k", wait_ms=30_000, newer_than=1))
    await http.until_waiting(1)
    await put(http, "k", b"2")
    assert (await getting)[1]["value"] == 2


async def test_a_get_that_waits_hears_of_a_deletion(http):
    await put(http, "k", b"1")
    getting = asyncio.create_task(http.get("/kv/k", wait_ms=30_000, newer_than=1))
    await http.until_waiting(1)
    await delete(http, "k")
    assert refusal(await getting) == (404, "key_not_found")


async def test_a_get_whose_time_is_over_answers_the_key_as_it_is(http):
    await put(http, "k", b"1")
    waits = [
        asyncio.create_task(http.get("/kv/k", wait_ms=5_000, newer_than=1)),
        asyncio.create_task(http.get("/kv/other", wait_ms=5_000)),
    ]
    await http.until_waiting(2)
    http.clock.advance(5_000)
    there, absent = await asyncio.gather(*waits)
    assert (there[0], there[1]["value"]) == (200, 1)
    assert refusal(absent) == (404, "key_not_found")


async def test_a_get_is_given_up_when_its_client_leaves(http):
    getting = asyncio.create_task(http.get("/kv/k", wait_ms=60_000))
    await http.until_waiting(1)
    getting.cancel()
    await http.until_waiting(0)


@pytest.mark.parametrize("params", [{"wait_ms": -1}, {"wait_ms": 300_001}, {"newer_than": "x"}])
async def test_a_get_that_makes_no_sense_is_refused(http, params):
    assert (await http.get("/kv/k", **params))[0] == 400


async def test_many_keys_are_got_at_once(http):
    await put(http, "a", b"1")
    await put(http, "c/d", b"\xff")
    status, found = await http.post("/kv-get", {"keys": ["c/d", "b", "a"]})
    assert status == 200
    assert [
        (one["key"], one["value"], one["value_encoding"], one["version"]) for one in found["items"]
    ] == [("c/d", "/w==", "base64", 2), ("b", None, None, 0), ("a", 1, "json", 1)]


@pytest.mark.parametrize("body", [None, {}, {"keys": []}, {"keys": ["k"] * 257}, {"keys": [1]}])
async def test_too_few_or_too_many_keys_at_once_are_refused(http, body):
    assert (await http.post("/kv-get", body))[0] == 400


async def test_a_transaction_does_all_of_it(http):
    await put(http, "old", b"1")
    body = {
        "checks": [{"key": "old", "version": 1}, {"key": "new", "version": 0}],
        "changes": [
            {"type": "put", "key": "new", "value": {"a": 1}},
            {"type": "put", "key": "raw", "value": "gAD/", "value_encoding": "base64"},
            {"type": "put", "key": "brief", "value": 1, "ttl_ms": 5_000},
            {"type": "increment", "key": "hits"},
            {"type": "increment", "key": "hits", "delta": 4},
            {"type": "delete", "key": "old"},
        ],
    }
    assert await http.post("/kv-transactions", body) == (
        200,
        {"version": 2, "changes": 5, "values": {"hits": 5}},
    )
    _, page = await http.get("/kv", values="true")
    assert [(one["key"], one["value"], one["version"]) for one in page["items"]] == [
        ("brief", 1, 2),
        ("hits", 5, 2),
        ("new", {"a": 1}, 2),
        ("raw", "gAD/", 2),
    ]
    assert page["items"][0]["expires_at"] == NOON_MS + 5_000


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"checks": [{"key": "k", "version": 7}]}, 409, "version_mismatch"),
        ({"checks": [{"key": "k", "version": 0}]}, 409, "version_mismatch"),
        ({"changes": [{"type": "increment", "key": "k"}]}, 409, "wrong_type"),
        ({"changes": [{"type": "put", "key": "", "value": 1}]}, 400, "invalid_key"),
        ({"changes": [{"type": "put", "key": "x"}]}, 400, "invalid"),
        ({"changes": [{"type": "rename", "key": "x"}]}, 400, "invalid"),
        ({"changes": [{"key": "x"}]}, 400, "invalid"),
        ({"changes": [{"type": "delete", "key": "x"}] * 256}, 413, "transaction_too_large"),
        ({"checks": [{"key": "k"}]}, 400, "invalid"),
    ],
)
async def test_a_transaction_that_cannot_be_done_does_nothing(http, body, status, code):
    await put(http, "k", b'"text"')
    before = (await http.get("/kv", values="true"))[1]
    body = {**body, "changes": [{"type": "put", "key": "a", "value": 1}, *body.get("changes", [])]}
    assert refusal(await http.post("/kv-transactions", body)) == (status, code)
    assert (await http.get("/kv", values="true"))[1] == before
