"""Words about workflows, schedules and plans, there and back."""

import pytest

from flo.model.executions.history import GetHistory, HistoryPage, HistoryView
from flo.model.plans import EmitEvent, Emitted, ExecutorView, GetPlan, PlanView, WindowView
from flo.model.schedules import GetSchedule, ScheduleView
from flo.model.workflows import (
    BranchPhase,
    CreateWorkflow,
    ListWorkflowRuns,
    RerunWorkflow,
    SignalWorkflow,
    StartWorkflow,
    StepView,
    Validated,
    WaitForWorkflow,
    WaitView,
    WorkflowBegun,
    WorkflowRunView,
    WorkflowStatus,
)
from flo.wire.opcodes import BY_NAME
from wire.test_codec import answered, arrives, refused

RUN = WorkflowRunView(
    run_id="wfrun-1",
    workflow="größe",
    version="1",
    definition="ab12",
    namespace="default",
    status=WorkflowStatus.WAITING,
    paused=True,
    current_step="charge",
    input=b"\x00\xff",
    output=None,
    error="größer",
    error_code="too_large",
    retryable=False,
    terminal=None,
    created_at_ms=2**53,
    finished_at_ms=None,
    idempotency_key="k",
    triggered_by="manual",
    attributes={"amount": 1.5, "count": 2**62, "customer": "42"},
    parent=None,
    origin="wfrun-0",
    steps=[
        StepView(
            step="start",
            outcome="success",
            output=b"{}",
            error=None,
            error_code=None,
            retryable=None,
            at_ms=5,
        )
    ],
    waits=[
        WaitView(
            branch="prepare/email",
            step="email",
            phase=BranchPhase.SIGNAL,
            attempt=1,
            until_ms=None,
            awaited=None,
            signal="approved",
        )
    ],
    signals=["greeting"],
    undone=[],
    history_count=3,
)
PROBLEM = {"code": "E201", "severity": "error", "line": 7, "column": 14}
SCHEDULE = ScheduleView(
    workflow="order",
    namespace="default",
    cron="0 2 * * *",
    interval_ms=None,
    timezone="UTC",
    paused=False,
    enabled=True,
    next_at_ms=5,
    last_at_ms=None,
    last_run_id=None,
    live_runs=0,
    max_concurrent=1,
    skipped=0,
    times=[5, 6],
)
EXECUTOR = ExecutorView(
    name="first",
    action="charge",
    priority=-1,
    breaker="half_open",
    failures=0,
    failures_max=5,
    half_open_at_ms=4,
    score=0.5,
    samples=10,
    is_measured=True,
    answered=1.0,
    succeeded=0.5,
    windows=[WindowView(length_ms=1_000, limit=100, used=7)],
    free_at_ms=5,
)
PLAN = PlanView(
    workflow="order",
    version="1",
    plan="charge",
    selection="random",
    at_ms=5,
    begun=7,
    min_samples=10,
    executors=[EXECUTOR],
    cached=2,
)


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("create_workflow", [CreateWorkflow(text="name: größe\n", namespace="prod")]),
        ("start_workflow", [StartWorkflow(name="order", input=b"\x00\xff", idempotency_key="k")]),
        ("start_workflow_many", [StartWorkflow(name="order"), StartWorkflow(name="bill")]),
        ("start_workflow_many", []),
        ("signal_workflow", [SignalWorkflow(run_id="wfrun-1", type="ok", payload=b"\xff")]),
        ("rerun_workflow", [RerunWorkflow(run_id="wfrun-1", step="ship", input=b"")]),
        ("wait_for_workflow", [WaitForWorkflow(run_id="wfrun-1", block_ms=0)]),
        (
            "list_workflow_runs",
            [ListWorkflowRuns(status=WorkflowStatus.TIMED_OUT, where='a = "b"', since_ms=2**53)],
        ),
        ("get_history", [GetHistory(run_id="wfrun-1", cursor="200")]),
        ("get_schedule", [GetSchedule(workflow="order", times=100)]),
        ("get_plan", [GetPlan(workflow="order", plan="charge", version="2")]),
        ("emit_event", [EmitEvent(name="prices-changed", namespace="prod")]),
    ],
)
def test_a_request_arrives_as_it_was_sent(name, messages):
    request = arrives(name, *messages)

    assert (request.form, request.messages) == (BY_NAME[name], messages)


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        (
            "validate_workflow",
            [Validated(valid=False, name=None, version=None, problems=[PROBLEM])],
        ),
        ("start_workflow_many", [WorkflowBegun(run_id="wfrun-1", duplicate=True)] * 2),
        ("wait_for_workflow", [RUN]),
        (
            "get_history",
            [
                HistoryPage(
                    items=[
                        HistoryView(
                            type="step_started",
                            at_ms=5,
                            step=None,
                            detail="",
                            attempt=1,
                            branch="",
                            error="no",
                            error_code="c",
                        )
                    ],
                    cursor="1",
                )
            ],
        ),
        ("get_schedule", [SCHEDULE]),
        ("get_plan", [PLAN]),
        ("emit_event", [Emitted(plans=1, results=2)]),
    ],
)
def test_an_answer_arrives_as_it_was_given(name, answers):
    assert answered(name, *answers) == answers


@pytest.mark.parametrize(
    ("name", "body", "named"),
    [
        ("create_workflow", {}, "`text`"),
        ("create_workflow", {"text": b"bytes"}, "$.text"),
        ("validate_workflow", {"text": "", "name": "order"}, "`name`"),
        ("start_workflow", {"name": "order", "input": "text"}, "$.input"),
        ("signal_workflow", {"run_id": "wfrun-1"}, "`type`"),
        ("rerun_workflow", {"run_id": "wfrun-1", "step": 7}, "$.step"),
        ("list_workflow_runs", {"status": "lost"}, "$.status"),
        ("list_workflow_runs", {"since_ms": 1.5}, "$.since_ms"),
        ("wait_for_workflow", {"run_id": "wfrun-1", "block_ms": "1"}, "$.block_ms"),
        ("get_schedule", {"workflow": "order", "times": None}, "$.times"),
        ("get_plan", {"workflow": "order"}, "`plan`"),
    ],
)
def test_every_operation_says_what_it_cannot_read(name, body, named):
    error = refused(BY_NAME[name].opcode, body)

    assert error.code == "invalid_request"
    assert named in error.message
