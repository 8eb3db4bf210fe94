"""Plans of workflows while they are used: how their executors are doing."""

from flo.client.session.session import Session
from flo.model.ids import Namespace
from flo.model.plans import GetPlan, PlanView
from flo.model.workflow_facts import WorkflowName
from flo.model.workflows import LATEST
from flo.wire.opcodes import BY_NAME

_GET = BY_NAME["get_plan"]


class Plans:
    """A plan belongs to its workflow, and is named with it."""

    def __init__(self, session: Session, namespace: Namespace) -> None:
        self._session = session
        self._namespace = namespace

    async def get(self, workflow: WorkflowName, plan: str, version: str = LATEST) -> PlanView:
        """Breakers, health and rate windows of its executors since the server started."""
        query = GetPlan(workflow=workflow, plan=plan, namespace=self._namespace, version=version)
        view: PlanView = await self._session.call(_GET, query)
        return view
