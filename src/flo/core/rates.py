"""How often the runs of an action may begin, over all its workers."""

from functools import lru_cache

from flo.model.actions import ActionLimits
from flo.workflow.definition import RateLimit
from flo.workflow.rate import Rate, rate_of


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
