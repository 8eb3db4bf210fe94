"""A stream worker under a real shard, on virtual time and a network in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from client.fake import FakeServer
from flo import Flo, StreamWorker
from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.base import Message
from flo.model.streams import NewRecord
from flo.shard.loop import Shard
from flo.shard.submission import Submission
from flo.wire.codec import Answer
from flo.wire.opcodes import Form
from simulator.faults.loop import LoopClock, run_virtual

STREAM = "events"
GROUP = "g"


class ShardServer(FakeServer):
    """A server in front of a real shard, which remembers what it was asked.

    The answer to a message of a type in `lost` never arrives: the connection breaks instead, once
    for each. A message of a type in `answers` gets that answer, and the shard is not asked.
    """

    def __init__(self, shard: Shard | None = None) -> None:
        super().__init__(self._answer)
        self.shard = shard or Shard(State(), MemoryLog(), LoopClock())
        self.lost: list[type[Message]] = []
        self.answers: dict[type[Message], Message] = {}
        self._asked: list[Submission] = []

    def heard(self, kind: type[Message]) -> list[Any]:
        """Every message of this type, in the order in which they came."""
        return [
            message
            for _, messages in self.requests
            for message in messages
            if type(message) is kind
        ]

    def cut(self) -> None:
        """Break the connection, with all that is in flight on it."""
        self.forget()
        self.hang_up()

    def forget(self) -> None:
        """Nobody waits for answers any more, as when the client has closed the connection."""
        for submission in self._asked:
            submission.withdraw()
        self._asked.clear()

    def _answer(self, operation: Form, messages: Sequence[Message]) -> list[Answer] | None:
        if type(messages[0]) in self.answers:
            return [self.answers[type(messages[0])]]

        def done(answers: list[Answer]) -> None:
            if type(messages[0]) in self.lost:
                self.lost.remove(type(messages[0]))
                self.cut()
                return
            for index, request in enumerate(self.ends[-1].open):
                if request.messages is messages:
                    self.reply(answers, index)
                    return

        self._asked.append(self.shard.submit(messages, done))
        return None


class WorkerSetup:
    """A running worker, the server it talks to, and a client with a connection of its own."""

    def __init__(self, handler: Callable[..., Any], **options: Any) -> None:
        self.server = ShardServer()
        self._options: dict[str, Any] = {"worker_id": "anna", **options}
        self._handler = handler
        self._flo = Flo("flo:9000", connect=self.server.connect, rng=lambda: 1.0)
        other = ShardServer(self.server.shard)  # which does not break with that of the worker
        self.beside = Flo("flo:9000", connect=other.connect)
        self.group = self.beside.streams.group(STREAM, GROUP)

    def start(self) -> None:
        self.worker = StreamWorker(
            self._flo, stream=STREAM, group=GROUP, handler=self._handler, **self._options
        )
        self.serving = asyncio.ensure_future(self.worker.serve())

    async def append(self, *names: str) -> None:
        """Records such as "k1": of key "k", with the payload "k1"."""
        await self.beside.streams.append_many(
            STREAM, [NewRecord(payload=name.encode(), key=name[0]) for name in names]
        )

    async def end(self) -> None:
        await self.serving
        await self._flo.close()
        await self.beside.close()
        await self.server.shard.stop()


def play(
    scenario: Callable[[WorkerSetup], Awaitable[None]],
    handler: Callable[..., Any],
    *,
    group: dict[str, Any] | None = None,
    **options: Any,
) -> ShardServer:
    """Make the group, play the scenario, then stop the worker, unless it has ended by itself."""

    async def main() -> ShardServer:
        setup = WorkerSetup(handler, **options)
        await setup.server.shard.start()
        await setup.group.create(**(group or {}))
        await scenario(setup)
        setup.worker.stop()
        await setup.end()
        return setup.server

    return run_virtual(main())


async def soon() -> None:
    """Let happen what is about to happen."""
    await asyncio.sleep(0.1)
