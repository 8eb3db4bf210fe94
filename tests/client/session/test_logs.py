import asyncio

import pytest

from client.fake import FakeServer
from client.virtual import run_virtual
from flo.client.session.session import Session
from flo.model.base import Nothing
from flo.model.errors import Unavailable
from flo.wire.opcodes import Ping


def connected(server: FakeServer) -> Session:
    return Session(server.connect, "flo:9000", timeout_s=300.0, rng=lambda: 1.0)


def test_a_server_out_of_reach_is_told_at_once_and_then_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        server = FakeServer(lambda *_: [Nothing()])
        server.refusals = 1_000_000
        session = connected(server)
        ping = session.call(Ping())
        await asyncio.sleep(0.01)
        assert caplog.messages == [
            "cannot reach flo at flo:9000: nobody listens; "
            "next try in 0.05 s, then at least every 1 s"
        ]
        await asyncio.sleep(100)
        assert len(caplog.messages) == 2
        server.refusals = 0
        await ping
        await session.close()

    run_virtual(main())
    assert caplog.messages[2].startswith("connected to flo at flo:9000, after 10")
    assert len(caplog.messages) == 3


def test_a_connection_that_is_lost_has_a_line_and_its_return_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        server = FakeServer(lambda *_: [Nothing()])
        session = connected(server)
        await session.call(Ping())
        server.hang_up()
        await asyncio.sleep(1)
        await session.call(Ping())
        await session.close()

    run_virtual(main())
    lost, again = caplog.messages
    assert lost.startswith("flo at flo:9000: the connection was lost: ")
    assert lost.endswith("; the next call connects again")
    assert again == "connected to flo at flo:9000, after 1.0 s"


def test_who_is_told_by_an_error_needs_no_line(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        server = FakeServer(lambda *_: [Nothing()])
        server.refusals = 1
        session = connected(server)
        with pytest.raises(Unavailable):
            await session.connect()
        await session.connect()
        await session.close()

    run_virtual(main())
    assert caplog.messages == []
