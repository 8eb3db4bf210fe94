"""The HTTP routes of plans: how their executors are doing, and events that they look out for."""

from typing import Annotated

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import PathParameter

from flo.model.ids import NAMESPACE_DEFAULT
from flo.model.plans import EmitEvent, Emitted, GetPlan, PlanView
from flo.model.workflows import LATEST
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import NamespaceQuery
from flo.server.http.routes.workflows import VersionQuery, WorkflowPath


@get("/workflows/{name:str}/plans/{plan:str}", tags=["plans"], responses=refusals(404))
async def get_plan(
    asker: NamedDependency[Asker],
    name: WorkflowPath,
    plan: Annotated[str, PathParameter(description="The plan's name.")],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    version: VersionQuery = LATEST,
) -> PlanView:
    """A plan since the server started: breakers, health and rate limits of its executors.

    For each: its breaker (closed, open, half_open, or none) and until when it is open, its score,
    from how many samples and whether they are enough for it to count, how much of each rate limit
    is used, and when the next call is let through. `at_ms` is when all this was so.
    """
    query = GetPlan(workflow=name, plan=plan, namespace=namespace, version=version)
    return await asker.ask(query, PlanView)


@post("/events/{name:str}", status_code=200, tags=["plans"], responses=refusals(413))
async def emit_event(
    asker: NamedDependency[Asker],
    name: Annotated[str, PathParameter(description="The event's name.")],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Emitted:
    """Say that something has happened: plans that name it in `invalidate_on` forget results.

    The answer says how many plans that are in use name it, and how many results they forget.
    """
    return await asker.ask(EmitEvent(name=name, namespace=namespace), Emitted)


ROUTES = (get_plan, emit_event)
