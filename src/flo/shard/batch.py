"""What has been decided since the last append: written as a whole, and heard of after that."""

from collections.abc import Callable, Sequence
from typing import Any

from flo.model.actions import RegisterAction
from flo.model.archive import ArchiveAddress, Archived
from flo.model.base import Event, Message
from flo.model.kv import Change, Put, PutKey, SetJson, Transact
from flo.model.runs import Complete, Invoke
from flo.model.streams import Append
from flo.shard.chunks import Chunks
from flo.shard.submission import Answer, Submission

WORDS_MAX = 1_000
LENGTH_MAX = 64 * 1024 * 1024
"""Bytes of payload in one append, about: a log has a bound on what it takes at a time."""
FEW_WORDS = 4
FEW_EVENTS = 100
SMALL_LENGTH = 64 * 1024


class Batch:
    def __init__(self) -> None:
        self.taken: list[Submission] = []
        self.events: list[Event] = []
        self.archived: dict[ArchiveAddress, Archived] = {}
        self.removed: list[ArchiveAddress] = []
        self.chunks = Chunks()
        self.answered: list[tuple[Submission, list[Answer]]] = []
        self.asked: list[Submission] = []
        """Questions: they are answered by the state as this batch leaves it."""
        self.unready: list[Submission] = []
        """Those that have to know more of the store."""
        self._words = 0
        self._length = 0
        self._offered_count = 0

    @property
    def is_empty(self) -> bool:
        return not (self.taken or self.answered)

    @property
    def is_full(self) -> bool:
        return self._words >= WORDS_MAX or self._length >= LENGTH_MAX

    @property
    def is_small(self) -> bool:
        """Whether it is written so soon, and so few wait for it, that all others can wait too."""
        return (
            self._words <= FEW_WORDS
            and len(self.events) <= FEW_EVENTS
            and self._length <= SMALL_LENGTH
        )

    def take(self, submission: Submission) -> None:
        self.taken.append(submission)
        self._words += len(submission.messages)
        self._length += _payload_length(submission.messages)

    def not_offered(self) -> Sequence[Event]:
        """The events since this was asked last."""
        begin, self._offered_count = self._offered_count, len(self.events)
        return self.events[begin:]

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
        return [*self.taken, *(submission for submission, _ in self.answered)]


def _payload_length(messages: Sequence[Message]) -> int:
    """How many bytes the events of these words will carry for others."""
    length = 0
    for message in messages:
        if (length_of := _LENGTHS.get(type(message))) is not None:
            length += length_of(message)
    return length


def _values_length(changes: Sequence[Change]) -> int:
    return sum(len(change.value) for change in changes if isinstance(change, Put))


_LENGTHS: dict[type[Message], Callable[[Any], int]] = {
    Invoke: lambda message: len(message.input),
    Complete: lambda message: len(message.output) + _values_length(message.changes),
    RegisterAction: lambda message: len(message.wasm_module or b""),
    PutKey: lambda message: len(message.value),
    SetJson: lambda message: len(message.document),
    Append: lambda message: sum(len(record.payload) for record in message.records),
    Transact: lambda message: _values_length(message.changes),
}
