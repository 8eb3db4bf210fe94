"""The names of branches, and what an execution makes of events."""

import pytest

from flo.engine.workflows.events import SignalMatched, SignalReceived, StepStarted
from flo.engine.workflows.execution import branch_under, join_step, leaf_of, parent_branch, step_at
from flo.engine.workflows.records import Branch, Signal
from flo.model.workflows import MAIN, BranchPhase
from flo.workflow.steps import ForEachStep, RunStep
from flows import document, workflow_harness

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
    ("branch", "parent", "step", "leaf"),
    [
        ("start/email", MAIN, "start", "email"),
        ("start/many/many/3", "start/many", "many", "3"),
        ("notify_all/0", MAIN, "notify_all", "0"),
    ],
)
def test_the_name_of_a_branch_says_where_it_was_opened(branch, parent, step, leaf):
    assert (parent_branch(branch), join_step(branch), leaf_of(branch)) == (parent, step, leaf)
    assert branch_under(parent, step, leaf) == branch


@pytest.fixture
def execution():
    harness = workflow_harness(NESTED, "a", "b")
    harness.start(value=[1, 2])
    return harness.space.executions["wfrun-1"]


@pytest.mark.parametrize(
    ("branch", "name", "kind"),
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
def test_a_step_is_found_where_its_branch_goes(execution, branch, name, kind):
    assert isinstance(step_at(execution.definition, branch, name), kind)


def test_the_oldest_signal_of_a_type_is_taken_first(execution):
    of_run = {"namespace": "default", "run_id": execution.run_id}
    signals = [Signal(type=kind, payload=b"", at_ms=at) for at, kind in enumerate("abab")]
    for signal in signals:
        execution.fold(SignalReceived(**of_run, signal=signal))

    waiting = Branch(step="start", phase=BranchPhase.SIGNAL)
    execution.fold(StepStarted(**of_run, branch=MAIN, now=waiting, at_ms=5))
    execution.fold(SignalMatched(**of_run, branch=MAIN, signal_type="b", at_ms=9))

    assert execution.signals == [signals[0], *signals[2:]]


def test_nothing_of_a_paused_run_falls_due(execution):
    execution.paused = True

    assert execution.next_at_ms() is None
