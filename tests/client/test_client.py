import asyncio
import socket
from pathlib import Path

import pytest

from flo import Flo, RunStatus, Unavailable
from flo.model.actions import RegisterAction
from flo.model.namespaces import ListNamespaces
from flo.server.server import Server
from flo.testing.local import local_server


async def test_it_connects_by_itself_with_its_first_call(server: Server) -> None:
    flo = Flo(server.address)
    await flo.ping()
    await flo.close()


async def test_it_sends_any_operation_in_its_namespace(server: Server) -> None:
    async with Flo(server.address, namespace="prod") as flo:
        registered = await flo.call(RegisterAction(name="send-email"))
        namespaces = await flo.call(ListNamespaces())

        assert registered.version == 1
        assert "prod" in [namespace.name for namespace in namespaces.items]
        assert (await flo.actions.get("send-email")).namespace == "prod"


async def test_it_says_at_once_that_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening
        host, port = taken.getsockname()
        with pytest.raises(Unavailable, match=f"cannot reach flo at {host}:{port}") as raised:
            async with Flo(f"{host}:{port}"):
                pass

    assert raised.value.code == "unreachable"


@pytest.mark.parametrize(
    ("argument", "environment", "address"),
    [
        ("flo:1", "env:2", "flo:1"),
        (None, "env:2", "env:2"),
        (None, None, "127.0.0.1:9000"),
    ],
)
def test_where_the_address_comes_from(
    monkeypatch: pytest.MonkeyPatch, argument: str | None, environment: str | None, address: str
) -> None:
    monkeypatch.delenv("FLO_ENDPOINT", raising=False)
    if environment is not None:
        monkeypatch.setenv("FLO_ENDPOINT", environment)

    assert Flo(argument).address == address


@pytest.mark.parametrize(
    ("argument", "environment", "namespace"),
    [("mine", "theirs", "mine"), (None, "theirs", "theirs"), (None, None, "default")],
)
def test_where_the_namespace_comes_from(
    monkeypatch: pytest.MonkeyPatch,
    argument: str | None,
    environment: str | None,
    namespace: str,
) -> None:
    monkeypatch.delenv("FLO_NAMESPACE", raising=False)
    if environment is not None:
        monkeypatch.setenv("FLO_NAMESPACE", environment)

    assert Flo(namespace=argument).namespace == namespace


async def test_namespaces_do_not_see_each_other(server: Server) -> None:
    async with Flo(server.address, namespace="prod") as prod, Flo(server.address) as other:
        await prod.actions.register("a")
        await other.actions.register("a")
        await prod.actions.invoke("a")

        assert (await prod.actions.status("a-1")).namespace == "prod"
        assert not (await other.actions.runs("a")).items
        assert not (await other.workers.claim("anna", ["a"])).tasks


class BreakableConnection:
    """Connects a client to whatever server there is, and can be cut."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.transports: list[asyncio.Transport] = []

    async def connect(self, protocol) -> asyncio.Transport:
        if self.server is None:
            raise ConnectionRefusedError("the server is down")
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(protocol, "127.0.0.1", self.server.port)
        self.transports.append(transport)
        return transport

    def cut(self) -> None:
        self.transports[-1].abort()


@pytest.fixture
def connection(server: Server) -> BreakableConnection:
    connection = BreakableConnection()
    connection.server = server
    return connection


async def test_a_wait_survives_a_broken_connection(connection: BreakableConnection) -> None:
    async with Flo("connection", connect=connection.connect) as flo:
        await flo.actions.register("a")
        invocation = await flo.actions.invoke("a")
        waiting = asyncio.ensure_future(invocation.wait())
        await flo.ping()  # the wait is on its way as well
        connection.cut()
        await flo.workers.claim("anna", ["a"])
        await flo.workers.complete("a-1", "anna", b"done", attempt=1)

        assert (await waiting).output == b"done"
        assert len(connection.transports) == 2


async def test_a_keyed_invoke_makes_one_run_however_often_the_connection_breaks(
    connection: BreakableConnection,
) -> None:
    async with Flo("connection", connect=connection.connect) as flo:
        await flo.actions.register("a")
        for round_number in range(5):
            invoking = asyncio.ensure_future(flo.actions.invoke("a", idempotency_key="once"))
            for _ in range(round_number):
                await asyncio.sleep(0)
            connection.cut()
            assert (await invoking).run_id == "a-1"

        assert len((await flo.actions.runs("a")).items) == 1


async def test_calls_made_while_the_server_is_away_are_answered_when_it_is_back(
    tmp_path: Path,
) -> None:
    connection = BreakableConnection()
    async with local_server(tmp_path) as connection.server:
        flo = Flo("connection", connect=connection.connect)
        await flo.actions.register("a")
        await flo.actions.invoke("a")
        waiting = asyncio.ensure_future(flo.actions.wait("a-1"))
        await flo.ping()
        connection.cut()
        connection.server = None
    asking = asyncio.ensure_future(flo.actions.status("a-1"))

    async with local_server(tmp_path) as connection.server:
        assert (await asking).status is RunStatus.PENDING
        await flo.workers.claim("anna", ["a"])
        await flo.workers.complete("a-1", "anna", attempt=1)
        assert (await waiting).status is RunStatus.COMPLETED
        await flo.close()
