"""The HTTP routes of JSON documents in keys."""

import pytest
import pytest_asyncio

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def user(http):
    """The world, with a document in a key."""
    await http.ask("PUT", "/kv/users/7", content=b'{"name": "alice", "tags": ["a", "b"]}')
    return http


async def set_at(http, path, value, **headers):
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    return await http.ask(
        "PUT", "/kv/users/7/json", params={"path": path}, content=value, headers=sent
    )


async def document(http):
    return (await http.get("/kv/users/7"))[1]["value"]


def refusal(answer):
    return answer[0], answer[1]["error"]["code"]


@pytest.mark.parametrize(
    ("params", "value"),
    [
        ({"path": "$.name"}, "alice"),
        ({"path": "$.tags[-1]"}, "b"),
        ({"path": '$["name"]'}, "alice"),
        ({"path": "$"}, {"name": "alice", "tags": ["a", "b"]}),
        ({}, {"name": "alice", "tags": ["a", "b"]}),
    ],
)
async def test_what_is_at_a_path_is_read_with_the_version_of_the_key(user, params, value):
    answer = await user.client.get("/api/v1/kv/users/7/json", params=params)
    assert answer.status_code == 200
    assert answer.headers["etag"] == '"1"'
    assert answer.json() == {
        "key": "users/7",
        "value": value,
        "value_encoding": "json",
        "version": 1,
        "expires_at": None,
    }


async def test_what_is_at_a_path_is_set_and_the_rest_stays(user):
    assert await set_at(user, "$.name", b'"bob"') == (200, {"version": 2})
    assert await set_at(user, "$.tags[2]", b'{"c": 1}') == (200, {"version": 3})
    assert await document(user) == {"name": "bob", "tags": ["a", "b", {"c": 1}]}


async def test_a_document_that_is_not_there_is_made_by_its_root(http):
    assert refusal(await set_at(http, "$.name", b"1")) == (404, "key_not_found")
    assert await set_at(http, "$", b"[]") == (200, {"version": 1})
    assert await document(http) == []


async def test_what_is_at_a_path_is_deleted_and_the_root_is_the_key(user):
    gone = await user.delete("/kv/users/7/json", path="$.tags")
    assert gone == (200, {"version": 2})
    assert await document(user) == {"name": "alice"}
    assert await user.delete("/kv/users/7/json") == (200, {"version": None})
    assert (await user.get("/kv/users/7"))[0] == 404


async def test_a_change_may_depend_on_the_version(user):
    assert refusal(await set_at(user, "$.name", b"1", if_match='"9"')) == (409, "version_mismatch")
    assert (await set_at(user, "$.name", b"1", if_match='"1"'))[0] == 200
    stale = await user.ask("DELETE", "/kv/users/7/json", headers={"if-match": '"1"'})
    assert refusal(stale) == (409, "version_mismatch")


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("$.nothing", (404, "path_not_found")),
        ("$.tags[7]", (404, "path_not_found")),
        ("name", (400, "invalid_path")),
        ("$..name", (400, "invalid_path")),
        ("", (400, "invalid_path")),
    ],
)
async def test_a_path_that_leads_nowhere_is_refused(user, path, answer):
    assert refusal(await user.get("/kv/users/7/json", path=path)) == answer
    assert refusal(await user.delete("/kv/users/7/json", path=path)) == answer


@pytest.mark.parametrize("body", [b"", b"{", b"hello", b"\xff", b"[" * 100_000])
async def test_only_json_can_be_set(user, body):
    assert refusal(await set_at(user, "$.name", body)) == (400, "invalid_json")
    assert await document(user) == {"name": "alice", "tags": ["a", "b"]}


async def test_a_value_that_is_no_json_has_no_paths(http):
    await http.ask("PUT", "/kv/users/7", content=b"hello")
    assert refusal(await http.get("/kv/users/7/json")) == (409, "wrong_type")
    assert refusal(await set_at(http, "$.name", b"1")) == (409, "wrong_type")
