"""A server that answers as the test says, and remembers what it was asked."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from client.memory import MemoryTransport, ProtocolFactory, join
from flo.model.base import Message, Nothing
from flo.model.errors import FloError, Invalid
from flo.model.storage.request_keys import RequestKeys
from flo.wire.codec import Answer, Request, encode_refusal, encode_reply
from flo.wire.connection import ServerEnd
from flo.wire.opcodes import HELLO, PING, Form

Answering = Callable[[Form, Sequence[Message]], list[Answer] | FloError | None]


def silence(operation: Form, messages: Sequence[Message]) -> None:
    """Answer nothing."""


class FakeServer:
    """`answer` is called for every request; None leaves it open. `connect` is for clients.

    With `answers_pings` it answers those by itself, and forgets them. As long as
    `refusals` is above zero, connections are refused, and it goes down by one. With a `gate`, they
    are not made before it is open.
    """

    def __init__(self, answer: Answering = silence) -> None:
        self.answer = answer
        self.refusals = 0
        self.refuses_hello = False
        self.answers_pings = True
        self.gate: asyncio.Event | None = None
        self.requests: list[tuple[str, list[Any]]] = []
        self.keys: list[RequestKeys | None] = []
        """What came with each request."""
        self.connected_at_s: list[float] = []
        self.ends: list[FakeEnd] = []

    async def connect(self, protocol: ProtocolFactory) -> asyncio.Transport:
        self.connected_at_s.append(asyncio.get_running_loop().time())
        if self.refusals:
            self.refusals -= 1
            raise ConnectionRefusedError("nobody listens")
        if self.gate is not None:
            await self.gate.wait()
        end = FakeEnd(self)
        self.ends.append(end)
        near, end.transport = join(protocol(), end)
        end.client_transport = near
        return near

    @property
    def names(self) -> list[str]:
        """The operations that were asked for, in order."""
        return [name for name, _ in self.requests]

    def reply(self, answers: list[Answer] | FloError, to: int = -1) -> None:
        """Answer an open request, the latest unless told otherwise."""
        self.ends[-1].reply(self.ends[-1].open.pop(to), answers)

    def hang_up(self) -> None:
        self.ends[-1].transport.close()


class FakeEnd(asyncio.Protocol):
    transport: MemoryTransport
    client_transport: MemoryTransport

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self._end = ServerEnd("fake")
        self.open: list[Request] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for request in self._end.receive(data):
            assert request.form is not None
            if request.form is HELLO:
                self._greet(request)
            elif request.form is PING and self._server.answers_pings:
                self.reply(request, [Nothing()])
            elif isinstance(request.messages, FloError):
                self.transport.write(encode_refusal(request.request_id, request.messages))
            else:
                self._serve(request, request.form, request.messages)

    def connection_lost(self, error: Exception | None) -> None:
        self.open.clear()

    def reply(self, request: Request, answers: list[Answer] | FloError) -> None:
        assert request.form is not None
        if isinstance(answers, FloError):
            self.transport.write(encode_refusal(request.request_id, answers))
        else:
            self.transport.write(encode_reply(request.request_id, request.form, answers))

    def _greet(self, request: Request) -> None:
        if self._server.refuses_hello:
            refusal = Invalid("expected another protocol", code="unknown_protocol")
            self.transport.write(encode_refusal(request.request_id, refusal))
        else:
            self.transport.write(self._end.greet(request))

    def _serve(self, request: Request, operation: Form, messages: list[Message]) -> None:
        self._server.requests.append((operation.name, messages))
        self._server.keys.append(request.keys)
        answers = self._server.answer(operation, messages)
        if answers is None:
            self.open.append(request)
        else:
            self.reply(request, answers)
