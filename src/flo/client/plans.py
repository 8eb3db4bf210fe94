"""Plans of workflows while they are used: how their executors are doing."""

from flo.client.session.session import Session
from flo.model.ids import Namespace
from flo.model.plans import GetPlan, PlanView
from flo.model.workflows import LATEST, WorkflowName


class Plans:
    """A plan belongs to its workflow, and is named with it."""

    def __init__(self, session: Session, namespace: Namespace) -> None:
        self._session = session
        self._namespace = namespace

    async def get(self, workflow: WorkflowName, plan: str, version: str = LATEST) -> PlanView:
        """Breakers, health and rate windows of its executors since the server started."""
        query = GetPlan(workflow=workflow, plan=plan, namespace=self._namespace, version=version)
        return await self._session.call(query)
