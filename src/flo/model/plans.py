"""Plans while they are used: queries, replies. Nothing of this outlives the process."""

from typing import Annotated

from flo.model.base import Message
from flo.model.declare.fields import Text, about
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import NAMESPACE_DEFAULT, Namespace
from flo.model.workflows import LATEST, Version, WorkflowName


class Emitted(Message):
    """How many plans look out for events of this name, and how many results they forget."""

    plans: int
    results: int


class WindowView(Message):
    """How much of a rate limit is used up: in the last `length_ms`, at most `limit` calls."""

    length_ms: int
    limit: int
    used: int


class ExecutorView(Message):
    name: str
    action: str
    priority: int
    breaker: str
    """closed, open or half_open; none if it has no breaker."""
    failures: int
    """In a row; so many open the breaker as `failures_max` says."""
    failures_max: int | None
    half_open_at_ms: int | None
    """When an open breaker lets calls through again, to try."""
    score: float
    samples: int
    """Calls that have ended within the health window."""
    is_measured: bool
    """Whether there are enough samples for the score to count."""
    answered: float
    """The share of them that gave an answer of their own; newer ones weigh more."""
    succeeded: float
    """The share of them whose answer was good."""
    windows: list[WindowView]
    free_at_ms: int
    """When its rate limit lets the next call through."""


class PlanView(Message):
    workflow: WorkflowName
    version: str
    plan: str
    selection: str
    at_ms: int
    """When this was so, by the clock of the server."""
    begun: int
    """How many times since the server started."""
    min_samples: int
    executors: list[ExecutorView]
    cached: int


@operation(
    opcode=161,
    permission=Permission.EVENTS_EMIT,
    http=Route("POST", "/events/{name}", errors=(413,)),
)
class EmitEvent(Command[Emitted]):
    """Say that something has happened: plans that name it in `invalidate_on` forget results.

    The answer says how many plans that are in use name it, and how many results they forget.
    """

    name: Annotated[str, Text(what="the name of an event"), about("The event's name.")]
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=160,
    permission=Permission.WORKFLOWS_READ,
    http=Route("GET", "/workflows/{name}/plans/{plan}", errors=(404,), names={"name": "workflow"}),
)
class GetPlan(Query[PlanView]):
    """A plan since the server started: breakers, health and rate limits of its executors.

    For each: its breaker (closed, open, half_open, or none) and until when it is open, its score,
    from how many samples and whether they are enough for it to count, how much of each rate limit
    is used, and when the next call is let through. `at_ms` is when all this was so.
    """

    workflow: WorkflowName
    plan: Annotated[str, about("The plan's name.")]
    namespace: Namespace = NAMESPACE_DEFAULT
    version: Version = LATEST
