"""The proxy does to connections what its cuts say, and nothing when it is whole."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest
import pytest_asyncio

from acceptance.faulty_proxy import Cut, FaultyProxy

GONE = (ConnectionResetError, asyncio.IncompleteReadError, BrokenPipeError)


class OneSided:
    """Says which end is told: always this one."""

    def __init__(self, is_client: bool) -> None:
        self._value = 0.0 if is_client else 1.0

    def random(self) -> float:
        return self._value


class EchoServer:
    def __init__(self) -> None:
        self.heard: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while data := await reader.read(100):
                self.heard.put_nowait(data)
                writer.write(data)
        except ConnectionResetError:
            pass
        self.heard.put_nowait(None)
        writer.close()


@pytest_asyncio.fixture
async def echo() -> AsyncIterator[tuple[EchoServer, str]]:
    server = EchoServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    yield server, f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    listening.close()
    for writer in server.writers:
        writer.transport.abort()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def echo(self, data: bytes) -> bytes:
        self.writer.write(data)
        return await self.reader.readexactly(len(data))

    def close(self) -> None:
        self.writer.transport.abort()


async def connect(proxy: FaultyProxy) -> Client:
    host, _, port = proxy.address.rpartition(":")
    return Client(*await asyncio.open_connection(host, int(port)))


def close(clients: Iterable[Client]) -> None:
    for client in clients:
        client.close()


async def test_a_whole_proxy_passes_everything_on_and_tells_when_an_end_hangs_up(echo):
    server, address = echo
    async with FaultyProxy(address) as proxy:
        client = await connect(proxy)
        assert await client.echo(b"one") == b"one"
        assert await client.echo(b"two") == b"two"
        client.close()
        assert [await server.heard.get() for _ in range(3)] == [b"one", b"two", None]


async def test_a_delay_holds_bytes_back_until_it_is_healed(echo):
    server, address = echo
    async with FaultyProxy(address) as proxy:
        old = await connect(proxy)
        await old.echo(b"before")
        proxy.cut(Cut.DELAY)
        late = await connect(proxy)
        echoes = [asyncio.create_task(one.echo(b"during")) for one in (old, late)]
        direct = Client(*await asyncio.open_connection(*address.split(":")))
        await direct.echo(b"direct")
        assert [server.heard.get_nowait() for _ in range(2)] == [b"before", b"direct"]
        assert server.heard.empty()
        proxy.heal()
        assert await asyncio.gather(*echoes) == [b"during", b"during"]
        close([old, late, direct])


async def test_a_dropped_connection_stays_dead_and_neither_end_is_told(echo):
    server, address = echo
    async with FaultyProxy(address) as proxy:
        old = await connect(proxy)
        await old.echo(b"before")
        proxy.cut(Cut.DROP)
        lost = await connect(proxy)
        answers = [asyncio.create_task(one.echo(b"lost")) for one in (old, lost)]
        await asyncio.gather(old.writer.drain(), lost.writer.drain())
        proxy.heal()
        new = await connect(proxy)
        assert await new.echo(b"after") == b"after"
        assert not any(answer.done() for answer in answers)
        assert [server.heard.get_nowait() for _ in range(2)] == [b"before", b"after"]
        assert server.heard.empty()
        close([old, lost, new])
        await asyncio.gather(*answers, return_exceptions=True)


@pytest.mark.parametrize("is_client", [True, False])
async def test_only_one_end_hears_of_a_half_open_connection(echo, is_client):
    server, address = echo
    async with FaultyProxy(address, OneSided(is_client)) as proxy:
        old = await connect(proxy)
        await old.echo(b"before")
        proxy.cut(Cut.HALF_OPEN)
        answer = asyncio.create_task(old.echo(b"lost"))
        if is_client:
            with pytest.raises(GONE):
                await answer
        else:
            assert [await server.heard.get() for _ in range(2)] == [b"before", None]
        proxy.heal()
        new = await connect(proxy)
        assert await new.echo(b"after") == b"after"
        assert answer.done() is is_client
        heard = [server.heard.get_nowait() for _ in range(server.heard.qsize())]
        assert (None in heard) is False
        close([old, new])
        await asyncio.gather(answer, return_exceptions=True)


async def test_a_reset_tells_both_ends_and_nobody_connects_before_it_is_healed(echo):
    server, address = echo
    async with FaultyProxy(address) as proxy:
        old = await connect(proxy)
        await old.echo(b"before")
        proxy.cut(Cut.RESET)
        with pytest.raises(GONE):
            await old.echo(b"lost")
        assert [await server.heard.get() for _ in range(2)] == [b"before", None]
        refused = await connect(proxy)
        with pytest.raises(GONE):
            await refused.echo(b"lost")
        proxy.heal()
        new = await connect(proxy)
        assert await new.echo(b"after") == b"after"
        close([old, refused, new])
