"""The simulated network: like TCP it may stop, but what arrives is what was sent, in order."""

import asyncio
import random

import pytest

from simulator.faults.loop import run_virtual
from simulator.faults.network import PERFECT, Network

HOME = "home"


class Recorder(asyncio.Protocol):
    """Writes down what happens to it."""

    def __init__(self):
        self.transport = None
        self.received = b""
        self.pieces = 0
        self.lost = None
        self.paused = []

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        self.pieces += 1

    def connection_lost(self, exc):
        assert self.lost is None
        self.lost = exc or "closed"

    def pause_writing(self):
        self.paused.append(True)

    def resume_writing(self):
        self.paused.append(False)


def virtual(test):
    """The test runs on virtual time, whatever loop pytest has."""

    def run():
        run_virtual(test())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def joined(quality=PERFECT, seed=1):
    """A network, and the two ends of a line on it."""
    network = Network(random.Random(seed), quality)
    server = Recorder()
    network.listen(lambda: server)
    client = Recorder()
    await network.connect_from(HOME)(lambda: client)
    return network, client, server


@virtual
async def test_what_is_written_arrives_later():
    _, client, server = await joined()

    client.transport.write(b"hello")
    assert server.received == b""
    await asyncio.sleep(1.0)

    assert server.received == b"hello"


@virtual
async def test_bytes_are_cut_anywhere_and_stay_in_order():
    _, client, server = await joined(PERFECT._replace(cut_chance=1.0, delay_ms_max=100.0))
    sent = b"".join(f"{number:04} ".encode() for number in range(500))

    for start in range(0, len(sent), 25):
        client.transport.write(sent[start : start + 25])
    await asyncio.sleep(10.0)

    assert server.received == sent
    assert server.pieces > 100


@virtual
async def test_close_lets_what_was_written_arrive_first():
    _, client, server = await joined()

    client.transport.write(b"last words")
    client.transport.close()
    client.transport.write(b"too late")
    await asyncio.sleep(1.0)

    assert server.received == b"last words"
    assert (client.lost, server.lost) == ("closed", "closed")


@virtual
async def test_abort_is_an_error_at_the_other_end():
    _, client, server = await joined()

    client.transport.abort()
    await asyncio.sleep(1.0)

    assert isinstance(server.lost, ConnectionResetError)


@pytest.mark.parametrize("seed", range(20))
def test_a_line_that_breaks_delivers_a_beginning(seed):
    async def break_off():
        _, client, server = await joined(PERFECT._replace(break_chance=0.1), seed)
        sent = b""
        while client.lost is None:
            piece = f"{len(sent)} ".encode()
            sent += piece
            client.transport.write(piece)
            await asyncio.sleep(0.001)
        await asyncio.sleep(1.0)
        assert sent.startswith(server.received)
        assert isinstance(client.lost, ConnectionResetError)
        assert isinstance(server.lost, ConnectionResetError)

    run_virtual(break_off())


@virtual
async def test_nobody_listens():
    network = Network(random.Random(1))

    with pytest.raises(ConnectionRefusedError):
        await network.connect_from(HOME)(Recorder)


@virtual
async def test_connections_are_refused_by_chance():
    network = Network(random.Random(1), PERFECT._replace(refuse_chance=0.5))
    network.listen(Recorder)
    refused = 0
    for _ in range(100):
        try:
            await network.connect_from(HOME)(Recorder)
        except ConnectionRefusedError:
            refused += 1

    assert 30 < refused < 70


@virtual
async def test_a_place_that_is_cut_off_hears_everything_afterwards():
    network, client, server = await joined()
    network.cut_off(HOME)

    client.transport.write(b"to the server")
    server.transport.write(b"to the client")
    await asyncio.sleep(3_600.0)
    assert (client.received, server.received) == (b"", b"")
    network.heal(HOME)

    assert (client.received, server.received) == (b"to the client", b"to the server")
    assert network.good_link(HOME) is None


@virtual
async def test_who_is_cut_off_connects_when_it_is_over():
    network, _, _ = await joined()
    network.cut_off(HOME)
    connecting = asyncio.ensure_future(network.connect_from(HOME)(Recorder))
    await asyncio.sleep(60.0)
    assert not connecting.done()

    network.heal_all()

    assert await connecting


@virtual
async def test_a_server_that_is_gone_hears_nothing_and_its_client_learns_of_it():
    network, client, server = await joined()
    client.transport.write(b"on its way")

    network.lose_server(silently=False)
    await asyncio.sleep(1.0)

    assert server.received == b""
    assert server.lost is None
    assert isinstance(client.lost, ConnectionResetError)


@virtual
async def test_a_server_may_go_silently():
    network, client, _ = await joined(PERFECT._replace(silence_ms_max=60_000.0))

    network.lose_server(silently=True)
    await asyncio.sleep(0.1)
    assert client.lost is None
    await asyncio.sleep(60.0)

    assert client.lost is not None


@virtual
async def test_a_reader_that_pauses_makes_the_writer_pause():
    _, client, server = await joined(PERFECT._replace(buffer_length_max=100))
    server.transport.pause_reading()

    client.transport.write(b"x" * 101)
    await asyncio.sleep(1.0)
    assert (client.paused, server.received) == ([True], b"")
    server.transport.resume_reading()
    await asyncio.sleep(1.0)

    assert client.paused == [True, False]
    assert len(server.received) == 101


@virtual
async def test_a_line_is_good_until_it_has_trouble():
    network, client, _ = await joined()
    assert network.good_link(HOME) is not None

    network.break_one()

    assert network.good_link(HOME) is None
    assert client.lost is None
