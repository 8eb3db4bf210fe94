"""Plans of workflows while they are used: how their executors are doing."""

from flo.client.noun import Noun
from flo.model.plans import GetPlan, PlanView
from flo.model.workflows import LATEST, WorkflowName


class Plans(Noun):
    """A plan belongs to its workflow, and is named with it."""

    async def get(self, workflow: WorkflowName, plan: str, version: str = LATEST) -> PlanView:
        """Breakers, health and rate windows of its executors since the server started."""
        return await self._call(GetPlan(workflow=workflow, plan=plan, version=version))
