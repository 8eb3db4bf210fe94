"""How often the runs of an action may begin, over all its workers.

What has begun is counted in VolatileState: a restart forgets it. Limits that are changed hold at
once, for what has begun before as well.
"""

from functools import lru_cache

from flo.engine.volatile import VolatileState
from flo.engine.workers.events import RunsBegun
from flo.model.actions import ActionLimits
from flo.workflow.plan.plan import RateLimit
from flo.workflow.plan.rate import Rate, Window, rate_of

RATES_REMEMBERED_MAX = 10_000


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


def observe_begun(volatile: VolatileState, observation: RunsBegun, now_ms: int) -> None:
    _forget_idle(volatile, now_ms)
    name = observation.namespace, observation.action
    rate = rate_under(observation.limits, volatile.rates.get(name))
    for _ in range(observation.count):
        rate = rate.called(now_ms)
    volatile.rates[name] = rate


def _forget_idle(volatile: VolatileState, now_ms: int) -> None:
    """Actions may be gone, and namespaces; what has left its windows says nothing."""
    if len(volatile.rates) > RATES_REMEMBERED_MAX:
        volatile.rates = {
            name: rate
            for name, rate in volatile.rates.items()
            if any(window.at(now_ms).used for window in rate.windows)
        }


def _shape(rate: Rate) -> list[tuple[int, int]]:
    return [(window.length_ms, window.limit) for window in rate.windows]


def _refilled(window: Window, counted: Window | None) -> Window:
    if counted is None:
        return window
    return window._replace(slots=counted.slots, used=counted.used)
