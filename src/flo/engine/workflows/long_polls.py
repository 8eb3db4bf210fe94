"""Whoever wants the result of a workflow run waits for its end."""

from collections.abc import Iterable, Mapping

from flo.engine.feature import Wake
from flo.engine.long_poll import TRIGGERS, WORKFLOW_RUN, LongPoll, Subject, whole_namespace
from flo.engine.state import State
from flo.engine.workflows.events import WorkflowFinished
from flo.model.base import Event, Message
from flo.model.declare.fields import check_fields
from flo.model.workflows import ENDED, WaitForWorkflow, WorkflowRunView


def _subjects(query: WaitForWorkflow) -> Iterable[Subject]:
    return (WORKFLOW_RUN, query.namespace, query.run_id), whole_namespace(query.namespace)


def _is_under_way(state: State, query: WaitForWorkflow) -> bool:
    """Whether the run has not ended; a wait that is too long is refused."""
    check_fields(query)
    return query.run_id in state.space(query.namespace).executions


def _is_not_ended(state: State, query: WaitForWorkflow, reply: Message) -> bool:
    return isinstance(reply, WorkflowRunView) and reply.status not in ENDED


def _finished(state: State, event: WorkflowFinished) -> Iterable[Subject]:
    return (WORKFLOW_RUN, event.namespace, event.run_id), (TRIGGERS, event.namespace, "")


LONG_POLLS: Mapping[type[Message], LongPoll] = {
    WaitForWorkflow: LongPoll(subjects=_subjects, is_empty=_is_not_ended, is_pending=_is_under_way),
}

WAKES: Mapping[type[Event], Wake] = {
    WorkflowFinished: _finished,
}
