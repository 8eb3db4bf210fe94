"""A network to a server that a test can take down."""

import asyncio
from collections.abc import Callable

from flo.client.session.transport import tcp


class Network:
    """`connect` is what a client connects with; while `is_up` is off, connections are refused."""

    def __init__(self, address: str) -> None:
        self._connect = tcp(address)
        self.is_up = True

    async def connect(self, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        if not self.is_up:
            raise ConnectionRefusedError("the network is down")
        return await self._connect(protocol)
