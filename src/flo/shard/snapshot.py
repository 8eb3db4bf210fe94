"""State to bytes and back, so that replay is short.

    head      what is small: actions, workers, streams, counters, the order in the queues
    runs      the live runs, some thousands to a chunk
    backlog   the records on their way through a group, some thousands to a chunk
    keys      keys and their values, some hundreds to a chunk
    module    one WebAssembly module

Indexes that follow from these (who holds which, what falls due) are built again.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeAlias

import msgspec

from flo.engine.actions.records import Action
from flo.engine.groups.records import Delivery
from flo.engine.kv.records import KeyValue
from flo.engine.kv.rules import restore_key
from flo.engine.runs.queue import LaneKey
from flo.engine.runs.records import Run
from flo.engine.runs.rules import restore_run
from flo.engine.schedules.records import ScheduleState
from flo.engine.schedules.rules import reschedule as reschedule_schedule
from flo.engine.state import (
    ActionPermits,
    ConsumerGroupState,
    Deployed,
    Space,
    State,
    StreamState,
    Tally,
    Workflow,
)
from flo.engine.workers.records import Process, Worker
from flo.engine.workflows.execution import Execution
from flo.engine.workflows.folds import (
    keys_of,
    reschedule,
    restore_awaited,
    restore_execution,
    restore_slot,
)
from flo.engine.workflows.records import (
    Branch,
    Ending,
    HistoryEntry,
    Signal,
    StepResult,
    WorkflowRun,
)
from flo.model.base import Record
from flo.model.errors import Corrupt
from flo.model.groups import GroupSettings
from flo.model.ids import (
    ActionName,
    ConsumerName,
    GroupName,
    Key,
    Namespace,
    RunId,
    StreamName,
    WorkerId,
)
from flo.model.streams import Retention
from flo.model.workflows import BranchName, StepName, WorkflowName
from flo.workflow.definition import Definition

RUNS_PER_CHUNK = 5_000
DELIVERIES_PER_CHUNK = 10_000
KEYS_PER_CHUNK = 200
EXECUTIONS_PER_CHUNK = 500


class _GroupHead(Record):
    number: int
    settings: GroupSettings
    next: int
    created_at_ms: int
    consumers: dict[ConsumerName, int]
    chosen: ConsumerName | None
    dead_count: int


class _StreamHead(Record):
    number: int
    created_at_ms: int
    partitions: int
    retention: Retention
    first: int
    next: int
    first_at_ms: int
    last_at_ms: int
    offset: int
    length: int
    groups: dict[GroupName, _GroupHead]


class _SpaceHead(Record):
    archive_name: str
    created_at_ms: int | None
    actions: dict[ActionName, Action]
    deleted: dict[ActionName, Action]
    numbers: dict[ActionName, int]
    tallies: dict[ActionName, Tally]
    keys_finished: list[tuple[ActionName, str, RunId]]
    workers: dict[WorkerId, Worker]
    processes: dict[WorkerId, dict[ActionName, Process]]
    lanes: list[tuple[ActionName, LaneKey, int, list[int]]]
    streams: dict[StreamName, _StreamHead]
    kv_version: int
    action_slots: list[tuple[ActionName, str, list[RunId], list[tuple[int, list[int]]]]]
    workflow_number: int
    schedules: dict[WorkflowName, ScheduleState]
    workflow_keys_finished: list[tuple[WorkflowName, str, RunId]]


class _Head(Record):
    spaces: dict[Namespace, _SpaceHead]
    keys_finished_count: int
    deletions: dict[Namespace, int]
    streams_made: int
    groups_made: int


class _Runs(Record, tag="runs"):
    namespace: Namespace
    runs: list[Run]


class _Backlog(Record, tag="backlog"):
    namespace: Namespace
    stream: StreamName
    group: GroupName
    deliveries: list[Delivery]


class _Keys(Record, tag="keys"):
    namespace: Namespace
    keys: list[tuple[Key, KeyValue]]


class _Module(Record, tag="module"):
    digest: str
    body: bytes


class _Deployed(Record):
    text: str
    definition: bytes | Definition
    """Encoded by itself, in the order of the document: branches are opened in that order. Snapshots
    of earlier servers hold it sorted by name."""
    created_at_ms: int


class _Workflow(Record, tag="workflow"):
    namespace: Namespace
    name: WorkflowName
    versions: list[_Deployed]
    gone: list[_Deployed]
    enabled: bool
    disabled: tuple[str, ...] = ()


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
    hops: int
    hops_at_ms: int
    admitted: bool


class _Executions(Record, tag="courses"):
    namespace: Namespace
    executions: list[_Execution]


_Part: TypeAlias = _Runs | _Backlog | _Keys | _Module | _Workflow | _Executions

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_encode_in_order = msgspec.msgpack.Encoder().encode
_decode_definition = msgspec.msgpack.Decoder(Definition).decode
_decode_head = msgspec.msgpack.Decoder(_Head).decode
_decode_part: Callable[[bytes], _Part] = msgspec.msgpack.Decoder(_Part).decode


def dump(state: State) -> Iterator[bytes]:
    """The state in chunks; equal states give equal bytes."""
    heads = {namespace: _space_head(space) for namespace, space in state.spaces.items()}
    yield _encode(
        _Head(
            spaces=heads,
            keys_finished_count=state.keys_finished_count,
            deletions=state.deletions,
            streams_made=state.streams_made,
            groups_made=state.groups_made,
        )
    )
    for digest, body in sorted(state.modules.items()):
        yield _encode(_Module(digest=digest, body=body))
    for namespace, space in sorted(state.spaces.items()):
        for part in _parts(namespace, space):
            yield _encode(part)


def load(chunks: Iterable[bytes]) -> State:
    state = State()
    each = iter(chunks)
    try:
        head = _decode_head(next(each))
        for namespace, space_head in head.spaces.items():
            state.spaces[namespace] = _space(space_head)
            for workflow in space_head.schedules:
                reschedule_schedule(state, namespace, workflow)
        state.keys_finished_count = head.keys_finished_count
        state.deletions = head.deletions
        state.streams_made, state.groups_made = head.streams_made, head.groups_made
        for chunk in each:
            _restore(state, _decode_part(chunk))
    except (msgspec.DecodeError, StopIteration) as error:
        raise Corrupt(
            f"a snapshot that cannot be read: {error}", code="snapshot_damaged"
        ) from error
    return state


def fingerprint(state: State) -> str:
    """Equal states have equal fingerprints, whether they were lived or replayed."""
    digest = hashlib.sha256()
    for chunk in dump(state):
        digest.update(chunk)
    return digest.hexdigest()


def _parts(namespace: Namespace, space: Space) -> Iterator[_Part]:
    runs = iter(sorted(space.runs.items()))
    while chunk := [run for _, run in islice(runs, RUNS_PER_CHUNK)]:
        yield _Runs(namespace=namespace, runs=chunk)
    for stream_name, stream in sorted(space.streams.items()):
        for name, group in sorted(stream.groups.items()):
            deliveries = iter(sorted(group.backlog.deliveries.items()))
            while some := [one for _, one in islice(deliveries, DELIVERIES_PER_CHUNK)]:
                yield _Backlog(namespace=namespace, stream=stream_name, group=name, deliveries=some)
    for name, workflow in sorted(space.workflows.items()):
        yield _workflow_part(namespace, name, workflow)
    executions = iter(sorted(space.executions.values(), key=lambda execution: execution.run.number))
    while some_executions := list(islice(executions, EXECUTIONS_PER_CHUNK)):
        yield _Executions(
            namespace=namespace, executions=[_execution_part(one) for one in some_executions]
        )
    keys = iter(space.kv)
    while names := list(islice(keys, KEYS_PER_CHUNK)):
        yield _Keys(namespace=namespace, keys=[(key, space.kv[key]) for key in names])


def _restore(state: State, part: _Part) -> None:
    match part:
        case _Module(digest=digest, body=body):
            state.modules[digest] = body
        case _Runs(namespace=namespace, runs=runs):
            for run in runs:
                restore_run(state, namespace, run)
        case _Backlog():
            _restore_backlog(state, part)
        case _Workflow(namespace=namespace, name=name):
            state.spaces[namespace].workflows[name] = _workflow(part)
        case _Executions(namespace=namespace, executions=executions):
            for execution in executions:
                _restore_execution(state, namespace, execution)
        case _Keys(namespace=namespace, keys=keys):
            for key, value in keys:
                restore_key(state, namespace, key, value)


def _space_head(space: Space) -> _SpaceHead:
    return _SpaceHead(
        archive_name=space.archive_name,
        created_at_ms=space.created_at_ms,
        actions=space.actions,
        deleted=space.deleted,
        numbers=space.numbers,
        tallies=space.tallies,
        keys_finished=[
            (action, key, space.keys[action, key]) for action, key in space.keys_finished
        ],
        workers=space.workers,
        processes=space.processes,
        lanes=[
            (action, key, priority, standing)
            for action, queue in sorted(space.queues.items())
            for key, lane in sorted(queue.lanes.items(), key=lambda lane: repr(lane[0]))
            for priority, numbers in lane.parts()
            if (standing := list(numbers))
        ],
        streams={name: _stream_head(stream) for name, stream in space.streams.items()},
        kv_version=space.kv.version,
        action_slots=[
            (
                action,
                key,
                sorted(slots.holders),
                [(priority, list(numbers)) for priority, numbers in slots.line.parts()],
            )
            for (action, key), slots in sorted(space.action_slots.items())
        ],
        workflow_number=space.workflow_number,
        schedules=space.schedules,
        workflow_keys_finished=[
            (workflow, key, space.workflow_keys[workflow, key])
            for workflow, key in space.workflow_keys_finished
        ],
    )


def _workflow_part(namespace: Namespace, name: WorkflowName, workflow: Workflow) -> _Workflow:
    return _Workflow(
        namespace=namespace,
        name=name,
        versions=[_deployed_part(one) for one in workflow.versions.values()],
        gone=[_deployed_part(one) for _, one in sorted(workflow.gone.items())],
        enabled=workflow.enabled,
        disabled=tuple(workflow.disabled),
    )


def _deployed_part(deployed: Deployed) -> _Deployed:
    return _Deployed(
        text=deployed.text,
        definition=_encode_in_order(deployed.definition),
        created_at_ms=deployed.created_at_ms,
    )


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
        hops=execution.hops,
        hops_at_ms=execution.hops_at_ms,
        admitted=execution.admitted,
    )


def _restore_backlog(state: State, part: _Backlog) -> None:
    stream = state.spaces[part.namespace].streams[part.stream]
    for delivery in part.deliveries:
        stream.groups[part.group].backlog.put(delivery)
    state.reschedule(part.namespace, part.stream, part.group)


def _workflow(part: _Workflow) -> Workflow:
    workflow = Workflow()
    for each, versions in ((part.versions, workflow.versions), (part.gone, workflow.gone)):
        for one in each:
            deployed = _deployed(one)
            versions[deployed.definition.version] = deployed
    workflow.enabled = part.enabled
    workflow.disabled = dict.fromkeys(part.disabled)
    return workflow


def _deployed(part: _Deployed) -> Deployed:
    definition = part.definition
    if isinstance(definition, bytes):
        definition = _decode_definition(definition)
    return Deployed(definition, part.text, part.created_at_ms)


def _restore_execution(state: State, namespace: Namespace, part: _Execution) -> None:
    space, run = state.spaces[namespace], part.run
    execution = restore_execution(state, namespace, run)
    execution.branches, execution.results = dict(part.branches), dict(part.results)
    execution.outputs, execution.signals, execution.done = part.outputs, part.signals, part.done
    execution.paused, execution.ending = part.paused, part.ending
    execution.to_undo, execution.undone = part.to_undo, part.undone
    execution.history, execution.history_parts = part.history, part.history_parts
    execution.hops, execution.hops_at_ms = part.hops, part.hops_at_ms
    execution.admitted = part.admitted
    restore_slot(space, execution)
    space.workflow_keys.update(keys_of(run))
    restore_awaited(space, run.run_id, execution)
    reschedule(state, namespace, execution)


def _stream_head(stream: StreamState) -> _StreamHead:
    return _StreamHead(
        number=stream.number,
        created_at_ms=stream.created_at_ms,
        partitions=stream.partitions,
        retention=stream.retention,
        first=stream.first,
        next=stream.next,
        first_at_ms=stream.first_at_ms,
        last_at_ms=stream.last_at_ms,
        offset=stream.offset,
        length=stream.length,
        groups={name: _group_head(group) for name, group in stream.groups.items()},
    )


def _group_head(group: ConsumerGroupState) -> _GroupHead:
    return _GroupHead(
        number=group.number,
        settings=group.settings,
        next=group.next,
        created_at_ms=group.created_at_ms,
        consumers=group.consumers,
        chosen=group.chosen,
        dead_count=group.dead_count,
    )


def _space(head: _SpaceHead) -> Space:
    space = Space(head.archive_name)
    space.created_at_ms = head.created_at_ms
    space.actions = head.actions
    space.deleted = head.deleted
    space.numbers = head.numbers
    space.tallies = head.tallies
    space.workers = head.workers
    space.processes = head.processes
    for action, key, run_id in head.keys_finished:
        space.keys_finished[action, key] = None
        space.keys[action, key] = run_id
    for action, lane_key, priority, numbers in head.lanes:
        space.queue(action).restore(lane_key, priority, numbers)
    space.streams = {name: _stream(stream) for name, stream in head.streams.items()}
    space.kv.version = head.kv_version
    for action, key, holders, line in head.action_slots:
        slots = space.action_slots[action, key] = ActionPermits()
        slots.holders = dict.fromkeys(holders)
        for priority, numbers in line:
            for number in numbers:
                slots.line.push(priority, number)
    space.workflow_number = head.workflow_number
    space.schedules = head.schedules
    for workflow, key, run_id in head.workflow_keys_finished:
        space.workflow_keys_finished[workflow, key] = None
        space.workflow_keys[workflow, key] = run_id
    return space


def _stream(head: _StreamHead) -> StreamState:
    stream = StreamState(head.number, head.created_at_ms, head.partitions)
    stream.retention = head.retention
    stream.first, stream.next = head.first, head.next
    stream.first_at_ms, stream.last_at_ms = head.first_at_ms, head.last_at_ms
    stream.offset, stream.length = head.offset, head.length
    stream.groups = {name: _group(group) for name, group in head.groups.items()}
    return stream


def _group(head: _GroupHead) -> ConsumerGroupState:
    group = ConsumerGroupState(head.number, head.settings, head.next, head.created_at_ms)
    group.consumers = head.consumers
    group.chosen = head.chosen
    group.dead_count = head.dead_count
    return group
