"""How much one workflow run may do: steps and events in all, and steps in a second.

A run that comes to a bound in all has failed. One that is too fast is delayed: it may take the
steps of BURST_S at once, and from then on so many a second.
"""

from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from flo.model.base import Record

STEPS_DEFAULT: Final = 1_000_000
EVENTS_DEFAULT: Final = 10_000_000
STEPS_PER_SECOND_DEFAULT: Final = 50
STEPS_MAX: Final = 1_000_000_000
STEPS_PER_SECOND_MAX: Final = 1_000
BURST_S: Final = 20
STEP_LIMIT_REACHED: Final = "step_limit_reached"
EVENT_LIMIT_REACHED: Final = "event_limit_reached"

Bound = Annotated[int, Meta(ge=1, le=STEPS_MAX)]
StepRate = Annotated[int, Meta(ge=1, le=STEPS_PER_SECOND_MAX)]


class Limits(Record):
    """How much one run may do; the server has bounds of its own, and the lower one counts.

    ```yaml
    limits: {steps: 10000, steps_per_second: 5}
    ```
    """

    steps: Annotated[
        Bound | None, Meta(description="Steps in all; a run that takes more has failed.")
    ] = None
    events: Annotated[
        Bound | None, Meta(description="Events in all; a run that leads to more has failed.")
    ] = None
    steps_per_second: Annotated[
        StepRate | None,
        Meta(description="A run that is faster for longer than a moment is delayed."),
    ] = None


class ExecutionLimits(Record):
    """The bounds of a server, as a run that begins there gets them."""

    steps: int = STEPS_DEFAULT
    events: int = EVENTS_DEFAULT
    steps_per_second: int = STEPS_PER_SECOND_DEFAULT


LIMITS_DEFAULT: Final = ExecutionLimits()


class Pace(NamedTuple):
    """The bounds that hold for one run, and how far apart its steps are when it is too fast."""

    steps: int
    events: int
    interval_ms: int

    def after_step(self, behind_ms: int, at_ms: int) -> int:
        """When a run would be done with its steps at its pace, once it has ended another one."""
        return max(behind_ms, at_ms) + self.interval_ms

    def delayed_until_ms(self, behind_ms: int, now_ms: int) -> int | None:
        """When it may begin the next step; None if now."""
        at_ms = behind_ms - BURST_S * 1_000
        return at_ms if at_ms > now_ms else None


def pace_of(own: Limits | None, server: ExecutionLimits | None) -> Pace:
    """The lower one counts of what the workflow says and what the server says."""
    most = server or LIMITS_DEFAULT
    if own is None:
        return Pace(most.steps, most.events, 1_000 // most.steps_per_second)
    rate = min(own.steps_per_second or most.steps_per_second, most.steps_per_second)
    return Pace(
        min(own.steps or most.steps, most.steps),
        min(own.events or most.events, most.events),
        1_000 // rate,
    )
