"""Plans while they are used: questions, signs, replies. Nothing of this outlives the process."""

from flo.model.base import Sign, Word
from flo.model.ids import NAMESPACE_DEFAULT, Namespace
from flo.model.workflows import LATEST, WorkflowName


class EmitEvent(Word):
    """Say that something has happened: plans that name it in `invalidate_on` forget results."""

    name: str
    namespace: Namespace = NAMESPACE_DEFAULT


class GetPlan(Word):
    """How the executors of a plan are doing."""

    workflow: WorkflowName
    plan: str
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str = LATEST


class EventEmitted(Sign):
    name: str
    namespace: Namespace


class Emitted(Word):
    """How many plans look out for events of this name, and how many results they forget."""

    plans: int
    results: int


class ExecutorView(Word):
    name: str
    action: str
    priority: int
    breaker: str
    """closed, open or half_open; none if it has no breaker."""
    score: float
    is_measured: bool
    """Whether there are enough samples for the score to count."""
    free_at_ms: int
    """When its rate limit lets the next call through."""


class PlanView(Word):
    workflow: WorkflowName
    version: str
    plan: str
    selection: str
    begun: int
    """How many times since the server started."""
    executors: list[ExecutorView]
    cached: int
