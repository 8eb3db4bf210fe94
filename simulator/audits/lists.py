"""Counts again what the indexes of lists say, and compares."""

import sys
from itertools import product

from flo.engine.state import Space
from flo.engine.workflows.execution import Execution
from flo.engine.workflows.lists.live import status_of
from flo.engine.workflows.lists.tags import tags_of_run
from flo.model.runs import RunStatus
from flo.model.workflows import WorkflowStatus
from simulator.checks.invariants import Checks, Invariant

EVERYTHING = sys.maxsize


def audit_lists(space: Space, checks: Checks) -> None:
    _audit_runs(space, checks)
    _audit_workflow_runs(space, checks)


def _audit_runs(space: Space, checks: Checks) -> None:
    """A list of runs shows what a look at every live run would find."""
    newest = sorted(space.runs.values(), key=lambda run: run.sequence, reverse=True)
    for status in (None, RunStatus.PENDING, RunStatus.RUNNING):
        found = [run for run in newest if status in (None, run.status)]
        listed = list(space.runs.of_all(status, EVERYTHING))
        checks.hold(Invariant.LISTS_RIGHT, listed == found, status, listed, found)
        for action in space.numbers:
            of_action = [run for run in found if run.action == action]
            listed = list(space.runs.of_action(action, status, EVERYTHING))
            checks.hold(Invariant.LISTS_RIGHT, listed == of_action, action, listed, of_action)
    for subject in {run.subject for run in newest if run.subject is not None}:
        about = [run for run in newest if run.subject == subject]
        listed = list(space.runs.about(subject, EVERYTHING))
        checks.hold(Invariant.LISTS_RIGHT, listed == about, subject, listed, about)


def _audit_workflow_runs(space: Space, checks: Checks) -> None:
    """And so does a list of workflow runs, by whatever it is asked for."""
    executions = space.executions
    newest = sorted(executions.values(), key=lambda one: one.run.number, reverse=True)
    statuses = (None, WorkflowStatus.PENDING, WorkflowStatus.WAITING)
    for workflow, status in product((None, *space.workflows), statuses):
        expected = [
            one.run.number
            for one in newest
            if workflow in (None, one.run.workflow) and status in (None, status_of(one))
        ]
        listed = [number for number, _ in executions.in_status(workflow, status, EVERYTHING)]
        checks.hold(Invariant.LISTS_RIGHT, listed == expected, workflow, status, listed, expected)
    for tag in {tag for one in newest for tag in tags_of_run(one.run)}:
        listed = [number for number, _ in executions.tagged([tag], EVERYTHING)]
        expected = [one.run.number for one in newest if _has(one, tag)]
        checks.hold(Invariant.LISTS_RIGHT, listed == expected, tag, listed, expected)


def _has(execution: Execution, tag: str) -> bool:
    return tag in tags_of_run(execution.run)
