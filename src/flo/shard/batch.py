"""What has been decided since the last append: written as a whole, and heard of after that."""

from collections.abc import Callable, Sequence

from flo.engine.callers import CallerNoted
from flo.engine.decision import Unfilled
from flo.engine.long_poll import Turn
from flo.engine.machine import PAYLOAD_LENGTHS, QUERIES
from flo.model.base import Event, Message
from flo.model.declare.catalog import OPERATIONS
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.caller import Caller
from flo.model.storage.payloads import LargePayload
from flo.shard.chunks import Chunks
from flo.shard.submission import Answer, Submission

MESSAGES_MAX = 300
LENGTH_MAX = 1024 * 1024
"""Bytes of payload in one append, about: whoever comes meanwhile waits for all of it."""
FEW_MESSAGES = 4
FEW_EVENTS = 100
SMALL_LENGTH = 64 * 1024

_OPCODES = {one.message: one.opcode for one in OPERATIONS}
"""Commands that are no operations, such as ticks, are called by their class."""


class CallerPart:
    """The events of one caller's commands that were decided at one time."""

    def __init__(self, note: CallerNoted, caller: Caller, index: int) -> None:
        self.note = note
        self.caller = caller
        self.index = index
        self.messages: list[type[Message]] = []

    def complete(self, end: int) -> CallerNoted:
        counts: dict[type[Message], int] = {}
        for kind in self.messages:
            counts[kind] = counts.get(kind, 0) + 1
        operations: list[int | str] = []
        for kind, count in counts.items():
            operations += (_OPCODES.get(kind) or kind.__name__, count)
        return CallerNoted(
            at_ms=self.note.at_ms,
            caller=self.note.caller,
            operations=tuple(operations),
            events=end - self.index - 1,
        )


class Batch:
    def __init__(self) -> None:
        self.taken: list[Submission] = []
        self.events: list[Event] = []
        self.archived: dict[ArchiveAddress, Archived] = {}
        self.removed: list[ArchiveAddress] = []
        self.chunks = Chunks()
        self.payloads: list[LargePayload] = []
        self.payloads_removed: list[ArchiveAddress] = []
        self.answered: list[tuple[Submission, list[Answer]]] = []
        self.unfilled: list[tuple[Submission, Unfilled]] = []
        """Answers that lack what is in the store."""
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
        return not (self.taken or self.answered or self.unfilled)

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

    def goes_on(self, caller: Caller, now_ms: int) -> bool:
        """Whether what this caller asks for now belongs to the part that was begun last."""
        if not self._callers:
            return False
        last = self._callers[-1]
        return last.note.at_ms == now_ms and (last.caller is caller or last.caller == caller)

    def add(
        self, events: Sequence[Event], message: Message, caller: Caller, note: CallerNoted | None
    ) -> None:
        """What a command has led to; if a note of its caller is first, that begins a part."""
        if note is not None:
            self._callers.append(CallerPart(note, caller, len(self.events)))
        self._callers[-1].messages.append(type(message))
        self.events += events

    def note(self, event: Event) -> None:
        """What is remembered of the request whose commands were decided last."""
        assert self._callers, "a request that led to nothing is not noted"
        self.events.append(event)

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

    def tell(self, submission: Submission, reply: Answer) -> None:
        """A command that may wait, or a query, has its answer."""
        if isinstance(reply, Unfilled):
            self.unfilled.append((submission, reply))
        elif type(submission.messages[0]) in QUERIES:
            self.answered.append((submission, [reply]))
        else:
            self.answer(submission, [reply])

    def remove(self, address: ArchiveAddress) -> None:
        """Let the archive go of a row, even of one that this batch has just filed."""
        self.removed.append(address)
        self.archived.pop(address, None)

    def deliver(self, fill: Callable[[Submission, Unfilled], None]) -> None:
        """Hand out the answers; `fill` is given those that lack something."""
        for submission, answers in self.answered:
            submission.answer(answers)
        for submission, reply in self.unfilled:
            fill(submission, reply)

    def everyone(self) -> list[Submission]:
        """All who wait for what becomes of this batch."""
        answered = (submission for submission, _ in self.answered)
        unfilled = (submission for submission, _ in self.unfilled)
        return [*self.taken, *self.unready, *answered, *unfilled]


def _payload_length(messages: Sequence[Message]) -> int:
    """How many bytes of payload the events of these messages will carry."""
    length = 0
    for message in messages:
        if (length_of := PAYLOAD_LENGTHS.get(type(message))) is not None:
            length += length_of(message)
    return length
