"""One connection: batches of calls go out, answers find the calls they belong to."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import NamedTuple, TypeAlias, cast

from flo.client.arguments.refusals import about_arguments, unsendable
from flo.client.session.keepalive import NO_PINGS, Keepalive, PingPolicy
from flo.client.session.numbers import RequestNumbers
from flo.client.session.outbox import Outbox, PendingCall
from flo.model.errors import Corrupt, FloError, Overloaded, Rejected, TimedOut, Unavailable
from flo.wire.codec import Answer
from flo.wire.connection import ClientEnd
from flo.wire.opcodes import BATCH_FORM_OF, PING, Ping

WRITE_LENGTH_MAX = 1024 * 1024

Lost: TypeAlias = Callable[["ClientConnection", FloError], None]


class Frame(NamedTuple):
    """A frame in flight."""

    calls: list[PendingCall]
    sent_at_s: float


class ClientConnection(asyncio.Protocol):
    """Says hello as soon as it is connected; `greeted` is done once the server has answered.

    `on_room` is called when there is room to send again, `on_lost` once when the connection has
    ended: the calls in flight are then the owner's to repeat or to give up. `on_silent` is called
    while calls wait and not even pings are answered. `on_overloaded` is given the calls that the
    server had no room for, and has not begun with.
    """

    def __init__(
        self,
        client: str,
        on_room: Callable[[], None],
        on_lost: Lost,
        on_silent: Callable[["ClientConnection"], None],
        on_overloaded: Callable[[list[PendingCall], Overloaded], None],
        pings: PingPolicy = NO_PINGS,
        numbers: RequestNumbers | None = None,
        token: str = "",
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = ClientEnd(client, pings.dead_after_ms, token)
        self._numbers = numbers or RequestNumbers()
        self._on_room = on_room
        self._on_lost = on_lost
        self._on_overloaded = on_overloaded
        self._transport: asyncio.Transport | None = None
        self._frames: dict[int, Frame] = {}
        self._hello_id = 0
        self._problem: FloError | None = None
        self._received_at_s = 0.0
        self._keepalive = Keepalive(pings, self._is_awaiting, self._ping, partial(on_silent, self))
        self.paused = False
        self.answered = False
        self.greeted: asyncio.Future[None] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def send(self, outbox: Outbox) -> None:
        """Send until the outbox is empty or the transport has enough; what is left stays there."""
        assert self._transport is not None
        while outbox and not self.paused:
            frames: list[bytes] = []
            length = 0
            while outbox and length < WRITE_LENGTH_MAX:
                batch = outbox.take()
                if batch:
                    frame = self._frame(batch)
                    frames.append(frame)
                    length += len(frame)
            self._transport.write(b"".join(frames))

    @property
    def is_silent(self) -> bool:
        """Whether the last ping has not been answered, nor anything else."""
        return self._keepalive.is_silent

    def in_flight(self) -> Iterator[PendingCall]:
        for frame in self._frames.values():
            yield from frame.calls

    def expire(self, now_s: float) -> float:
        """Give up the calls whose time is over; the deadline to look at next.

        If nothing at all was received since one of them was sent, the connection is given up.
        """
        next_s, silent = inf, False
        for request_id, (calls, sent_at_s) in list(self._frames.items()):
            still_open = False
            for call in calls:
                if call.future.done():
                    continue
                if call.deadline_s > now_s:
                    still_open = True
                    next_s = min(next_s, call.deadline_s)
                else:
                    call.refuse(TimedOut(f"no answer to {call.form.name} in time"))
                    silent = silent or sent_at_s > self._received_at_s
            if not still_open:
                del self._frames[request_id]
                self._end.forget(request_id)
        if silent:
            self.abort(Unavailable("the server has gone silent", code="connection_lost"))
        return next_s

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self, problem: FloError | None = None) -> None:
        self._problem = self._problem or problem
        self.paused = True  # whatever is not sent yet can be sent elsewhere
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._hello_id, frame = self._end.hello()
        self._transport.write(frame)

    def data_received(self, data: bytes) -> None:
        self._received_at_s = self._loop.time()
        self._keepalive.received()
        try:
            for request_id, answers in self._end.receive(data):
                if request_id == self._hello_id:
                    self._welcome(answers)
                else:
                    self._answer(request_id, answers)
        except FloError as error:
            is_final = isinstance(error, Rejected) and not self.greeted.done()
            self.abort(error if is_final else Unavailable(error.message, code=error.code))

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self._on_room()

    def connection_lost(self, error: Exception | None) -> None:
        problem = self._problem or Unavailable(
            f"the connection was lost: {error or 'closed by the server'}", code="connection_lost"
        )
        self._keepalive.stop()
        if not self.greeted.done():
            self.greeted.set_exception(problem)
            self.greeted.exception()  # whoever waited may have gone
        if not self.closed.done():
            self.closed.set_result(None)
        self._on_lost(self, problem)

    def _frame(self, batch: list[PendingCall]) -> bytes:
        """The bytes of a batch; calls that cannot be written are refused here, one by one."""
        form = batch[0].form
        if len(batch) > 1:
            form = BATCH_FORM_OF[form.request]
        now_s = self._loop.time()
        try:
            keys = self._numbers.keys_of(batch, now_s)
            request_id, frame = self._end.request(form, [call.message for call in batch], keys)
        except (FloError, TypeError, ValueError, OverflowError, RecursionError) as error:
            if len(batch) > 1:
                return b"".join(self._frame([call]) for call in batch)
            batch[0].refuse(error if isinstance(error, FloError) else unsendable(error))
            return b""
        self._frames[request_id] = Frame(batch, now_s)
        return frame

    def _welcome(self, answers: list[Answer] | FloError) -> None:
        if self.greeted.done():
            return
        if isinstance(answers, FloError):
            self.greeted.set_exception(answers)
        else:
            self.greeted.set_result(None)
            self._keepalive.start()

    def _is_awaiting(self) -> bool:
        return bool(self._frames)

    def _ping(self) -> None:
        if self._transport is not None:
            _, frame = self._end.request(PING, [Ping()])
            self._transport.write(frame)

    def _answer(self, request_id: int, answers: list[Answer] | FloError) -> None:
        self.answered = True
        frame = self._frames.pop(request_id, None)
        if frame is None:
            return
        calls = frame.calls
        if isinstance(answers, FloError):
            self._refuse(calls, answers)
            return
        if len(answers) != len(calls):
            self._frames[request_id] = frame  # unanswered still: the owner decides
            raise Corrupt(
                f"expected {len(calls)} answers to {calls[0].form.name}, got {len(answers)}",
                code="reply_damaged",
            )
        for call, answer in zip(calls, answers, strict=True):
            future = call.future
            if future.done():  # the caller has gone
                continue
            if isinstance(answer, Overloaded):
                self._on_overloaded([call], answer)
            elif isinstance(answer, FloError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _refuse(self, calls: list[PendingCall], error: FloError) -> None:
        """A frame was refused as a whole: send its calls again one by one, since only one of them
        may be wrong."""
        if len(calls) > 1 and isinstance(error, Rejected):
            assert self._transport is not None
            self._transport.write(b"".join(self._frame([call]) for call in calls))
            return
        if isinstance(error, Overloaded):
            self._on_overloaded(calls, error)
            return
        for call in calls:
            call.refuse(about_arguments(error))
