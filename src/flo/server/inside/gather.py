"""Results of WASM runs that end within milliseconds of each other are submitted together.

A short run takes less time than a commit of its own: while others are under way, its result waits
a little for theirs. One that is urgent does not wait, and takes along those that do.
"""

import asyncio

from flo.aio.flush import Flush
from flo.model.base import Message
from flo.model.errors import FloError
from flo.shard.loop import Shard
from flo.shard.submission import Answer

TOGETHER_S = 0.002


class Gatherer:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._waiting: list[tuple[Message, asyncio.Future[Answer]]] = []
        self._flush = Flush(self._submit, TOGETHER_S)

    async def hand_in(self, report: Message, *, is_urgent: bool) -> Message:
        """What the shard says to it; a refusal is raised."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((report, answer))
        if is_urgent:
            self._flush.now()
        else:
            self._flush.soon()
        reply = await answer
        if isinstance(reply, FloError):
            raise reply
        return reply

    def _submit(self) -> None:
        together, self._waiting = self._waiting, []

        def answered(answers: list[Answer]) -> None:
            for (_, future), answer in zip(together, answers, strict=True):
                if not future.done():
                    future.set_result(answer)

        self._shard.submit([report for report, _ in together], answered)
