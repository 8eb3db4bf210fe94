"""What clients may not do to the HTTP door."""

import asyncio
import json

import pytest

from flo.model.ids import PAYLOAD_LENGTH_MAX
from flo.model.runs import Assigned
from flo.server.http.doors import Bounds
from flo.server.http.protocol import HEAD_LENGTH_MAX, OpenTransport
from flo.server.http.request import BODY_LENGTH_MAX, PAYLOAD_BODY_LENGTH_MAX

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVOKE = b"POST /api/v1/actions/send-mail/invoke HTTP/1.1\r\nHost: localhost\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
LAST = b"Connection: close\r\n"


def connection_of(http, writer):
    """The door's end of a connection."""
    address = writer.get_extra_info("sockname")
    return next(each for each in http.door.visitors.connections if each.client == address)


def parts_of(answer):
    """The status and the error code."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


async def test_a_body_that_will_be_too_long_is_refused_before_it_is_sent(http):
    length = b"Content-Length: %d\r\n" % (PAYLOAD_BODY_LENGTH_MAX + 1)
    answer = await http.send_raw(INVOKE + LAST + length + b"Expect: 100-continue\r\n\r\n")
    assert parts_of(answer) == (413, "too_large")
    assert b"100 Continue" not in answer


async def test_a_body_that_grows_too_long_is_refused_on_its_way(http):
    sent = 0

    async def endless():
        nonlocal sent
        while sent < 4 * PAYLOAD_BODY_LENGTH_MAX:
            sent += 1_000_000
            yield b"x" * 1_000_000

    answer = await http.client.post("/api/v1/actions/send-mail/invoke", content=endless())
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"


async def test_a_body_without_a_payload_may_not_be_as_long_as_one_with(http):
    body = b'{"name": "ship"}'.ljust(BODY_LENGTH_MAX)
    assert (await http.ask("POST", "/actions", content=body))[0] == 201
    status, answer = await http.ask("POST", "/actions", content=body + b" ")
    assert (status, answer["error"]["code"]) == (413, "too_large")


async def test_a_client_that_leaves_within_its_body_does_no_harm(mail, caplog, capsys):
    reader, writer = await asyncio.open_connection("127.0.0.1", mail.door.port)
    writer.write(INVOKE + b"Content-Length: 10\r\nExpect: 100-continue\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection = connection_of(mail, writer)
    writer.write(b"half")
    writer.close()
    await mail.until(lambda: connection not in mail.door.visitors.connections)

    assert (await mail.get("/actions/send-mail/runs"))[1]["items"] == []
    assert not caplog.records
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        HEALTH + b"Content-Length: -1\r\n\r\n",
        HEALTH + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        HEALTH + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET /größe HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
        INVOKE + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    ],
)
async def test_what_is_not_http_is_answered_and_hung_up_on(http, data, caplog):
    assert parts_of(await http.send_raw(data)) == (400, "malformed_request")
    assert not caplog.records


@pytest.mark.parametrize("host", [b"a b", b"localhost/there", b"<script>"])
async def test_a_host_that_cannot_be_is_refused(http, host):
    answer = await http.send_raw(
        b"GET /health HTTP/1.1\r\nHost: " + host + b"\r\n" + LAST + b"\r\n"
    )
    assert parts_of(answer) == (421, "host_not_allowed")


async def test_a_head_that_never_ends_is_cut_off(http):
    answer = await http.send_raw((HEALTH + b"X-Long: ").ljust(HEAD_LENGTH_MAX + 1, b"x"))
    assert parts_of(answer) == (431, "head_too_large")


LONG = b"x" * 100_000


@pytest.mark.parametrize(
    "data",
    [
        HEALTH + b"X-Long: " + LONG + b"\r\n\r\n",
        HEALTH + b"".join(b"X-%d: 1\r\n" % number for number in range(8_000)) + b"\r\n",
        b"GET /health?" + LONG + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        INVOKE + b"Content-Length: 1\r\nX-Long: " + LONG + b"\r\n\r\n1" + HEALTH + b"\r\n",
        INVOKE + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Long: " + LONG + b"\r\n\r\n",
    ],
    ids=["one", "many", "target", "with a body", "trailer"],
)
async def test_a_head_that_is_too_long_is_refused_also_when_it_comes_in_one_piece(mail, data):
    answer = await mail.send_raw(data)

    assert parts_of(answer) == (431, "head_too_large")
    assert (await mail.get("/actions/send-mail/runs"))[1]["items"] == []


async def test_a_head_as_long_as_may_be_is_taken(http):
    for _ in range(3):
        answer = await http.send_raw(
            HEALTH + LAST + b"X-Long: " + b"x" * (HEAD_LENGTH_MAX - 200) + b"\r\n\r\n"
        )
        assert answer.startswith(b"HTTP/1.1 200")


async def test_a_long_body_does_not_count_as_a_head(mail):
    length = 4 * HEAD_LENGTH_MAX
    data = INVOKE + LAST + b"Content-Length: %d\r\n\r\n" % length + b"x" * length
    assert (await mail.send_raw(data)).startswith(b"HTTP/1.1 202")


@pytest.mark.parametrize(
    "begun", [b"", b"GET /hea", HEALTH, INVOKE + b"Content-Length: 10\r\n\r\nhalf"]
)
async def test_a_request_that_does_not_arrive_is_not_waited_for(open_http, begun):
    async with open_http(Bounds(arrival_seconds_max=0.01)) as http:
        assert parts_of(await http.send_raw(begun)) == (408, "timed_out")


async def test_a_connection_kept_by_empty_lines_is_not_kept_for_long(http):
    reader, writer = await asyncio.open_connection("127.0.0.1", http.door.port)
    writer.write(HEALTH + b"\r\n")
    await reader.readuntil(b'{"status":"ok"}')
    connection = connection_of(http, writer)
    writer.write(b"\r\n")
    await http.until(lambda: connection._deadline is not None)
    connection._arrives_too_late()
    assert parts_of(await reader.read()) == (408, "timed_out")
    writer.close()


async def test_a_client_that_has_to_wait_for_us_is_not_hung_up_on(open_http):
    class Engine:
        async def ask(self, message, caller=None, keys=None):
            for connection in http.door.visitors.connections:
                connection._arrives_too_late()
            return Assigned()

    async with open_http(engine=Engine()) as http:
        body = {"actions": ["send-mail"]}
        assert (await http.post("/workers/anna/await", body))[0] == 200


async def test_a_pause_between_requests_may_not_last(open_http):
    async with open_http(Bounds(idle_seconds_max=0)) as http:
        answer = await http.send_raw(HEALTH + b"\r\n")
        assert answer.endswith(b'{"status":"ok"}')


@pytest.mark.parametrize("last", [b"", LAST])
async def test_an_answer_does_not_lie_unread_for_ever(open_http, last):
    async with open_http(Bounds(idle_seconds_max=0)) as http:
        await http.post("/actions", {"name": "send-mail"})
        await http.ask("POST", "/actions/send-mail/invoke", content=b"x" * PAYLOAD_LENGTH_MAX)
        _, writer = await asyncio.open_connection("127.0.0.1", http.door.port, limit=1)
        writer.write(
            b"GET /api/v1/runs/send-mail-1 HTTP/1.1\r\nHost: localhost\r\n" + last + b"\r\n"
        )
        await http.until(
            lambda: b'"/api/v1/runs/{run_id}",status="200"' in http.metrics.exposition()
        )
        await http.until(lambda: not http.door.visitors.connections)
        writer.close()


async def test_one_connection_too_many_is_turned_away(open_http):
    async with open_http(Bounds(connections_max=1)) as http:
        await http.client.get("/health")
        assert parts_of(await http.send_raw(b"")) == (503, "too_many_connections")
        assert (await http.client.get("/health")).status_code == 200


async def test_requests_sent_all_at_once_are_answered_in_order(http):
    answer = await http.send_raw(
        HEALTH + b"\r\n" + b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n" + LAST + b"\r\n"
    )
    first, _, second = answer.partition(b'{"status":"ok"}')
    assert first.startswith(b"HTTP/1.1 200")
    assert parts_of(second) == (404, "no_such_route")


async def test_what_is_written_to_a_closed_connection_is_dropped():
    class ClosedTransport:
        def is_closing(self):
            return True

        def write(self, data):
            raise RuntimeError("unable to perform operation: the handler is closed")

    OpenTransport(ClosedTransport()).write(b"too late")


async def test_an_upgrade_is_not_taken_up(http, caplog):
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"
    assert (await http.send_raw(HEALTH + upgrade)).startswith(b"HTTP/1.1 200")
    assert not caplog.records
