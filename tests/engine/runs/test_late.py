from hashlib import sha256

import msgspec
import pytest

from flo.engine.runs.events import LateReportNoted
from flo.engine.runs.late import OUTPUT_LENGTH_MAX
from flo.engine.runs.records import LateReport
from flo.engine.ticks import Tick
from flo.model.actions import RegisterAction
from flo.model.errors import Conflict
from flo.model.explain import CauseCode
from flo.model.runs import (
    Cancel,
    Claim,
    Complete,
    ExplainRun,
    Fail,
    GetRun,
    Invoke,
    RequeueDeadRuns,
)
from flo.shard.snapshot import dump, load
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, given

SEND = RegisterAction(name="send", max_retries=1)
INVOKE = Invoke(action="send", input=b"{}")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
COMPLETE = Complete(run_id="send-1", worker_id=ANNA, attempt=1, output=b"sent")
FAIL = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="refused: expired", retry=True)
LEASE_ENDS = (Later(30_000), Tick())
LAST_LEASE_ENDS = (*LEASE_ENDS, Later(1_000), Tick(), CLAIM, *LEASE_ENDS)
NOTED_AT_MS = NOON_MS + 30_000


def refused(engine, report):
    """The events of a report that is refused."""
    before = len(engine.events)
    with pytest.raises(Conflict) as refusal:
        engine.execute(report)
    assert refusal.value.code == "lease_lost"
    return engine.events[before:]


def late_of(engine, attempt=1):
    (late,) = [one.late for one in engine.run("send-1").attempts if one.number == attempt]
    return late


def test_a_late_result_is_refused_and_kept():
    engine = given(SEND, INVOKE, CLAIM, *LEASE_ENDS)

    events = refused(engine, COMPLETE)

    report = LateReport(worker_id=ANNA, at_ms=NOTED_AT_MS, outcome="success", output=b"sent")
    assert events == [LateReportNoted(namespace=DEFAULT, run_id="send-1", attempt=1, report=report)]
    assert late_of(engine) == msgspec.structs.replace(report, position=len(engine.log) - 1)
    assert engine.query(GetRun(run_id="send-1")).attempts[0].late_report.output == b"sent"


def test_a_late_failure_is_kept_with_its_code():
    engine = given(SEND, INVOKE, CLAIM, *LEASE_ENDS)

    refused(engine, FAIL)

    assert late_of(engine) == LateReport(
        worker_id=ANNA,
        at_ms=NOTED_AT_MS,
        outcome="failure",
        error="refused: expired",
        error_code="refused",
        position=len(engine.log) - 1,
    )


def test_a_late_failure_for_want_of_time_is_a_timeout():
    engine = given(SEND, INVOKE, CLAIM, *LEASE_ENDS)

    refused(engine, msgspec.structs.replace(FAIL, timed_out=True))

    assert late_of(engine).outcome == "timeout"


@pytest.mark.parametrize("again", [COMPLETE, FAIL])
def test_of_an_attempt_only_the_first_late_report_is_kept(again):
    engine = given(SEND, INVOKE, CLAIM, *LEASE_ENDS)
    refused(engine, COMPLETE)

    assert refused(engine, again) == []
    assert late_of(engine).output == b"sent"


def test_each_attempt_has_its_own_late_report():
    engine = given(SEND, INVOKE, CLAIM, *LAST_LEASE_ENDS)

    refused(engine, COMPLETE)
    refused(engine, msgspec.structs.replace(COMPLETE, attempt=2, output=b"twice"))

    assert (late_of(engine, 1).output, late_of(engine, 2).output) == (b"sent", b"twice")


def test_a_report_that_names_no_attempt_is_that_of_the_last_one():
    engine = given(SEND, INVOKE, CLAIM, *LAST_LEASE_ENDS)

    refused(engine, msgspec.structs.replace(COMPLETE, attempt=0))

    assert (late_of(engine, 1), late_of(engine, 2).output) == (None, b"sent")


def test_of_a_long_output_the_digest_is_kept():
    engine = given(SEND, INVOKE, CLAIM, *LEASE_ENDS)
    output = bytes(OUTPUT_LENGTH_MAX + 1)

    refused(engine, msgspec.structs.replace(COMPLETE, output=output))

    assert late_of(engine).output is None
    assert late_of(engine).output_digest == sha256(output).hexdigest()


def test_the_late_report_of_a_run_that_has_ended_is_in_the_archive():
    engine = given(SEND, INVOKE, CLAIM, *LAST_LEASE_ENDS)
    assert "send-1" not in engine.state.space(DEFAULT).runs

    assert len(refused(engine, COMPLETE)) == 1

    assert engine.ended[DEFAULT, "send-1"].attempts[0].late.output == b"sent"
    assert refused(engine, COMPLETE) == []


def test_a_late_report_outlives_a_snapshot_and_the_revival_of_its_run():
    engine = given(SEND, INVOKE, CLAIM, *LAST_LEASE_ENDS)
    refused(engine, COMPLETE)

    engine.execute(RequeueDeadRuns(action="send"))
    again = load(dump(engine.state))

    assert again.space(DEFAULT).runs["send-1"].attempts[0].late.output == b"sent"


def test_a_report_of_what_was_cancelled_is_kept():
    engine = given(SEND, INVOKE, CLAIM, Cancel(run_id="send-1", reason="a mistake"))

    refused(engine, COMPLETE)

    assert engine.run("send-1").attempts[0].late.output == b"sent"


def test_a_second_report_of_an_attempt_that_was_reported_is_not_kept():
    engine = given(SEND, INVOKE, CLAIM, FAIL)

    assert refused(engine, COMPLETE) == []


def test_a_report_of_somebody_who_never_held_the_run_is_not_kept():
    engine = given(SEND, INVOKE, CLAIM, *LEASE_ENDS)

    assert refused(engine, msgspec.structs.replace(COMPLETE, worker_id=BORIS)) == []


@pytest.mark.parametrize("steps", [LEASE_ENDS, LAST_LEASE_ENDS], ids=["live", "ended"])
def test_explain_names_a_late_report(steps):
    engine = given(SEND, INVOKE, CLAIM, *steps)
    refused(engine, COMPLETE)

    causes = engine.query(ExplainRun(run_id="send-1")).causes

    (late,) = [cause for cause in causes if cause.code is CauseCode.LATE_REPORT]
    assert late.facts["end"] == "lease_expired"
    assert "reported 'success' of it afterwards" in late.text
