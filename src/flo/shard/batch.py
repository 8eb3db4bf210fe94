"""What has been decided since the last append: written as a whole, and heard of after that."""

from collections.abc import Sequence

from msgspec.structs import replace

from flo.engine.callers import CallerNoted
from flo.engine.long_poll import Turn
from flo.engine.machine import PAYLOAD_LENGTHS
from flo.model.base import Event, Message
from flo.model.declare.catalog import OPERATIONS
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.caller import Caller
from flo.shard.chunks import Chunks
from flo.shard.submission import Answer, Submission

MESSAGES_MAX = 1_000
LENGTH_MAX = 64 * 1024 * 1024
"""Bytes of payload in one append, about: a log has a bound on what it takes at a time."""
FEW_MESSAGES = 4
FEW_EVENTS = 100
SMALL_LENGTH = 64 * 1024

_OPCODES = {one.message: one.opcode for one in OPERATIONS}
"""Commands that are no operations, such as ticks, are called by their class."""


class CallerPart:
    """The events of one caller's commands that were decided at one time."""

    def __init__(self, noted: CallerNoted, index: int) -> None:
        self.noted = noted
        self.index = index
        self._counts: dict[int | str, int] = {}

    def count(self, message: Message) -> None:
        operation = _OPCODES.get(type(message)) or type(message).__name__
        self._counts[operation] = self._counts.get(operation, 0) + 1

    def complete(self, end: int) -> CallerNoted:
        operations = tuple(self._counts.items())
        return replace(self.noted, operations=operations, events=end - self.index - 1)


class Batch:
    def __init__(self) -> None:
        self.taken: list[Submission] = []
        self.events: list[Event] = []
        self.archived: dict[ArchiveAddress, Archived] = {}
        self.removed: list[ArchiveAddress] = []
        self.chunks = Chunks()
        self.answered: list[tuple[Submission, list[Answer]]] = []
        self.queries: list[Submission] = []
        """They are answered by the state as this batch leaves it."""
        self.unready: list[Submission] = []
        """Those for which something has to be fetched from the store."""
        self._message_count = 0
        self._length = 0
        self._offered_counts = [0] * len(Turn)
        self._callers: list[CallerPart] = []

    @property
    def is_empty(self) -> bool:
        return not (self.taken or self.answered)

    @property
    def is_full(self) -> bool:
        return self._message_count >= MESSAGES_MAX or self._length >= LENGTH_MAX

    @property
    def is_small(self) -> bool:
        """Whether it is written so soon, and so few wait for it, that all others can wait too."""
        return (
            self._message_count <= FEW_MESSAGES
            and len(self.events) <= FEW_EVENTS
            and self._length <= SMALL_LENGTH
        )

    def take(self, submission: Submission) -> None:
        self.taken.append(submission)
        self._message_count += len(submission.messages)
        self._length += _payload_length(submission.messages)

    def not_offered(self, turn: Turn) -> Sequence[Event]:
        """The events since this was asked last for those of a turn."""
        begin, self._offered_counts[turn] = self._offered_counts[turn], len(self.events)
        return self.events[begin:]

    def begins(self, caller: Caller, now_ms: int) -> CallerNoted | None:
        """What comes before an event of this caller; nothing if its part goes on."""
        if self._callers:
            noted = self._callers[-1].noted
            if noted.at_ms == now_ms and noted.caller == caller:
                return None
        return CallerNoted(at_ms=now_ms, caller=caller)

    def add(self, events: Sequence[Event], begins: CallerNoted | None, message: Message) -> None:
        """What a command has led to; if it is the first one of a caller, that begins a part."""
        if not events:
            return
        if begins is not None:
            self._callers.append(CallerPart(begins, len(self.events)))
        self._callers[-1].count(message)
        self.events += events

    def close(self) -> None:
        """Say of every part what it is made of."""
        end = len(self.events)
        for part in reversed(self._callers):
            self.events[part.index] = part.complete(end)
            end = part.index

    def answer(self, submission: Submission, answers: list[Answer]) -> None:
        """Commands have been decided: tell whoever wants to hear at once, the others later."""
        if submission.is_early:
            submission.answer(answers)
        else:
            self.answered.append((submission, answers))

    def remove(self, address: ArchiveAddress) -> None:
        """Let the archive go of a row, even of one that this batch has just filed."""
        self.removed.append(address)
        self.archived.pop(address, None)

    def deliver(self) -> None:
        """Hand out the answers."""
        for submission, answers in self.answered:
            submission.answer(answers)

    def everyone(self) -> list[Submission]:
        """All who wait for what becomes of this batch."""
        answered = (submission for submission, _ in self.answered)
        return [*self.taken, *self.unready, *answered]


def _payload_length(messages: Sequence[Message]) -> int:
    """How many bytes of payload the events of these messages will carry."""
    length = 0
    for message in messages:
        if (length_of := PAYLOAD_LENGTHS.get(type(message))) is not None:
            length += length_of(message)
    return length
