"""A TCP proxy whose network can be cut and healed, for tests that need a bad network.

    client ◂──▸ proxy ◂──▸ server

A cut affects the connections that are open and those that are opened meanwhile:

    delay      nothing passes until the cut is healed, then everything does, as after retransmission
    drop       bytes vanish, and neither end is told, also after healing: the connection is dead
    half-open  as drop, but one of the two ends is told at once; the other never hears of it
    reset      both ends are told at once; nobody can connect before the cut is healed
"""

import asyncio
import random
import socket
import struct
from enum import StrEnum
from types import TracebackType
from typing import Self

READ_LENGTH_MAX = 65_536
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Cut(StrEnum):
    DELAY = "delay"
    DROP = "drop"
    HALF_OPEN = "half-open"
    RESET = "reset"


class FaultyProxy:
    """Listens on a port of its own from `async with` on; `rng` chooses who hears of a half-open."""

    def __init__(self, target: str, rng: random.Random | None = None) -> None:
        self.address = "127.0.0.1:0"
        self.cut_by: Cut | None = None
        self.connections_count = 0
        """How many have been opened since the start."""
        self._target = target
        self._rng = rng or random.Random(0)
        self._passing = asyncio.Event()
        self._passing.set()
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def cut(self, how: Cut) -> None:
        self.cut_by = how
        self._passing.clear()
        for link in tuple(self._links):
            match how:
                case Cut.DROP:
                    link.is_dead = True
                case Cut.HALF_OPEN:
                    link.is_dead = True
                    link.reset_one(self._rng.random() < 0.5)
                case Cut.RESET:
                    link.reset()

    def heal(self) -> None:
        self.cut_by = None
        self._passing.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for link in tuple(self._links):
            link.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections_count += 1
        if self.cut_by is Cut.RESET:
            reset(writer)
            return
        link = Link(reader, writer, self._passing)
        link.is_dead = self.cut_by in (Cut.DROP, Cut.HALF_OPEN)
        self._links.add(link)
        task = asyncio.get_running_loop().create_task(self._serve(link))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, link: "Link") -> None:
        host, _, port = self._target.rpartition(":")
        try:
            await link.carry(host, int(port))
        except OSError:  # one of the ends has gone, or was never there
            pass
        finally:
            link.reset()
            self._links.discard(link)


class Link:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passing: asyncio.Event
    ) -> None:
        self.is_dead = False
        self._client = (reader, writer)
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._passing = passing

    async def carry(self, host: str, port: int) -> None:
        """Until both ends have gone; a dead link takes what it is sent, and tells nobody."""
        if self.is_dead:
            await self._swallow(self._client[0])
            return
        await self._passing.wait()
        self._server = await asyncio.open_connection(host, port)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._pass_on(self._client[0], self._server[1]))
            both.create_task(self._pass_on(self._server[0], self._client[1]))

    def reset(self) -> None:
        reset(self._client[1])
        if self._server is not None:
            reset(self._server[1])

    def reset_one(self, is_client: bool) -> None:
        end = self._client if is_client else self._server
        if end is not None:
            reset(end[1])

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(READ_LENGTH_MAX):
                while not (self._passing.is_set() or self.is_dead):
                    await self._passing.wait()
                if not self.is_dead:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            if not self.is_dead:
                reset(writer)
        if not self.is_dead:
            writer.close()

    async def _swallow(self, reader: asyncio.StreamReader) -> None:
        while await reader.read(READ_LENGTH_MAX):
            pass


def reset(writer: asyncio.StreamWriter) -> None:
    """Hang up so that the other end hears of it as a reset."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()
