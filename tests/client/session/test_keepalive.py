import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from client.fake import FakeServer
from client.virtual import run_virtual, turns
from flo.client.session.keepalive import PingPolicy
from flo.client.session.session import Session
from flo.model.base import Message, Nothing
from flo.model.errors import NotFound, Unavailable
from flo.model.runs import GetRun, Invoke, Invoked
from flo.wire.codec import Answer
from flo.wire.opcodes import PING, Form

PINGS = PingPolicy(interval_s=1.0, silence_s_max=4.0)
SILENT_AFTER_S = 5.0
INVOKED = Invoked(run_id="a-1")


def nothing(operation: Form, messages: Sequence[Message]) -> None:
    return None


def pings_only(operation: Form, messages: Sequence[Message]) -> list[Answer] | None:
    return [Nothing()] if operation is PING else None


def everything(operation: Form, messages: Sequence[Message]) -> list[Answer]:
    return [Nothing() if operation is PING else NotFound("no such run") for _ in messages]


def play(scenario: Callable[[Session, FakeServer], Awaitable[None]]) -> FakeServer:
    async def main() -> FakeServer:
        server = FakeServer(nothing)
        server.answers_pings = False
        session = Session(server.connect, "flo:9000", rng=lambda: 1.0, timeout_s=3_600, pings=PINGS)
        try:
            await scenario(session, server)
        finally:
            await session.close()
        return server

    return run_virtual(main())


def test_a_server_that_answers_pings_is_waited_for_on_the_same_connection() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = pings_only
        answer = session.call(GetRun(run_id="a-1"))
        await asyncio.sleep(10 * SILENT_AFTER_S)

        assert not answer.done()
        answer.cancel()

    server = play(scenario)
    assert len(server.connected_at_s) == 1
    assert server.names.count("ping") == 10 * SILENT_AFTER_S / PINGS.interval_s


def test_a_silent_connection_is_replaced_by_one_that_is_answered() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        def only_on_the_second(operation: Form, messages: Sequence[Message]) -> list[Answer] | None:
            return everything(operation, messages) if len(server.ends) > 1 else None

        server.answer = only_on_the_second
        with pytest.raises(NotFound):
            await session.call(GetRun(run_id="a-1"))
        assert asyncio.get_running_loop().time() == pytest.approx(SILENT_AFTER_S)

    assert play(scenario).names == ["get_run", "ping", "get_run"]


def test_what_is_sent_once_is_refused_when_its_connection_is_replaced() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        with pytest.raises(Unavailable, match=r"gone silent; the invoke .* may or may not"):
            await session.call(Invoke(action="a", input=b""), once=True)

    assert play(scenario).names == ["invoke", "ping"]


def test_a_server_that_stands_still_loses_no_call() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        answer = session.call(Invoke(action="a", input=b""))
        await turns()
        server.refusals = 1_000_000
        await asyncio.sleep(10 * SILENT_AFTER_S)
        assert not answer.done()
        server.reply([INVOKED], to=0)

        assert await answer == INVOKED

    server = play(scenario)
    assert server.names[0] == "invoke"
    assert server.names.count("invoke") == 1


def test_a_connection_that_speaks_again_is_kept() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        answer = session.call(Invoke(action="a", input=b""))
        await turns()
        server.gate = asyncio.Event()
        await asyncio.sleep(SILENT_AFTER_S)
        server.reply([INVOKED], to=0)
        assert await answer == INVOKED
        server.answer = everything
        server.gate.set()
        await turns()

        with pytest.raises(NotFound):
            await session.call(GetRun(run_id="a-1"))
        assert server.ends[1].client_transport.is_closing()
        assert not server.ends[0].client_transport.is_closing()

    play(scenario)


def test_an_idle_connection_is_left_alone() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        await session.connect()
        await asyncio.sleep(10 * SILENT_AFTER_S)

    server = play(scenario)
    assert server.names == []
    assert len(server.connected_at_s) == 1
