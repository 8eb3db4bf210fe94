"""A way to a server that a test can close."""

import asyncio
from collections.abc import Callable

from flo.client.session.transport import tcp


class Gate:
    """`connect` is the client's seam; while the gate is closed, connections are refused."""

    def __init__(self, address: str) -> None:
        self._connect = tcp(address)
        self.is_open = True

    async def connect(self, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        if not self.is_open:
            raise ConnectionRefusedError("the gate is closed")
        return await self._connect(protocol)
