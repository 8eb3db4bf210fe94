"""What stands behind the shell: a real server, and a worker."""

import asyncio
import threading
from contextlib import contextmanager

from flo.server.config import Durability, ServerConfig
from flo.server.server import Server
from flo.testing.clock import ManualClock


class ServerClock(ManualClock):
    """A manual clock for a server in another thread: its alarms ring there."""

    def call_at(self, at_ms, callback):
        self._loop = asyncio.get_running_loop()
        return super().call_at(at_ms, callback)

    def let_pass(self, by_ms):
        """Advance it, as the server sees it."""

        async def advance():
            self.advance(by_ms)

        asyncio.run_coroutine_threadsafe(advance(), self._loop).result()


@contextmanager
def running_server(clock=None):
    """A server in a thread of its own."""
    config = ServerConfig(port=0, http_port=0, metrics_port=-1, durability=Durability.EPHEMERAL)
    server = Server(config, clock)
    started = threading.Event()
    stopping = asyncio.Event()
    loops = []

    async def serve():
        loops.append(asyncio.get_running_loop())
        async with server:
            started.set()
            await stopping.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(30)
    try:
        yield server
    finally:
        loops[0].call_soon_threadsafe(stopping.set)
        thread.join()


def until_asked(server, kind, namespace, name):
    """Return once somebody waits for news of this thing."""
    while not server.shard._waiters.asking_about(kind, namespace, name):
        pass


@contextmanager
def obedient_worker(client, actions, perform):
    """A worker in a thread of its own; `perform` does one task."""
    client.workers.register("worker-1", actions, machine_id="host-01")
    enough = threading.Event()

    def work():
        while not enough.is_set():
            for task in client.workers.claim("worker-1", actions, block_ms=50).tasks:
                perform(task)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()
