"""Counts again what the engine keeps of pipelines, and compares."""

from flo.engine.due import PIPELINE, PIPELINE_NODE, DueKey
from flo.engine.pipelines.container import LivePipelines
from flo.engine.pipelines.folds import length_of
from flo.engine.pipelines.records import NodeState
from flo.engine.state import State
from flo.model.pipelines.names import NodeStatus
from simulator.checks.invariants import Checks, Invariant
from simulator.pipelines.reference import HELD, OPEN, NodeTimeline, PipelineReference


def audit_pipelines(state: State, reference: PipelineReference, checks: Checks) -> None:
    known = {
        (namespace, one)
        for namespace, space in state.spaces.items()
        for one in space.pipelines.live
    }
    expected = set(reference.live)
    checks.hold(Invariant.STATE_IS_THE_REFERENCE, known == expected, known ^ expected)
    for (namespace, pipeline_id), timeline in reference.live.items():
        pipeline = state.spaces[namespace].pipelines.live[pipeline_id]
        for name, node in pipeline.nodes.items():
            _audit_node(node, timeline.nodes[name], checks)
        still_open = sum(one.status in OPEN for one in timeline.nodes.values())
        same = (pipeline.journal_next, pipeline.open_count) == (timeline.journal_next, still_open)
        checks.hold(Invariant.STATE_IS_THE_REFERENCE, same, pipeline.id, timeline)
    for space in state.spaces.values():
        _audit_indexes(space.pipelines, checks)


def _audit_node(node: NodeState, timeline: NodeTimeline, checks: Checks) -> None:
    """What the state says of a node is what the events have said."""
    in_progress = {
        (source, number) for source, one in node.inputs.items() for number in one.in_progress
    }
    taken = {source: one.next for source, one in node.inputs.items() if one.next}
    here = (node.status, node.epoch, node.is_ready, len(node.batches), in_progress, taken)
    there = (
        timeline.status,
        timeline.epoch,
        timeline.is_ready,
        len(timeline.batches),
        timeline.in_progress,
        {source: count for source, count in timeline.taken.items() if count},
    )
    checks.hold(Invariant.STATE_IS_THE_REFERENCE, here == there, here, there)


def _audit_indexes(known: LivePipelines, checks: Checks) -> None:
    ready = {key for keys in known.ready.values() for key in keys}
    held = {key for keys in known.held.values() for key in keys}
    nodes = {
        (pipeline.id, name): node
        for pipeline in known.live.values()
        for name, node in pipeline.nodes.items()
    }
    waiting = {key for key, node in nodes.items() if node.is_ready}
    running = {key for key, node in nodes.items() if node.status in HELD}
    checks.hold(Invariant.QUEUED_OR_DUE, ready == waiting, ready ^ waiting)
    checks.hold(Invariant.HELD_RIGHT, held == running, held ^ running)
    counted = known.running_count == len(running) == sum(known.running.values())
    checks.hold(Invariant.TALLIES_RIGHT, counted, known.running_count, known.running)
    length = sum(map(length_of, known.live.values()))
    checks.hold(Invariant.MEMORY_COUNTED, known.length == length, known.length, length)


def due_pipelines(state: State) -> dict[DueKey, int]:
    """What of pipelines falls due, and when."""
    expected: dict[DueKey, int] = {}
    for namespace, space in state.spaces.items():
        for pipeline in space.pipelines.live.values():
            if pipeline.look_at_ms is not None:
                expected[PIPELINE, namespace, pipeline.id] = pipeline.look_at_ms
            for name, node in pipeline.nodes.items():
                key = (PIPELINE_NODE, namespace, pipeline.id, name)
                if node.status is NodeStatus.RUNNING:
                    expected[key] = node.lease_until_ms
                elif node.status is NodeStatus.CANCELLING or (
                    node.status is NodeStatus.DEFERRED and not node.is_ready
                ):
                    expected[key] = node.deadline_ms
    return expected
