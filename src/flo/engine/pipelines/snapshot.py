"""Pipelines in a snapshot, without their journals: those are in the store."""

from collections import deque
from collections.abc import Iterable

from sortedcontainers import SortedDict

from flo.engine.idempotency import FinishedKeys
from flo.engine.pipelines.container import NodeKey, PipelineLimits, StoredGraph
from flo.engine.pipelines.folds import ID_NAME, KEY_NAME, put_in
from flo.engine.pipelines.records import PipelineRecord, PipelineState
from flo.engine.snapshot import Section, SnapshotPart, in_chunks
from flo.engine.state import State
from flo.model.ids import Namespace
from flo.model.pipelines.names import given_number

PIPELINES_PER_CHUNK = 100


class PipelinesPart(SnapshotPart):
    """What is small of the pipelines of a namespace."""

    namespace: Namespace
    number: int
    keys_finished: FinishedKeys
    ended: list[int]
    limits: PipelineLimits
    graphs: dict[str, StoredGraph]
    graph_versions: dict[str, int]


class LivePipelinesPart(SnapshotPart):
    namespace: Namespace
    pipelines: list[PipelineRecord]


class ReadyNodesPart(SnapshotPart):
    """Who waits for a worker, in order."""

    namespace: Namespace
    ready: list[tuple[str, list[NodeKey]]]


def _dump(state: State) -> Iterable[PipelinesPart]:
    for namespace, space in sorted(state.spaces.items()):
        known = space.pipelines
        if known.number or known.graph_versions or known.limits != PipelineLimits():
            yield PipelinesPart(
                namespace=namespace,
                number=known.number,
                keys_finished=known.keys.dump_finished(),
                ended=list(known.ended),
                limits=known.limits,
                graphs=dict(known.graphs),
                graph_versions=known.graph_versions,
            )


def _restore(state: State, part: PipelinesPart) -> None:
    known = state.spaces[part.namespace].pipelines
    known.number, known.limits = part.number, part.limits
    known.graphs, known.graph_versions = SortedDict(part.graphs), part.graph_versions
    known.ended = deque(part.ended)
    known.keys.restore_finished(part.keys_finished)
    state.journals.update(part.ended)


def _dump_live(state: State) -> Iterable[LivePipelinesPart]:
    for namespace, space in sorted(state.spaces.items()):
        ordered = (one.record() for one in space.pipelines.live.values())
        for pipelines in in_chunks(ordered, PIPELINES_PER_CHUNK):
            yield LivePipelinesPart(namespace=namespace, pipelines=pipelines)


def _restore_live(state: State, part: LivePipelinesPart) -> None:
    known = state.spaces[part.namespace].pipelines
    for record in part.pipelines:
        state.journals.add(record.journal)
        if record.idempotency_key is not None:
            known.keys.run_ids[KEY_NAME, record.idempotency_key] = record.id
        if given_number(record.id) is None:
            known.keys.run_ids[ID_NAME, record.id] = f"pipe-{record.number}"
        put_in(state, part.namespace, known, PipelineState(record))


def _dump_ready(state: State) -> Iterable[ReadyNodesPart]:
    for namespace, space in sorted(state.spaces.items()):
        if space.pipelines.ready:
            ready = [(role, list(keys)) for role, keys in sorted(space.pipelines.ready.items())]
            yield ReadyNodesPart(namespace=namespace, ready=ready)


def _restore_ready(state: State, part: ReadyNodesPart) -> None:
    known = state.spaces[part.namespace].pipelines
    for _, keys in part.ready:
        for key in keys:
            known.push_ready(key, known.live[key[0]].nodes[key[1]])


SNAPSHOT = (
    Section(PipelinesPart, _dump, _restore),
    Section(LivePipelinesPart, _dump_live, _restore_live),
    Section(ReadyNodesPart, _dump_ready, _restore_ready),
)
