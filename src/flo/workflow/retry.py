"""When an attempt is repeated: four delay formulas, their caps, and the budget of time.

    constant              d
    linear                d × (a + 1)
    exponential           d × 2^a
    exponential_jitter    d × 2^a, and up to a quarter more

`a` counts the repetitions from 0; nothing is longer than the maximum. `rng` is a
random number from 0 to 1.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from flo.model.base import Record
from flo.workflow.field_types import Duration, PositiveDuration

ATTEMPTS_MAX: Final = 1_000


class Backoff(StrEnum):
    CONSTANT = "constant"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    EXPONENTIAL_JITTER = "exponential_jitter"


Attempts: TypeAlias = Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)]


class Retry(Record):
    """When a failed attempt is repeated.

    ```yaml
    retry: {max_attempts: 5, backoff: exponential_jitter, initial_delay_ms: 500, within_ms: 120000}
    ```
    """

    max_attempts: Annotated[
        Attempts,
        Meta(description="Attempts in all, the first included.", extra={"aliases": ("max",)}),
    ] = 3
    backoff: Annotated[Backoff, Meta(description="How the delay grows.")] = Backoff.EXPONENTIAL
    initial_delay_ms: Annotated[
        Duration, Meta(description="The delay before the first repetition; 0 is at once.")
    ] = 1_000
    max_delay_ms: Annotated[Duration, Meta(description="No delay is longer than this.")] = 30_000
    within_ms: Annotated[
        PositiveDuration | None,
        Meta(description="No attempt begins later than this after the first one began."),
    ] = None


class Poll(Record):
    """How often a step whose outcome is `pending` is run again until the outcome is another.

    When `max_attempts` polls are used up, the transition `timeout` is taken; without it `pending`,
    and without that `failure`.
    """

    initial_delay_ms: Annotated[
        Duration | None,
        Meta(description="The wait before the first poll; otherwise `baseDelayMs`."),
    ] = None
    max_attempts: Annotated[Attempts, Meta(description="Polls at most.")] = 10
    backoff: Annotated[Backoff, Meta(description="How the wait grows.")] = Backoff.EXPONENTIAL
    base_delay_ms: Annotated[
        Duration, Meta(description="The wait between polls that the backoff starts from.")
    ] = 1_000
    max_delay_ms: Annotated[Duration, Meta(description="No wait is longer than this.")] = 60_000


JITTER_SHARE: Final = 0.25
_DOUBLINGS_MAX: Final = 64


def delay_ms(backoff: Backoff, first_ms: int, most_ms: int, repetition: int, rng: float) -> int:
    """The delay before a repetition; repetitions count from 0."""
    doubled = first_ms << min(repetition, _DOUBLINGS_MAX)
    match backoff:
        case Backoff.CONSTANT:
            delay = first_ms
        case Backoff.LINEAR:
            delay = first_ms * (repetition + 1)
        case Backoff.EXPONENTIAL:
            delay = doubled
        case Backoff.EXPONENTIAL_JITTER:
            delay = min(doubled, most_ms) + int(min(doubled, most_ms) * JITTER_SHARE * rng)
    return min(delay, most_ms)


def next_attempt_at_ms(
    retry: Retry, attempt: int, began_at_ms: int, now_ms: int, rng: float
) -> int | None:
    """When to try again after attempt number `attempt` (from 1) has failed; None is never.

    `began_at_ms` is when the first attempt began: the budget `within_ms` counts from there.
    """
    if attempt >= retry.max_attempts:
        return None
    at_ms = now_ms + delay_ms(
        retry.backoff, retry.initial_delay_ms, retry.max_delay_ms, attempt - 1, rng
    )
    if retry.within_ms is not None and at_ms > began_at_ms + retry.within_ms:
        return None
    return at_ms


def next_poll_at_ms(poll: Poll, polls: int, now_ms: int, rng: float) -> int | None:
    """When to ask again after so many polls; None once they are used up."""
    if polls >= poll.max_attempts:
        return None
    if polls == 0:
        first_ms = poll.initial_delay_ms
        return now_ms + (poll.base_delay_ms if first_ms is None else first_ms)
    return now_ms + delay_ms(poll.backoff, poll.base_delay_ms, poll.max_delay_ms, polls - 1, rng)
