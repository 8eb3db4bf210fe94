"""What has been decided since the last append: written as a whole, and heard of after that."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from flo.engine.audit.audited import asked_in
from flo.engine.callers import CallerNoted
from flo.engine.decision import Beside, Unfilled
from flo.engine.long_poll import Turn
from flo.engine.machine import QUERIES
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
CROWDED_FILL = 1 / 6
"""Where some send little and others much, a batch takes in no more than this part of it."""
SMALL_MESSAGES = 64
SMALL_EVENTS = 400
SMALL_LENGTH = 64 * 1024
"""An append of no more than these is written sooner than it is handed to a thread and back."""

TURN_COUNT = len(Turn)
_OPCODES = {one.message: one.opcode for one in OPERATIONS}
"""Commands that are no operations, such as ticks, are called by their class."""


class CallerPart:
    """The events of one caller's commands that were decided at one time."""

    __slots__ = ("index", "messages", "note")

    def __init__(self, note: CallerNoted, index: int) -> None:
        self.note = note
        self.index = index
        self.messages: list[type[Message]] = []

    def complete(self, end: int) -> CallerNoted:
        note = self.note
        return CallerNoted(
            at_ms=note.at_ms,
            caller=note.caller,
            operations=_operations_of(tuple(self.messages)),
            events=end - self.index - 1,
        )


@lru_cache(maxsize=256)
def _operations_of(messages: tuple[type[Message], ...]) -> tuple[int | str, ...]:
    """What commands these are, each followed by its count; most parts are like many others."""
    operations: list[int | str] = []
    for kind in dict.fromkeys(messages):
        operations += (_OPCODES.get(kind) or kind.__name__, messages.count(kind))
    return tuple(operations)


class CommitBatch:
    caller: Caller | None = None
    caller_at_ms = 0
    """Whose part was begun last, and when: what is decided for the same then belongs to it."""
    fill = 0.0
    """How full it is: with 1, it takes in no more before the one before it has been written."""

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
        self._offered_counts = [0] * TURN_COUNT
        self._parts: list[CallerPart] = []
        self._messages: list[type[Message]] = []
        """Of the part that was begun last."""

    @property
    def is_empty(self) -> bool:
        return not (self.taken or self.answered or self.unfilled)

    @property
    def is_small(self) -> bool:
        """Whether a quick disk takes it so soon that nothing need be decided meanwhile."""
        return (
            self._message_count <= SMALL_MESSAGES
            and len(self.events) <= SMALL_EVENTS
            and self._length <= SMALL_LENGTH
        )

    def take(self, submission: Submission) -> None:
        self.taken.append(submission)
        self._message_count += len(submission.messages)
        self._length += submission.length
        self.fill = max(self._message_count / MESSAGES_MAX, self._length / LENGTH_MAX)

    def not_offered(self, turn: Turn, somebody_waits: bool) -> Sequence[Event]:
        """The events since this was asked last for those of a turn.

        If nobody waits there are none: who comes later has seen what these have led to.
        """
        begin, end = self._offered_counts[turn], len(self.events)
        if begin == end:
            return ()
        self._offered_counts[turn] = end
        return self.events[begin:] if somebody_waits else ()

    def add(
        self, events: Sequence[Event], message: Message, caller: Caller, note: CallerNoted | None
    ) -> None:
        """What a command has led to; if a note of its caller is first, that begins a part."""
        if note is not None:
            part = CallerPart(note, len(self.events))
            self._parts.append(part)
            self.caller, self.caller_at_ms, self._messages = caller, note.at_ms, part.messages
        self._messages.append(type(asked_in(message)))
        self.events += events

    def note(self, event: Event) -> None:
        """What is remembered of the request whose commands were decided last."""
        assert self._parts, "a request that led to nothing is not noted"
        self.events.append(event)

    def close(self) -> None:
        """Say of every part what it is made of."""
        end = len(self.events)
        for part in reversed(self._parts):
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

    def take_beside(self, beside: Beside) -> None:
        """What a command leads to in the store besides events and rows of the archive."""
        self.payloads += beside.payloads
        self.payloads_removed += beside.payloads_removed
        self.removed += beside.removed
        for address in beside.removed:
            self.archived.pop(address, None)  # this batch may have filed it

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
