"""Workers wait for nodes and batches, callers for artifacts, events and ends."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from flo.engine.feature import Wake
from flo.engine.long_poll import (
    BATCHES,
    NODE,
    PIPELINE,
    ROLE,
    WORKER_DRAINS,
    WORKER_LEFT,
    LongPoll,
    Subject,
    Turn,
    Waiter,
    WaitQueue,
    everyone,
    whole_namespace,
)
from flo.engine.pipelines import events as e
from flo.engine.pipelines.queries import must_wait
from flo.engine.state import State
from flo.model.base import Event, Message
from flo.model.ids import Namespace
from flo.model.pipelines.names import Reported, Verdict
from flo.model.pipelines.pipelines import (
    ListArtifacts,
    PipelineEnded,
    ReadPipelineEvents,
    WaitPipeline,
)
from flo.model.pipelines.views import ArtifactPage, PipelineEventPage
from flo.model.pipelines.work import AwaitNode, InputBatches, NextInput, NodeStarts, WatchNode


def _node(pipeline_id: str, name: str) -> str:
    return f"{pipeline_id}\0{name}"


def _await_subjects(command: AwaitNode) -> Iterable[Subject]:
    yield whole_namespace(command.namespace)
    yield WORKER_DRAINS, command.namespace, command.worker_id
    for role in command.roles:
        yield ROLE, command.namespace, role


def _is_no_start(state: State, command: AwaitNode, reply: Message) -> bool:
    return isinstance(reply, NodeStarts) and not reply.starts and not reply.draining


def _await_offers(state: State, subject: Subject, queues: Sequence[WaitQueue]) -> Iterator[Waiter]:
    """Who has waited longest, while a node of the role may start."""
    kind, namespace, role = subject
    if kind != ROLE:
        yield from everyone(state, subject, queues)
        return
    for waiter in everyone(state, subject, queues):
        if not state.space(namespace).pipelines.has_ready(role):
            return
        yield waiter


def _next_subjects(command: NextInput) -> Iterable[Subject]:
    yield whole_namespace(command.namespace)
    yield NODE, command.namespace, _node(command.id, command.node)
    for source in command.from_nodes:
        yield BATCHES, command.namespace, _node(command.id, source)


def _is_no_input(state: State, command: NextInput, reply: Message) -> bool:
    if not isinstance(reply, InputBatches):
        return False
    return not reply.items and not reply.end and reply.verdict is Verdict.OK


def _watch_subjects(query: WatchNode) -> Iterable[Subject]:
    yield whole_namespace(query.namespace)
    yield NODE, query.namespace, _node(query.id, query.node)


def _is_nothing_new(state: State, query: WatchNode, reply: Message) -> bool:
    if not isinstance(reply, Reported) or reply.verdict is not Verdict.OK:
        return False
    return not query.waits or must_wait(state, query)


def _pipeline_subjects(
    query: WaitPipeline | ListArtifacts | ReadPipelineEvents,
) -> Iterable[Subject]:
    return whole_namespace(query.namespace), (PIPELINE, query.namespace, query.id)


def _is_not_ended(state: State, query: WaitPipeline, reply: Message) -> bool:
    return isinstance(reply, PipelineEnded) and reply.pipeline is None


def _is_no_entry(state: State, query: ListArtifacts | ReadPipelineEvents, reply: Message) -> bool:
    if not isinstance(reply, ArtifactPage | PipelineEventPage):
        return False
    live = state.space(query.namespace).pipelines.live.get(query.id)
    is_behind = live is not None and reply.last < live.journal_next - 1
    return not reply.items and not reply.ended and not is_behind


def _resumed(
    query: ListArtifacts | ReadPipelineEvents, reply: ArtifactPage | PipelineEventPage
) -> ListArtifacts | ReadPipelineEvents:
    return replace(query, after=reply.last)


def _role(state: State, namespace: Namespace, pipeline_id: str, name: str) -> Iterator[Subject]:
    pipeline = state.space(namespace).pipelines.live.get(pipeline_id)
    if pipeline is not None:
        yield ROLE, namespace, pipeline.nodes[name].spec.type


def _made_ready(state: State, event: e.NodeMadeReady) -> Iterable[Subject]:
    return _role(state, event.namespace, event.id, event.node)


def _left_worker(
    state: State,
    event: e.NodeFinished | e.NodeDeferred | e.NodeFailed | e.NodeCancelled | e.NodeLost,
) -> Iterator[Subject]:
    """There is room for others; who watched it, or reads its batches, should know."""
    yield NODE, event.namespace, _node(event.id, event.node)
    yield BATCHES, event.namespace, _node(event.id, event.node)
    known = state.space(event.namespace).pipelines
    if known.limits.max_global_running is not None or known.limits.max_type_concurrency:
        for role in known.ready:
            yield ROLE, event.namespace, role


def _signalled(state: State, event: e.NodeCancelling | e.NodeResumed) -> Iterable[Subject]:
    return ((NODE, event.namespace, _node(event.id, event.node)),)


def _has_batch(
    state: State, event: e.BatchRecorded | e.ArtifactPut | e.ArtifactCompleted
) -> Iterable[Subject]:
    return (
        (BATCHES, event.namespace, _node(event.id, event.node)),
        (PIPELINE, event.namespace, event.id),
    )


def _taken(state: State, event: e.InputsTaken) -> Iterable[Subject]:
    """A producer that waits for its consumers may go on."""
    return ((NODE, event.namespace, _node(event.id, event.source)),)


def _skipped(state: State, event: e.NodeSkipped) -> Iterable[Subject]:
    return ((BATCHES, event.namespace, _node(event.id, event.node)),)


def _news(
    state: State, event: e.JournalAppended | e.BatchFailed | e.PipelineClosed
) -> Iterable[Subject]:
    return ((PIPELINE, event.namespace, event.id),)


def _configured(state: State, event: e.PipelinesConfigured) -> Iterator[Subject]:
    for role in state.space(event.namespace).pipelines.ready:
        yield ROLE, event.namespace, role


LONG_POLLS: Mapping[type[Message], LongPoll] = {
    AwaitNode: LongPoll(
        subjects=_await_subjects,
        is_empty=_is_no_start,
        turn=Turn.CLAIMS,
        offers=_await_offers,
        ended_by=lambda command: [(WORKER_LEFT, command.namespace, command.worker_id)],
    ),
    NextInput: LongPoll(subjects=_next_subjects, is_empty=_is_no_input, turn=Turn.READS),
    WatchNode: LongPoll(subjects=_watch_subjects, is_empty=_is_nothing_new),
    WaitPipeline: LongPoll(subjects=_pipeline_subjects, is_empty=_is_not_ended),
    ListArtifacts: LongPoll(subjects=_pipeline_subjects, is_empty=_is_no_entry, resumed=_resumed),
    ReadPipelineEvents: LongPoll(
        subjects=_pipeline_subjects, is_empty=_is_no_entry, resumed=_resumed
    ),
}

WAKES: Mapping[type[Event], Wake] = {
    e.NodeMadeReady: _made_ready,
    e.NodeFinished: _left_worker,
    e.NodeDeferred: _left_worker,
    e.NodeFailed: _left_worker,
    e.NodeCancelled: _left_worker,
    e.NodeLost: _left_worker,
    e.NodeCancelling: _signalled,
    e.NodeResumed: _signalled,
    e.NodeSkipped: _skipped,
    e.BatchRecorded: _has_batch,
    e.ArtifactPut: _has_batch,
    e.ArtifactCompleted: _has_batch,
    e.InputsTaken: _taken,
    e.JournalAppended: _news,
    e.BatchFailed: _news,
    e.PipelineClosed: _news,
    e.PipelinesConfigured: _configured,
}
