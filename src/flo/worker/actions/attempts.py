"""The log lines about attempts that did not succeed: one for each."""

import logging

from flo.model.errors import FloError
from flo.model.runs import RunStatus, Task
from flo.worker.outcome import Done, GiveUp, Outcome, OutOfTime, TryAgain

_logger = logging.getLogger("flo.worker")


def log_end(task: Task, outcome: Outcome, status: RunStatus) -> None:
    """Say what went wrong, and what becomes of the run; a success says nothing."""
    if isinstance(outcome, Done):
        return
    error, _, trace = outcome.error.partition("\n")
    _logger.log(
        logging.WARNING if status in _GOES_ON else logging.ERROR,
        "task %s %s, attempt %d: %s; %s",
        task.task_id,
        "has timed out" if isinstance(outcome, OutOfTime) else "has failed",
        task.attempt,
        error,
        _what_follows(outcome, status),
    )
    if trace:
        _logger.debug("task %s, attempt %d: %s", task.task_id, task.attempt, trace.strip())


def log_refused(task: Task, outcome: Outcome, refusal: FloError) -> None:
    """The server did not take the report; that of a timeout may come second to its own timer."""
    status = refusal.details.get("status")
    if isinstance(outcome, OutOfTime) and status is not None:
        log_end(task, outcome, RunStatus(status))
    else:
        _logger.warning("task %s: the report was refused: %s", task.task_id, refusal)


def log_late(task: Task) -> None:
    _logger.warning(
        "task %s, attempt %d: its result came too late, and is dropped", task.task_id, task.attempt
    )


_GOES_ON = {RunStatus.PENDING, RunStatus.RUNNING}


def _what_follows(outcome: Outcome, status: RunStatus) -> str:
    match status, outcome:
        case RunStatus.PENDING | RunStatus.RUNNING, _:
            return "it is retried"
        case RunStatus.FAILED | RunStatus.TIMED_OUT, TryAgain() | OutOfTime():
            return "no retries are left, and it is a dead letter"
        case RunStatus.FAILED, GiveUp(dead_letter=True):
            return "it is not retried, and is a dead letter"
        case RunStatus.FAILED, _:
            return "it is not retried"
        case _:
            return f"the run is {status}"
