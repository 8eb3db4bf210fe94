"""A network in memory: what one end writes, the other receives a turn later."""

import asyncio
from collections.abc import Callable
from typing import Any


class MemoryTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol: Any = None
        self._peer: MemoryTransport | None = None
        self._is_closing = False
        self.writes: list[bytes] = []

    def join(self, protocol: asyncio.Protocol, peer: "MemoryTransport") -> None:
        self._protocol, self._peer = protocol, peer
        protocol.connection_made(self)

    def write(self, data: Any) -> None:
        if not self._is_closing and data:
            self.writes.append(bytes(data))
            assert self._peer is not None
            self._loop.call_soon(self._peer.deliver, bytes(data))

    def deliver(self, data: bytes) -> None:
        if not self._is_closing:
            self._protocol.data_received(data)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self.hang_up(None)
        if self._peer is not None:
            self._loop.call_soon(self._peer.hang_up, None)

    def abort(self) -> None:
        self.close()

    def hang_up(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, error)


def join(
    client: asyncio.Protocol, server: asyncio.Protocol
) -> tuple[MemoryTransport, MemoryTransport]:
    near, far = MemoryTransport(), MemoryTransport()
    far.join(server, near)
    near.join(client, far)
    return near, far


ProtocolFactory = Callable[[], asyncio.Protocol]
