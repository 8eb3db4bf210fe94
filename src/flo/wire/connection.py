"""The two ends of a connection: hello first, then requests and replies.

Neither end knows a socket: bytes go in, requests or answers come out, and what is to be sent is
returned as bytes.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec import UNSET

from flo.model.base import Message
from flo.model.errors import Corrupt, FloError, Invalid
from flo.model.storage.request_keys import RequestKeys
from flo.wire.codec import (
    Answer,
    Request,
    decode_answers,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
    request_id_in,
)
from flo.wire.frame import FRAME_LENGTH_MAX, FrameReader
from flo.wire.opcodes import HELLO, PROTOCOL_VERSION, Form, Hello, Welcome
from flo.wire.strangers import check_answer

Answered: TypeAlias = tuple[int, list[Answer] | FloError]


class ServerEnd:
    """Reads requests. The first must be a hello of our protocol; a Corrupt error ends it all."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.frames = FrameReader()
        self._greeted = False
        self.dead_after_ms = 0
        """When the client is dead if nothing comes from it; 0 if it may be silent."""

    def receive(self, data: bytes) -> Iterator[Request]:
        self.frames.receive(data)
        return self.requests()

    def requests(self) -> Iterator[Request]:
        """Those that have come, and were not read yet."""
        while (frame := self.frames.next_frame()) is not None:
            request = decode_request(frame)
            if not self._greeted and request.form is not HELLO:
                raise Corrupt("expected a hello first", code="hello_expected")
            yield request

    def drop(self) -> int | None:
        """Keep nothing of the request that is incomplete; its number, if that has come."""
        return request_id_in(self.frames.drop())

    def hello_in(self, request: Request) -> Hello:
        """What a client says first; of another protocol, it is refused."""
        assert isinstance(request.messages, list)
        hello = request.messages[0]
        assert isinstance(hello, Hello)
        if hello.protocol != PROTOCOL_VERSION:
            raise Invalid(
                f"expected protocol {PROTOCOL_VERSION}, got {hello.protocol}: "
                "use a client of the server's release",
                code="unknown_protocol",
            )
        return hello

    def greet(self, request: Request) -> bytes:
        """The answer to a hello."""
        hello = self.hello_in(request)
        self._greeted = True
        self.dead_after_ms = hello.dead_after_ms
        welcome = Welcome(
            protocol=PROTOCOL_VERSION, server=self._server, frame_length_max=FRAME_LENGTH_MAX
        )
        return encode_reply(request.request_id, HELLO, [welcome])


class ClientEnd:
    """Numbers requests, and matches replies to them in whatever order they come."""

    def __init__(self, client: str, dead_after_ms: int = 0, token: str = "") -> None:
        self._client = client
        self._token = token
        self._dead_after_ms = dead_after_ms
        self._frames = FrameReader()
        self._last_id = 0
        self._in_flight: dict[int, Form] = {}
        self._has_heard = False

    def hello(self) -> tuple[int, bytes]:
        hello = Hello(
            protocol=PROTOCOL_VERSION,
            client=self._client,
            dead_after_ms=self._dead_after_ms,
            token=self._token or UNSET,
        )
        return self.request(HELLO, [hello])

    def request(
        self, form: Form, messages: Sequence[Message], keys: RequestKeys | None = None
    ) -> tuple[int, bytes]:
        """A number for the request, and the bytes to send."""
        self._last_id += 1
        frame = encode_request(self._last_id, form, messages, keys)
        self._in_flight[self._last_id] = form
        return self._last_id, frame

    def forget(self, request_id: int) -> None:
        """Nobody waits for this reply any more; it may still come."""
        self._in_flight.pop(request_id, None)

    def receive(self, data: bytes) -> Iterator[Answered]:
        if not self._has_heard:
            check_answer(data)
            self._has_heard = True
        self._frames.receive(data)
        while (frame := self._frames.next_frame()) is not None:
            reply = decode_reply(frame)
            form = self._in_flight.pop(reply.request_id, None)
            if isinstance(reply.body, FloError):
                if reply.request_id == 0:  # the server could not even read what we sent
                    raise reply.body
                yield reply.request_id, reply.body
            elif form is not None:
                yield reply.request_id, decode_answers(form, reply.body)
