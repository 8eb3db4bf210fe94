"""Outcome names and the fallback chain between them.

    target_not_found ─┐
                      ├──▸ execution_failure ──▸ failure
    target_disabled ──┘

Outcomes of the runtime fall back along the chain; business outcomes match exactly.
"""

from collections.abc import Mapping
from typing import Final

from flo.model.base import Record
from flo.workflow.definition import TerminalKind

SUCCESS: Final = "success"
FAILURE: Final = "failure"
TIMEOUT: Final = "timeout"
PENDING: Final = "pending"
TARGET_NOT_FOUND: Final = "target_not_found"
TARGET_DISABLED: Final = "target_disabled"
EXECUTION_FAILURE: Final = "execution_failure"


class StepError(Record):
    """Why an attempt, a step, a plan or a whole run has failed; each hands it on to the next.

    What is not `retryable` ends its step at once: no `retry` is used.
    """

    message: str
    code: str
    retryable: bool = True


CHAIN: Final[dict[str, tuple[str, ...]]] = {
    TARGET_NOT_FOUND: (TARGET_NOT_FOUND, EXECUTION_FAILURE, FAILURE),
    TARGET_DISABLED: (TARGET_DISABLED, EXECUTION_FAILURE, FAILURE),
    EXECUTION_FAILURE: (EXECUTION_FAILURE, FAILURE),
}
"""Outcome of the runtime → the transitions that are tried for it, in order."""

POLLS_USED_UP: Final = (TIMEOUT, PENDING, FAILURE)
"""The transitions that are tried when a step's polls are used up, in order."""

RETRIED: Final = frozenset((FAILURE, EXECUTION_FAILURE))
"""The outcomes that a step's `retry:` repeats."""


def choose(transitions: Mapping[str, str], outcome: str) -> str | None:
    """Where the outcome leads; None if nothing is said about it."""
    for name in CHAIN.get(outcome, (outcome,)):
        if name in transitions:
            return transitions[name]
    return None


def outcome_of_polls_used_up(transitions: Mapping[str, str]) -> str:
    """The outcome of a step that is still pending after its last poll."""
    return next((name for name in POLLS_USED_UP if name in transitions), TIMEOUT)


def outcome_of_child(ending: TerminalKind, transitions: Mapping[str, str]) -> str:
    """What the ending of a child workflow means for the step that started it."""
    match ending:
        case TerminalKind.COMPLETED:
            return SUCCESS
        case TerminalKind.TIMED_OUT if TIMEOUT in transitions:
            return TIMEOUT
        case _:
            return FAILURE
