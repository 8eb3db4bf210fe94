"""Workflows and the executions under way in a snapshot."""

from collections.abc import Iterable

import msgspec

from flo.engine.idempotency import FinishedKeys
from flo.engine.snapshot import Section, SnapshotPart, in_chunks
from flo.engine.state import Deployed, State, Workflow
from flo.engine.workflows.calls.log import CallLog
from flo.engine.workflows.definitions import text_digest
from flo.engine.workflows.execution import Execution
from flo.engine.workflows.folds import (
    keys_of,
    reschedule,
    restore_awaited,
    restore_execution,
    restore_permit,
)
from flo.engine.workflows.records import (
    Branch,
    CallParts,
    CallRecord,
    Ending,
    HistoryEntry,
    Signal,
    StepResult,
    WorkflowRun,
)
from flo.model.base import Record
from flo.model.ids import Namespace
from flo.model.storage.since import Since
from flo.model.workflows import BranchName, StepName, WorkflowName
from flo.workflow.definition import Definition

EXECUTIONS_PER_CHUNK = 500

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Definition).decode


class WorkflowNumbersPart(SnapshotPart):
    namespace: Namespace
    number: int
    """The number of the newest run."""
    keys_finished: FinishedKeys
    deleted_recently: list[tuple[tuple[WorkflowName, str], bytes]]
    deleted_before: bytes


class _Deployed(Record):
    text: str
    definition: bytes
    """Encoded by itself, in the order of the document: branches are opened in that order."""
    created_at_ms: int


class WorkflowPart(SnapshotPart):
    namespace: Namespace
    name: WorkflowName
    versions: list[_Deployed]
    gone: list[_Deployed]
    disabled_since: Since | None = None
    disabled: tuple[tuple[str, Since], ...] = ()


class _Execution(Record):
    run: WorkflowRun
    branches: list[tuple[BranchName, Branch]]
    """In the order in which they were opened."""
    results: list[tuple[StepName, StepResult]]
    """In the order in which the steps have ended."""
    outputs: dict[BranchName, bytes]
    signals: list[Signal]
    done: list[StepName]
    paused: bool
    ending: Ending | None
    to_undo: tuple[StepName, ...]
    undone: tuple[StepName, ...]
    history: list[HistoryEntry]
    history_parts: int
    steps_since_wait: dict[BranchName, int]
    waited: bool
    admitted: bool
    visits: dict[StepName, int]
    under_way: list[CallRecord]
    calls: CallParts
    recorded: int
    begun: bool
    since: Since | None = None
    paused_since: Since | None = None
    ending_since: Since | None = None
    length: int = 0
    step_count: int = 0
    event_count: int = 0
    behind_ms: int = 0


class ExecutionsPart(SnapshotPart):
    namespace: Namespace
    executions: list[_Execution]


def _dump_numbers(state: State) -> Iterable[WorkflowNumbersPart]:
    for namespace, space in sorted(state.spaces.items()):
        if space.workflow_number or space.deleted_versions:
            yield WorkflowNumbersPart(
                namespace=namespace,
                number=space.workflow_number,
                keys_finished=space.workflow_keys.dump_finished(),
                deleted_recently=list(space.deleted_versions.recent.items()),
                deleted_before=bytes(space.deleted_versions.filter),
            )


def _restore_numbers(state: State, part: WorkflowNumbersPart) -> None:
    space = state.spaces[part.namespace]
    space.workflow_number = part.number
    space.workflow_keys.restore_finished(part.keys_finished)
    space.deleted_versions.recent = dict(part.deleted_recently)
    space.deleted_versions.filter = bytearray(part.deleted_before)


def _dump_workflows(state: State) -> Iterable[WorkflowPart]:
    for namespace, space in sorted(state.spaces.items()):
        for name, workflow in sorted(space.workflows.items()):
            yield WorkflowPart(
                namespace=namespace,
                name=name,
                versions=[_dumped(one) for one in workflow.versions.values()],
                gone=[_dumped(one) for _, one in sorted(workflow.gone.items())],
                disabled_since=workflow.disabled_since,
                disabled=tuple(workflow.disabled.items()),
            )


def _dumped(deployed: Deployed) -> _Deployed:
    return _Deployed(
        text=deployed.text,
        definition=_encode(deployed.definition),
        created_at_ms=deployed.created_at_ms,
    )


def _restore_workflow(state: State, part: WorkflowPart) -> None:
    workflow = Workflow()
    for each, versions in ((part.versions, workflow.versions), (part.gone, workflow.gone)):
        for one in each:
            definition, digest = _decode(one.definition), text_digest(one.text)
            deployed = Deployed(definition, one.text, one.created_at_ms, digest)
            versions[deployed.definition.version] = deployed
    workflow.disabled_since = part.disabled_since
    workflow.disabled = dict(part.disabled)
    state.spaces[part.namespace].workflows[part.name] = workflow


def _dump_executions(state: State) -> Iterable[ExecutionsPart]:
    for namespace, space in sorted(state.spaces.items()):
        ordered = sorted(space.executions.values(), key=lambda execution: execution.run.number)
        for some in in_chunks(ordered, EXECUTIONS_PER_CHUNK):
            parts = [_execution_part(execution) for execution in some]
            yield ExecutionsPart(namespace=namespace, executions=parts)


def _execution_part(execution: Execution) -> _Execution:
    return _Execution(
        run=execution.run,
        branches=list(execution.branches.items()),
        results=list(execution.results.items()),
        outputs=execution.outputs,
        signals=execution.signals,
        done=execution.done,
        paused=execution.paused,
        ending=execution.ending,
        to_undo=execution.to_undo,
        undone=execution.undone,
        history=execution.history,
        history_parts=execution.history_parts,
        steps_since_wait=execution.steps_since_wait,
        waited=execution.waited,
        admitted=execution.admitted,
        visits=execution.visits,
        under_way=list(execution.calls.under_way.values()),
        calls=execution.calls.parts(),
        recorded=execution.calls.recorded,
        begun=execution.calls.begun,
        since=execution.since,
        paused_since=execution.paused_since,
        ending_since=execution.ending_since,
        length=execution.length,
        step_count=execution.step_count,
        event_count=execution.event_count,
        behind_ms=execution.behind_ms,
    )


def _restore_executions(state: State, part: ExecutionsPart) -> None:
    for execution in part.executions:
        _restore_execution(state, part.namespace, execution)


def _restore_execution(state: State, namespace: Namespace, part: _Execution) -> None:
    space, run = state.spaces[namespace], part.run
    execution = restore_execution(state, namespace, run)
    execution.branches, execution.results = dict(part.branches), dict(part.results)
    execution.outputs, execution.signals, execution.done = part.outputs, part.signals, part.done
    execution.paused, execution.ending = part.paused, part.ending
    execution.since, execution.paused_since = part.since, part.paused_since
    execution.ending_since, execution.behind_ms = part.ending_since, part.behind_ms
    execution.step_count, execution.event_count = part.step_count, part.event_count
    execution.to_undo, execution.undone = part.to_undo, part.undone
    execution.history, execution.history_parts = part.history, part.history_parts
    execution.steps_since_wait, execution.waited = part.steps_since_wait, part.waited
    execution.admitted, execution.visits = part.admitted, part.visits
    _restore_calls(execution.calls, part)
    execution.length = part.length
    space.executions.note_status(execution)
    restore_permit(space, execution)
    space.workflow_keys.run_ids.update(keys_of(run))
    restore_awaited(space, run.run_id, execution)
    reschedule(state, namespace, execution)


def _restore_calls(calls: CallLog, part: _Execution) -> None:
    calls.under_way = {call.branch: call for call in part.under_way}
    calls.ended, calls.signals = list(part.calls.calls), list(part.calls.signals)
    calls.controls = list(part.calls.controls)
    calls.recorded, calls.begun = part.recorded, part.begun


SNAPSHOT = (
    Section(WorkflowNumbersPart, _dump_numbers, _restore_numbers),
    Section(WorkflowPart, _dump_workflows, _restore_workflow),
    Section(ExecutionsPart, _dump_executions, _restore_executions),
)
