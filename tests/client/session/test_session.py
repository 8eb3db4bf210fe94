import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from client.fake import FakeServer, silence
from client.virtual import run_virtual, turns
from flo.client.session.keepalive import NO_PINGS, PingPolicy
from flo.client.session.session import CONNECT_TIMEOUT_S, Session
from flo.model.actions import GetAction
from flo.model.base import Message, Nothing
from flo.model.errors import Conflict, FloError, Invalid, NotFound, TimedOut, Unavailable
from flo.model.runs import Accepted, Complete, GetRun, Invoke, Invoked, RunStatus, WaitForRuns
from flo.model.workers import ResumeWorker
from flo.wire.codec import Answer
from flo.wire.frame import FRAME_LENGTH_MAX
from flo.wire.opcodes import BY_NAME, Form, Ping

INVOKE = BY_NAME["invoke"]
COMPLETE = BY_NAME["complete"]
GET_RUN = BY_NAME["get_run"]
GET_ACTION = BY_NAME["get_action"]


def accepting(operation: Form, messages: Sequence[Message]) -> list[Answer]:
    return [answer_to(message) for message in messages]


def answer_to(message: Message) -> Answer:
    match message:
        case Invoke(action="missing"):
            return NotFound("no such action", code="action_not_found")
        case Invoke(action=action, input=input):
            return Invoked(run_id=f"{action}-{input.decode()}")
        case Complete(run_id=run_id):
            return Accepted(run_id=run_id, status=RunStatus.COMPLETED)
        case _:
            return Nothing()


def invoke(session: Session, number: int = 1, **fields: Any) -> asyncio.Future[Any]:
    command = Invoke(**{"action": "a", "input": b"%d" % number, **fields})
    return session.call(command)


def ping(session: Session, timeout_s: float | None = None) -> asyncio.Future[Any]:
    return session.call(Ping(), timeout_s=timeout_s)


def with_session(
    scenario: Callable[[Session, FakeServer], Awaitable[None]], **options: Any
) -> FakeServer:
    """Play the scenario between a session and a server, in virtual time."""

    async def main() -> FakeServer:
        server = FakeServer(accepting)
        server.answers_pings = False
        settings = {"pings": NO_PINGS, **options}
        session = Session(server.connect, "flo:9000", rng=lambda: 1.0, **settings)
        try:
            await scenario(session, server)
        finally:
            await session.close()
        return server

    return run_virtual(main())


def silent(*_: Any) -> None:
    return None


def test_calls_of_one_turn_leave_as_one_frame_and_each_gets_its_own_answer() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        invoked = await asyncio.gather(*(invoke(session, number) for number in range(3)))

        assert [one.run_id for one in invoked] == ["a-0", "a-1", "a-2"]

    assert with_session(scenario).names == ["invoke_many"]


def test_everything_asked_in_one_turn_is_one_write() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        await session.connect()
        writes = server.ends[0].client_transport.writes
        del writes[:]
        complete = Complete(run_id="a-1", worker_id="anna", attempt=1)
        await asyncio.gather(session.call(complete), session.call(complete), ping(session))

        assert len(writes) == 1
        assert server.names == ["complete_many", "ping"]

    with_session(scenario)


def test_a_call_alone_is_not_a_batch() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        await invoke(session)

    assert with_session(scenario).names == ["invoke"]


def test_one_refused_call_leaves_the_others_of_its_batch_alone() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        good, bad = invoke(session), invoke(session, action="missing")

        assert (await good).run_id == "a-1"
        with pytest.raises(NotFound, match="no such action") as raised:
            await bad
        assert raised.value.code == "action_not_found"

    with_session(scenario)


def test_a_batch_that_one_call_has_spoiled_is_repeated_call_by_call() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        good, bad = invoke(session), invoke(session, priority="high")

        assert (await good).run_id == "a-1"
        with pytest.raises(Invalid, match="priority"):
            await bad
        assert server.names == ["invoke"]  # the batch was never understood

    with_session(scenario)


@pytest.mark.parametrize("input", [object(), b"x" * (FRAME_LENGTH_MAX + 1)])
def test_a_call_that_cannot_be_written_fails_alone(input: Any) -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        good = invoke(session)
        bad = session.call(Invoke(action="a", labels={"key": input}))

        assert (await good).run_id == "a-1"
        with pytest.raises(Invalid):
            await bad

    with_session(scenario)


def test_an_unavailable_server_says_so_to_every_call_of_a_batch() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = lambda *_: Unavailable("the server is stopping", code="server_stopping")
        answers = await asyncio.gather(invoke(session), invoke(session), return_exceptions=True)

        assert [one.code for one in answers] == ["server_stopping"] * 2
        assert answers[0] is not answers[1]

    assert with_session(scenario).names == ["invoke_many"]


def test_answers_find_their_calls_in_whatever_order_they_come() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = silent
        run = session.call(GetRun(run_id="a-1"))
        action = session.call(GetAction(name="a"))
        await turns()
        server.reply(NotFound("no action"), to=1)
        server.reply(NotFound("no run"), to=0)

        with pytest.raises(NotFound, match="no run"):
            await run
        with pytest.raises(NotFound, match="no action"):
            await action

    with_session(scenario)


def test_a_question_is_asked_again_on_the_next_connection() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = silent
        answer = ping(session)
        await turns()
        server.hang_up()
        server.answer = accepting

        assert await answer == Nothing()
        assert server.names == ["ping", "ping"]

    with_session(scenario)


def test_an_invoke_with_a_key_is_repeated_on_the_next_connection() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = silent
        first, second = (invoke(session, idempotency_key=key) for key in ("one", "two"))
        await turns()
        server.hang_up()
        server.answer = accepting
        await asyncio.gather(first, second)

        (_, before), (_, after) = server.requests
        assert before == after

    with_session(scenario)


def test_an_invoke_is_repeated_with_its_number() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = silent
        answer = invoke(session)
        await turns()
        server.hang_up()
        server.answer = accepting
        assert (await answer).run_id == "a-1"

        first, second = server.keys
        assert first is not None
        assert (first.unheard, first.keys) == (0, 0)
        assert first == second

    with_session(scenario)


def test_what_is_sent_once_is_not_repeated_and_says_that_nobody_knows() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = silent
        answer = session.call(Invoke(action="a", input=b""), once=True)
        await turns()
        server.hang_up()

        with pytest.raises(Unavailable, match=r"may or may not") as raised:
            await answer
        assert raised.value.code == "connection_lost"
        await turns()

    assert with_session(scenario).names == ["invoke"]


def test_an_invoke_that_was_not_sent_yet_survives_a_lost_connection() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        await session.connect()
        server.ends[0].client_transport.hang_up(None)  # known one turn later
        answer = invoke(session)

        assert (await answer).run_id == "a-1"
        assert len(server.ends) == 2

    with_session(scenario)


def test_an_invoke_is_not_wasted_on_a_connection_that_is_being_given_up() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        await session.connect()
        answer = invoke(session)
        server.ends[0].client_transport.deliver(b"nonsense" * 10)

        assert (await answer).run_id == "a-1"
        assert len(server.ends) == 2

    with_session(scenario)


def test_a_connection_that_is_lost_while_it_is_opened_is_not_used() -> None:
    async def main() -> None:
        server = FakeServer(accepting)

        async def connect(protocol: Any) -> asyncio.Transport:
            transport = await server.connect(protocol)
            await turns()
            if len(server.ends) == 1:
                server.hang_up()
            await turns()
            return transport

        session = Session(connect, "flo:9000")
        with pytest.raises(Unavailable, match="closed at once"):
            await session.connect()
        assert await ping(session) == Nothing()
        await session.close()

    run_virtual(main())


def test_a_session_tries_to_connect_less_and_less_often() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.refusals = 5
        await ping(session)

        waits = [after - before for before, after in pairwise(server.connected_at_s)]
        assert waits == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5])

    with_session(scenario, delay_s_first=0.1, delay_s_max=0.5)


def test_the_rng_shorten_a_delay_by_half_at_most() -> None:
    async def main() -> None:
        server = FakeServer(accepting)
        server.refusals = 1
        session = Session(server.connect, "flo:9000", rng=lambda: 0.0, delay_s_first=0.1)
        await ping(session)
        await session.close()

        assert server.connected_at_s == pytest.approx([0.0, 0.05])

    run_virtual(main())


def test_an_answer_makes_up_for_all_the_attempts_before() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.refusals = 5
        await ping(session)
        server.hang_up()
        await turns()
        lost_at_s = asyncio.get_running_loop().time()
        await ping(session)

        assert server.connected_at_s[-1] == lost_at_s

    with_session(scenario)


def test_a_server_that_hangs_up_on_everyone_is_not_hammered() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = lambda *_: server.hang_up()
        with pytest.raises(Unavailable):
            await ping(session, timeout_s=10.0)

        assert len(server.connected_at_s) < 20

    with_session(scenario, delay_s_first=0.1, delay_s_max=1.0)


def test_a_session_with_nobody_waiting_does_not_connect() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        await ping(session)
        server.hang_up()
        await asyncio.sleep(60)
        assert len(server.ends) == 1

        await ping(session)
        assert len(server.ends) == 2

    with_session(scenario)


def test_a_call_without_an_answer_times_out_when_its_time_is_over() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = silent
        loop = asyncio.get_running_loop()
        late, early = ping(session, timeout_s=7.0), ping(session, timeout_s=2.0)

        with pytest.raises(TimedOut, match="no answer to ping"):
            await early
        assert loop.time() == pytest.approx(2.0)
        with pytest.raises(TimedOut):
            await late
        assert loop.time() == pytest.approx(7.0)

    with_session(scenario)


def test_a_connection_that_went_silent_is_replaced() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        await session.connect()
        await asyncio.sleep(1)
        server.answer = silent
        patient = ping(session, timeout_s=100.0)
        with pytest.raises(TimedOut):
            await ping(session, timeout_s=1.0)
        server.answer = accepting

        assert await patient == Nothing()
        assert len(server.ends) == 2

    with_session(scenario)


def test_a_slow_answer_does_not_cost_a_connection_that_speaks() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = lambda operation, messages: None if operation is GET_RUN else [Nothing()]
        slow = session.call(GetRun(run_id="a-1"), timeout_s=5.0)
        await asyncio.sleep(1)
        await ping(session)
        with pytest.raises(TimedOut):
            await slow
        await ping(session)

        assert len(server.ends) == 1

    with_session(scenario)


def test_an_unreachable_server_is_named_with_the_reason() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.refusals = 1_000_000
        for attempt in (session.connect(), ping(session, timeout_s=1.0)):
            with pytest.raises(Unavailable, match=r"flo:9000.*nobody listens") as raised:
                await attempt
            assert raised.value.code == "unreachable"

    with_session(scenario)


def test_a_server_that_does_not_greet_is_unreachable() -> None:
    async def main() -> None:
        async def connect(protocol: Any) -> asyncio.Transport:
            return await asyncio.get_running_loop().create_future()

        session = Session(connect, "flo:9000")
        with pytest.raises(Unavailable, match="no answer"):
            await session.connect()
        assert asyncio.get_running_loop().time() == pytest.approx(CONNECT_TIMEOUT_S)

    run_virtual(main())


def test_a_refused_hello_is_final() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.refuses_hello = True
        for attempt in (session.connect(), ping(session)):
            with pytest.raises(Invalid) as raised:
                await attempt
            assert raised.value.code == "unknown_protocol"
        assert len(server.ends) == 2

    with_session(scenario)


def test_a_connection_that_speaks_nonsense_is_replaced() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = silent
        answer = ping(session)
        await turns()
        server.ends[0].transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
        server.answer = accepting

        assert await answer == Nothing()
        assert len(server.ends) == 2

    with_session(scenario)


def test_a_reply_with_too_few_answers_is_nonsense() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = lambda *_: [Invoked(run_id="a-1")]
        calls = [session.call(Invoke(action="a", input=b""), once=True) for _ in range(2)]
        answers = await asyncio.gather(*calls, return_exceptions=True)

        assert [one.code for one in answers] == ["connection_lost"] * 2

    with_session(scenario)


def test_nothing_is_sent_while_the_transport_is_full() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        await session.connect()
        connection = server.ends[0].client_transport._protocol
        connection.pause_writing()
        answer = ping(session)
        await turns()
        assert server.names == []

        connection.resume_writing()
        assert await answer == Nothing()

    with_session(scenario)


def test_a_call_that_is_cancelled_before_it_is_sent_never_leaves() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        invoke(session).cancel()
        await ping(session)

    assert with_session(scenario).names == ["ping"]


def test_an_answer_to_a_cancelled_call_is_ignored() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = silent
        answer = ping(session)
        await turns()
        answer.cancel()
        server.reply([Nothing()])
        server.answer = accepting

        assert await ping(session) == Nothing()
        assert len(server.ends) == 1

    with_session(scenario)


def test_a_closed_session_lets_go_of_everyone() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = silent
        sent = ping(session)
        await turns()
        unsent = invoke(session)
        await session.close()

        for answer in (sent, unsent):
            with pytest.raises(Unavailable) as raised:
                await answer
            assert raised.value.code == "closed"
        with pytest.raises(Unavailable, match="closed"):
            ping(session)

    with_session(scenario)


def test_a_session_may_be_closed_twice_or_before_it_was_used() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        await session.close()
        await session.close()

    assert with_session(scenario).ends == []


def test_a_session_may_live_in_one_loop_after_another() -> None:
    server = FakeServer(accepting)
    session = Session(server.connect, "flo:9000")

    async def main() -> None:
        await ping(session)

    run_virtual(main())
    run_virtual(main())

    assert len(server.ends) == 2


def test_errors_arrive_as_they_were_sent() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        sent = Conflict("the lease is lost", code="lease_lost", details={"attempt": 2})
        server.answer = lambda *_: sent
        with pytest.raises(FloError) as raised:
            await ping(session)

        assert type(raised.value) is Conflict
        assert (raised.value.message, raised.value.code) == (sent.message, sent.code)
        assert raised.value.details == sent.details

    with_session(scenario)


def test_a_server_that_answers_no_ping_is_given_up_and_another_connection_made() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = silence
        waiting = session.call(WaitForRuns(run_ids=["a-1"], block_ms=30_000))
        await asyncio.sleep(5.5)

        assert len(server.ends) == 2
        assert server.names == ["wait_for_runs", "ping", "wait_for_runs"]
        waiting.cancel()

    with_session(scenario, pings=PingPolicy(interval_s=1.0, silence_s_max=4.0))


def test_a_server_that_answers_pings_may_take_its_time() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answers_pings = True
        server.answer = silence
        waiting = session.call(WaitForRuns(run_ids=["a-1"], block_ms=30_000))
        await asyncio.sleep(29.0)

        assert len(server.ends) == 1
        waiting.cancel()

    with_session(scenario, pings=PingPolicy(interval_s=1.0, silence_s_max=4.0))


def test_a_client_that_awaits_nothing_sends_no_pings() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        await invoke(session, 1)
        await asyncio.sleep(60.0)

        assert server.names == ["invoke"]

    with_session(scenario, pings=PingPolicy())


def test_what_is_said_on_every_connection_is_said_before_all_others() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        def say_first() -> None:
            command = ResumeWorker(worker_id="anna", incarnation="1", held=[])
            said.append(session.call(command, once=True))

        server.answer = silence
        said: list[asyncio.Future[Any]] = []
        calls = [session.call(WaitForRuns(run_ids=["a-1"], block_ms=30_000))]
        session.on_connected[say_first] = None
        calls.append(session.call(Complete(run_id="a-1", worker_id="anna", attempt=1)))
        await asyncio.sleep(1.0)
        server.hang_up()
        await asyncio.sleep(1.0)

        again = ["resume_worker", "wait_for_runs", "complete"]
        assert server.names == [*again, *again]
        assert isinstance(said[0].exception(), Unavailable)
        for call in (*calls, said[1]):
            call.cancel()

    with_session(scenario)
