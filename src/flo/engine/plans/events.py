"""What the log remembers of plans."""

from flo.model.base import Event, Observation
from flo.model.ids import Namespace
from flo.model.workflows import WorkflowName
from flo.workflow.plan.breaker import BreakerPhase


class BreakerTurned(Event):
    """The breaker of an executor has opened, lets probes through, or has closed."""

    namespace: Namespace
    workflow: WorkflowName
    version: str
    plan: str
    executor: str
    phase: BreakerPhase
    at_ms: int


class EventEmitted(Observation):
    name: str
    namespace: Namespace
