"""The memory that clients may make the server use, and who may still have some of it.

    total ┬─ the server itself       as it was when it had started, without its state
          ├─ state                   live runs, executions and keys
          └─ in passing ┬─ frames    requests that have begun to arrive
                        ├─ requests  those that wait for their answer, long polls too
                        └─ replies   those that their client has not read yet

What adds to the state is refused before the total is reached: first in the namespaces that have
most of it, and there first to callers that have sent much lately. So one cannot fill the server for
all. What does not (reports of workers,
deletions, queries) has that last part to itself, so that a full server can be emptied. It is
refused only when too much is in passing, which ends by itself.

Every number is an estimate: what Python takes for an object is known about, not exactly.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol

from flo.model.actions import DeleteAction, DisableAction, EnableAction
from flo.model.base import Message
from flo.model.blocks.blocks import DeleteBlock
from flo.model.declare.operation import DECLARED, Permission, Query
from flo.model.errors import RETRY_AFTER, Overloaded
from flo.model.kv import DeleteJson, DeleteKey, ExpireKey, RollbackTransaction
from flo.model.namespaces import DeleteNamespace
from flo.model.pipelines.pipelines import DeletePipelineGraph
from flo.model.workflows import DeleteWorkflow

MESSAGE_LENGTH = 512
"""About how many bytes of memory a message takes while it waits for its answer, besides those that
it came in."""
COPIES = 3
"""What came in is in memory as a message, as an event and as the bytes that are written."""
NEW_WORK_PART = 7 / 8
"""Of the total: what is left is for what frees memory."""
LARGE_SPACE_PART = 1 / 16
"""A namespace whose part of the state is larger than this adds no more to it once the server is so
full that only small ones may."""
SMALL_SPACES_PART = 3 / 4
SMALL_CALLERS_PART = 13 / 16
"""In a large namespace, up to here only for callers that have sent little lately."""
SMALL_CALLER_PART = 1 / 256
SENT_LATELY_MS = 10_000
"""Little is so much of the total in so long."""
PASSING_PART = 1 / 2
FRAMES_PART = REPLIES_PART = 1 / 4
STATE_AGE_MS_MAX = 20
UNSEEN_LENGTH_MAX = 1024 * 1024
"""The size of the state is looked at again after so long, if it matters, or so many bytes."""
RETRY_AFTER_MS_PASSING = 200
RETRY_AFTER_MS_STATE = 1_000

ADDING = frozenset(
    {
        Permission.ACTIONS_WRITE,
        Permission.RUNS_INVOKE,
        Permission.NAMESPACES_WRITE,
        Permission.STREAMS_WRITE,
        Permission.KV_WRITE,
        Permission.WORKFLOWS_DEPLOY,
        Permission.WORKFLOWS_START,
        Permission.WORKFLOWS_SIGNAL,
        Permission.EVENTS_EMIT,
        Permission.PIPELINES_SUBMIT,
        Permission.PIPELINES_DEPLOY,
    }
)
"""What is allowed by these adds to the state, or leads to what does."""
FREEING = (
    DeleteAction,
    DisableAction,
    EnableAction,
    DeleteKey,
    DeleteJson,
    ExpireKey,
    RollbackTransaction,
    DeleteNamespace,
    DeleteWorkflow,
    DeletePipelineGraph,
    DeleteBlock,
)
"""Except these."""
NEW_WORK = frozenset(
    one.message
    for one in DECLARED.values()
    if one.permission in ADDING and not issubclass(one.message, (Query, *FREEING))
)


class Part(StrEnum):
    """What memory in passing is used for."""

    FRAMES = "frames"
    REQUESTS = "requests"
    REPLIES = "replies"


class RefusalWatcher(Protocol):
    """Hears what is refused, for metrics."""

    def refused(self, code: str) -> None: ...


class SentLately:
    """How much a caller has sent lately of what adds to the state, taken in or not."""

    __slots__ = ("_at_ms", "_length")

    def __init__(self) -> None:
        self._length = 0.0
        self._at_ms = 0

    def is_little(self, length: int, now_ms: int, little: int) -> bool:
        """It sends so much more; whether that is little, with what it has sent before."""
        faded = little / SENT_LATELY_MS * max(now_ms - self._at_ms, 0)
        self._at_ms = now_ms
        sent = max(self._length - faded, 0) + length
        self._length = min(sent, 2 * little)
        return sent <= little


class MemoryBudget:
    """`own_length` is what the server takes by itself, `state_length` what its state takes now, and
    `space_length` the part of a namespace in that."""

    def __init__(
        self,
        total: int,
        *,
        own_length: int = 0,
        state_length: Callable[[], int] = lambda: 0,
        space_length: Callable[[str], int] = lambda namespace: 0,
        now_ms: Callable[[], int] = lambda: 0,
        watcher: RefusalWatcher | None = None,
    ) -> None:
        self.total = total
        self.own_length = own_length
        self.parts = dict.fromkeys(Part, 0)
        self.passing = 0
        """What all parts take together."""
        self._state_length = state_length
        self._space_length = space_length
        self._now_ms = now_ms
        self._watcher = watcher
        self._looked_at_ms = -STATE_AGE_MS_MAX
        self._state_seen = 0
        self._unseen = 0
        """What has been taken in since the state was looked at."""
        self._most_new_work = int(total * NEW_WORK_PART)
        self._most_for_all = int(total * SMALL_SPACES_PART)
        self._most_small_callers = int(total * SMALL_CALLERS_PART)
        self._small_space = int(total * LARGE_SPACE_PART)
        self._small_caller = int(total * SMALL_CALLER_PART)
        self._most_passing = int(total * PASSING_PART)
        self._most = {
            Part.FRAMES: int(total * FRAMES_PART),
            Part.REPLIES: int(total * REPLIES_PART),
            Part.REQUESTS: self._most_passing,
        }
        self.look()

    @property
    def used(self) -> int:
        return self.own_length + self._state() + self.passing

    def lengths(self) -> dict[str, int]:
        """The total, and what each part takes."""
        parts = {part.value: length for part, length in self.parts.items()}
        return {"total": self.total, "server": self.own_length, "state": self._state(), **parts}

    def has_room(self, part: Part, length: int) -> bool:
        """Whether so much more may be used for this."""
        return (
            self.parts[part] + length <= self._most[part]
            and self.passing + length <= self._most_passing
        )

    def change(self, part: Part, length: int) -> None:
        """So much more is used for this, or less."""
        self.parts[part] += length
        self.passing += length
        assert self.parts[part] >= 0

    def refusal(
        self,
        messages: Sequence[Message],
        length: int,
        sent: SentLately | None = None,
        counted: int = 0,
    ) -> Overloaded | None:
        """Why these messages, with so many bytes, cannot be taken in now; None if they can.

        `sent` is what their caller has sent, `counted` what is in the budget for them already.
        """
        passing = self.passing + length
        if passing > self._most_passing:
            return self.overloaded("requests and replies in passing", RETRY_AFTER_MS_PASSING)
        if type(messages[0]) not in NEW_WORK:
            return None
        now_ms = self._now_ms()
        is_little = sent is not None and sent.is_little(
            length + counted, now_ms, self._small_caller
        )
        self._unseen += length
        if self._unseen > UNSEEN_LENGTH_MAX:
            self.look()
        if self.own_length + self._state_seen + passing <= self._most_for_all:
            return None
        if self.used + length <= self._most_for(messages[0], is_little):
            return None
        return self.overloaded("pending work and stored keys", RETRY_AFTER_MS_STATE)

    def _most_for(self, message: Any, is_little: bool) -> int:
        """How much may be used with what a message adds."""
        namespace = getattr(message, "namespace", "")
        if self._space_length(namespace) <= self._small_space:
            return self._most_new_work
        return self._most_small_callers if is_little else self._most_for_all

    def overloaded(self, what: str, retry_after_ms: int = RETRY_AFTER_MS_PASSING) -> Overloaded:
        if self._watcher is not None:
            self._watcher.refused(Overloaded.code)
        return Overloaded(
            f"the server is overloaded: {what} leave no room for this in its memory budget of "
            f"{self.total} bytes: try again in {retry_after_ms} ms",
            details={RETRY_AFTER: retry_after_ms},
        )

    def _state(self) -> int:
        if self._now_ms() - self._looked_at_ms >= STATE_AGE_MS_MAX:
            self.look()
        return self._state_seen

    def look(self) -> None:
        """See how much memory the state takes."""
        self._looked_at_ms, self._unseen = self._now_ms(), 0
        self._state_seen = self._state_length()


def length_of(messages: Sequence[Message], length: int) -> int:
    """About how much memory it takes to carry out messages that came in so many bytes."""
    return MESSAGE_LENGTH * len(messages) + COPIES * length


UNLIMITED = 1 << 62


def unlimited() -> MemoryBudget:
    """A budget that refuses nothing, for a server in a test."""
    return MemoryBudget(UNLIMITED)
