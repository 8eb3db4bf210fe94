"""Calls that wait to be sent, and how they are cut into batches.

Calls of the same operation made in one turn of the loop become one frame where the wire has a
batch form for them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from flo.client.payloads.records import length_of
from flo.model.base import Message
from flo.model.groups import ReadGroup
from flo.model.kv import PutKey
from flo.model.pipelines.work import AwaitNode, NextInput, ReportBatch
from flo.model.runs import Claim, Complete, Invoke
from flo.model.streams import Append
from flo.model.workers import ResumeWorker
from flo.model.workflows import StartWorkflow
from flo.wire.opcodes import BATCH_FORM_OF, BATCH_LENGTH_MAX, FORM_OF, Form

BATCH_PAYLOAD_LENGTH_MAX = 1024 * 1024


LENGTHS: dict[type[Message], Callable[[Any], int]] = {
    Invoke: lambda message: len(message.input),
    Complete: lambda message: len(message.output),
    Append: lambda message: sum(map(length_of, message.records)),
    PutKey: lambda message: len(message.key) + len(message.value),
    StartWorkflow: lambda message: len(message.input),
    ReportBatch: lambda message: len(message.meta),
}
"""About how many bytes a message of a batch form takes."""
assert LENGTHS.keys() == BATCH_FORM_OF.keys()

FIRST = FORM_OF[ResumeWorker].opcode
"""Sent before all others: what a worker still holds is known before it reports or asks for more."""
LAST = frozenset(FORM_OF[one].opcode for one in (Claim, ReadGroup, AwaitNode, NextInput))
"""Sent after all others: they ask for work, which reports of the same turn may make ready."""


class PendingCall:
    """One message on its way: what is asked, who waits, and until when."""

    __slots__ = (
        "deadline_s",
        "form",
        "future",
        "key",
        "message",
        "number",
        "once",
        "refusals",
        "sent_at_s",
    )

    def __init__(
        self,
        form: Form,
        message: Message,
        future: asyncio.Future[Any],
        deadline_s: float,
        once: bool,
        key: str | None = None,
    ) -> None:
        self.form = form
        self.message = message
        self.future = future
        self.deadline_s = deadline_s
        self.once = once
        self.refusals = 0
        """How often the server had no room for it."""
        self.key = key
        """What the user tells it from all others by."""
        self.number: int | None = None
        """What the session tells it from all others by, from when it is first sent."""
        self.sent_at_s: float | None = None
        """When it was first sent."""

    def refuse(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Outbox:
    def __init__(self) -> None:
        self._waiting: dict[int, deque[PendingCall]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __iter__(self) -> Iterator[PendingCall]:
        for waiting in self._waiting.values():
            yield from waiting

    def add(self, call: PendingCall) -> None:
        opcode = call.form.opcode
        waiting = self._waiting.get(opcode)
        if waiting is None:
            waiting = self._waiting[opcode] = deque()
        waiting.append(call)

    def take(self) -> list[PendingCall]:
        """The calls of the next frame; none if nobody waits for them any more."""
        opcode = FIRST if FIRST in self._waiting else None
        if opcode is None:
            opcode = next((one for one in self._waiting if one not in LAST), None)
        if opcode is None:
            opcode = next(iter(self._waiting))
        waiting = self._waiting[opcode]
        length = LENGTHS.get(waiting[0].form.request)
        batch = _cut(waiting, length) if length else _first(waiting)
        if not waiting:
            del self._waiting[opcode]
        return batch

    def clear_done(self) -> None:
        for opcode, waiting in list(self._waiting.items()):
            still_open = deque(call for call in waiting if not call.future.done())
            if still_open:
                self._waiting[opcode] = still_open
            else:
                del self._waiting[opcode]


def _first(waiting: deque[PendingCall]) -> list[PendingCall]:
    call = waiting.popleft()
    return [] if call.future.done() else [call]


def _cut(waiting: deque[PendingCall], length_of_one: Callable[[Any], int]) -> list[PendingCall]:
    """As many calls as one frame may hold; one at least, however long it is."""
    batch: list[PendingCall] = []
    length = 0
    while waiting and len(batch) < BATCH_LENGTH_MAX:
        call = waiting[0]
        if call.future.done():
            waiting.popleft()
            continue
        length += length_of_one(call.message)
        if length > BATCH_PAYLOAD_LENGTH_MAX and batch:
            break
        batch.append(waiting.popleft())
    return batch
