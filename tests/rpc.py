"""A door on a free port, and callers that speak to it byte by byte."""

import asyncio
from contextlib import asynccontextmanager

from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.server.metrics import Metrics
from flo.server.rpc.listener import Listener
from flo.shard.loop import Shard
from flo.testing.clock import ManualClock
from flo.wire.connection import ClientEnd
from flo.wire.opcodes import BY_NAME, Ping


class Caller:
    """One connection, and the conversation on it as the client's end hears it."""

    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer
        self._heard = {}
        self.end = ClientEnd("test")

    async def greet(self):
        number, hello = self.end.hello()
        self.write(hello)
        return (await self.answers(number))[0]

    def write(self, data):
        self._writer.write(data)

    def send(self, name, *messages):
        """The number of the request, which is on its way."""
        number, frame = self.end.request(BY_NAME[name], messages)
        self.write(frame)
        return number

    async def answers(self, number):
        """What the server says to this request: answers, or the refusal of them all."""
        while number not in self._heard:
            data = await self._reader.read(65_536)
            assert data, "the server has hung up"
            self._heard |= dict(self.end.receive(data))
        return self._heard.pop(number)

    async def call(self, name, *messages):
        answers = await self.answers(self.send(name, *messages))
        return answers if BY_NAME[name].many or isinstance(answers, Exception) else answers[0]

    async def ping(self):
        """A round trip: all that was sent before has been read by the server."""
        return await self.call("ping", Ping())

    async def rest(self):
        """All that still comes until the server hangs up."""
        try:
            return await self._reader.read()
        except ConnectionResetError:  # it has not even read all that was sent
            return b""

    async def reason(self):
        """Why the server hung up."""
        try:
            list(self.end.receive(await self.rest()))
        except Exception as error:  # whatever the server gave as its reason
            return error

    async def hang_up(self):
        """Nothing more will be sent; what the server still says can be read."""
        self._writer.write_eof()

    async def close(self):
        self._writer.close()


class CountingMetrics(Metrics):
    """Knows how many connections are open, and when that has changed."""

    def __init__(self):
        super().__init__()
        self.connections = 0
        self.changed = asyncio.Event()

    def rpc_opened(self):
        super().rpc_opened()
        self._count(1)

    def rpc_closed(self):
        super().rpc_closed()
        self._count(-1)

    def _count(self, change):
        self.connections += change
        self.changed.set()


class Door:
    """A listener, the shard behind it, and the clock they share."""

    def __init__(self, budget=None):
        self.clock = ManualClock()
        self.metrics = CountingMetrics()
        self.log = MemoryLog()
        self.shard = Shard(State(), self.log, self.clock, watcher=self.metrics)
        self.listener = Listener(
            self.shard, self.clock, self.metrics, "127.0.0.1", 0, budget=budget
        )
        self._callers = []

    async def connect(self):
        caller = Caller(*await asyncio.open_connection("127.0.0.1", self.listener.port))
        self._callers.append(caller)
        return caller

    async def call(self):
        """A caller that has said hello."""
        caller = await self.connect()
        await caller.greet()
        return caller

    async def open_connections(self, count):
        """Wait until the door has exactly so many."""
        while self.metrics.connections != count:
            self.metrics.changed.clear()
            await self.metrics.changed.wait()

    async def close(self):
        for caller in self._callers:
            await caller.close()
        await self.open_connections(0)
        await self.listener.stop()
        await self.shard.stop()


@asynccontextmanager
async def opened_door(budget=None):
    """A door behind which the action `send` is known."""
    door = Door(budget)
    await door.shard.start()
    await door.listener.start()
    await door.shard.ask(RegisterAction(name="send"))
    yield door
    await door.close()
