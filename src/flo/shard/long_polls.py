"""Long polls that wait: what wakes each of them, and until when.

    subject ──▸ the submissions that wait for it, in the order in which they came
                commands stand in queues of those that would find the same

A submission waits for several subjects; it leaves all of them when it is answered, withdrawn or
asked again.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, TypeAlias

from flo.engine.long_poll import LongPoll, Subject, Turn
from flo.engine.machine import LONG_POLLS, WAKES
from flo.engine.state import State
from flo.model.base import Event, Message
from flo.shard.clock import Clock
from flo.shard.submission import Answer, Submission

Index: TypeAlias = dict[Subject, dict[Submission, None]]

FIRST = 16
"""Of a queue, so many are looked at before all of it is."""


class ParkedQueue:
    """Those who wait for a subject with messages of a kind that are alike."""

    __slots__ = ("_submissions", "alike")

    def __init__(self, alike: Hashable) -> None:
        self.alike = alike
        self._submissions: dict[Submission, None] = {}

    def __len__(self) -> int:
        return len(self._submissions)

    def __iter__(self) -> Iterator[tuple[Submission, Message]]:
        """In order, while those that are answered leave: the first few, then the others."""
        first = tuple(islice(self._submissions, FIRST))
        for submission in first:
            if submission.is_parked:
                yield submission, submission.messages[0]
        for submission in tuple(self._submissions):
            if submission.is_parked and submission not in first:
                yield submission, submission.messages[0]

    def join(self, submission: Submission) -> None:
        self._submissions[submission] = None

    def leave(self, submission: Submission) -> None:
        self._submissions.pop(submission, None)


QueueKey: TypeAlias = tuple[type[Message], Hashable]
Queues: TypeAlias = dict[Subject, dict[QueueKey, ParkedQueue]]


class LongPolls:
    """`put` asks a submission again, `tell` answers it."""

    def __init__(
        self,
        clock: Clock,
        put: Callable[[Submission], None],
        tell: Callable[[Submission, Answer], None],
    ) -> None:
        self._clock = clock
        self._put = put
        self._tell = tell
        self._queues: dict[Turn, Queues] = {Turn.READS: {}, Turn.CLAIMS: {}}
        """The commands that wait."""
        self._queries: Index = {}
        self._ending: list[Index] = [{} for _ in Turn]

    def may_wait(self, submission: Submission, message: Any, now_ms: int) -> bool:
        """Whether somebody wants to wait for the answer, and has time left."""
        until_ms = submission.until_ms
        has_time = until_ms is None or until_ms > now_ms
        return message.block_ms > 0 and submission.is_open and has_time

    def park(
        self,
        submission: Submission,
        poll: LongPoll,
        empty_reply: Answer | None,
        now_ms: int,
        state: State,
    ) -> None:
        """Let it wait until it is answered or its time is over, which was set the first time."""
        message: Any = submission.messages[0]
        ending, ends = self._ending[poll.turn], tuple(poll.ended_by(message))
        for subject in ends:
            ending.setdefault(subject, {})[submission] = None
        leave_queues = self._stand(submission, poll, message, state)

        def leave() -> None:
            leave_queues()
            _remove(ending, ends, submission)

        if submission.until_ms is None:
            submission.until_ms = now_ms + message.block_ms
        submission.empty_reply = empty_reply
        alarm = self._clock.call_at(submission.until_ms, partial(self._is_over, submission))
        submission.park(alarm, leave)

    def _stand(
        self, submission: Submission, poll: LongPoll, message: Any, state: State
    ) -> Callable[[], None]:
        """Let it wait for its subjects; what is returned ends that."""
        subjects = tuple(poll.subjects(message))
        if poll.turn is Turn.QUERIES:
            for subject in subjects:
                self._queries.setdefault(subject, {})[submission] = None
            return partial(_remove, self._queries, subjects, submission)
        submission.alike = poll.alike(state, message)
        submission.also = poll.subjects_now(state, message)
        subjects += tuple(submission.also)
        queues, key = self._queues[poll.turn], (type(message), submission.alike)
        for subject in subjects:
            of_subject = queues.setdefault(subject, {})
            if (queue := of_subject.get(key)) is None:
                queue = of_subject[key] = ParkedQueue(submission.alike)
            queue.join(submission)
        return partial(_leave_queues, queues, subjects, key, submission)

    def stay(self, submission: Submission, poll: LongPoll, now_ms: int, state: State) -> None:
        """Let one that was asked in vain wait on, in other queues if it belongs there now."""
        message = submission.messages[0]
        stands = submission.alike, submission.also
        if (poll.alike(state, message), poll.subjects_now(state, message)) != stands:
            submission.unpark()
            self.park(submission, poll, submission.empty_reply, now_ms, state)

    def wake_at(self, submission: Submission, at_ms: int | None) -> None:
        """Ask again at this time what waits, unless its time is over before that."""
        if at_ms is not None and submission.until_ms is not None and at_ms < submission.until_ms:
            submission.ring(self._clock.call_at(at_ms, partial(self._ask_again, submission)))

    def somebody_waits(self, turn: Turn) -> bool:
        """Whether there is a command of this turn that waits."""
        return bool(self._queues[turn])

    def offers(
        self, turn: Turn, events: Sequence[Event], state: State
    ) -> Iterator[tuple[Submission, Message | None]]:
        """Who is to be asked now, one after the other, and what; None if its wait has ended."""
        queues, ending = self._queues[turn], self._ending[turn]
        subjects = _news(events, state)
        for subject in subjects:
            for submission in tuple(ending.get(subject, ())):
                yield submission, None
        for subject in subjects:
            for kind, alike in _by_kind(queues.get(subject, {})).items():
                for submission, message in LONG_POLLS[kind].offers(state, subject, alike):
                    if submission.is_parked:
                        yield submission, message

    def news(self, events: Sequence[Event], state: State) -> list[tuple[Submission, Message]]:
        """The queries that have something to hear of, each of them once."""
        waking = self._queries
        woken: dict[Submission, list[Subject]] = {}
        for subject in _news(events, state) if waking else ():
            for submission in waking.get(subject, ()):
                woken.setdefault(submission, []).append(subject)
        return [(one, _narrowed(one.messages[0], subjects)) for one, subjects in woken.items()]

    def everyone(self) -> list[Submission]:
        queues = (
            queue
            for turn in self._queues.values()
            for of_subject in turn.values()
            for queue in of_subject.values()
        )
        in_queues = (submission for queue in queues for submission, _ in queue)
        everyone = chain(in_queues, chain.from_iterable(self._queries.values()))
        return list(dict.fromkeys(everyone))

    def _ask_again(self, submission: Submission) -> None:
        submission.unpark()
        self._put(submission)

    def _is_over(self, submission: Submission) -> None:
        if submission.empty_reply is None:
            self._ask_again(submission)
        else:
            submission.unpark()
            self._tell(submission, submission.empty_reply)


def _news(events: Sequence[Event], state: State) -> dict[Subject, None]:
    """The subjects of which these events are news, each of them once."""
    subjects: dict[Subject, None] = {}
    for event in events:
        wake = WAKES.get(type(event))
        if wake is not None:
            for subject in wake(state, event):
                subjects[subject] = None
    return subjects


def _narrowed(message: Message, subjects: Sequence[Subject]) -> Message:
    return LONG_POLLS[type(message)].narrowed(message, subjects)


def _by_kind(queues: dict[QueueKey, ParkedQueue]) -> dict[type[Message], list[ParkedQueue]]:
    kinds: dict[type[Message], list[ParkedQueue]] = {}
    for (kind, _), queue in queues.items():
        kinds.setdefault(kind, []).append(queue)
    return kinds


def _leave_queues(
    queues: Queues, subjects: Sequence[Subject], key: QueueKey, submission: Submission
) -> None:
    for subject in subjects:
        of_subject = queues.get(subject, {})
        if (queue := of_subject.get(key)) is not None:
            queue.leave(submission)
            if not queue:
                del of_subject[key]
            if not of_subject:
                del queues[subject]


def _remove(index: Index, subjects: Sequence[Subject], submission: Submission) -> None:
    for subject in subjects:
        waiting = index.get(subject)
        if waiting is not None:
            waiting.pop(submission, None)
            if not waiting:
                del index[subject]
