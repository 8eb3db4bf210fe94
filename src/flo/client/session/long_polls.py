"""The long polls that a wait consists of: how long each may take, and when to poll again."""

import asyncio
from math import inf
from typing import NamedTuple

from flo.model.errors import FloError, TimedOut

POLL_S_MAX = 30.0
ANSWER_GRACE_S = 1.0
"""How much later than asked for the answer to a poll may come."""


class PollTimes(NamedTuple):
    block_ms: int
    timeout_s: float | None
    """None leaves it to the session."""


def poll_times(deadline_s: float) -> PollTimes:
    """For the next poll of who waits until this deadline, on the clock of the loop."""
    if deadline_s == inf:
        return PollTimes(round(POLL_S_MAX * 1_000), None)
    remaining_s = deadline_s - asyncio.get_running_loop().time()
    block_s = min(max(remaining_s, 0.0), POLL_S_MAX)
    return PollTimes(round(block_s * 1_000), block_s + ANSWER_GRACE_S)


def may_poll_again(problem: BaseException, deadline_s: float) -> bool:
    """Who has set a deadline waits until then for a server that does not answer."""
    is_passing = isinstance(problem, TimedOut) or (
        isinstance(problem, FloError) and problem.code == "unreachable"
    )
    return is_passing and deadline_s < inf
