"""How often the runs of an action may begin, over all its workers.

What has begun is counted in Live: a restart forgets it. Limits that are changed hold at once, for
what has begun before as well.
"""

from functools import lru_cache

from flo.model.actions import ActionLimits
from flo.workflow.plan.plan import RateLimit
from flo.workflow.plan.rate import Rate, Window, rate_of


@lru_cache(maxsize=1_024)
def rate_of_limits(limits: ActionLimits) -> Rate:
    """The windows that these limits mean, with nothing in them."""
    return rate_of(
        RateLimit(
            max_per_second=limits.max_per_second,
            max_per_minute=limits.max_per_minute,
            max_per_hour=limits.max_per_hour,
        )
    )


def rate_under(limits: ActionLimits, counted: Rate | None) -> Rate:
    """What was counted, under these limits; a window that was not counted yet is empty."""
    fresh = rate_of_limits(limits)
    if counted is None:
        return fresh
    if _shape(counted) == _shape(fresh):
        return counted
    known = {window.length_ms: window for window in counted.windows}
    return Rate(tuple(_refilled(window, known.get(window.length_ms)) for window in fresh.windows))


def _shape(rate: Rate) -> list[tuple[int, int]]:
    return [(window.length_ms, window.limit) for window in rate.windows]


def _refilled(window: Window, counted: Window | None) -> Window:
    if counted is None:
        return window
    return window._replace(slots=counted.slots, used=counted.used)
