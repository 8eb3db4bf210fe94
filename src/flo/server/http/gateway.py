"""Asks the engine on behalf of HTTP requests, and no longer than their clients wait."""

import asyncio
from copy import copy
from typing import Any, Protocol, Self, TypeVar, cast

from litestar import Request

from flo.model.base import Message
from flo.model.declare.operation import DECLARED, Command, Query
from flo.model.errors import Unavailable
from flo.model.storage.caller import Caller, Source

REASON_HEADER = "flo-reason"
"""Why a request is made, for the log."""
REASON_LENGTH_MAX = 256

R = TypeVar("R", bound=Message)


class Backend(Protocol):
    async def ask(self, message: Message, caller: Caller) -> Message:
        """Carry out a command or answer a query; a refusal is raised."""
        ...


class EngineGateway:
    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self._waits: set[asyncio.Future[Message]] = set()
        self._stopping = asyncio.Event()
        self._caller = Caller(source=Source.HTTP)
        self.changes = asyncio.Lock()
        """Held by whoever changes some settings and keeps the others as they were read."""

    def of(self, request: Request[Any, Any, Any]) -> Self:
        """The same, on behalf of who has sent this request."""
        bound = copy(self)
        address = request.client.host if request.client is not None else ""
        reason = request.headers.get(REASON_HEADER)
        bound._caller = Caller(
            source=Source.HTTP,
            address=address,
            reason=reason[:REASON_LENGTH_MAX] if reason else None,
        )
        return bound

    async def ask(self, message: Command[R] | Query[R]) -> R:
        return _reply_to(message, await self._engine.ask(message, self._caller))

    async def wait(self, message: Command[R] | Query[R], request: Request[Any, Any, Any]) -> R:
        """Ask for what may take long. It is given up when the client leaves or the door closes.

        A task that is given to a client who has left would be lost until its lease ends.
        """
        asked: asyncio.Future[Message] = asyncio.ensure_future(
            self._engine.ask(message, self._caller)
        )
        left = asyncio.ensure_future(_departure(request))
        self._waits.add(asked)
        if self._stopping.is_set():
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
        self._stopping.set()
        for wait in tuple(self._waits):
            wait.cancel()


def _reply_to(message: Command[R] | Query[R], reply: Message) -> R:
    assert isinstance(reply, DECLARED[type(message)].reply)
    return cast(R, reply)


async def _departure(request: Request[Any, Any, Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
