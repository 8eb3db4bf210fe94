"""One connection of the binary listener: one conversation.

No task and no future is made for a request: the answer is written by the callback that the shard
calls. Where many wait, all that is written in one turn of the loop leaves in one piece.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

import msgspec
import structlog

from flo.aio.sockets import set_up_socket
from flo.model.base import Message, Nothing
from flo.model.errors import (
    Conflict,
    Corrupt,
    FloError,
    Invalid,
    TimedOut,
    TooLarge,
    Unauthenticated,
    Unexpected,
)
from flo.model.storage.caller import Caller, Source
from flo.model.storage.request_keys import RequestKeys
from flo.model.version import VERSION
from flo.model.workers import Heartbeat, RegisterWorker, ResumeWorker
from flo.server.auth.access import OPEN, Access
from flo.server.auth.guard import Guard
from flo.server.auth.identity import LOCAL, Identity
from flo.server.budget import MemoryBudget, Part, SentLately, length_of, unlimited
from flo.server.rpc.frame_watch import FRAME_MS_FIRST, RATE_MIN, FrameWatch
from flo.server.rpc.handler import RequestHandler
from flo.server.rpc.presence import WorkerConnections
from flo.server.rpc.refusal_pace import RefusalPace
from flo.server.rpc.silence import SilenceWatch
from flo.server.rpc.slices import SlicedAnswers, messages_per_slice
from flo.server.rpc.wrong_port import answer_to_stranger
from flo.server.tls import common_name
from flo.shard.clock import Clock, ScheduledCall
from flo.shard.submission import Answer, Submission
from flo.wire.codec import Request, encode_refusal, encode_reply
from flo.wire.connection import ServerEnd
from flo.wire.frame import FRAME_LENGTH_MAX
from flo.wire.opcodes import HELLO, PING, Form

HELLO_MS_MAX = 10_000
IN_FLIGHT_MAX = 10_000
CONNECTIONS_MAX = 10_000
UNDECIDED_MESSAGES_MAX = 2_000
UNDECIDED_LENGTH_MAX = 4 * 1024 * 1024
"""A connection with so many messages or bytes that are not decided yet is not read from. Long polls
do not count: they are decided, and wait."""
UNREAD_LENGTH_MAX = 2 * FRAME_LENGTH_MAX
"""A client that has so much to read, and does not, is cut off."""
REQUESTS_AT_ONCE = 200
"""So many requests of a connection are taken in before others have their turn."""
OF_WORKERS = frozenset({RegisterWorker, ResumeWorker, Heartbeat})
ALONE = 1
"""With so few other requests under way, no other answer is waited for: a worker always has one that
waits for notifications."""

_logger = structlog.get_logger("flo.rpc")


class ConnectionWatcher(Protocol):
    """Hears what the door does, for metrics."""

    def rpc_opened(self) -> None: ...

    def rpc_closed(self) -> None: ...

    def rpc_request(self, form: str) -> None: ...


class InFlight:
    """A request that is not answered yet: what was handed in, and what it takes."""

    __slots__ = ("length", "submission", "undecided_length", "undecided_messages")

    def __init__(self, length: int, undecided_messages: int, undecided_length: int) -> None:
        self.length = length
        """In the budget."""
        self.undecided_messages = undecided_messages
        self.undecided_length = undecided_length
        self.submission: Submission | SlicedAnswers | None = None


class RpcConnection(asyncio.Protocol):
    def __init__(
        self,
        engine: RequestHandler,
        clock: Clock,
        watcher: ConnectionWatcher,
        connections: "set[RpcConnection]",
        workers: WorkerConnections,
        budget: MemoryBudget | None = None,
        access: Access = OPEN,
        http_url: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.identity = LOCAL
        self._access = access
        self._http_url = http_url
        self._router = engine
        self._engine: RequestHandler = engine
        self._clock = clock
        self._watcher = watcher
        self._connections = connections
        self._workers = workers
        self._budget = budget or unlimited()
        self._end = ServerEnd(f"flo/{VERSION}")
        self._frame_watch = FrameWatch(
            self._end.frames, self._budget, clock, lambda: self._is_paused, self._arrives_too_slowly
        )
        self._transport: asyncio.Transport | None = None
        self._hello_alarm: ScheduledCall | None = None
        self._is_new = True
        """Whether nothing has come yet."""
        self._caller = Caller(source=Source.RPC)
        self._in_flight: dict[int, InFlight] = {}
        self._undecided_messages = 0
        self._undecided_length = 0
        self._outbox: list[bytes] = []
        self._is_full = False
        """Whether the other end does not read what was written."""
        self._unread_length = 0
        self._is_paused = False
        self._reads_soon = False
        self._sent = SentLately()
        self._refusals = RefusalPace(clock, self._pace)
        self._silence: SilenceWatch | None = None
        self._expiry: ScheduledCall | None = None
        self._is_turned_away = False
        self._asking: asyncio.Future[None] | None = None

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
        if self._expiry is not None:
            self._expiry.cancel()
        self._access.conversations.discard(self)
        if self._asking is not None:
            self._asking.cancel()
        if self._silence is not None:
            self._silence.stop()
        self._withdraw_all()
        self._frame_watch.end()
        self._refusals.end()
        self._count_unread(0)
        self._workers.ended(self)

    def data_received(self, data: bytes) -> None:
        self.heard()
        if self._is_new:
            self._is_new = False
            answer = answer_to_stranger(data, self._http_url())
            if answer is not None and self._transport is not None:
                self._transport.write(answer)
                self.close()
                return
        self._end.frames.receive(data)
        self._read()

    def pause_writing(self) -> None:
        """The other end does not read: neither do we, until it does."""
        self._is_full = True
        self._pace()

    def resume_writing(self) -> None:
        self._is_full = False
        self._count_unread(0)
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

    def heard(self) -> None:
        """There was a sign of life of who is on it."""
        if self._silence is not None:
            self._silence.was_heard = True

    def watch_silence(self) -> None:
        """A worker is on it: from now on it must be heard of, if it said that it pings."""
        if self._silence is None and self._end.dead_after_ms:
            dead_after_ms = self._end.dead_after_ms
            self._silence = SilenceWatch(self._clock, dead_after_ms, self._fell_silent)
            self._silence.start()

    def _fell_silent(self) -> None:
        if self._is_paused:  # it was not listened to
            self._silence = None
            self.watch_silence()
            return
        _logger.warning(
            "connection_silent",
            peer=self._caller.address,
            for_ms=self._end.dead_after_ms,
        )
        self.abandon()

    def _withdraw_all(self) -> None:
        """Long polls end; what is yet to be decided stays in the budget until it is."""
        for request_id, flight in tuple(self._in_flight.items()):
            if not flight.undecided_messages:
                if flight.submission is not None:
                    flight.submission.withdraw()
                self._budget.change(Part.REQUESTS, -flight.length)
                del self._in_flight[request_id]

    def _read(self) -> None:
        """Take in what has come, but no more than enough of it at once."""
        count = 0
        try:
            for request in self._end.requests():
                self._serve(request)
                if self._transport is None:
                    return
                count += 1
                if count >= REQUESTS_AT_ONCE or self._has_enough():
                    break
        except Corrupt as error:
            self._refuse(error)
            return
        if self._end.frames.has_frame:
            self._frame_watch.keep()
        elif not self._frame_watch.has_room():
            self._drop()
        self._pace()

    def _read_on(self) -> None:
        self._reads_soon = False
        if self._transport is not None and not self._has_enough():
            self._read()

    def _serve(self, request: Request) -> None:
        request_id, form, messages, keys, length = request
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
            if form.request in OF_WORKERS and self._may(messages[0]):
                self._workers.noticed(self, messages[0])
            self._take_in(request_id, form, messages, keys, length)

    def _take_in(
        self,
        request_id: int,
        form: Form,
        messages: list[Message],
        keys: RequestKeys | None,
        frame_length: int,
    ) -> None:
        length = length_of(messages, frame_length)
        if (refusal := self._budget.refusal(messages, length, self._sent)) is not None:
            self._send(encode_refusal(request_id, refusal))
            self._refusals.refused(frame_length)
            return
        if form.waits:
            flight = InFlight(length, 0, 0)
        else:
            flight = InFlight(length, len(messages), frame_length)
        self._in_flight[request_id] = flight
        self._budget.change(Part.REQUESTS, length)
        self._undecided_messages += flight.undecided_messages
        self._undecided_length += flight.undecided_length
        done = partial(self._reply, request_id, form)
        per_slice = messages_per_slice(len(messages), frame_length)
        if len(messages) <= per_slice:
            flight.submission = self._engine.submit(messages, done, self._caller, keys)
        else:
            sliced = flight.submission = SlicedAnswers(messages, done, per_slice, keys)
            sliced.submit(self._engine, self._caller)

    def _drop(self) -> None:
        """There is no memory for the frame that arrives: refuse it, and read past it."""
        request_id = self._end.drop()
        self._frame_watch.dropped()
        refusal = self._budget.overloaded("requests that are arriving")
        if request_id is None:
            self._refuse(refusal)
        else:
            self._send(encode_refusal(request_id, refusal))
            self._refusals.refused(self._end.frames.arrived)

    def _arrives_too_slowly(self) -> None:
        message = (
            f"expected a frame within {FRAME_MS_FIRST // 1_000} s, "
            f"or at least {RATE_MIN} bytes of it in every millisecond"
        )
        self._refuse(TimedOut(message, code="frame_too_slow"))

    def _greet(self, request: Request) -> None:
        try:
            token = self._end.hello_in(request).token or ""
            if self._access.asks_issuer(token):
                self._is_turned_away = True  # nothing is heard until it is known who it is
                self._asking = asyncio.ensure_future(self._ask_issuer(request, token))
                return
            identity = self._access.identify(token, self._certificate())
        except Unauthenticated as error:
            self._turn_away(request.request_id, error)
        except Invalid as error:
            self._send(encode_refusal(request.request_id, error))
            self.close()
        else:
            self._welcome(request, identity)

    async def _ask_issuer(self, request: Request, token: str) -> None:
        try:
            identity = await self._access.identify_by_issuer(token)
        except FloError as error:
            self._turn_away(request.request_id, error)
        else:
            self._is_turned_away = False
            if self._transport is not None:
                self._welcome(request, identity)
                self._pace()

    def _welcome(self, request: Request, identity: Identity) -> None:
        assert self._hello_alarm is not None
        self._let_in(identity)
        self._send(self._end.greet(request))
        self._hello_alarm.cancel()

    def _certificate(self) -> str | None:
        """The name in the certificate that the client has shown, if it has."""
        assert self._transport is not None
        return common_name(self._transport.get_extra_info("peercert"))

    def _let_in(self, identity: Identity) -> None:
        """From now on it is known who is on it."""
        self.identity = identity
        self._engine = self._access.guard_for(identity) or self._router
        self._caller = msgspec.structs.replace(self._caller, actor=identity.actor)
        if identity is not LOCAL:
            self._access.conversations.add(self)
        if identity.expires_at_ms is not None:
            self._expiry = self._clock.call_at(identity.expires_at_ms, self.close)

    def _turn_away(self, request_id: int, error: FloError) -> None:
        """Whoever fails again and again is told so later and later, and not heard meanwhile."""
        self._is_turned_away = True

        def tell() -> None:
            self._send(encode_refusal(request_id, error))
            self.close()

        delay_ms = self._access.failed(self._caller.address)
        if delay_ms:
            self._clock.call_at(self._clock.now_ms() + delay_ms, tell)
        else:
            tell()

    def _may(self, message: Message) -> bool:
        return not isinstance(self._engine, Guard) or self._engine.may(message)

    def _reply(self, request_id: int, form: Form, answers: list[Answer]) -> None:
        flight = self._in_flight.pop(request_id, None)
        if flight is not None:
            self._budget.change(Part.REQUESTS, -flight.length)
            self._undecided_messages -= flight.undecided_messages
            self._undecided_length -= flight.undecided_length
            if self._is_paused:
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
            if self._is_full:
                self._bound_unread(self._transport)
        self._outbox.clear()

    def _bound_unread(self, transport: asyncio.Transport) -> None:
        length = transport.get_write_buffer_size()
        has_room = self._budget.has_room(Part.REPLIES, length - self._unread_length)
        self._count_unread(length)
        if length > UNREAD_LENGTH_MAX or not has_room:
            _logger.warning("replies_not_read", peer=str(self._caller), length=length)
            self.abandon()

    def _count_unread(self, length: int) -> None:
        self._budget.change(Part.REPLIES, length - self._unread_length)
        self._unread_length = length

    def _has_enough(self) -> bool:
        """Whether nothing more is read until some of what there is has been dealt with."""
        return (
            self._is_full
            or self._undecided_messages >= UNDECIDED_MESSAGES_MAX
            or self._undecided_length >= UNDECIDED_LENGTH_MAX
            or len(self._in_flight) >= IN_FLIGHT_MAX
            or self._refusals.is_pausing
            or self._is_turned_away
        )

    def _pace(self) -> None:
        """Read from the connection, unless there is enough of it, or some that was not taken in."""
        if self._transport is None:
            return
        has_enough = self._has_enough()
        has_rest = self._end.frames.has_frame
        if has_rest and not has_enough and not self._reads_soon:
            self._reads_soon = True
            asyncio.get_running_loop().call_soon(self._read_on)
        if self._is_paused is not (has_enough or has_rest):
            self._is_paused = not self._is_paused
            if self._is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()


def _unservable(request_id: int, messages: list[Message]) -> Invalid:
    if not messages:
        return Invalid("expected at least one in a batch, got none", code="invalid_request")
    return Invalid(f"request id {request_id} is in use", code="request_id_in_use")
