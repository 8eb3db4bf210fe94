import msgspec
import pytest

from flo.model.errors import Conflict, Corrupt, Invalid, NotFound, TooLarge
from flo.model.runs import Invoke, Invoked
from flo.wire.codec import encode_refusal, encode_reply, encode_request
from flo.wire.connection import ClientEnd, ServerEnd
from flo.wire.frame import FRAME_LENGTH_MAX, write_frame
from flo.wire.opcodes import BY_NAME, HELLO, PING, Hello, Ping, Welcome

INVOKE, INVOKE_MANY = BY_NAME["invoke"], BY_NAME["invoke_many"]
ONE, TWO = Invoked(run_id="send-1"), Invoked(run_id="send-2")


@pytest.fixture
def server():
    return ServerEnd("flo/test")


@pytest.fixture
def client():
    return ClientEnd("test")


@pytest.fixture
def greeted(server, client):
    """A server that has been greeted, and the client that greeted it."""
    _, hello = client.hello()
    (request,) = server.receive(hello)
    list(client.receive(server.greet(request)))
    return server, client


# The server's end


def test_a_hello_is_answered_with_a_welcome(server, client):
    number, hello = client.hello()
    (request,) = server.receive(hello)

    (answered,) = client.receive(server.greet(request))

    welcome = Welcome(protocol=1, server="flo/test", frame_length_max=FRAME_LENGTH_MAX)
    assert answered == (number, [welcome])


@pytest.mark.parametrize(
    "frame",
    [
        encode_request(1, PING, [Ping()]),
        encode_request(1, INVOKE, [Invoke(action="send")]),
        write_frame(msgspec.msgpack.encode([1, 99, {}])),
        write_frame(msgspec.msgpack.encode([1, INVOKE.opcode, {"nonsense": 1}])),
    ],
)
def test_whoever_does_not_say_hello_first_is_not_listened_to(server, frame):
    with pytest.raises(Corrupt, match="expected a hello first") as error:
        list(server.receive(frame))

    assert error.value.code == "hello_expected"


def test_a_request_right_behind_the_hello_is_read_once_the_hello_was_answered(server, client):
    data = client.hello()[1] + client.request(INVOKE, [Invoke(action="send")])[1]

    requests = server.receive(data)
    server.greet(next(requests))

    assert next(requests).form is INVOKE


@pytest.mark.parametrize("protocol", [0, 2, -1, 2**40])
def test_a_client_of_another_protocol_is_turned_away(server, protocol):
    (request,) = server.receive(encode_request(1, HELLO, [Hello(protocol=protocol)]))

    with pytest.raises(Invalid, match=f"expected protocol 1, got {protocol}") as error:
        server.greet(request)

    assert error.value.code == "unknown_protocol"
    with pytest.raises(Corrupt, match="hello first"):
        list(server.receive(encode_request(2, PING, [Ping()])))


def test_a_hello_that_cannot_be_read_is_not_a_hello(server):
    (request,) = server.receive(write_frame(msgspec.msgpack.encode([1, HELLO.opcode, {}])))

    assert isinstance(request.messages, Invalid)
    with pytest.raises(Corrupt, match="hello first"):
        list(server.receive(encode_request(2, PING, [Ping()])))


def test_requests_come_out_in_the_order_in_which_they_were_sent(greeted):
    server, client = greeted
    data = b"".join(client.request(INVOKE, [Invoke(action=name)])[1] for name in "abc")

    messages = [request.messages[0].action for request in server.receive(data)]

    assert messages == ["a", "b", "c"]


def test_a_conversation_may_be_cut_at_any_place(client):
    data = client.hello()[1] + client.request(INVOKE, [Invoke(action="send")])[1]

    for place in range(len(data) + 1):
        server, operations = ServerEnd("flo/test"), []
        for piece in (data[:place], data[place:]):
            for request in server.receive(piece):
                operations.append(request.form)
                if request.form is HELLO:
                    server.greet(request)
        assert operations == [HELLO, INVOKE]


def test_a_request_that_cannot_be_served_does_not_end_the_conversation(greeted):
    server, client = greeted
    nonsense = write_frame(msgspec.msgpack.encode([5, INVOKE.opcode, {"prio": 1}]))

    refused, accepted = server.receive(nonsense + client.request(PING, [Ping()])[1])

    assert isinstance(refused.messages, Invalid)
    assert accepted.messages == [Ping()]


def test_bytes_that_are_no_frame_end_the_conversation(greeted):
    server, _ = greeted

    with pytest.raises(Corrupt):
        list(server.receive(b"GET / HTTP/1.1\r\n\r\n"))


# The client's end


def test_every_request_has_a_number_of_its_own(client):
    numbers = [client.request(PING, [Ping()])[0] for _ in range(3)]

    assert numbers == [1, 2, 3]


def test_replies_find_their_requests_in_whatever_order_they_come(client):
    first, _ = client.request(INVOKE, [Invoke(action="send")])
    second, _ = client.request(INVOKE, [Invoke(action="send")])
    data = encode_reply(second, INVOKE, [TWO]) + encode_reply(first, INVOKE, [ONE])

    assert list(client.receive(data)) == [(second, [TWO]), (first, [ONE])]


def test_a_batch_has_one_answer_for_each_word(client):
    number, _ = client.request(INVOKE_MANY, [Invoke(action="send")] * 2)

    ((_, answers),) = client.receive(encode_reply(number, INVOKE_MANY, [ONE, NotFound("no")]))

    assert answers[0] == ONE
    assert isinstance(answers[1], NotFound)


def test_a_refused_request_is_answered_with_the_error(client):
    number, _ = client.request(INVOKE, [Invoke(action="send")])

    ((answered, error),) = client.receive(encode_refusal(number, Conflict("no", code="busy")))

    assert answered == number
    assert (type(error), error.code) == (Conflict, "busy")


def test_a_reply_nobody_waits_for_any_more_is_dropped(client):
    number, _ = client.request(INVOKE, [Invoke(action="send")])
    client.forget(number)

    assert list(client.receive(encode_reply(number, INVOKE, [ONE]))) == []


def test_a_reply_that_comes_twice_is_heard_once(client):
    number, _ = client.request(INVOKE, [Invoke(action="send")])
    reply = encode_reply(number, INVOKE, [ONE])

    assert len(list(client.receive(reply + reply))) == 1


def test_a_refusal_of_nothing_in_particular_is_a_refusal_of_the_connection(client):
    with pytest.raises(Corrupt, match="expected a hello first"):
        list(client.receive(encode_refusal(0, Corrupt("expected a hello first"))))


def test_a_reply_of_another_shape_is_corrupt(client):
    number, _ = client.request(INVOKE, [Invoke(action="send")])
    reply = write_frame(msgspec.msgpack.encode([number, 0, {"nonsense": 1}]))

    with pytest.raises(Corrupt, match="the reply to invoke"):
        list(client.receive(reply))


def test_a_request_that_is_too_large_is_not_in_flight(client):
    with pytest.raises(TooLarge):
        client.request(INVOKE_MANY, [Invoke(action="send", input=bytes(16 * 2**20))] * 3)

    number, _ = client.request(PING, [Ping()])
    assert list(client._in_flight) == [number]
