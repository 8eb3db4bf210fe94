"""The child that a step of a workflow run starts: a workflow run of its own, unless refused."""

from typing import NamedTuple

from flo.engine.workflows.advance.draft import Draft, too_large
from flo.engine.workflows.records import Parent, WorkflowRun
from flo.engine.workflows.starts import attributes, slot_of
from flo.model.workflows import RUN_PREFIX, BranchName
from flo.workflow.definition import Target
from flo.workflow.outcome import EXECUTION_FAILURE, TARGET_DISABLED, TARGET_NOT_FOUND

DEPTH_MAX = 32


class ChildRefused(NamedTuple):
    """A child that cannot be started: the outcome that its step has, and why."""

    outcome: str
    problem: str


def child_of(
    draft: Draft, branch: BranchName, target: Target, payload: bytes
) -> WorkflowRun | ChildRefused:
    """The child that this walk waits for next."""
    parent = draft.execution.run
    workflow = draft.space.workflows.get(target.name)
    deployed = workflow.version(target.version) if workflow is not None else None
    if workflow is None or deployed is None:
        return ChildRefused(TARGET_NOT_FOUND, f"workflow {target} is not deployed")
    if not workflow.is_enabled(deployed.definition.version):
        return ChildRefused(TARGET_DISABLED, f"workflow {target} is disabled")
    if parent.depth >= DEPTH_MAX:
        return ChildRefused(EXECUTION_FAILURE, f"children are {DEPTH_MAX} deep")
    if (problem := too_large("the input of the child", payload)) is not None:
        return ChildRefused(EXECUTION_FAILURE, problem)
    number = draft.next_child_number()
    return WorkflowRun(
        run_id=f"{RUN_PREFIX}-{number}",
        number=number,
        workflow=target.name,
        version=deployed.definition.version,
        input=payload,
        created_at_ms=draft.now_ms,
        parent=Parent(run_id=parent.run_id, branch=branch),
        attributes=attributes(deployed.definition, payload),
        triggered_by="parent",
        depth=parent.depth + 1,
        slot=slot_of(deployed.definition, payload),
    )
