"""The names of walks, and what a Course makes of events."""

import pytest

from flo.core.course import branch_of, join_step, parent_walk, step_at, walk_under
from flo.model.workflow_facts import MAIN, Signal, SignalMatched, SignalReceived
from flo.workflow.definition import ForEachStep, RunStep
from flows import document, playing

NESTED = document(
    """
start:
  parallel:
    branches:
      email: "@actions/a"
      many: {forEach: {items: $.input, run: "@actions/a"}}
      graph:
        start: {run: "@actions/a", transitions: {success: inner}}
        steps:
          inner: {run: "@actions/b", transitions: {success: flo.Completed}}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
)


@pytest.mark.parametrize(
    ("walk", "parent", "step", "branch"),
    [
        ("start/email", MAIN, "start", "email"),
        ("start/many/many/3", "start/many", "many", "3"),
        ("notify_all/0", MAIN, "notify_all", "0"),
    ],
)
def test_the_name_of_a_walk_says_where_it_was_opened(walk, parent, step, branch):
    assert (parent_walk(walk), join_step(walk), branch_of(walk)) == (parent, step, branch)
    assert walk_under(parent, step, branch) == walk


@pytest.fixture
def course():
    play = playing(NESTED, "a", "b")
    play.start(value=[1, 2])
    return play.space.courses["wfrun-1"]


@pytest.mark.parametrize(
    ("walk", "name", "kind"),
    [
        ("start/email", "email", RunStep),
        ("start/many", "many", ForEachStep),
        ("start/graph", "graph", RunStep),
        ("start/graph", "inner", RunStep),
        ("start/graph", "email", type(None)),
        ("start/many/many/0", "many", type(None)),
        (MAIN, "inner", type(None)),
    ],
)
def test_a_step_is_found_where_its_walk_goes(course, walk, name, kind):
    assert isinstance(step_at(course.definition, walk, name), kind)


def test_a_copy_shares_nothing_that_changes(course):
    before = (dict(course.walks), dict(course.results), list(course.signals))
    copy = course.copy()

    signal = Signal(type="go", payload=b"", at_ms=1)
    of_run = {"namespace": "default", "run_id": course.run_id}
    copy.fold(SignalReceived(**of_run, signal=signal))
    copy.walks.clear()

    assert (dict(course.walks), dict(course.results), list(course.signals)) == before
    assert copy.signals == [signal]


def test_the_oldest_signal_of_a_type_is_taken_first(course):
    of_run = {"namespace": "default", "run_id": course.run_id}
    signals = [Signal(type=kind, payload=b"", at_ms=at) for at, kind in enumerate("abab")]
    for signal in signals:
        course.fold(SignalReceived(**of_run, signal=signal))

    course.fold(SignalMatched(**of_run, walk=MAIN, signal_type="b", at_ms=9))

    assert course.signals == [signals[0], *signals[2:]]


def test_nothing_of_a_paused_run_falls_due(course):
    course.paused = True

    assert course.next_at_ms() is None
