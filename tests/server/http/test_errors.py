"""Errors as HTTP answers."""

import pytest

from flo.model.errors import KINDS, Unavailable, error_of
from flo.model.runs import Invoke, Invoked
from flo.server.http.errors import STATUSES

pytestmark = pytest.mark.asyncio(loop_scope="module")


class RefusingEngine:
    """Refuses everything with one error."""

    def __init__(self, error):
        self.error = error

    async def ask(self, message, caller=None, keys=None):
        raise self.error


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("invalid", 400),
        ("not_found", 404),
        ("conflict", 409),
        ("too_large", 413),
        ("corrupt", 500),
        ("unexpected", 500),
        ("unavailable", 503),
        ("timed_out", 503),
    ],
)
async def test_every_kind_of_error_has_its_status(open_http, kind, status):
    error = error_of(kind, "some_code", "some words", {"some": ["data"]})
    async with open_http(engine=RefusingEngine(error)) as http:
        assert await http.get("/actions") == (
            status,
            {
                "error": {
                    "code": "some_code",
                    "message": "some words",
                    "details": {"some": ["data"]},
                }
            },
        )


async def test_no_kind_of_error_was_forgotten():
    assert STATUSES.keys() == KINDS.keys()


async def test_a_mistake_of_ours_shows_nothing_of_our_inside(open_http, capsys):
    async with open_http(engine=RefusingEngine(KeyError("secret"))) as http:
        status, body = await http.get("/actions")
    assert status == 500
    assert body["error"]["code"] == "unexpected"
    assert "secret" not in str(body)
    assert "secret" in capsys.readouterr().out


async def test_a_route_that_is_not_there(http):
    answer = await http.client.get("/api/v1/nothing")
    assert answer.status_code == 404
    assert answer.json()["error"] == {
        "code": "no_such_route",
        "message": "there is no '/api/v1/nothing' here",
        "details": {},
    }


async def test_a_method_that_a_route_does_not_have(http):
    answer = await http.client.patch("/api/v1/actions")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "OPTIONS", "POST"}
    assert answer.json()["error"] == {
        "code": "method_not_allowed",
        "message": "expected GET or OPTIONS or POST, got PATCH",
        "details": {"allowed": ["GET", "OPTIONS", "POST"]},
    }


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "invalid"),
        (b"{", "invalid_json"),
        (b'{"name": "\xff"}', "invalid_json"),
        (b"null", "invalid"),
        (b'{"name": 7}', "invalid"),
        (b'{"name": "a", "max_retries": "3"}', "invalid"),
        (b'{"name": "a", "max_retries": 1.5}', "invalid"),
        (b'{"name": "a", "max_retries": 1e400}', "invalid"),
        (b'{"name": "a", "colour": "red"}', "invalid"),
        (b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "invalid"),
    ],
)
async def test_a_body_that_does_not_fit(http, content, code):
    status, body = await http.ask("POST", "/actions", content=content)
    assert status == 400
    assert body["error"]["code"] == code


async def test_a_body_that_does_not_fit_is_told_where(http):
    _, body = await http.post("/actions", {"name": "a", "max_retries": "3"})
    assert body["error"]["message"] == "Expected `int`, got `str` - at `$.max_retries`"


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"limit": "many"}, "limit"),
        ({"limit": 0}, "limit"),
        ({"limit": 1_001}, "limit"),
        ({"status": "lost"}, "status"),
        ({"cursor": "x"}, "cursor"),
    ],
)
async def test_a_parameter_that_does_not_fit_is_named(http, params, named):
    status, body = await http.get("/actions/send-mail/runs", **params)
    assert status == 400
    assert named in body["error"]["message"]


async def test_a_parameter_nobody_knows_is_met_with_the_nearest(http):
    status, body = await http.get("/actions", namspace="prod")
    assert status == 400
    assert body["error"] == {
        "code": "unknown_parameter",
        "message": "unknown query parameter 'namspace': did you mean 'namespace'?",
        "details": {"parameter": "namspace", "known": ["namespace", "limit", "cursor"]},
    }


async def test_a_parameter_that_is_near_to_none_is_met_with_all(http):
    _, body = await http.get("/runs/a-1", colour="red")
    assert body["error"]["message"] == (
        "unknown query parameter 'colour': expected one of namespace, wait_ms"
    )
    _, body = await http.get("/server", colour="red")
    assert body["error"]["message"].endswith("expected none here")


async def test_whoever_waited_in_vain_still_learns_the_id_of_the_run(open_http):
    class StoppingEngine:
        async def ask(self, message, caller=None, keys=None):
            if isinstance(message, Invoke):
                return Invoked(run_id="send-mail-1")
            raise Unavailable("the server is stopping", code="server_stopping")

    async with open_http(engine=StoppingEngine()) as http:
        status, body = await http.post("/actions/send-mail/invoke", {}, wait_ms=1_000)
    assert status == 503
    assert body["error"]["code"] == "server_stopping"
    assert body["error"]["details"] == {"run_id": "send-mail-1"}


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("idempotency_key_required", "in the header Idempotency-Key"),
        ("version_mismatch", "in the header If-Match"),
        ("worker_not_found", "POST /workers"),
    ],
)
async def test_an_error_says_what_to_do_in_the_words_of_http(open_http, code, hint):
    error = error_of("conflict", code, "it cannot be", {})
    async with open_http(engine=RefusingEngine(error)) as http:
        _, body = await http.get("/actions")

    assert body["error"]["message"].startswith("it cannot be: ")
    assert hint in body["error"]["message"]


async def test_an_error_names_fields_as_the_route_does(open_http):
    error = error_of("invalid", "invalid", "expected output of 3 bytes, and run_id is wrong", {})
    async with open_http(engine=RefusingEngine(error)) as http:
        _, body = await http.post("/tasks/a-1/complete", {"worker_id": "anna"})

    message = body["error"]["message"]
    assert message == "expected result of 3 bytes, and task_id is wrong"
