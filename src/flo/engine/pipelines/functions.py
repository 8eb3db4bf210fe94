"""Coordinator functions that the server runs itself: one atomic change of a pipeline each."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from flo.engine.pipelines import events as e
from flo.engine.pipelines.records import PipelineState
from flo.model.base import Event
from flo.model.ids import Namespace
from flo.pipeline.metrics import aggregated
from flo.pipeline.variables import (
    VarsChange,
    bad_arguments,
    check_length,
    incr_change,
    merge_change,
    set_change,
    unset_change,
)


class FunctionDone(NamedTuple):
    """What a function answers, and what it changes."""

    result: dict[str, Any]
    events: tuple[Event, ...] = ()


class FunctionCall(NamedTuple):
    """A function as it is called."""

    namespace: Namespace
    pipeline: PipelineState
    arguments: Mapping[str, Any]
    node: str | None
    now_ms: int

    def vars_changed(self, change: VarsChange) -> tuple[Event, ...]:
        if not change.sets and not change.unsets:
            return ()
        check_length(self.pipeline.vars, change)
        changed = e.VarsChanged(
            namespace=self.namespace,
            id=self.pipeline.id,
            sets=change.sets,
            unsets=change.unsets,
            at_ms=self.now_ms,
        )
        return (changed,)


def call_function(
    namespace: Namespace,
    pipeline: PipelineState,
    name: str,
    arguments: Mapping[str, Any],
    node: str | None,
    now_ms: int,
) -> FunctionDone:
    """What a function does with a pipeline; wrong arguments are Invalid."""
    function = FUNCTIONS.get(name)
    if function is None:
        raise bad_arguments(f"expected one of {', '.join(map(str, FUNCTIONS))}, got {name[:80]!r}")
    return function(FunctionCall(namespace, pipeline, arguments, node, now_ms))


def _vars_set(call: FunctionCall) -> FunctionDone:
    change = set_change(call.arguments)
    return FunctionDone({"ok": True, "touched": len(change.sets)}, call.vars_changed(change))


def _vars_merge(call: FunctionCall) -> FunctionDone:
    change = merge_change(call.arguments)
    return FunctionDone({"ok": True, "touched": len(change.sets)}, call.vars_changed(change))


def _vars_incr(call: FunctionCall) -> FunctionDone:
    change = incr_change(call.pipeline.vars, call.arguments)
    result = {"ok": True, "key": call.arguments["key"], "by": call.arguments.get("by", 1)}
    return FunctionDone(result, call.vars_changed(change))


def _vars_unset(call: FunctionCall) -> FunctionDone:
    change = unset_change(call.arguments)
    return FunctionDone({"ok": True, "touched": len(change.unsets)}, call.vars_changed(change))


def _merge(call: FunctionCall) -> FunctionDone:
    """A complete artifact that says what several nodes have made; no data is merged."""
    target = call.arguments.get("target")
    if not isinstance(target, Mapping) or (not target and call.node is None):
        raise bad_arguments(f"expected `target` to be an object, got {target!r:.80}")
    name = target.get("node_id", call.node)
    if name not in call.pipeline.nodes:
        raise bad_arguments(f"expected a node in target.node_id, got {name!r:.80}")
    named = call.arguments.get("from_nodes") or []
    if not isinstance(named, list | tuple) or not all(isinstance(one, str) for one in named):
        raise bad_arguments(f"expected `from_nodes` to be a list of texts, got {named!r:.80}")
    nodes = [call.pipeline.nodes[one] for one in named if one in call.pipeline.nodes]
    batches = sum(len(node.batches) for node in nodes)
    meta = {
        "merged_from": list(named),
        "complete_nodes": sorted(one.spec.node_id for one in nodes if one.complete is not None),
        "partial_batches": batches,
        "distinct_batch_uids": batches,
        "merged_at": call.now_ms,
    }
    completed = e.ArtifactCompleted(
        namespace=call.namespace,
        id=call.pipeline.id,
        node=name,
        meta=msgspec.json.encode(meta),
        at_ms=call.now_ms,
    )
    return FunctionDone({"ok": True, "meta": meta}, (completed,))


def _aggregate(call: FunctionCall) -> FunctionDone:
    name, mode = call.arguments.get("node_id", call.node), call.arguments.get("mode", "sum")
    if name not in call.pipeline.nodes:
        raise bad_arguments(f"expected a node in `node_id`, got {name!r:.80}")
    stats = aggregated(call.pipeline.nodes[name].totals, mode)
    event = e.StatsAggregated(
        namespace=call.namespace,
        id=call.pipeline.id,
        node=name,
        stats=stats,
        at_ms=call.now_ms,
    )
    mode_used = "mean" if mode == "mean" else "sum"
    return FunctionDone({"ok": True, "node_id": name, "mode": mode_used, "stats": stats}, (event,))


def _noop(call: FunctionCall) -> FunctionDone:
    return FunctionDone({"ok": True})


Function: TypeAlias = Callable[[FunctionCall], FunctionDone]

FUNCTIONS: Mapping[str | None, Function] = {
    "vars.set": _vars_set,
    "vars.merge": _vars_merge,
    "vars.incr": _vars_incr,
    "vars.unset": _vars_unset,
    "merge.generic": _merge,
    "metrics.aggregate": _aggregate,
    "noop": _noop,
}
