"""What has been handed in and is not decided yet, in the order in which it will be.

    few wait      one line: first come, first served
    many wait     the server's own first; then namespaces in turn, in each its callers in turn

A turn is a number of messages, or of bytes that weigh as much. Who has nothing else waiting need
not stand behind those who have already had a turn: one of them, then one of the others. So a caller
that sends much delays those who send little by two turns, not by all that it has sent. What one
caller sends stays in order.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

from flo.model.storage.caller import OUTSIDE, Caller, Source
from flo.shard.batch import CROWDED_FILL, CommitBatch
from flo.shard.submission import Submission

FEW_WEIGHT = 128
"""With no more than this, nobody waits long."""
TURN_WEIGHT = 50
LATELY_WEIGHT = 5_000
"""What was decided lately is between this and twice as much."""
LITTLE_WEIGHT = LATELY_WEIGHT // 25
"""Who has had no more of it sends little."""
SMALL_WEIGHT = 10

K = TypeVar("K", bound=Hashable)


class Inbox:
    def __init__(self, few_weight: int = FEW_WEIGHT) -> None:
        self._few_weight = few_weight
        self._line: deque[Submission] = deque()
        self._own: deque[Submission] = deque()
        self._spaces = Rotation[str]()
        self._callers: dict[str, CallerQueues] = {}
        self.weight = 0
        """How much waits."""
        self._shares = Shares()
        self._crowded_for = 0

    def __bool__(self) -> bool:
        return self.weight > 0

    @property
    def is_crowded(self) -> bool:
        """Whether some who send little have lately waited together with others who send much."""
        return self._crowded_for > 0

    def __iter__(self) -> Iterator[Submission]:
        yield from self._own
        yield from self._line
        for callers in self._callers.values():
            yield from callers

    def has_one_for(self, batch: CommitBatch) -> bool:
        """Whether a batch takes what comes next: a small one even if it is full for others."""
        if not self.weight:
            return False
        if batch.fill < CROWDED_FILL:
            return True
        return batch.fill < 1 and (self._crowded_for <= 0 or self._next_is_small())

    def _next_is_small(self) -> bool:
        """Whether it is all that its caller has waiting, and not much, while many wait."""
        if self._own or not self._callers:
            return bool(self._own)
        return self._callers[self._spaces.current()].next_is_small()

    def put(self, submission: Submission) -> None:
        self.weight += submission.weight
        if self._callers or self._own:
            self._queue(submission)
        else:
            self._line.append(submission)
            if self.weight > self._few_weight:
                self._form_queues()

    def pop(self) -> Submission:
        if self._line:
            submission = self._line.popleft()
        elif self._own:
            submission = self._own.popleft()
        else:
            submission = self._pop_in_turn()
        self.weight -= submission.weight
        self._crowded_for -= submission.weight
        return submission

    def _form_queues(self) -> None:
        line, self._line = self._line, deque()
        for submission in line:
            self._queue(submission)

    def _queue(self, submission: Submission) -> None:
        if submission.caller.source not in OUTSIDE:
            self._own.append(submission)
            return
        namespace = _namespace_of(submission)
        callers = self._callers.get(namespace)
        if callers is None:
            callers = self._callers[namespace] = CallerQueues()
            self._spaces.join(namespace)
        callers.put(submission)

    def _pop_in_turn(self) -> Submission:
        namespace = self._spaces.current()
        callers = self._callers[namespace]
        submission = callers.pop()
        if not callers:
            del self._callers[namespace]
            self._spaces.leave()
        elif callers.turn_is_over:
            self._spaces.rotate()
        if self._shares.are_small(_identity_of(submission.caller), submission.weight):
            self._crowded_for = LATELY_WEIGHT
        return submission


class CallerQueues:
    """What the callers of one namespace have waiting."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, deque[Submission]] = {}
        self._turns = Rotation[Hashable]()
        self._weight = 0
        self.turn_is_over = False
        """Whether the last one that was taken has ended the turn of its caller."""

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __iter__(self) -> Iterator[Submission]:
        for queue in self._queues.values():
            yield from queue

    def put(self, submission: Submission) -> None:
        caller = _identity_of(submission.caller)
        queue = self._queues.get(caller)
        if queue is None:
            queue = self._queues[caller] = deque()
            self._turns.join(caller)
        queue.append(submission)

    def next_is_small(self) -> bool:
        queue = self._queues[self._turns.current()]
        return len(queue) == 1 and queue[0].weight <= SMALL_WEIGHT

    def pop(self) -> Submission:
        caller = self._turns.current()
        queue = self._queues[caller]
        submission = queue.popleft()
        self._weight += submission.weight
        self.turn_is_over = not queue or self._weight >= TURN_WEIGHT
        if not queue:
            del self._queues[caller]
            self._turns.leave()
        elif self.turn_is_over:
            self._turns.rotate()
        if self.turn_is_over:
            self._weight = 0
        return submission


class Shares:
    """How much each caller has had of what was decided lately, while many waited."""

    def __init__(self) -> None:
        self._total = 0
        self._now: dict[Hashable, int] = {}
        self._before: dict[Hashable, int] = {}

    def are_small(self, caller: Hashable, weight: int) -> bool:
        """Whether a caller that is given this has had little, while others have had much."""
        self._total += weight
        if self._total > LATELY_WEIGHT:
            self._total, self._before, self._now = weight, self._now, {}
        share = self._now[caller] = self._now.get(caller, 0) + weight
        if not self._before:
            return False  # nobody has had much yet
        return share + self._before.get(caller, 0) <= LITTLE_WEIGHT


class Rotation(Generic[K]):
    """Whose turn it is: one of those that have had none yet, then one of the others."""

    def __init__(self) -> None:
        self._new: deque[K] = deque()
        self._others: deque[K] = deque()
        self._is_turn_of_new = True

    def join(self, name: K) -> None:
        self._new.append(name)

    def current(self) -> K:
        return self._line()[0]

    def rotate(self) -> None:
        """The turn is over, and more waits."""
        self._others.append(self._end_turn())

    def leave(self) -> None:
        """The turn is over, and nothing more waits."""
        self._end_turn()

    def _end_turn(self) -> K:
        line = self._line()
        self._is_turn_of_new = line is self._others
        return line.popleft()

    def _line(self) -> deque[K]:
        if self._is_turn_of_new:
            return self._new or self._others
        return self._others or self._new


def _identity_of(caller: Caller) -> Hashable:
    """A connection has a caller of its own; requests over HTTP are known by their address."""
    return caller.address if caller.source is Source.HTTP else id(caller)


def _namespace_of(submission: Submission) -> str:
    message: Any = submission.messages[0]
    return getattr(message, "namespace", "")
