"""Long polls that wait: what wakes each of them, and until when.

    subject ──▸ the submissions that wait for it, in the order in which they came

A submission waits for several subjects; it leaves all of them when it is answered, withdrawn or
asked again.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from flo.engine.long_poll import LongPoll, Subject, Turn
from flo.engine.machine import LONG_POLLS, WAKES
from flo.engine.state import State
from flo.model.base import Event, Message
from flo.shard.clock import Clock
from flo.shard.submission import Answer, Submission

Index: TypeAlias = dict[Subject, dict[Submission, None]]


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
        self._waking: list[Index] = [{} for _ in Turn]
        self._ending: list[Index] = [{} for _ in Turn]

    def may_wait(self, submission: Submission, message: Any, now_ms: int) -> bool:
        """Whether somebody wants to wait for the answer, and has time left."""
        until_ms = submission.until_ms
        has_time = until_ms is None or until_ms > now_ms
        return message.block_ms > 0 and submission.is_open and has_time

    def park(
        self, submission: Submission, poll: LongPoll, empty_reply: Answer | None, now_ms: int
    ) -> None:
        """Let it wait until it is answered or its time is over, which was set the first time."""
        message: Any = submission.messages[0]
        waking, ending = self._waking[poll.turn], self._ending[poll.turn]
        subjects, ends = tuple(poll.subjects(message)), tuple(poll.ended_by(message))
        for subject in subjects:
            waking.setdefault(subject, {})[submission] = None
        for subject in ends:
            ending.setdefault(subject, {})[submission] = None

        def leave() -> None:
            _remove(waking, subjects, submission)
            _remove(ending, ends, submission)

        if submission.until_ms is None:
            submission.until_ms = now_ms + message.block_ms
        submission.empty_reply = empty_reply
        alarm = self._clock.call_at(submission.until_ms, partial(self._is_over, submission))
        submission.park(alarm, leave)

    def wake_at(self, submission: Submission, at_ms: int | None) -> None:
        """Ask again at this time what waits, unless its time is over before that."""
        if at_ms is not None and submission.until_ms is not None and at_ms < submission.until_ms:
            submission.ring(self._clock.call_at(at_ms, partial(self._ask_again, submission)))

    def offers(
        self, turn: Turn, events: Sequence[Event], state: State
    ) -> Iterator[tuple[Submission, Message | None]]:
        """Who is to be asked now, one after the other, and what; None if its wait has ended."""
        waking, ending = self._waking[turn], self._ending[turn]
        if not waking:
            return
        subjects = _news(events, state)
        for subject in subjects:
            for submission in tuple(ending.get(subject, ())):
                yield submission, None
        for subject in subjects:
            for kind, waiting in _by_kind(waking.get(subject, {})).items():
                messages = [submission.messages[0] for submission in waiting]
                for index, message in LONG_POLLS[kind].offers(state, subject, messages):
                    if waiting[index].is_parked:
                        yield waiting[index], message

    def news(self, events: Sequence[Event], state: State) -> list[tuple[Submission, Message]]:
        """The queries that have something to hear of, each of them once."""
        waking = self._waking[Turn.QUERIES]
        woken: dict[Submission, list[Subject]] = {}
        for subject in _news(events, state) if waking else ():
            for submission in waking.get(subject, ()):
                woken.setdefault(submission, []).append(subject)
        return [(one, _narrowed(one.messages[0], subjects)) for one, subjects in woken.items()]

    def everyone(self) -> list[Submission]:
        waiting = (index.values() for index in self._waking)
        everyone = chain.from_iterable(chain.from_iterable(waiting))
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


def _by_kind(waiting: dict[Submission, None]) -> dict[type[Message], list[Submission]]:
    kinds: dict[type[Message], list[Submission]] = {}
    for submission in waiting:
        kinds.setdefault(type(submission.messages[0]), []).append(submission)
    return kinds


def _remove(index: Index, subjects: Sequence[Subject], submission: Submission) -> None:
    for subject in subjects:
        waiting = index.get(subject)
        if waiting is not None:
            waiting.pop(submission, None)
            if not waiting:
                del index[subject]
