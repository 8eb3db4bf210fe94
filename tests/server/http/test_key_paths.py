"""Keys with slashes in the paths of HTTP requests."""

import pytest

from flo.server.http.key_paths import in_one_segment

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("rest", "segment"),
    [
        ("a", "a"),
        ("", ""),
        ("users/7", "users%2F7"),
        ("users/7/", "users%2F7%2F"),
        ("users//7", "users%2F%2F7"),
        ("/", "%2F"),
        ("a/history", "a/history"),
        ("users/7/json", "users%2F7/json"),
        ("users/7/history/increment", "users%2F7%2Fhistory/increment"),
        ("users/7%2Fhistory", "users%2F7%2Fhistory"),
        ("users/7/%68istory", "users%2F7%2F%68istory"),
        ("users/7/histories", "users%2F7%2Fhistories"),
        ("history", "history"),
        ("/history", "%2Fhistory"),
        ("history/", "history%2F"),
    ],
)
async def test_a_key_becomes_one_segment_and_the_part_of_it_another(rest, segment):
    assert in_one_segment(rest) == segment


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("a", "a"),
        ("users/7", "users/7"),
        ("users%2F7", "users/7"),
        ("users/7/", "users/7/"),
        ("users//7", "users//7"),
        ("users/7%2Fhistory", "users/7/history"),
        ("users/7/%6Ason", "users/7/json"),
        ("history", "history"),
        ("50%25", "50%"),
        ("a%20b+c", "a b+c"),
        ("gr%C3%B6%C3%9Fe", "größe"),
        ("what%3Fnow%23then", "what?now#then"),
    ],
)
async def test_every_key_can_be_reached(http, path, key):
    assert (await http.ask("PUT", f"/kv/{path}", content=b"1"))[0] == 200
    assert (await http.get(f"/kv/{path}"))[1]["key"] == key
    assert [one["key"] for one in (await http.get("/kv"))[1]["items"]] == [key]
    assert len((await http.get(f"/kv/{path}/history"))[1]["items"]) == 1
    assert await http.delete(f"/kv/{path}") == (200, {"existed": True})


async def test_a_part_of_a_key_is_meant_whatever_the_method(http):
    for path in ("/kv/users/7/history", "/kv/users/7/increment", "/kv/users/7/expire"):
        status, body = await http.ask("PUT", path, content=b"1")
        assert (status, body["error"]["code"]) == (405, "method_not_allowed")
    assert (await http.get("/kv"))[1]["items"] == []


async def test_a_key_that_is_no_text_is_refused(http):
    status, body = await http.ask("PUT", "/kv/%FF%FE", content=b"1")
    assert (status, body["error"]["code"]) == (400, "malformed_path")


async def test_a_key_is_bounded(http):
    assert (await http.ask("PUT", f"/kv/{'k' * 4_096}", content=b"1"))[0] == 200
    status, body = await http.ask("PUT", f"/kv/{'k' * 4_097}", content=b"1")
    assert (status, body["error"]["code"]) == (400, "invalid_key")


async def test_keys_are_not_counted_by_name(http):
    await http.get("/kv/users/7")
    await http.get("/kv/users/7/history")
    shown = http.metrics.exposition().decode()
    assert 'route="/api/v1/kv/{key}",status="404"' in shown
    assert 'route="/api/v1/kv/{key}/history",status="404"' in shown
    assert "users" not in shown
