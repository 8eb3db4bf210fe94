"""Rules of nodes in the hands of workers: started, kept, given the next batches of sources."""

from collections.abc import Iterator, Sequence

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.pipelines import events as e
from flo.engine.pipelines.container import LivePipelines, NodeKey
from flo.engine.pipelines.journal import JournalEntry, read_entry, write
from flo.engine.pipelines.lookups import wanted_inputs
from flo.engine.pipelines.records import NodeState, PipelineState
from flo.engine.state import State
from flo.model.base import Event
from flo.model.errors import NotFound
from flo.model.ids import Namespace, check_namespace
from flo.model.pipelines.names import NODE_ENDED, NodeStatus, Reported, Verdict
from flo.model.pipelines.work import (
    AwaitNode,
    HeartbeatNode,
    InputBatch,
    InputBatches,
    NextInput,
    NodeStart,
    NodeStarts,
)
from flo.model.storage.records import Chunk

INPUT_LENGTH_MAX = 4 * 1024 * 1024
"""About how many bytes of metas one answer has; at least one batch is in it."""

LOOKED_AT_MAX = 64
"""So many nodes are looked at for one answer, and those of a role at least once."""


def decide_await(state: State, command: AwaitNode, context: Context) -> Decision:
    check_namespace(command.namespace)
    space = state.space(command.namespace)
    known, worker = space.pipelines, space.workers.get(command.worker_id)
    if worker is not None and worker.draining:
        return Decision(NodeStarts(draining=True))
    keys = [*_given_already(known, command), *_ready_for(known, command)][: command.max_nodes]
    starts: list[NodeStart] = []
    events: list[Event] = []
    chunks: list[Chunk] = []
    for place, (pipeline_id, name) in enumerate(keys):
        pipeline = known.live[pipeline_id]
        node = pipeline.nodes[name]
        is_resumed = node.has_worker
        lease_id = f"{context.position_in(state)}.{place}"
        until_ms = context.now_ms + command.lease_ms
        if is_resumed:
            until_ms = max(until_ms, node.lease_until_ms)
            events.append(_resumed(command.namespace, pipeline, name, lease_id, until_ms, context))
        else:
            started = _started(state, command, pipeline, node, lease_id, until_ms, context)
            events += started[0]
            chunks += started[1]
        starts.append(_start_of(pipeline, node, lease_id, until_ms, is_resumed, context))
    return Decision(NodeStarts(starts=starts), tuple(events), chunks=tuple(chunks))


def _given_already(known: LivePipelines, command: AwaitNode) -> Iterator[NodeKey]:
    """Nodes that are this worker's, and that it does not know of."""
    if command.worker_id not in known.held:
        return
    holds = set(command.holds)
    for key in known.held[command.worker_id]:
        node = known.live[key[0]].nodes[key[1]]
        is_known = (*key, node.epoch) in holds or node.spec.type not in command.roles
        if not is_known and node.status is NodeStatus.RUNNING:
            yield key


def _ready_for(known: LivePipelines, command: AwaitNode) -> Iterator[NodeKey]:
    """Nodes of these roles that wait, as many as the limits allow; the roles in turn.

    One of each pipeline, since a decision writes to a journal once, and one in all if a stream has
    the events of all: the worker asks again.
    """
    left = command.max_nodes
    begun: set[str] = set()
    most_in_all = known.limits.max_global_running
    room = left if most_in_all is None else min(left, most_in_all - known.running_count)
    waiting = [
        (iter(known.ready[role]), known.room_for(role, left))
        for role in dict.fromkeys(command.roles)
        if role in known.ready
    ]
    looked_at = 0
    while waiting and room > 0 and looked_at < LOOKED_AT_MAX:
        looked_at += len(waiting)
        going_on = []
        for keys, most in waiting:
            key = next(keys, None) if most > 0 and room > 0 else None
            if key is None:
                continue
            going_on.append((keys, most))
            if key[0] not in begun and not (begun and known.limits.event_stream):
                room -= 1
                going_on[-1] = (keys, most - 1)
                begun.add(key[0])
                yield key
        waiting = going_on


def _resumed(
    namespace: Namespace,
    pipeline: PipelineState,
    name: str,
    lease_id: str,
    until_ms: int,
    context: Context,
) -> Event:
    return e.NodeResumed(
        namespace=namespace,
        id=pipeline.id,
        node=name,
        lease_id=lease_id,
        lease_until_ms=until_ms,
        at_ms=context.now_ms,
    )


def _started(
    state: State,
    command: AwaitNode,
    pipeline: PipelineState,
    node: NodeState,
    lease_id: str,
    until_ms: int,
    context: Context,
) -> tuple[Sequence[Event], Sequence[Chunk]]:
    name, epoch = node.spec.node_id, node.epoch + 1
    io = node.spec.io
    inputs = {
        field: io[field] for field in ("input_ref", "input_inline", "batching") if field in io
    }
    lease = {"lease_id": lease_id, "lease_deadline_ts_ms": until_ms}
    entries = [
        JournalEntry(kind="TASK_START", node=name, epoch=epoch, payload=inputs),
        JournalEntry(
            kind="TASK_ACCEPTED", node=name, epoch=epoch, worker_id=command.worker_id, payload=lease
        ),
    ]
    written = write(state, command.namespace, pipeline, entries, context)
    started = e.NodeStarted(
        namespace=command.namespace,
        id=pipeline.id,
        node=name,
        epoch=epoch,
        worker_id=command.worker_id,
        lease_id=lease_id,
        lease_until_ms=until_ms,
        at_ms=context.now_ms,
    )
    journaled = e.JournalAppended(
        namespace=command.namespace,
        id=pipeline.id,
        count=len(entries),
        length=written.length,
        at_ms=context.now_ms,
    )
    return (started, journaled, *written.events), written.chunks


def _start_of(
    pipeline: PipelineState,
    node: NodeState,
    lease_id: str,
    until_ms: int,
    is_resumed: bool,
    context: Context,
) -> NodeStart:
    spec = node.spec
    return NodeStart(
        id=pipeline.id,
        node=spec.node_id,
        role=spec.type,
        epoch=node.epoch if is_resumed else node.epoch + 1,
        lease_id=lease_id,
        lease_expires_at_ms=until_ms,
        input_ref=_object(spec.io.get("input_ref")),
        input_inline=_object(spec.io.get("input_inline")),
        batching=_object(spec.io.get("batching")),
        function=spec.function,
        arguments=dict(spec.arguments),
        params=pipeline.params,
        sources=list(spec.sources),
        resumed=is_resumed,
        batches_done=len(node.batches),
        started_at_ms=node.started_at_ms if node.started_at_ms is not None else context.now_ms,
    )


def _object(value: object) -> dict[str, object] | None:
    return value if isinstance(value, dict) else None


def node_of(
    state: State, namespace: Namespace, pipeline_id: str, name: str
) -> tuple[PipelineState, NodeState] | None:
    """The node of a pipeline under way; None if the pipeline is not."""
    pipeline = state.space(namespace).pipelines.live.get(pipeline_id)
    if pipeline is None:
        return None
    node = pipeline.nodes.get(name)
    if node is None:
        raise NotFound(
            f"pipeline {pipeline_id!r} has no node {name!r}", code="pipeline_node_not_found"
        )
    return pipeline, node


def verdict_on(node: NodeState, epoch: int, lease_id: str | None) -> Reported:
    """Whether who speaks for an attempt has the node now."""
    if node.epoch != epoch:
        return Reported(
            verdict=Verdict.FENCED, reason=f"attempt {epoch} is over: {node.epoch} is the newest"
        )
    if not node.has_worker:
        return Reported(verdict=Verdict.FENCED, reason=f"the node is {node.status}")
    if lease_id is not None and lease_id != node.lease_id:
        return Reported(verdict=Verdict.FENCED, reason="the attempt has been started again")
    if node.status is NodeStatus.CANCELLING:
        return Reported(
            verdict=Verdict.CANCELLED, reason=node.cancel_reason, deadline_at_ms=node.deadline_ms
        )
    return Reported(lease_expires_at_ms=node.lease_until_ms)


GONE = Reported(verdict=Verdict.FENCED, reason="the pipeline has ended, or never was")


def decide_heartbeat(state: State, command: HeartbeatNode, context: Context) -> Decision:
    found = node_of(state, command.namespace, command.id, command.node)
    if found is None:
        return Decision(GONE)
    pipeline, node = found
    verdict = verdict_on(node, command.epoch, command.lease_id)
    if verdict.verdict is not Verdict.OK:
        return Decision(verdict)
    until_ms = max(node.lease_until_ms, context.now_ms + command.lease_ms)
    entry = JournalEntry(
        kind="TASK_HEARTBEAT",
        node=command.node,
        epoch=command.epoch,
        worker_id=command.worker_id,
        payload={"lease_id": node.lease_id, "lease_deadline_ts_ms": until_ms},
    )
    written = write(state, command.namespace, pipeline, (entry,), context)
    kept = e.NodeKept(
        namespace=command.namespace,
        id=command.id,
        node=command.node,
        worker_id=command.worker_id,
        lease_until_ms=until_ms,
        at_ms=context.now_ms,
    )
    journaled = e.JournalAppended(
        namespace=command.namespace,
        id=command.id,
        count=1,
        length=written.length,
        at_ms=context.now_ms,
        node=command.node,
    )
    return Decision(
        Reported(lease_expires_at_ms=until_ms),
        (kept, journaled, *written.events),
        chunks=written.chunks,
    )


def decide_next(state: State, command: NextInput, context: Context) -> Decision:
    found = node_of(state, command.namespace, command.id, command.node)
    verdict = verdict_on(found[1], command.epoch, command.lease_id) if found is not None else GONE
    if found is None or verdict.verdict is not Verdict.OK:
        reply = InputBatches(
            verdict=verdict.verdict, reason=verdict.reason, deadline_at_ms=verdict.deadline_at_ms
        )
        return Decision(reply)
    pipeline, node = found
    _check_sources(pipeline, command)
    items: list[InputBatch] = []
    taken: dict[str, int] = {}
    length = 0
    for source, number, place in wanted_inputs(pipeline, command):
        record = context.records.record(pipeline.journal, place)
        if record is None or len(items) >= command.max_batches or length >= INPUT_LENGTH_MAX:
            break
        entry = read_entry(record)
        before = node.inputs.get(source)
        is_new = before is None or number >= before.next
        if is_new:
            taken[source] = taken.get(source, 0) + 1
        items.append(
            InputBatch(
                from_node=source,
                number=number,
                batch_uid=entry.uid or "",
                meta=entry.meta,
                artifacts_ref=entry.ref,
                created_at_ms=record.at_ms,
                done_uids=[] if is_new or before is None else list(before.in_progress[number]),
            )
        )
        length += len(entry.meta)
    events = tuple(
        e.InputsTaken(
            namespace=command.namespace,
            id=command.id,
            node=command.node,
            source=source,
            count=count,
        )
        for source, count in taken.items()
    )
    is_end = not items and _is_over(pipeline, node, command)
    return Decision(InputBatches(items=items, end=is_end), events)


def _check_sources(pipeline: PipelineState, command: NextInput) -> None:
    for name in command.from_nodes:
        if name not in pipeline.nodes:
            raise NotFound(
                f"node {command.node!r} of pipeline {command.id!r} reads from {name!r}, which is "
                "no node of its graph",
                code="source_not_found",
            )


def _is_over(pipeline: PipelineState, node: NodeState, command: NextInput) -> bool:
    """Whether no source has anything more, or ever will."""
    for name in command.from_nodes:
        source = pipeline.nodes[name]
        if source.status not in NODE_ENDED:
            return False
        taken = node.inputs.get(name)
        if (taken.next if taken is not None else 0) < len(source.batches):
            return False
    return True
