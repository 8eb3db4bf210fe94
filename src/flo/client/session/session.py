"""Calls that outlive a connection: deadlines, reconnects, repetition.

    call ──▸ outbox ──flush, once a turn──▸ connection ──▸ answer
               ▲                                │
               ├──── sent again ──── lost ──────┼──▸ refused: it may have been done
               └──── later ──── overloaded ─────┘

A session connects with its first call, and tries again for as long as a call waits. Whoever must
say something on every new connection before all others does so in `on_connected`. When calls wait
and the connection is silent, another one is opened: if that is answered, the silent one is dead.
"""

import asyncio
import random
from collections.abc import Callable
from math import inf
from typing import Protocol, cast

from flo.aio.deadlines import DeadlineTimer
from flo.aio.flush import Flush
from flo.client.session.chosen_keys import chosen_key_of
from flo.client.session.connection import ClientConnection
from flo.client.session.keepalive import PingPolicy
from flo.client.session.logs import ConnectionLog
from flo.client.session.numbers import RequestNumbers, draw_session, may_send_again
from flo.client.session.outbox import Outbox, PendingCall
from flo.client.session.overload import PutOffCalls
from flo.client.session.transport import Connect
from flo.model.declare.operation import Command, Query, R
from flo.model.errors import FloError, Rejected, TimedOut, Unavailable
from flo.wire.opcodes import FORM_OF

CONNECT_TIMEOUT_S = 3.0
CLOSE_TIMEOUT_S = 1.0
DELAY_S_FIRST = 0.05
PINGS_DEFAULT = PingPolicy()
DELAY_S_MAX = 1.0
"""A server that is back is found soon."""


class BlockingMessage(Protocol):
    """A message that says how long its answer may take."""

    @property
    def block_ms(self) -> int: ...


class Session:
    def __init__(
        self,
        connect: Connect,
        address: str,
        *,
        client: str = "",
        timeout_s: float = 30.0,
        delay_s_first: float = DELAY_S_FIRST,
        delay_s_max: float = DELAY_S_MAX,
        rng: Callable[[], float] = random.random,
        pings: PingPolicy = PINGS_DEFAULT,
        draw_session: Callable[[], int] = draw_session,
        token: str = "",
    ) -> None:
        self.timeout_s = timeout_s
        self.on_connected: dict[Callable[[], None], None] = {}
        """Called whenever there is a new connection, before anything is sent on it."""
        self._open = connect
        self._address = address
        self._client = client
        self._delay_s_first = delay_s_first
        self._delay_s_max = delay_s_max
        self._rng = rng
        self._log = ConnectionLog(address, delay_s_max)
        self._pings = pings
        self._draw_session = draw_session
        self._token = token
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._attempts = 0
        self._problem: FloError | None = None
        self._reset()

    def _reset(self) -> None:
        self._connect_lock = asyncio.Lock()
        self._outbox = Outbox()
        self._numbers = RequestNumbers(self._draw_session)
        self._timer = DeadlineTimer(self._expire)
        self._connection: ClientConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._replacing: asyncio.Task[None] | None = None
        self._flush = Flush(self._send)
        self._later = PutOffCalls(self._send_again, self._rng)

    def call(
        self,
        message: Command[R] | Query[R],
        *,
        timeout_s: float | None = None,
        once: bool = False,
    ) -> asyncio.Future[R]:
        """The reply, or the refusal as an error, in time and over as many connections as it takes.

        The time is that of the client, and for a long poll also what it may wait. However often it
        is sent, it is carried out once: the server knows it by its number, or by the key that was
        chosen. What is to be sent `once` is sent once at most: if its connection breaks, the
        caller is told that it may or may not have been done.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._use_loop(loop)
        if self._closed:
            raise Unavailable("the client is closed", code="closed")
        future: asyncio.Future[R] = loop.create_future()
        form = FORM_OF[type(message)]
        if timeout_s is None:
            timeout_s = self.timeout_s
            if form.waits:
                timeout_s += cast(BlockingMessage, message).block_ms / 1_000
        deadline_s = loop.time() + timeout_s
        call = PendingCall(form, message, future, deadline_s, once, chosen_key_of(message))
        self._outbox.add(call)
        self._timer.set(deadline_s)
        self._flush.soon()
        return future

    async def connect(self) -> None:
        """Connect now, or say why not; calls do the same when they need to, and try longer."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._use_loop(loop)
        self._closed = False
        await self._connect_once()

    async def close(self) -> None:
        self._closed = True
        self._timer.clear()
        for task in (self._connecting, self._replacing):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        self._later.send_now()
        for call in self._outbox:
            call.refuse(Unavailable("the client was closed", code="closed"))
        self._outbox.clear_done()
        connection = self._connection
        if connection is not None:
            connection.close()
            await asyncio.wait({connection.closed}, timeout=CLOSE_TIMEOUT_S)
            connection.abort()

    def _use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """A session belongs to one loop at a time; what was pending in a closed loop is dropped."""
        if self._loop is not None and not self._loop.is_closed() and self._connection is not None:
            raise RuntimeError("this client is connected in another event loop: close it there")
        self._loop = loop
        self._reset()

    def _send(self) -> None:
        if self._connection is not None:
            self._connection.send(self._outbox)
        elif self._outbox and self._connecting is None and not self._closed:
            self._connecting = asyncio.get_running_loop().create_task(self._connect_in_background())

    def _send_again(self, calls: list[PendingCall]) -> None:
        for call in calls:
            self._outbox.add(call)
        self._flush.soon()

    async def _connect_in_background(self) -> None:
        try:
            await self._connect_while_needed()
        finally:
            self._connecting = None

    async def _connect_while_needed(self) -> None:
        """Try to connect for as long as a call waits."""
        problem: FloError | None = None
        while self._outbox:
            if self._attempts:
                delay_s = self._delay_s()
                if problem is not None:
                    self._log.unreachable(problem, delay_s)
                await asyncio.sleep(delay_s)
            self._attempts += 1
            try:
                await self._connect_once()
            except Rejected as refusal:  # another attempt cannot help
                for call in self._outbox:
                    call.refuse(type(refusal)(refusal.message, code=refusal.code))
            except FloError as error:
                self._problem = problem = error
            else:
                return
            self._outbox.clear_done()

    def _delay_s(self) -> float:
        """Doubles with every attempt since the last answer; jitter spreads many clients."""
        most: float = min(
            self._delay_s_first * 2.0 ** min(self._attempts - 1, 32), self._delay_s_max
        )
        return most * (0.5 + self._rng() / 2)

    async def _connect_once(self) -> None:
        async with self._connect_lock:
            if self._connection is None:
                self._adopt(await self._opened())
                self._send()

    async def _opened(self) -> ClientConnection:
        """A new connection that was answered."""
        connection = ClientConnection(
            self._client,
            self._send,
            self._lost,
            self._silent,
            self._later.put_off,
            self._pings,
            self._numbers,
            self._token,
        )
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._open(lambda: connection)
                await connection.greeted
        except TimeoutError:
            connection.abort()
            raise self._unreachable(f"no answer within {CONNECT_TIMEOUT_S:g} s") from None
        except (OSError, UnicodeError) as error:
            raise self._unreachable(str(error)) from error
        except BaseException as error:
            connection.abort()
            if isinstance(error, Unavailable) and error.code == "connection_lost":
                raise self._unreachable(error.message) from error  # before it was greeted
            raise
        if connection.closed.done():
            raise self._unreachable("the connection was closed at once")
        return connection

    def _adopt(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._problem = None
        self._log.connected()
        for say_first in tuple(self.on_connected):
            say_first()

    def _silent(self, connection: ClientConnection) -> None:
        if connection is self._connection and self._replacing is None and not self._closed:
            replacing = self._replace_if_answered(connection)
            self._replacing = asyncio.get_running_loop().create_task(replacing)

    async def _replace_if_answered(self, silent: ClientConnection) -> None:
        """A server that stands still for a while answers neither, and no call is given up."""
        try:
            connection = await self._opened()
        except FloError:
            return
        finally:
            self._replacing = None
        if self._connection is not silent or not silent.is_silent:
            connection.abort()
            return
        problem = Unavailable("the connection has gone silent", code="connection_lost")
        self._log.lost(problem, is_needed=True)
        self._adopt(connection)
        self._take_back(silent, problem)
        silent.abort()
        self._send()

    def _unreachable(self, reason: str) -> Unavailable:
        return Unavailable(f"cannot reach flo at {self._address}: {reason}", code="unreachable")

    def _lost(self, connection: ClientConnection, problem: FloError) -> None:
        if connection is not self._connection:  # it was never in use
            return
        self._connection = None
        if connection.answered:
            self._attempts = 0
        self._problem = problem
        self._take_back(connection, problem)
        if not self._closed:
            self._log.lost(problem, is_needed=bool(self._outbox))
        self._send()

    def _take_back(self, connection: ClientConnection, problem: FloError) -> None:
        """What was under way on a connection that is no more is repeated, or refused."""
        now_s = asyncio.get_running_loop().time()
        for call in connection.in_flight():
            if self._closed:
                call.refuse(Unavailable("the client was closed", code="closed"))
            elif may_send_again(call, now_s):
                self._outbox.add(call)
            else:
                call.refuse(_connection_lost(call, problem))
        self._outbox.clear_done()

    def _expire(self) -> float:
        """Give up the calls whose time is over; the deadline to look at next."""
        now_s = asyncio.get_running_loop().time()
        next_s = self._connection.expire(now_s) if self._connection is not None else inf
        for call in self._outbox:
            if call.deadline_s > now_s:
                next_s = min(next_s, call.deadline_s)
            else:
                call.refuse(self._unsent(call))
        self._outbox.clear_done()
        return next_s

    def _unsent(self, call: PendingCall) -> FloError:
        if self._problem is None:
            return TimedOut(f"{call.form.name} could not be sent in time")
        return Unavailable(self._problem.message, code="unreachable")


def _connection_lost(call: PendingCall, problem: FloError) -> Unavailable:
    return Unavailable(
        f"{problem.message}; the {call.form.name} that was under way may or may not have been "
        "accepted",
        code="connection_lost",
    )
