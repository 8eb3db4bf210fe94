"""Asks the engine on behalf of HTTP requests, and no longer than their clients wait."""

import asyncio
from copy import copy
from typing import Any, Protocol, Self, TypeVar, cast

from litestar import Request

from flo.model.base import Message
from flo.model.declare.operation import DECLARED, Command, Query
from flo.model.errors import Unavailable
from flo.model.storage.caller import Caller, Source
from flo.model.storage.request_keys import RequestKeys, chosen_key, key_of
from flo.server.budget import MemoryBudget, length_of, unlimited

REASON_HEADER = "flo-reason"
"""Why a request is made, for the log."""
REASON_LENGTH_MAX = 256
KEY_HEADER = "idempotency-key"
"""What tells a request from all others: however often it is heard, it is carried out once."""

R = TypeVar("R", bound=Message)


class Backend(Protocol):
    async def ask(
        self, message: Message, caller: Caller, keys: RequestKeys | None = None
    ) -> Message:
        """Carry out a command or answer a query; a refusal is raised."""
        ...


class EngineGateway:
    def __init__(self, engine: Backend, budget: MemoryBudget | None = None) -> None:
        self._engine = engine
        self._budget = budget or unlimited()
        self._waits: set[asyncio.Future[Message]] = set()
        self._stopping = asyncio.Event()
        self._caller = Caller(source=Source.HTTP)
        self._key: str | None = None
        self._keys_used = 0
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
        bound._key = request.headers.get(KEY_HEADER)
        return bound

    async def ask(self, message: Command[R] | Query[R]) -> R:
        self._admit(message)
        reply = await self._engine.ask(message, self._caller, self._keys_of(message))
        return _reply_to(message, reply)

    async def wait(self, message: Command[R] | Query[R], request: Request[Any, Any, Any]) -> R:
        """Ask for what may take long. It is given up when the client leaves or the door closes.

        A task that is given to a client who has left would be lost until its lease ends.
        """
        self._admit(message)
        asked: asyncio.Future[Message] = asyncio.ensure_future(
            self._engine.ask(message, self._caller, self._keys_of(message))
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

    def _admit(self, message: Message) -> None:
        """The body that it came in is in the budget already."""
        refusal = self._budget.refusal([message], length_of([message], 0))
        if refusal is not None:
            raise refusal

    def _keys_of(self, message: Message) -> RequestKeys | None:
        """The key of the request, for its commands; those that follow on the first have a number.

        What has a key of its own goes by that.
        """
        if self._key is None or not isinstance(message, Command):
            return None
        if getattr(message, "idempotency_key", None) is not None:
            return None
        self._keys_used += 1
        return chosen_key(key_of(self._key, self._keys_used))

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
