"""Asks the engine on behalf of HTTP requests, and no longer than their clients wait."""

import asyncio
from typing import Any, Protocol, TypeVar, cast

from litestar import Request

from flo.model.base import Message
from flo.model.declare.operation import DECLARED, Command, Query
from flo.model.errors import Unavailable

R = TypeVar("R", bound=Message)


class Backend(Protocol):
    async def ask(self, message: Message) -> Message:
        """Carry out a command or answer a query; a refusal is raised."""
        ...


class EngineGateway:
    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self._waits: set[asyncio.Future[Message]] = set()
        self._is_stopping = False
        self.changes = asyncio.Lock()
        """Held by whoever changes some settings and keeps the others as they were read."""

    async def ask(self, message: Command[R] | Query[R]) -> R:
        return _reply_to(message, await self._engine.ask(message))

    async def wait(self, message: Command[R] | Query[R], request: Request[Any, Any, Any]) -> R:
        """Ask for what may take long. It is given up when the client leaves or the door closes.

        A task that is given to a client who has left would be lost until its lease ends.
        """
        asked: asyncio.Future[Message] = asyncio.ensure_future(self._engine.ask(message))
        left = asyncio.ensure_future(_departure(request))
        self._waits.add(asked)
        if self._is_stopping:
            asked.cancel()
        try:
            await asyncio.wait((asked, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waits.discard(asked)
            asked.cancel()
            left.cancel()
            await asyncio.gather(asked, left, return_exceptions=True)
        if asked.cancelled():  # if it is the client who left, nobody hears this
            raise Unavailable("the server is stopping", code="server_stopping")
        return _reply_to(message, asked.result())

    def stop(self) -> None:
        """Nobody waits any longer."""
        self._is_stopping = True
        for wait in tuple(self._waits):
            wait.cancel()


def _reply_to(message: Command[R] | Query[R], reply: Message) -> R:
    assert isinstance(reply, DECLARED[type(message)].reply)
    return cast(R, reply)


async def _departure(request: Request[Any, Any, Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
