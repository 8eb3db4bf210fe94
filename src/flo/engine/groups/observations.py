"""What is observed of consumers: until when each is taken to be there."""

from flo.engine.groups.events import ConsumerHeard
from flo.engine.volatile import VolatileState

CONSUMERS_REMEMBERED_MAX = 20_000


def observe_heard(volatile: VolatileState, observation: ConsumerHeard, now_ms: int) -> None:
    if len(volatile.consumers) > CONSUMERS_REMEMBERED_MAX:
        there = {name: until for name, until in volatile.consumers.items() if until >= now_ms}
        volatile.consumers = there
    consumer = (
        observation.namespace,
        observation.stream,
        observation.group,
        observation.consumer,
    )
    volatile.consumers[consumer] = observation.until_ms
