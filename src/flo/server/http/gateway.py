"""Asks the engine on behalf of HTTP requests, and no longer than their clients wait."""

import asyncio
from collections.abc import Callable
from copy import copy
from typing import Any, Protocol, Self, TypeVar, cast

from litestar import Request

from flo.model.base import Message
from flo.model.declare.operation import DECLARED, Command, Query
from flo.model.errors import Unavailable
from flo.model.storage.caller import Caller, Source
from flo.model.storage.request_keys import RequestKeys, chosen_key, key_of
from flo.server.auth.identity import Identity
from flo.server.budget import COPIES, MemoryBudget, SentLately, length_of, unlimited
from flo.server.http.authentication import identity_of

REASON_HEADER = "flo-reason"
"""Why a request is made, for the log."""
REASON_LENGTH_MAX = 256
KEY_HEADER = "idempotency-key"
"""What tells a request from all others: however often it is heard, it is carried out once."""
ADDRESSES_MAX = 1_000

R = TypeVar("R", bound=Message)


class Backend(Protocol):
    async def ask(
        self, message: Message, caller: Caller, keys: RequestKeys | None = None
    ) -> Message:
        """Carry out a command or answer a query; a refusal is raised."""
        ...


class EngineGateway:
    def __init__(
        self,
        engine: Backend,
        budget: MemoryBudget | None = None,
        bound_to: Callable[[Identity], Backend] | None = None,
    ) -> None:
        """`bound_to` gives the engine as it is for an identity."""
        self._engine = engine
        self._bound_to = bound_to or (lambda identity: engine)
        self._budget = budget or unlimited()
        self._waits: set[asyncio.Future[Message]] = set()
        self._stopping = asyncio.Event()
        self._caller = Caller(source=Source.HTTP)
        self._key: str | None = None
        self._keys_used = 0
        self._body_length = 0
        self._sent: dict[str, SentLately] = {}
        """By the addresses that have sent something."""
        self.changes = asyncio.Lock()
        """Held by whoever changes some settings and keeps the others as they were read."""

    def of(self, request: Request[Any, Any, Any]) -> Self:
        """The same, on behalf of who has sent this request."""
        bound = copy(self)
        address = request.client.host if request.client is not None else ""
        reason = request.headers.get(REASON_HEADER)
        identity = identity_of(request.scope)
        bound._engine = self._bound_to(identity)
        bound._caller = Caller(
            source=Source.HTTP,
            address=address,
            actor=identity.actor,
            reason=reason[:REASON_LENGTH_MAX] if reason else None,
        )
        bound._key = request.headers.get(KEY_HEADER)
        bound._body_length = _body_length(request)
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
        length = length_of([message], 0)
        sent = self._sent_by(self._caller.address)
        refusal = self._budget.refusal([message], length, sent, COPIES * self._body_length)
        if refusal is not None:
            raise refusal

    def _sent_by(self, address: str) -> SentLately:
        sent = self._sent.get(address)
        if sent is None:
            if len(self._sent) >= ADDRESSES_MAX:
                del self._sent[next(iter(self._sent))]
            sent = self._sent[address] = SentLately()
        return sent

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


def _body_length(request: Request[Any, Any, Any]) -> int:
    """As the client says it; 0 if it does not."""
    told = request.headers.get("content-length", "")
    return int(told) if told.isdecimal() and told.isascii() else 0


async def _departure(request: Request[Any, Any, Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
