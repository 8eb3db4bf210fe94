import logging

import pytest

from flo.model.errors import Conflict
from flo.model.runs import RunStatus
from flo.worker.actions.attempts import log_end, log_refused
from flo.worker.outcome import Done, GiveUp, Outcome, OutOfTime, TryAgain
from worker.task_server import task

FAILED = TryAgain("ValueError: no stock\n\nTraceback (most recent call last): …")


@pytest.mark.parametrize(
    ("outcome", "status", "line"),
    [
        (FAILED, "pending", "WARNING failed, attempt 2: ValueError: no stock; it is retried"),
        (
            FAILED,
            "failed",
            "ERROR failed, attempt 2: ValueError: no stock; "
            "no retries are left, and it is a dead letter",
        ),
        (
            GiveUp("shut down"),
            "failed",
            "ERROR failed, attempt 2: shut down; it is not retried, and is a dead letter",
        ),
        (
            GiveUp("invalid", dead_letter=False),
            "failed",
            "ERROR failed, attempt 2: invalid; it is not retried",
        ),
        (OutOfTime("slow"), "pending", "WARNING timed out, attempt 2: slow; it is retried"),
        (OutOfTime("slow"), "running", "WARNING timed out, attempt 2: slow; it is retried"),
        (
            OutOfTime("slow"),
            "timed_out",
            "ERROR timed out, attempt 2: slow; no retries are left, and it is a dead letter",
        ),
        (
            OutOfTime("slow"),
            "cancelled",
            "ERROR timed out, attempt 2: slow; the run is cancelled",
        ),
    ],
)
def test_an_attempt_in_vain_has_one_line(
    outcome: Outcome, status: str, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "flo.worker"):
        log_end(task(attempt=2), outcome, RunStatus(status))

    (record,) = caplog.records
    level, _, rest = line.partition(" ")
    assert (record.levelname, record.getMessage()) == (level, f"task a-1 has {rest}")


def test_the_traceback_is_for_those_who_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "flo.worker"):
        log_end(task(), FAILED, RunStatus.PENDING)

    _, trace = caplog.records
    assert trace.levelname == "DEBUG"
    assert trace.getMessage().startswith("task a-1, attempt 1: Traceback")


def test_a_success_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "flo.worker"):
        log_end(task(), Done(b""), RunStatus.COMPLETED)

    assert caplog.records == []


def test_another_refusal_is_told_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    lost = Conflict("the lease is lost", code="lease_lost", details={"status": "pending"})
    log_refused(task(), FAILED, lost)

    assert caplog.messages == ["task a-1: the report was refused: the lease is lost"]
