import asyncio
import socket

import msgspec
import pytest

from flo.model.base import Nothing
from flo.model.errors import Conflict, Corrupt, Invalid, NotFound, TooLarge, Unavailable
from flo.model.runs import Assigned, Claim, GetRun, Invoke, Invoked, RunStatus
from flo.model.workers import Heartbeat, RegisterWorker
from flo.server.metrics import Metrics
from flo.server.rpc import connection as tcp
from flo.server.rpc.connection import HELLO_MS_MAX, RpcConnection
from flo.server.rpc.listener import Listener
from flo.server.rpc.presence import WorkerConnections
from flo.shard.submission import Submission
from flo.testing.clock import ManualClock
from flo.wire.codec import encode_request
from flo.wire.connection import ClientEnd
from flo.wire.frame import FRAME_LENGTH_MAX, write_frame
from flo.wire.opcodes import BY_NAME, HELLO, PING, Hello, Ping
from rpc import opened_door
from settled import settled

INVOKE = Invoke(action="send")
PATIENT = Claim(worker_id="anna", actions=["send"], block_ms=30_000)
BOUND = RegisterWorker(
    worker_id="boris", processes=["send"], incarnation="first", connection_bound=True
)
PING_FRAME = encode_request(900, PING, [Ping()])


@pytest.fixture
async def door():
    async with opened_door() as door:
        yield door


@pytest.fixture
async def anna(door):
    return await door.call()


@pytest.fixture
async def boris(door):
    return await door.call()


def frame(request_id, opcode, body):
    return write_frame(msgspec.msgpack.encode([request_id, opcode, body]))


# The conversation


async def test_a_caller_is_welcomed_and_served(door):
    caller = await door.connect()

    welcome = await caller.greet()

    assert (welcome.protocol, welcome.frame_length_max) == (1, FRAME_LENGTH_MAX)
    assert welcome.server.startswith("flo/")
    assert await caller.call("invoke", INVOKE) == Invoked(run_id="send-1")


async def test_a_refusal_is_an_answer(anna):
    refused = await anna.call("invoke", Invoke(action="print"))

    assert isinstance(refused, NotFound)
    assert refused.code == "action_not_found"
    assert await anna.ping() == Nothing()


async def test_in_a_batch_each_is_answered_on_its_own(anna):
    first, refused, second = await anna.call("invoke_many", INVOKE, Invoke(action="print"), INVOKE)

    assert (first.run_id, second.run_id) == ("send-1", "send-2")
    assert isinstance(refused, NotFound)


async def test_a_request_that_waits_does_not_hold_up_the_others(anna):
    waiting = anna.send("claim", PATIENT)

    assert await anna.ping() == Nothing()
    assert await anna.call("invoke", INVOKE) == Invoked(run_id="send-1")

    (assigned,) = await anna.answers(waiting)
    assert [task.task_id for task in assigned.tasks] == ["send-1"]


async def test_a_wait_that_is_over_is_answered(door, anna):
    waiting = anna.send("claim", PATIENT)
    await anna.ping()

    door.clock.advance(30_000)

    assert await anna.answers(waiting) == [Assigned()]


async def test_many_requests_may_come_in_one_piece(anna):
    numbers = [anna.send("invoke", INVOKE) for _ in range(100)]

    ids = [(await anna.answers(number))[0].run_id for number in numbers]

    assert ids == [f"send-{number}" for number in range(1, 101)]


async def test_a_second_hello_is_answered_like_the_first(anna):
    assert await anna.greet() == await anna.greet()


class Desk:
    """Takes requests, and answers them when it is told to."""

    def __init__(self):
        self._taken = []

    def submit(self, messages, done, caller=None, keys=None):
        self._taken.append(done)
        return Submission(messages, done)

    def answer(self, count):
        for done in self._taken[:count]:
            done([Invoked(run_id="send-1")])
        del self._taken[:count]


class Wire(asyncio.Transport):
    """Remembers what leaves, piece by piece."""

    def __init__(self):
        super().__init__()
        self.pieces = []

    def write(self, data):
        self.pieces.append(bytes(data))

    def pause_reading(self):
        pass

    resume_reading = pause_reading


def conversation(requests):
    """A desk and a wire, after a hello and so many requests that are not answered yet."""
    desk, wire, end = Desk(), Wire(), ClientEnd("test")
    connection = RpcConnection(
        desk, ManualClock(), Metrics(), set(), WorkerConnections(desk, ManualClock(), 0)
    )
    connection.connection_made(wire)
    connection.data_received(end.hello()[1])
    for _ in range(requests):
        connection.data_received(end.request(BY_NAME["invoke"], [INVOKE])[1])
    wire.pieces.clear()
    return desk, wire


async def test_an_answer_for_which_nobody_else_waits_leaves_at_once():
    desk, wire = conversation(requests=1)

    desk.answer(1)

    assert len(wire.pieces) == 1


async def test_answers_for_which_many_wait_leave_in_one_piece():
    desk, wire = conversation(requests=10)

    desk.answer(5)
    assert wire.pieces == []
    await settled(1)
    assert len(wire.pieces) == 1

    desk.answer(5)  # the last of them leave as soon as hardly anybody waits any more
    await settled(1)
    assert len(wire.pieces) == 3


# Before the hello


async def test_who_does_not_say_hello_in_time_is_hung_up_on(door):
    caller = await door.connect()
    await door.open_connections(1)

    door.clock.advance(HELLO_MS_MAX - 1)
    greeted = await door.call()
    assert await greeted.ping() == Nothing()

    door.clock.advance(1)
    assert await caller.rest() == b""


async def test_who_says_half_a_hello_is_hung_up_on_in_time(door):
    caller = await door.connect()
    caller.write(caller.end.hello()[1][:-1])
    await door.open_connections(1)

    door.clock.advance(HELLO_MS_MAX)

    assert await caller.rest() == b""


async def test_who_has_said_hello_may_be_silent(door, anna):
    door.clock.advance(100 * HELLO_MS_MAX)

    assert await anna.ping() == Nothing()


async def test_who_does_not_say_hello_first_is_told_so_and_hung_up_on(door):
    caller = await door.connect()
    caller.write(PING_FRAME)

    reason = await caller.reason()

    assert isinstance(reason, Corrupt)
    assert reason.code == "hello_expected"


async def test_who_speaks_another_protocol_is_told_so_and_hung_up_on(door):
    caller = await door.connect()
    _, hello = caller.end.request(HELLO, [Hello(protocol=7)])
    caller.write(hello + PING_FRAME)

    ((_, refused),) = caller.end.receive(await caller.rest())

    assert isinstance(refused, Invalid)
    assert refused.code == "unknown_protocol"


async def test_what_follows_a_hello_that_ends_the_conversation_never_happens(door, anna, boris):
    hello, invoke = Hello(protocol=7), BY_NAME["invoke"]

    anna.write(encode_request(8, HELLO, [hello]) + encode_request(9, invoke, [INVOKE]))
    await anna.rest()

    assert await boris.call("invoke", INVOKE) == Invoked(run_id="send-1")


async def test_a_browser_is_told_that_this_is_no_place_for_it(door):
    caller = await door.connect()
    caller.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert (await caller.reason()).code == "wrong_port"


# What makes no sense


@pytest.mark.parametrize(
    ("nonsense", "code"),
    [
        (frame(7, 99, {}), "unknown_opcode"),
        (frame(7, -1, {}), "unknown_opcode"),
        (frame(7, 20, {"action": 5}), "invalid_request"),
        (frame(7, 20, {"action": "send", "prio": 5}), "invalid_request"),
        (frame(7, 21, []), "invalid_request"),
        (frame(7, 21, [{"action": "send"}] * 1_001), "batch_too_large"),
        (frame(7, 1, {"protocol": "one"}), "invalid_request"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused_and_the_next_is_served(
    anna, nonsense, code
):
    anna.write(nonsense)

    refused = await anna.answers(7)

    assert isinstance(refused, Invalid)
    assert refused.code == code
    assert await anna.call("invoke", INVOKE) == Invoked(run_id="send-1")


@pytest.mark.parametrize(
    ("nonsense", "code"),
    [
        (PING_FRAME[:-1] + b"\x00", "frame_damaged"),
        ((FRAME_LENGTH_MAX + 1).to_bytes(4) + bytes(4), "frame_too_large"),
        (write_frame(b""), "frame_damaged"),
        (write_frame(b"\xc1"), "frame_damaged"),
        (write_frame(b"\x93\x01\x14\x81\xa6action\xa2\xff\xfe"), "frame_damaged"),
        (write_frame(b"\x91" * 100_000), "frame_damaged"),
    ],
)
async def test_bytes_that_make_no_sense_end_the_conversation_and_no_other(
    door, anna, boris, nonsense, code
):
    waiting = boris.send("claim", Claim(worker_id="boris", actions=["send"], block_ms=30_000))
    await boris.ping()

    anna.write(nonsense)

    assert (await anna.reason()).code == code
    assert await boris.call("invoke", INVOKE) == Invoked(run_id="send-1")
    assert len((await boris.answers(waiting))[0].tasks) == 1


async def test_what_came_before_the_nonsense_is_still_served(door, anna, boris):
    anna.send("invoke", INVOKE)
    anna.write(b"nonsense, and nothing else")
    await anna.reason()

    assert (await boris.call("get_run", GetRun(run_id="send-1"))).status is RunStatus.PENDING


async def test_a_number_in_use_cannot_be_used_for_another_request(anna):
    waiting = anna.send("claim", PATIENT)
    anna.write(encode_request(waiting, BY_NAME["invoke"], [INVOKE]))

    refused = await anna.answers(waiting)
    assert refused.code == "request_id_in_use"

    anna.write(encode_request(500, BY_NAME["invoke"], [INVOKE]))
    await anna.ping()


async def test_a_number_may_be_used_again_once_it_was_answered(door, anna):
    for _ in range(3):
        anna.end._last_id = 40
        assert (await anna.answers(anna.send("invoke", INVOKE)))[0].run_id.startswith("send-")

    assert door.log.position == 8


# Pieces


async def test_a_request_may_come_in_pieces(anna, boris):
    number, whole = anna.end.request(BY_NAME["invoke"], [INVOKE])
    for place in range(len(whole)):
        anna.write(whole[place : place + 1])
        assert await boris.ping() == Nothing()

    assert await anna.answers(number) == [Invoked(run_id="send-1")]


async def test_a_request_that_is_never_finished_never_happened(door, anna, boris):
    _, whole = anna.end.request(BY_NAME["invoke"], [INVOKE])
    anna.write(whole[:-1])
    await anna.close()
    await door.open_connections(1)

    assert await boris.call("invoke", INVOKE) == Invoked(run_id="send-1")


async def test_a_large_payload_goes_there_and_back(anna):
    payload = bytes(range(256)) * 4 * 16_384
    run_id = (await anna.call("invoke", Invoke(action="send", input=payload))).run_id

    assert (await anna.call("get_run", GetRun(run_id=run_id))).input == payload


# When the caller leaves


async def test_a_claim_whose_caller_has_left_takes_nothing(door, anna, boris):
    anna.send("claim", PATIENT)
    await anna.ping()

    await anna.close()
    await door.open_connections(1)
    await boris.call("invoke", INVOKE)

    assert (await boris.call("get_run", GetRun(run_id="send-1"))).status is RunStatus.PENDING
    assert door.shard._polls.everyone() == []


async def test_a_caller_that_is_hung_up_on_leaves_no_claim_behind(door, anna, boris):
    anna.send("claim", PATIENT)
    await anna.ping()

    anna.write(b"nonsense, and nothing else")
    await anna.reason()
    await door.open_connections(1)

    assert door.shard._polls.everyone() == []


async def test_what_was_submitted_happens_though_its_caller_has_left(door, anna, boris):
    anna.send("invoke", INVOKE)
    await anna.close()
    await door.open_connections(1)

    assert await boris.call("invoke", INVOKE) == Invoked(run_id="send-2")


# Bounds


async def test_a_caller_with_too_much_in_flight_is_not_listened_to_until_something_is_answered(
    door, anna, boris, monkeypatch
):
    monkeypatch.setattr(tcp, "IN_FLIGHT_MAX", 3)
    claims = []
    for _ in range(3):
        claims.append(anna.send("claim", PATIENT))
        await asyncio.sleep(0)
    await parked(door, boris, 3)
    pong = anna.send("ping", Ping())
    (connection,) = [each for each in door.listener._connections if each._in_flight]
    assert not connection._transport.is_reading()

    await boris.call("invoke", INVOKE)
    assert await anna.answers(pong) == [Nothing()]


async def parked(door, caller, count):
    """Wait until so many claims are parked."""
    while len(door.shard._polls.everyone()) < count:
        await caller.ping()


async def test_a_caller_that_does_not_read_is_not_listened_to_and_disturbs_nobody(door, boris):
    await boris.call("invoke", Invoke(action="send", input=bytes(1_000_000)))
    deaf = await deaf_caller(door)
    query = encode_request(5, BY_NAME["get_run"], [GetRun(run_id="send-1")])

    for _ in range(50):
        deaf.sendall(query)
        await boris.ping()

    (connection,) = [each for each in door.listener._connections if each._is_full]
    assert not connection._transport.is_reading()
    assert await boris.call("invoke", INVOKE) == Invoked(run_id="send-2")
    deaf.close()
    await door.open_connections(1)


async def deaf_caller(door):
    """A socket with very little room for what comes in."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    deaf.setblocking(False)
    await asyncio.get_running_loop().sock_connect(deaf, ("127.0.0.1", door.listener.port))
    deaf.sendall(encode_request(1, HELLO, [Hello(protocol=1)]))
    return deaf


async def test_a_caller_that_reads_again_is_listened_to_again(door, anna, boris):
    await boris.call("invoke", Invoke(action="send", input=bytes(1_000_000)))
    numbers = [anna.send("get_run", GetRun(run_id="send-1")) for _ in range(30)]
    for _ in range(100):
        await boris.ping()

    for number in numbers:
        assert len((await anna.answers(number))[0].input) == 1_000_000
    assert await anna.ping() == Nothing()


async def test_a_caller_too_many_is_told_so_and_hung_up_on(door, anna, monkeypatch):
    monkeypatch.setattr(tcp, "CONNECTIONS_MAX", 1)

    reason = await (await door.connect()).reason()

    assert isinstance(reason, Conflict)
    assert reason.code == "too_many_connections"
    assert await anna.ping() == Nothing()


async def test_an_answer_that_fits_in_no_frame_is_refused(anna, monkeypatch):
    await anna.call("invoke", Invoke(action="send", input=bytes(1_000)))
    monkeypatch.setattr("flo.wire.frame.FRAME_LENGTH_MAX", 1_000)

    refused = await anna.call("get_run", GetRun(run_id="send-1"))

    assert isinstance(refused, TooLarge)
    assert await anna.ping() == Nothing()


# Start and stop


async def test_when_the_door_is_shut_every_caller_is_hung_up_on(door, anna, boris):
    anna.send("claim", PATIENT)
    await anna.ping()

    await door.listener.stop()

    assert await anna.rest() == await boris.rest() == b""
    with pytest.raises(OSError, match=r"refused|reset|failed"):
        await door.connect()


async def test_a_shard_that_has_stopped_answers_that_it_has(door, anna):
    await door.shard.stop()

    refused = await anna.call("invoke", INVOKE)

    assert isinstance(refused, Unavailable)
    assert refused.code == "server_stopping"


async def test_a_port_that_is_taken_is_named(door):
    other = Listener(door.shard, door.clock, door.metrics, "127.0.0.1", door.listener.port)

    with pytest.raises(Conflict, match=f"cannot listen on 127.0.0.1:{door.listener.port}") as error:
        await other.start()

    assert error.value.code == "address_in_use"
    await other.stop()


async def test_who_calls_and_what_for_is_counted(door, anna, boris):
    await anna.call("invoke", INVOKE)
    await boris.call("invoke", INVOKE)
    await anna.close()
    await door.open_connections(1)

    count = door.metrics.registry.get_sample_value
    assert count("flo_rpc_requests_total", {"operation": "invoke"}) == 2


# A worker that is not heard of any more


async def pinging(door, dead_after_ms=15_000):
    """A worker on a connection that says it pings."""
    caller = await door.connect()
    caller.end = ClientEnd("test", dead_after_ms)
    await caller.greet()
    await caller.call("register_worker", BOUND)
    return caller


async def pass_time(door, ms):
    for _ in range(ms // 1_000):
        door.clock.advance(1_000)
    await settled()


async def test_a_worker_that_pings_and_falls_silent_is_cut_off_and_lost(door, anna):
    await anna.call("invoke", INVOKE)
    silent = await pinging(door)
    await silent.call("claim", Claim(worker_id="boris", actions=["send"]))

    await pass_time(door, 10_000)
    assert (await anna.call("get_run", GetRun(run_id="send-1"))).status is RunStatus.RUNNING
    await pass_time(door, 5_000)
    assert await silent.rest() == b""
    await anna.ping()
    await pass_time(door, 3_000)

    assert (await anna.call("get_run", GetRun(run_id="send-1"))).status is RunStatus.PENDING


async def test_a_worker_that_is_heard_of_is_not_cut_off(door, anna):
    worker = await pinging(door)
    for _ in range(6):
        await pass_time(door, 9_000)
        await worker.ping()
    for _ in range(6):
        await pass_time(door, 9_000)
        await anna.call("heartbeat", Heartbeat(worker_id="boris"))  # of a loop that is blocked

    assert await worker.ping() == Nothing()


async def test_a_worker_that_does_not_ping_may_be_silent(door):
    worker = await pinging(door, dead_after_ms=0)
    await pass_time(door, 600_000)

    assert await worker.ping() == Nothing()
