"""What lists find workflow runs by: the values of their attributes, and whom they are about."""

from flo.engine.lists.subjects import tags_of_subject
from flo.engine.workflows.records import WorkflowRun
from flo.workflow.search import tags_of


def tags_of_run(run: WorkflowRun) -> tuple[str, ...]:
    return (*tags_of(run.attributes), *tags_of_subject(run.subject))
