"""uvicorn's HTTP protocol, with a bound on everything a client can hold on to.

uvicorn bounds the pause between two requests. Here are bounded, besides: how long a request may
take to arrive (also the first, also one that is sent a byte at a time), how long its head may be,
how long an answer may lie unread, and how many connections are open.
"""

import asyncio
import logging
from typing import Any, cast

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from flo.model.errors import FloError, Invalid, TimedOut, TooLarge, Unavailable
from flo.server.http.errors import error_body
from flo.server.metrics import Metrics
from flo.server.tls import common_name

CERTIFICATE = "flo.certificate"
"""Where the name in the certificate of a client is in the scope of its requests."""
HEAD_LENGTH_MAX = 64 * 1024
FRAME_START = b"\0"
"""The first byte of the length of a frame; no request begins with it."""
HEADER_SIGNS_LENGTH = len(": \r\n")

_logger = logging.getLogger("flo.http")
_logger.setLevel(logging.ERROR)  # what clients do wrong, they are told; the log is not


class Bounds(msgspec.Struct, frozen=True):
    """What a listener allows its clients."""

    connections_max: int = 10_000
    arrival_seconds_max: float = 60.0
    idle_seconds_max: int = 75
    stop_seconds_max: float = 5.0


class Visitors(ServerState):
    """Who is connected to one listener."""

    def __init__(self, bounds: Bounds, metrics: Metrics) -> None:
        super().__init__()
        self.bounds = bounds
        self.metrics = metrics
        self.rpc: str | None = None
        """Where clients and workers are expected, for those who come here instead."""
        self.nobody = asyncio.Event()
        self.nobody.set()


class OpenTransport:
    """A transport that drops what is written to it once it closes, where uvloop's would raise."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedProtocol(HttpToolsProtocol):
    def __init__(self, config: Config, visitors: Visitors) -> None:
        super().__init__(config, visitors, app_state={})
        self.logger = _logger
        self._visitors = visitors
        self._deadline: asyncio.TimerHandle | None = None
        """Until when a request must have arrived, or its last answer must have been read."""
        self._head_length = 0
        """Bytes that came before the head was whole."""
        self._parsed_length = 0
        """Bytes of the target and the headers, also of those that follow a body in chunks."""
        self._is_in_body = False
        self._is_new = True
        """Whether nothing has come yet."""
        self._certificate: str | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(cast(asyncio.Transport, OpenTransport(transport)))
        self._certificate = common_name(transport.get_extra_info("peercert"))
        self._visitors.nobody.clear()
        self._visitors.metrics.http_opened()
        self._expect_request()
        most = self._visitors.bounds.connections_max
        if len(self.connections) > most:
            message = f"{most} connections are open, and that is the most"
            self._hang_up(503, Unavailable(message, code="too_many_connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._clear_deadline()
        self._visitors.metrics.http_closed()
        if not self.connections:
            self._visitors.nobody.set()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._is_new:
            self._is_new = False
            if data.startswith(FRAME_START):
                self._refuse_frames()
                return
        self._expect_request()
        if not self._is_in_body:
            self._head_length += len(data)
        super().data_received(data)
        self._check_head(self._head_length)

    def on_message_begin(self) -> None:
        self._parsed_length = 0
        self._expect_request()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._parsed_length += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._parsed_length += len(name) + len(value) + HEADER_SIGNS_LENGTH
        self._check_head(self._parsed_length)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_length, self._is_in_body = 0, True
        self._check_head(self._parsed_length)
        if not self.transport.is_closing():
            self.scope[CERTIFICATE] = self._certificate  # type: ignore[literal-required]
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_length, self._is_in_body = 0, False
        if not self.transport.is_closing():
            self._clear_deadline()
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._close()

    def timeout_keep_alive_handler(self) -> None:
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._hang_up(400, Invalid(msg, code="malformed_request"))

    def _refuse_frames(self) -> None:
        """The first bytes are those of a client or a worker."""
        rpc = self._visitors.rpc
        where = f"RPC is on {rpc}" if rpc is not None else "there is no RPC port"
        details = {"rpc": rpc} if rpc is not None else {}
        message = f"this is the HTTP port, {where}"
        self._hang_up(400, Invalid(message, code="wrong_port", details=details))

    def _expect_request(self) -> None:
        if self._deadline is None:
            seconds = self._visitors.bounds.arrival_seconds_max
            self._deadline = self.loop.call_later(seconds, self._arrives_too_late)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _arrives_too_late(self) -> None:
        self._deadline = None
        if self._is_answering():
            self._expect_request()  # the client may have to wait for us first
        else:
            seconds = self._visitors.bounds.arrival_seconds_max
            self._hang_up(408, TimedOut(f"expected a whole request within {seconds:g} s"))

    def _is_answering(self) -> bool:
        cycle = self.cycle
        return bool(self.pipeline) or (
            cycle is not None and not cycle.more_body and not cycle.response_complete
        )

    def _check_head(self, length: int) -> None:
        if length > HEAD_LENGTH_MAX and not self.transport.is_closing():
            message = f"expected a head of at most {HEAD_LENGTH_MAX} bytes"
            self._hang_up(431, TooLarge(message, code="head_too_large"))

    def _hang_up(self, status: int, error: FloError) -> None:
        """Say why, unless an answer is on its way already, and close the connection."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = msgspec.json.encode(error_body(error))
            head = (
                b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self._close()

    def _close(self) -> None:
        """Close when the client has taken what was sent, or has had time enough to."""
        self._clear_deadline()
        seconds = self._visitors.bounds.idle_seconds_max
        self._deadline = self.loop.call_later(seconds, self.transport.abort)
        self.transport.close()
