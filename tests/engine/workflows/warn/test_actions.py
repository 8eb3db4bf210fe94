from flo.engine.workflows.advance.registration import LOOK_MS_MAX, next_look_at_ms
from flo.model.actions import RegisterAction
from flo.model.workflows import (
    CreateWorkflow,
    ExplainWorkflow,
    GetWorkflowRun,
    StartWorkflow,
    ValidateWorkflow,
)
from flo.testing.clock import NOON_MS
from flows import WorkflowHarness, one_step

STEP = '{run: "@actions/check", transitions: {success: flo.Completed, failure: flo.Failed}}'
TEXT = one_step(STEP, name="order", version="1")
PATIENT = one_step(STEP, name="order", version="1", more="actionWaitMs: 10s\n")


def started(text):
    harness = WorkflowHarness().deploy(text)
    reply = harness.execute(StartWorkflow(name="order")).reply
    return harness, reply


def run_of(harness):
    return harness.query(GetWorkflowRun(run_id="wfrun-1"))


def test_a_warning_names_the_nearest_action_and_is_gone_once_that_is_registered():
    harness = WorkflowHarness()
    harness.execute(RegisterAction(name="checks"))
    (problem,) = harness.execute(CreateWorkflow(text=TEXT)).reply.problems
    assert (problem["code"], problem["hint"]) == ("E211", "did you mean 'checks'?")
    assert TEXT.splitlines()[problem["line"] - 1][problem["column"] - 1 :].startswith("@actions/")

    harness.execute(RegisterAction(name="check"))
    assert harness.query(ValidateWorkflow(text=TEXT)).problems == []


def test_without_a_wait_the_step_ends_at_once():
    harness, reply = started(TEXT)

    assert "ends with target_not_found" in reply.warnings[0]
    assert run_of(harness).error_code == "target_not_found"


def test_with_a_wait_the_step_looks_again_until_the_action_is_there():
    harness, reply = started(PATIENT)
    assert "waits for it, 10000 ms at most" in reply.warnings[0]
    (cause,) = harness.query(ExplainWorkflow(run_id="wfrun-1")).causes
    assert (cause.code, cause.facts["action"]) == ("action_not_registered", "check")

    harness.execute(RegisterAction(name="check"))
    harness.later(1_000)

    (wait,) = run_of(harness).waits
    assert (wait.phase, wait.awaited, wait.attempt) == ("action", "check-1", 1)


def test_a_wait_that_is_over_is_the_outcome_it_would_have_been():
    harness, _ = started(PATIENT)
    for _ in range(50):
        harness.later(500)

    run = run_of(harness)
    assert (run.status, run.error_code) == ("failed", "target_not_found")
    assert run.finished_at_ms == NOON_MS + 10_000


def test_a_long_wait_looks_ever_less_often():
    harness, _ = started(PATIENT.replace("10s", "1d"))
    (execution,) = harness.space.executions.values()
    soon, later, last = (
        next_look_at_ms(execution, "", NOON_MS + waited) - (NOON_MS + waited)
        for waited in (0, 2_000, 86_399_999)
    )

    assert (soon, later, last) == (200, 1_000, 1)
    assert next_look_at_ms(execution, "", NOON_MS + 3_600_000) == NOON_MS + 3_600_000 + LOOK_MS_MAX
    assert next_look_at_ms(execution, "", NOON_MS + 86_400_000) is None
