"""How a run that has ended unsuccessfully is run again: what is advised fits its error."""

from collections.abc import Iterator, Sequence

from flo.engine.state import Space
from flo.engine.workflows.records import WorkflowRecord
from flo.engine.workflows.warn.actions import missing_actions
from flo.model.workflows import StepName, WorkflowStatus
from flo.workflow.limits import EVENT_LIMIT_REACHED, STEP_LIMIT_REACHED
from flo.workflow.outcome import TARGET_DISABLED, TARGET_NOT_FOUND

ACTIONS_NAMED_MAX = 3
OF_THE_DEFINITION = ("no_transition", "too_many_steps", STEP_LIMIT_REACHED, EVENT_LIMIT_REACHED)
"""The same definition would come to the same end."""


def rerun_advice(space: Space, record: WorkflowRecord, failed: Sequence[StepName]) -> Iterator[str]:
    """The commands, in their order; none of a run that has completed."""
    if record.status is WorkflowStatus.COMPLETED:
        return
    rerun = f"flo workflow rerun {record.run.run_id} --from {failed[-1] if failed else 'start'}"
    match record.error_code:
        case _ if record.status is WorkflowStatus.CANCELLED:
            yield rerun
        case code if code in (TARGET_NOT_FOUND, TARGET_DISABLED):
            yield from _before(space, record)
            yield rerun
        case code if code in OF_THE_DEFINITION:
            yield f"flo workflow definition {record.run.workflow} --version {record.run.version}"
            yield f"{rerun} --version NEW"
        case _ if not record.retryable:
            yield f"{rerun} --input '{{…}}'"
        case _:
            yield rerun


def _before(space: Space, record: WorkflowRecord) -> Iterator[str]:
    """What has to be there first."""
    workflow = space.workflows.get(record.run.workflow)
    deployed = workflow.version(record.run.version) if workflow is not None else None
    if deployed is None:
        return
    for name in missing_actions(space, deployed.definition)[:ACTIONS_NAMED_MAX]:
        yield f"flo action register {name}"
