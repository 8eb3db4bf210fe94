"""Readiness: whether a node may start, given what has become of the others.

    first_batch   a source has a batch, or is complete                whatever depends_on says
    on_batch      an async edge, and its parent has a batch           whatever depends_on says
    else          enough of depends_on have finished, as fan_in says
    routing       who is named by on_success or on_failure waits for that as well

A node that can never become ready is skipped, so that the pipeline can end.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from flo.model.pipelines.names import NODE_ENDED, NodeStatus
from flo.pipeline.graph import NodeSpec


class Readiness(Enum):
    READY = "ready"
    WAITS = "waits"
    NEVER = "never"


class NodeProgress(NamedTuple):
    """What is known of a node that others wait for."""

    status: NodeStatus
    has_batch: bool
    is_complete: bool
    """It has a complete artifact: it finished, or one was written for it."""


Of = Callable[[str], NodeProgress | None]
"""A node's progress; None of a node that is not there."""


def readiness(spec: NodeSpec, of: Of) -> Readiness:
    routed = _routed(spec, of)
    if routed is not Readiness.READY:
        return routed
    if any((one := of(name)) is not None and one.has_batch for name in spec.async_parents):
        return Readiness.READY
    if spec.first_batch:
        return _on_first_batch(spec, of)
    return _on_finished(spec, of)


def _routed(spec: NodeSpec, of: Of) -> Readiness:
    """Whether a way leads to the node: one of those that name it has ended so."""
    if not spec.wants_finished and not spec.wants_failed:
        return Readiness.READY
    is_open = False
    for names, wanted in (
        (spec.wants_finished, NodeStatus.FINISHED),
        (spec.wants_failed, NodeStatus.FAILED),
    ):
        for name in names:
            known = of(name)
            if known is None:
                continue
            if known.status is wanted:
                return Readiness.READY
            is_open = is_open or known.status not in NODE_ENDED
    return Readiness.WAITS if is_open else Readiness.NEVER


def _on_first_batch(spec: NodeSpec, of: Of) -> Readiness:
    begun = possible = 0
    for name in spec.sources:
        known = of(name)
        if known is None:
            possible += 1  # as in FlowKit it is waited for, and never comes
        elif known.has_batch or known.is_complete:
            begun += 1
        elif known.status not in NODE_ENDED:
            possible += 1
    if begun >= spec.sources_needed and spec.sources:
        return Readiness.READY
    has_way = begun + possible >= spec.sources_needed or not spec.sources
    return Readiness.WAITS if has_way else Readiness.NEVER


def _on_finished(spec: NodeSpec, of: Of) -> Readiness:
    if spec.needed is None:
        return Readiness.WAITS
    finished = possible = 0
    for name in spec.depends_on:
        known = of(name)
        if _counts_as_done(spec, name, known):
            finished += 1
        elif known is None or known.status not in NODE_ENDED:
            possible += 1
    if finished >= spec.needed:
        return Readiness.READY
    return Readiness.WAITS if finished + possible >= spec.needed else Readiness.NEVER


def _counts_as_done(spec: NodeSpec, name: str, known: NodeProgress | None) -> bool:
    """Whether it has finished; who handles the failure of a node may depend on it."""
    if known is None:
        return False
    handled = known.status is NodeStatus.FAILED and name in spec.wants_failed
    return known.status is NodeStatus.FINISHED or handled
