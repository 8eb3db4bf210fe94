"""When a node of a pipeline may start, and when it never can."""

import pytest

from flo.model.pipelines.names import NodeStatus
from flo.pipeline.graph import NodeSpec
from flo.pipeline.readiness import NodeProgress, Readiness, readiness

READY, WAITS, NEVER = Readiness.READY, Readiness.WAITS, Readiness.NEVER
FINISHED = NodeProgress(NodeStatus.FINISHED, has_batch=True, is_complete=True)
EMPTY = NodeProgress(NodeStatus.FINISHED, has_batch=False, is_complete=True)
RUNS = NodeProgress(NodeStatus.RUNNING, has_batch=False, is_complete=False)
STREAMS = NodeProgress(NodeStatus.RUNNING, has_batch=True, is_complete=False)
FAILED = NodeProgress(NodeStatus.FAILED, has_batch=False, is_complete=False)
SKIPPED = NodeProgress(NodeStatus.SKIPPED, has_batch=False, is_complete=False)


def looked_at(spec, **others):
    return readiness(spec, others.get)


def after(needed, *names):
    return NodeSpec("n", "x", depends_on=names, needed=needed)


@pytest.mark.parametrize(
    ("needed", "others", "expected"),
    [
        (2, {"a": FINISHED, "b": RUNS}, WAITS),
        (2, {"a": FINISHED, "b": EMPTY}, READY),
        (2, {"a": FINISHED, "b": FAILED}, NEVER),
        (2, {"a": FINISHED}, WAITS),
        (1, {"a": SKIPPED, "b": RUNS}, WAITS),
        (1, {"a": SKIPPED, "b": FAILED}, NEVER),
        (1, {"a": STREAMS, "b": FINISHED}, READY),
        (0, {}, READY),
        (None, {"a": FINISHED, "b": FINISHED}, WAITS),
    ],
)
def test_dependencies(needed, others, expected):
    assert looked_at(after(needed, "a", "b"), **others) is expected


@pytest.mark.parametrize(
    ("count", "others", "expected"),
    [
        (1, {"a": RUNS, "b": RUNS}, WAITS),
        (1, {"a": STREAMS, "b": RUNS}, READY),
        (1, {"a": EMPTY, "b": RUNS}, READY),
        (2, {"a": STREAMS, "b": RUNS}, WAITS),
        (2, {"a": STREAMS, "b": EMPTY}, READY),
        (1, {"a": FAILED, "b": SKIPPED}, NEVER),
        (1, {"a": FAILED}, WAITS),
    ],
)
def test_the_first_batch_of_so_many_sources(count, others, expected):
    spec = NodeSpec("n", "x", first_batch=True, sources=("a", "b"), sources_needed=count)

    assert looked_at(spec, **others) is expected


def test_without_sources_there_is_no_first_batch():
    assert looked_at(NodeSpec("n", "x", first_batch=True)) is WAITS


def test_an_async_edge_is_enough_by_itself():
    spec = after(2, "a", "b")._replace(async_parents=("a",))

    assert looked_at(spec, a=RUNS, b=RUNS) is WAITS
    assert looked_at(spec, a=STREAMS, b=RUNS) is READY


@pytest.mark.parametrize(
    ("other", "expected"), [(RUNS, WAITS), (FINISHED, NEVER), (FAILED, READY), (SKIPPED, NEVER)]
)
def test_who_handles_a_failure_waits_for_it(other, expected):
    spec = after(1, "a")._replace(wants_failed=("a",))

    assert looked_at(spec, a=other) is expected


def test_one_of_several_ways_is_enough():
    spec = NodeSpec("n", "x", needed=0, wants_finished=("a", "b"))

    assert looked_at(spec, a=FAILED, b=RUNS) is WAITS
    assert looked_at(spec, a=FAILED, b=FINISHED) is READY
    assert looked_at(spec, a=FAILED, b=SKIPPED) is NEVER
