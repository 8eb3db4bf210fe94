"""A server in a thread of the caller's process."""

import asyncio
import threading

import pytest

from flo import BlockingFlo, EmbeddedServer, Flo
from flo.model.errors import FloError


def test_it_serves_until_it_is_stopped():
    before = threading.active_count()
    with EmbeddedServer() as server, BlockingFlo(server.address) as flo:
        flo.kv.put("k", "v")
        assert flo.kv.exists("k")

    assert threading.active_count() <= before


async def test_clients_of_any_event_loop_use_it():
    with EmbeddedServer() as server:
        async with Flo(server.address) as flo:
            await flo.ping()
        await asyncio.to_thread(asyncio.run, _ping(server.address))


async def _ping(address):
    async with Flo(address) as flo:
        await flo.ping()


def test_a_folder_keeps_its_data(tmp_path):
    for _ in range(2):
        with EmbeddedServer(tmp_path) as server, BlockingFlo(server.address) as flo:
            count = flo.kv.increment("n")

    assert count == 2


def test_memory_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with EmbeddedServer() as server, BlockingFlo(server.address) as flo:
        flo.kv.put("k", "v")

    assert not list(tmp_path.iterdir())


def test_what_prevents_a_start_is_raised(tmp_path):
    with EmbeddedServer(tmp_path), pytest.raises(FloError):
        EmbeddedServer(tmp_path).start()


def test_to_stop_twice_is_to_stop_once():
    server = EmbeddedServer().start()

    server.stop()
    server.stop()
