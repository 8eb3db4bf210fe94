"""Pipelines while servers crash, workers die and reports come twice or late; broken rules are
found."""

import sys

import pytest
from msgspec.structs import replace

from flo.engine.machine import ARCHIVES, FOLDS, RULES
from flo.engine.pipelines import advance, folds
from flo.engine.pipelines.container import LivePipelines
from flo.engine.pipelines.events import BatchRecorded, PipelineClosed
from flo.engine.pipelines.nodes import reports, work
from flo.engine.pipelines.records import NodeState
from flo.model.pipelines.work import CompleteNode, ReportBatch
from flo.pipeline import readiness
from flo.pipeline.graph import RetryPolicy
from simulator.checks.invariants import Invariant
from simulator.pipelines.simulation import PipelineSimulation

from .control import control, every_control

OPERATIONS = 400
SEEDS = (1, 2, 3)
SEEDS_MAX = 12

MUST_BE_CHECKED = (
    Invariant.BATCH_DONE_ONCE,
    Invariant.BATCH_OF_ITS_ATTEMPT,
    Invariant.BATCHES_HANDED_ON,
    Invariant.BATCHES_STORED,
    Invariant.NO_BATCH_SKIPPED,
    Invariant.ONE_WORKER_PER_NODE,
    Invariant.NODE_LEASES_KEPT,
    Invariant.PIPELINES_END_AS_SAID,
    Invariant.READY_AS_SAID,
    Invariant.EVERY_PIPELINE_ENDS,
)


def played(seed, commits_per_audit=sys.maxsize):
    return PipelineSimulation(seed, OPERATIONS, commits_per_audit=commits_per_audit).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_batch_has_one_result_and_every_pipeline_ends(seed):
    summary = played(seed, commits_per_audit=20)

    assert summary.broken is None
    assert all(summary.checked[one] for one in MUST_BE_CHECKED)


def test_a_seed_gives_the_same_trace_every_time():
    assert played(4).digest == played(4).digest


# Bugs


def no_lease_is_kept(state, namespace, pipeline, node):
    key = (folds.PIPELINE_NODE, namespace, pipeline.id, node.spec.node_id)
    state.due.set(key, node.lease_until_ms - 800)


@control(Invariant.NO_BATCH_SKIPPED)
def a_claim_is_taken_for_a_result(monkeypatch):
    """As in FlowKit: what a worker that died had claimed is never processed."""
    wanted, complete = work.wanted_inputs, RULES[CompleteNode]

    def only_new(pipeline, command):
        inputs = pipeline.nodes[command.node].inputs
        for source, number, place in wanted(pipeline, command):
            if source not in inputs or number >= inputs[source].next:
                yield source, number, place

    def completed(state, command, context):
        pipeline = state.space(command.namespace).pipelines.live.get(command.id)
        for one in pipeline.nodes[command.node].inputs.values() if pipeline is not None else ():
            one.in_progress.clear()
        return complete(state, command, context)

    monkeypatch.setattr(work, "wanted_inputs", only_new)
    monkeypatch.setitem(RULES, CompleteNode, completed)


@control(Invariant.BATCH_OF_ITS_ATTEMPT)
def a_late_report_is_recorded(monkeypatch):
    original = work.verdict_on
    monkeypatch.setattr(
        reports, "verdict_on", lambda node, epoch, lease: original(node, node.epoch, None)
    )


@control(Invariant.BATCH_DONE_ONCE)
def a_report_that_comes_twice_counts_twice(monkeypatch):
    def recorded(state, event):
        folds.apply_recorded(state, event)
        state.spaces[event.namespace].pipelines.live[event.id].nodes[event.node].uids.clear()

    monkeypatch.setitem(FOLDS, BatchRecorded, recorded)


@control(Invariant.NODE_LEASES_KEPT)
def a_lease_ends_early(monkeypatch):
    original = folds._schedule

    def schedule(state, namespace, pipeline, node):
        original(state, namespace, pipeline, node)
        if node.status == "running":
            no_lease_is_kept(state, namespace, pipeline, node)

    monkeypatch.setattr(folds, "_schedule", schedule)


@control(Invariant.NODE_RETRIES_BOUNDED)
def a_node_is_tried_for_ever(monkeypatch):
    original = advance.failed_attempt

    def failed(namespace, pipeline, node, *arguments, **settings):
        spec = node.spec
        node.spec = spec._replace(retry=RetryPolicy(10**6, spec.retry.backoff_ms, ()))
        try:
            return original(namespace, pipeline, node, *arguments, **settings)
        finally:
            node.spec = spec

    monkeypatch.setattr(reports, "failed_attempt", failed)


@control(Invariant.NODE_LIMITS_KEPT)
def limits_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(LivePipelines, "room_for", lambda known, role, most: most)


@control(Invariant.READY_AS_SAID)
def one_dependency_is_enough(monkeypatch):
    monkeypatch.setattr(readiness, "_on_finished", lambda spec, of: readiness.Readiness.READY)


@control(Invariant.BATCHES_STORED)
def a_batch_is_acknowledged_and_not_stored(monkeypatch):
    original = RULES[ReportBatch]
    monkeypatch.setitem(
        RULES,
        ReportBatch,
        lambda state, command, context: replace(original(state, command, context), chunks=()),
    )


@control(Invariant.METRICS_EXACT)
def a_batch_counts_twice_in_the_metrics(monkeypatch):
    original = folds.add_to

    def added(totals, numbers):
        original(totals, numbers)
        original(totals, numbers)

    monkeypatch.setattr(folds, "add_to", added)


@control(Invariant.ARCHIVED_AT_END)
def an_ended_pipeline_is_not_archived(monkeypatch):
    monkeypatch.setitem(ARCHIVES, PipelineClosed, lambda state, event: ())


@control(Invariant.SNAPSHOT_IS_STATE)
def a_snapshot_forgets_what_is_in_progress(monkeypatch):
    original = NodeState.__init__

    def forgetting(node, spec, known):
        original(node, spec, replace(known, inputs=[]))

    monkeypatch.setattr(NodeState, "__init__", forgetting)


@every_control(globals())
def test_the_simulation_finds_a_bug(control, monkeypatch):
    control.put_in(monkeypatch)

    found = (played(seed).broken for seed in range(1, SEEDS_MAX + 1))
    first = next((broken for broken in found if broken is not None), None)

    assert first is not None
    assert first.invariant is control.breaks
