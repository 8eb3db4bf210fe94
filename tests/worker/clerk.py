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


class Clerk(FakeServer):
    """Asks the shard, and remembers what it was asked.

    The answer to a word of a kind in `lost` never arrives: the line breaks instead, once for each.
    What `answers` says of a kind is answered to it, and the shard is not asked.
    """

    def __init__(self, shard: Shard | None = None) -> None:
        super().__init__(self._answer)
        self.shard = shard or Shard(State(), MemoryLog(), LoopClock())
        self.lost: list[type[Message]] = []
        self.answers: dict[type[Message], Message] = {}
        self._asked: list[Submission] = []

    def heard(self, kind: type[Message]) -> list[Any]:
        """Every word of this kind, in the order in which they came."""
        return [
            message
            for _, messages in self.requests
            for message in messages
            if type(message) is kind
        ]

    def cut(self) -> None:
        """Break the line, with all that is under way on it."""
        self.forget()
        self.hang_up()

    def forget(self) -> None:
        """Nobody waits for answers any more, as when the line was closed at the other end."""
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


class Shift:
    """A worker at work, the clerk it talks to, and a client of one's own beside it."""

    def __init__(self, handler: Callable[..., Any], **options: Any) -> None:
        self.clerk = Clerk()
        self._options: dict[str, Any] = {"worker_id": "anna", **options}
        self._handler = handler
        self._flo = Flo("flo:9000", connect=self.clerk.connect, rng=lambda: 1.0)
        another_door = Clerk(self.clerk.shard)  # breaking the worker's line does not break this
        self.beside = Flo("flo:9000", connect=another_door.connect)
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
        await self.clerk.shard.stop()


def play(
    scenario: Callable[[Shift], Awaitable[None]],
    handler: Callable[..., Any],
    *,
    group: dict[str, Any] | None = None,
    **options: Any,
) -> Clerk:
    """Make the group, play the scenario, then stop the worker, unless it has ended by itself."""

    async def main() -> Clerk:
        shift = Shift(handler, **options)
        await shift.clerk.shard.start()
        await shift.group.create(**(group or {}))
        await scenario(shift)
        shift.worker.stop()
        await shift.end()
        return shift.clerk

    return run_virtual(main())


async def soon() -> None:
    """Let happen what is about to happen."""
    await asyncio.sleep(0.1)
