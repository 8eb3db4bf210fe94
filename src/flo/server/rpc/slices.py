"""A batch of many messages, handed in as several: others need not wait until all are decided."""

from collections.abc import Sequence
from functools import partial

from flo.model.base import Message
from flo.model.storage.caller import Caller
from flo.model.storage.request_keys import RequestKeys
from flo.server.rpc.handler import RequestHandler
from flo.shard.submission import Answer, Done, Submission

WHOLE_MESSAGES = 100
"""A batch of no more than this is not cut, unless it is long."""
SLICE_MESSAGES = 50
SLICE_LENGTH = 128 * 1024


def messages_per_slice(count: int, length: int) -> int:
    """How many messages of a batch make a slice, if all of them take so many bytes."""
    most = count if count <= WHOLE_MESSAGES else SLICE_MESSAGES
    return max(1, min(most, count * SLICE_LENGTH // max(length, 1)))


class SlicedAnswers:
    """The answers to the slices of a batch, told together once the last one has come."""

    def __init__(
        self,
        messages: Sequence[Message],
        done: Done,
        per_slice: int,
        keys: RequestKeys | None = None,
    ) -> None:
        starts = range(0, len(messages), per_slice)
        self._slices = [messages[start : start + per_slice] for start in starts]
        self._keys = [keys and keys.slice(start, per_slice) for start in starts]
        self._answers: list[list[Answer]] = [[] for _ in self._slices]
        self._missing = len(self._slices)
        self._done = done
        self._submissions: list[Submission] = []

    def submit(self, engine: RequestHandler, caller: Caller) -> None:
        for index, messages in enumerate(self._slices):
            done = partial(self._answered, index)
            self._submissions.append(engine.submit(messages, done, caller, self._keys[index]))

    def withdraw(self) -> None:
        for submission in self._submissions:
            submission.withdraw()

    def _answered(self, index: int, answers: list[Answer]) -> None:
        self._answers[index] = answers
        self._missing -= 1
        if not self._missing:
            self._done([answer for some in self._answers for answer in some])
