"""The binary listener: one connection, one conversation.

No task and no future is made for a request: the answer is written by the callback that the shard
calls. Where many wait, all that is written in one turn of the loop leaves in one piece.
"""

import asyncio
from functools import partial
from typing import Protocol, cast

import structlog

from flo.aio.sockets import set_up_socket
from flo.model.base import Message, Nothing
from flo.model.errors import Conflict, Corrupt, FloError, Invalid, TooLarge, Unexpected
from flo.model.storage.caller import Caller, Source
from flo.model.version import VERSION
from flo.model.workers import WORKER_GRACE_MS_DEFAULT, RegisterWorker, ResumeWorker
from flo.server.rpc.handler import RequestHandler
from flo.server.rpc.presence import WorkerConnections
from flo.shard.clock import Clock, ScheduledCall
from flo.shard.submission import Answer, Submission
from flo.wire.codec import Request, encode_refusal, encode_reply
from flo.wire.connection import ServerEnd
from flo.wire.opcodes import HELLO, PING, Form

HELLO_MS_MAX = 10_000
IN_FLIGHT_MAX = 10_000
CONNECTIONS_MAX = 10_000
WORKER_ARRIVALS = frozenset({RegisterWorker, ResumeWorker})
ALONE = 1
"""With so few other requests under way, no other answer is waited for: a worker always has one that
waits for notifications."""

_logger = structlog.get_logger("flo.rpc")


class ConnectionWatcher(Protocol):
    """Hears what the door does, for metrics."""

    def rpc_opened(self) -> None: ...

    def rpc_closed(self) -> None: ...

    def rpc_request(self, form: str) -> None: ...


class Listener:
    """`workers` knows which of them is on which connection."""

    def __init__(
        self,
        engine: RequestHandler,
        clock: Clock,
        watcher: ConnectionWatcher,
        host: str,
        port: int,
        *,
        worker_grace_ms: int = WORKER_GRACE_MS_DEFAULT,
    ) -> None:
        self.workers = WorkerConnections(engine, clock, worker_grace_ms)
        self._engine = engine
        self._clock = clock
        self._watcher = watcher
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[RpcConnection] = set()

    @property
    def port(self) -> int:
        """The port that is listened on, also when any free one was asked for."""
        return self._port

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self.accept, self._host, self._port)
        except OSError as error:
            raise Conflict(
                f"cannot listen on {self._host}:{self._port}: {error.strerror or error}",
                code="address_in_use",
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self.workers.stop()
        for connection in tuple(self._connections):
            connection.close()

    def accept(self) -> "RpcConnection":
        return RpcConnection(
            self._engine, self._clock, self._watcher, self._connections, self.workers
        )


class RpcConnection(asyncio.Protocol):
    def __init__(
        self,
        engine: RequestHandler,
        clock: Clock,
        watcher: ConnectionWatcher,
        connections: "set[RpcConnection]",
        workers: WorkerConnections,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._watcher = watcher
        self._connections = connections
        self._workers = workers
        self._end = ServerEnd(f"flo/{VERSION}")
        self._transport: asyncio.Transport | None = None
        self._hello_alarm: ScheduledCall | None = None
        self._caller = Caller(source=Source.RPC)
        self._in_flight: dict[int, Submission] = {}
        self._outbox: list[bytes] = []
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if peer := transport.get_extra_info("peername"):
            self._caller = Caller(source=Source.RPC, address=str(peer[0]))
        if (raw := transport.get_extra_info("socket")) is not None:
            set_up_socket(raw)
        self._connections.add(self)
        self._watcher.rpc_opened()
        self._hello_alarm = self._clock.call_at(self._clock.now_ms() + HELLO_MS_MAX, self.close)
        if len(self._connections) > CONNECTIONS_MAX:
            self._refuse(
                Conflict(
                    f"{CONNECTIONS_MAX} connections are open, and that is the most",
                    code="too_many_connections",
                )
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._connections.discard(self)
        self._watcher.rpc_closed()
        if self._hello_alarm is not None:
            self._hello_alarm.cancel()
        self._withdraw_all()
        self._workers.ended(self)

    def data_received(self, data: bytes) -> None:
        try:
            for request in self._end.receive(data):
                self._serve(request)
                if self._transport is None:
                    return
        except Corrupt as error:
            self._refuse(error)

    def pause_writing(self) -> None:
        """The other end does not read: neither do we, until it does."""
        self._is_full = True
        self._pace()

    def resume_writing(self) -> None:
        self._is_full = False
        self._pace()

    def close(self) -> None:
        """Send what is ready, then hang up."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
            self._transport = None

    def abandon(self) -> None:
        """Its worker is on another connection: nothing more is taken in here, nor answered."""
        self._withdraw_all()
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _withdraw_all(self) -> None:
        for submission in tuple(self._in_flight.values()):
            submission.withdraw()
        self._in_flight.clear()

    def _serve(self, request: Request) -> None:
        request_id, form, messages = request
        if isinstance(messages, FloError) or form is None:
            assert isinstance(messages, FloError)
            self._send(encode_refusal(request_id, messages))
        elif form is HELLO:
            self._greet(request)
        elif form is PING:
            self._send(encode_reply(request_id, PING, [Nothing()]))
        elif request_id in self._in_flight or not messages:
            self._send(encode_refusal(request_id, _unservable(request_id, messages)))
        else:
            self._watcher.rpc_request(form.name)
            if form.request in WORKER_ARRIVALS:
                self._workers.noticed(self, messages[0])
            done = partial(self._reply, request_id, form)
            submission = self._engine.submit(messages, done, self._caller)
            if submission.is_open:
                self._in_flight[request_id] = submission
                if len(self._in_flight) >= IN_FLIGHT_MAX:
                    self._pace()

    def _greet(self, request: Request) -> None:
        try:
            self._send(self._end.greet(request))
        except Invalid as error:
            self._send(encode_refusal(request.request_id, error))
            self.close()
        else:
            assert self._hello_alarm is not None
            self._hello_alarm.cancel()

    def _reply(self, request_id: int, form: Form, answers: list[Answer]) -> None:
        self._in_flight.pop(request_id, None)
        if len(self._in_flight) == IN_FLIGHT_MAX - 1:
            self._pace()
        try:
            self._send(encode_reply(request_id, form, answers))
        except TooLarge as error:
            self._send(encode_refusal(request_id, error))
        except Exception as error:  # our mistake: the asker must hear of it all the same
            _logger.exception("reply_not_encodable", form=form.name)
            self._send(encode_refusal(request_id, Unexpected(f"{form.name}: {error!r}")))

    def _refuse(self, error: FloError) -> None:
        """This connection makes no sense any more: say why, and hang up."""
        _logger.info("connection_refused", code=error.code, reason=error.message)
        self._send(encode_refusal(0, error))
        self.close()

    def _send(self, frame: bytes) -> None:
        self._outbox.append(frame)
        if len(self._in_flight) <= ALONE:
            self._flush()
        elif len(self._outbox) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        if self._outbox and self._transport is not None:
            self._transport.write(b"".join(self._outbox))
        self._outbox.clear()

    def _pace(self) -> None:
        if self._transport is None:
            return
        if self._is_full or len(self._in_flight) >= IN_FLIGHT_MAX:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


def _unservable(request_id: int, messages: list[Message]) -> Invalid:
    if not messages:
        return Invalid("expected at least one in a batch, got none", code="invalid_request")
    return Invalid(f"request id {request_id} is in use", code="request_id_in_use")
