"""Submissions that wait for their answer, and what becomes of them when their time is over.

Which line one stands in is in shard/long_polls.py; here is only how long.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from flo.shard.clock import Clock
from flo.shard.submission import Answer, Submission

Put: TypeAlias = Callable[[Submission], None]
Tell: TypeAlias = Callable[[Submission, Answer], None]


class Parking:
    """`put` asks a submission again, `tell` answers it."""

    def __init__(self, clock: Clock, put: Put, tell: Tell) -> None:
        self._clock = clock
        self._put = put
        self._tell = tell

    def is_open(self, submission: Submission, block_ms: int, now_ms: int) -> bool:
        """Whether somebody wants to wait for the answer, and has time left."""
        until_ms = submission.until_ms
        return block_ms > 0 and submission.is_open and (until_ms is None or until_ms > now_ms)

    def park(
        self,
        submission: Submission,
        until_ms: int,
        nothing: Answer | None,
        leave: Callable[[], None],
    ) -> None:
        """Let it wait, until it is answered or its time is over; then the answer is `nothing`.

        Without that, it is asked again when its time is over. One that was parked before has no
        more time than it was given then.
        """
        if submission.until_ms is None:
            submission.until_ms = until_ms
        over = partial(self._put_again, submission)
        if nothing is not None:
            over = partial(self._is_over, submission, nothing)
        submission.park(self._clock.call_at(submission.until_ms, over), leave)

    def wake_at(self, submission: Submission, at_ms: int | None) -> None:
        """Ask again what is parked at this time, unless its time is over before that."""
        if at_ms is not None and submission.until_ms is not None and at_ms < submission.until_ms:
            submission.ring(self._clock.call_at(at_ms, partial(self._put_again, submission)))

    def _put_again(self, submission: Submission) -> None:
        submission.unpark()
        self._put(submission)

    def _is_over(self, submission: Submission, nothing: Answer) -> None:
        submission.unpark()
        self._tell(submission, nothing)
