import pytest

from flo.workflow.definition import TerminalKind
from flo.workflow.outcome import RETRIED, choose, outcome_of_child


@pytest.mark.parametrize(
    ("transitions", "outcome", "goal"),
    [
        ({"success": "a", "failure": "b"}, "success", "a"),
        ({"success": "a", "failure": "b"}, "timeout", None),
        ({"success": "a", "failure": "b"}, "pending", None),
        ({"failure": "b"}, "approved", None),
        ({"approved": "c"}, "approved", "c"),
        (
            {"target_not_found": "x", "execution_failure": "y", "failure": "z"},
            "target_not_found",
            "x",
        ),
        ({"execution_failure": "y", "failure": "z"}, "target_not_found", "y"),
        ({"failure": "z"}, "target_not_found", "z"),
        ({"target_not_found": "x", "failure": "z"}, "target_disabled", "z"),
        ({"target_disabled": "x"}, "target_disabled", "x"),
        ({"target_not_found": "x", "failure": "z"}, "execution_failure", "z"),
        ({"execution_failure": "y"}, "failure", None),
        ({"success": "a"}, "target_not_found", None),
        ({}, "success", None),
    ],
)
def test_the_transition_that_an_outcome_follows(transitions, outcome, goal):
    assert choose(transitions, outcome) == goal


@pytest.mark.parametrize(
    ("ending", "transitions", "outcome"),
    [
        (TerminalKind.COMPLETED, {}, "success"),
        (TerminalKind.FAILED, {}, "failure"),
        (TerminalKind.CANCELLED, {"timeout": "a"}, "failure"),
        (TerminalKind.TIMED_OUT, {"timeout": "a"}, "timeout"),
        (TerminalKind.TIMED_OUT, {"failure": "a"}, "failure"),
    ],
)
def test_what_the_ending_of_a_child_means_for_its_parent(ending, transitions, outcome):
    assert outcome_of_child(ending, transitions) == outcome


def test_only_failures_are_retried():
    assert set(RETRIED) == {"failure", "execution_failure"}
