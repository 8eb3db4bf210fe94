"""What the state holds of plans."""

from flo.model.base import Record
from flo.model.storage.since import Since
from flo.workflow.plan.breaker import BreakerPhase


class BreakerTurn(Record):
    """How a breaker stands that is not closed, and since when."""

    phase: BreakerPhase
    since: Since
