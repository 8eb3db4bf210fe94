"""The bytes of workflow events, as every log holds them."""

from msgspec.structs import replace

from flo.engine.actions.events import ModuleStored
from flo.engine.schedules.events import ScheduleFired, ScheduleRemoved, ScheduleSet
from flo.engine.workflows.events import (
    ActionEnded,
    AttemptLeftUnknown,
    BranchClosed,
    BranchEnded,
    BranchOpened,
    CallNotMade,
    ChildCancelled,
    HistoryFiled,
    PlanNoted,
    PollExhausted,
    RollbackBegan,
    SignalMatched,
    SignalReceived,
    SignalTimedOut,
    StepEnded,
    StepHeld,
    StepReportedLate,
    StepStarted,
    StepUndone,
    WorkflowAdmitted,
    WorkflowCreated,
    WorkflowDeleted,
    WorkflowDisabled,
    WorkflowEnabled,
    WorkflowFinished,
    WorkflowPaused,
    WorkflowResumed,
    WorkflowStarted,
)
from flo.engine.workflows.records import (
    Branch,
    Ending,
    Origin,
    Parent,
    Signal,
    StepResult,
    WorkflowRun,
)
from flo.model.base import Event
from flo.model.views.attempts import AttemptEnd
from flo.model.workflows import BranchPhase, WorkflowStatus

OF_RUN = {"namespace": "n", "run_id": "wfrun-2"}
OF_BRANCH = {**OF_RUN, "branch": "s/b"}
RUN = WorkflowRun(
    run_id="wfrun-2",
    number=2,
    workflow="w",
    version="1",
    input=b"i",
    created_at_ms=7,
    idempotency_key="k",
    parent=Parent(run_id="wfrun-1", branch="s/b"),
    origin=Origin(run_id="wfrun-1", step="s"),
    attributes={"a": "x", "b": 1, "c": 1.5},
    first_step="s",
    results={
        "r": StepResult(
            outcome="success", output=b"o", error="e", at_ms=6, error_code="c", retryable=False
        )
    },
    triggered_by="parent",
    depth=1,
    limit_key="p",
)
BRANCH = Branch(
    step="s",
    phase=BranchPhase.ACTION,
    attempt=2,
    polls=3,
    began_at_ms=4,
    until_ms=5,
    awaited="a-1",
    plan=b"p",
    items=6,
    opened=7,
    succeeded=8,
    failed=9,
    goal="g",
)
ENDING_ONCE = Ending(status=WorkflowStatus.TIMED_OUT, terminal="flo.TimedOut", error="e")
ENDING = replace(ENDING_ONCE, error_code="c", retryable=False)
RUN_ONCE = replace(
    RUN, results={"r": StepResult(outcome="success", output=b"o", error="e", at_ms=6)}
)

# A released row never changes. When an event gets a new field (at its end, with a default),
# add a row for it and keep the old one among those that can be read.
OF_WORKFLOWS: list[tuple[Event, bytes]] = [
    (
        ModuleStored(digest="d", body=b"m"),
        b"\x91\x93\xacModuleStored\xa1d\xc4\x01m",
    ),
    (
        WorkflowCreated(namespace="n", name="w", version="1", text="t", definition=b"d", at_ms=7),
        b"\x91\x97\xafWorkflowCreated\xa1n\xa1w\xa11\xa1t\xc4\x01d\x07",
    ),
    (
        WorkflowDeleted(namespace="n", name="w", version=None),
        b"\x91\x95\xafWorkflowDeleted\xa1n\xa1w\xc0\x00",
    ),
    (
        WorkflowDisabled(namespace="n", name="w", version="1"),
        b"\x91\x94\xb0WorkflowDisabled\xa1n\xa1w\xa11",
    ),
    (
        WorkflowEnabled(namespace="n", name="w", version="1"),
        b"\x91\x94\xafWorkflowEnabled\xa1n\xa1w\xa11",
    ),
    (
        WorkflowStarted(namespace="n", run=RUN),
        b"\x91\x93\xafWorkflowStarted\xa1n\xdc\x00\x12\xa7wfrun-2\x02\xa1w\xa11\xc4\x01i\x07\xa1k\x92\xa7wfrun-1\xa3s/b\x92\xa7wfrun-1\xa1s\x83\xa1a\xa1x\xa1b\x01\xa1c\xcb?\xf8\x00\x00\x00\x00\x00\x00\xa1s\x81\xa1r\x96\xa7success\xc4\x01o\xa1e\x06\xa1c\xc2\xa6parent\x01\xa1p\xc0\xc0\xc0",
    ),
    (
        StepStarted(**OF_BRANCH, now=BRANCH, at_ms=7, detail="d"),
        b"\x91\x97\xabStepStarted\xa1n\xa7wfrun-2\xa3s/b\x9f\xa1s\xa6action\x02\x03\x04\x05\xa3a-1\xc4\x01p\x06\x07\x08\t\xa1g\x01\xc0\x07\xa1d",
    ),
    (
        StepHeld(**OF_BRANCH, now=BRANCH, at_ms=7, detail="d"),
        b"\x91\x97\xa8StepHeld\xa1n\xa7wfrun-2\xa3s/b\x9f\xa1s\xa6action\x02\x03\x04\x05\xa3a-1\xc4\x01p\x06\x07\x08\t\xa1g\x01\xc0\x07\xa1d",
    ),
    (
        AttemptLeftUnknown(
            **OF_BRANCH, step="s", awaited="a-1", end=AttemptEnd.WORKER_LOST, at_ms=7
        ),
        b"\x91\x98\xb2AttemptLeftUnknown\xa1n\xa7wfrun-2\xa3s/b\xa1s\xa3a-1\xabworker_lost\x07",
    ),
    (
        StepReportedLate(
            **OF_BRANCH,
            step="s",
            attempt=2,
            awaited="a-1",
            worker_id="w",
            outcome="o",
            at_ms=7,
            error_code="c",
        ),
        b"\x91\x9b\xb0StepReportedLate\xa1n\xa7wfrun-2\xa3s/b\xa1s\x02\xa3a-1\xa1w\xa1o\x07\xa1c",
    ),
    (
        CallNotMade(
            **OF_BRANCH,
            step="s",
            visit=2,
            attempt=3,
            target="t",
            outcome="target_not_found",
            at_ms=7,
            error="e",
            error_code="c",
            retryable=False,
        ),
        b"\x91\x9d\xabCallNotMade\xa1n\xa7wfrun-2\xa3s/b\xa1s\x02\x03\xa1t\xb0target_not_found\x07\xa1e\xa1c\xc2",
    ),
    (
        ActionEnded(
            **OF_BRANCH,
            awaited="a-1",
            outcome="failure",
            at_ms=7,
            error="e",
            error_code="c",
            outside=False,
        ),
        b"\x91\x9c\xabActionEnded\xa1n\xa7wfrun-2\xa3s/b\xa3a-1\xa7failure\x07\xa1e\xa1c\xc2\xc3\xc0",
    ),
    (
        StepEnded(
            **OF_BRANCH,
            step="s",
            outcome="success",
            output=b"o",
            at_ms=7,
            error="e",
            target="t",
            error_code="c",
            retryable=False,
        ),
        b"\x91\x9c\xa9StepEnded\xa1n\xa7wfrun-2\xa3s/b\xa1s\xa7success\xc4\x01o\x07\xa1e\xa1t\xa1c\xc2",
    ),
    (
        BranchOpened(**OF_BRANCH, step="b", at_ms=7),
        b"\x91\x96\xacBranchOpened\xa1n\xa7wfrun-2\xa3s/b\xa1b\x07",
    ),
    (
        BranchEnded(**OF_BRANCH, succeeded=True, output=b"o", at_ms=7),
        b"\x91\x97\xabBranchEnded\xa1n\xa7wfrun-2\xa3s/b\xc3\xc4\x01o\x07",
    ),
    (
        BranchClosed(**OF_BRANCH, at_ms=7),
        b"\x91\x95\xacBranchClosed\xa1n\xa7wfrun-2\xa3s/b\x07",
    ),
    (
        PlanNoted(
            **OF_BRANCH,
            step="s",
            workflow="w",
            version="1",
            plan="p",
            what="x",
            at_ms=7,
            executor="e",
            attempt=1,
            error="r",
            verdict="bad",
            began_ms=6,
            is_turn=True,
            error_code="c",
        ),
        b"\x91\xdc\x00\x11\xa9PlanNoted\xa1n\xa7wfrun-2\xa3s/b\xa1s\xa1w\xa11\xa1p\xa1x\x07\xa1e\x01\xa1r\xa3bad\x06\xc3\xa1c",
    ),
    (
        PollExhausted(**OF_BRANCH, step="s", at_ms=7, attempt=2),
        b"\x91\x97\xadPollExhausted\xa1n\xa7wfrun-2\xa3s/b\xa1s\x07\x02",
    ),
    (
        ChildCancelled(**OF_RUN, at_ms=7, reason="r"),
        b"\x91\x95\xaeChildCancelled\xa1n\xa7wfrun-2\x07\xa1r",
    ),
    (
        SignalReceived(**OF_RUN, signal=Signal(type="t", payload=b"p", at_ms=7)),
        b"\x91\x94\xaeSignalReceived\xa1n\xa7wfrun-2\x95\xa1t\xc4\x01p\x07\xc0\x00",
    ),
    (
        SignalMatched(**OF_BRANCH, signal_type="t", at_ms=7),
        b"\x91\x96\xadSignalMatched\xa1n\xa7wfrun-2\xa3s/b\xa1t\x07",
    ),
    (
        SignalTimedOut(**OF_BRANCH, signal_type="t", goal="g", at_ms=7),
        b"\x91\x97\xaeSignalTimedOut\xa1n\xa7wfrun-2\xa3s/b\xa1t\xa1g\x07",
    ),
    (
        WorkflowPaused(**OF_RUN, at_ms=7),
        b"\x91\x94\xaeWorkflowPaused\xa1n\xa7wfrun-2\x07",
    ),
    (
        WorkflowResumed(**OF_RUN, at_ms=7),
        b"\x91\x94\xafWorkflowResumed\xa1n\xa7wfrun-2\x07",
    ),
    (
        RollbackBegan(**OF_RUN, ending=ENDING, steps=("s", "r"), at_ms=7),
        b"\x91\x96\xadRollbackBegan\xa1n\xa7wfrun-2\x95\xa9timed_out\xacflo.TimedOut\xa1e\xa1c\xc2\x92\xa1s\xa1r\x07",
    ),
    (
        StepUndone(**OF_RUN, step="s", succeeded=False, at_ms=7, error="e", error_code="c"),
        b"\x91\x98\xaaStepUndone\xa1n\xa7wfrun-2\xa1s\xc2\x07\xa1e\xa1c",
    ),
    (
        WorkflowFinished(
            **OF_RUN, ending=ENDING, output=b"o", at_ms=7, workflow="w", limit_key="p"
        ),
        b"\x91\x99\xb0WorkflowFinished\xa1n\xa7wfrun-2\x95\xa9timed_out\xacflo.TimedOut\xa1e\xa1c\xc2\xc4\x01o\x07\xa1w\xa1p\xc3",
    ),
    (
        HistoryFiled(**OF_RUN, part=3, at_ms=7),
        b"\x91\x95\xacHistoryFiled\xa1n\xa7wfrun-2\x03\x07",
    ),
    (
        WorkflowAdmitted(**OF_RUN, at_ms=7),
        b"\x91\x94\xb0WorkflowAdmitted\xa1n\xa7wfrun-2\x07",
    ),
    (
        ScheduleSet(namespace="n", workflow="w", next_at_ms=8, at_ms=7, paused=False),
        b"\x91\x96\xabScheduleSet\xa1n\xa1w\x08\x07\xc2",
    ),
    (
        ScheduleRemoved(namespace="n", workflow="w"),
        b"\x91\x93\xafScheduleRemoved\xa1n\xa1w",
    ),
    (
        ScheduleFired(namespace="n", workflow="w", due_at_ms=7, next_at_ms=8, run_id="wfrun-2"),
        b"\x91\x96\xadScheduleFired\xa1n\xa1w\x07\x08\xa7wfrun-2",
    ),
]

ONCE_OF_WORKFLOWS: list[tuple[Event, bytes]] = [
    (
        WorkflowStarted(namespace="n", run=RUN_ONCE),
        b"\x91\x93\xafWorkflowStarted\xa1n\x9f\xa7wfrun-2\x02\xa1w\xa11\xc4\x01i\x07\xa1k\x92\xa7wfrun-1\xa3s/b\x92\xa7wfrun-1\xa1s\x83\xa1a\xa1x\xa1b\x01\xa1c\xcb?\xf8\x00\x00\x00\x00\x00\x00\xa1s\x81\xa1r\x94\xa7success\xc4\x01o\xa1e\x06\xa6parent\x01\xa1p",
    ),
    (
        ActionEnded(**OF_BRANCH, awaited="a-1", outcome="failure", at_ms=7, error="e"),
        b"\x91\x98\xabActionEnded\xa1n\xa7wfrun-2\xa3s/b\xa3a-1\xa7failure\x07\xa1e",
    ),
    (
        StepEnded(
            **OF_BRANCH, step="s", outcome="success", output=b"o", at_ms=7, error="e", target="t"
        ),
        b"\x91\x9a\xa9StepEnded\xa1n\xa7wfrun-2\xa3s/b\xa1s\xa7success\xc4\x01o\x07\xa1e\xa1t",
    ),
    (
        PlanNoted(
            **OF_BRANCH,
            step="s",
            workflow="w",
            version="1",
            plan="p",
            what="x",
            at_ms=7,
            executor="e",
            attempt=1,
            error="r",
            verdict="bad",
            began_ms=6,
            is_turn=True,
        ),
        b"\x91\xdc\x00\x10\xa9PlanNoted\xa1n\xa7wfrun-2\xa3s/b\xa1s\xa1w\xa11\xa1p\xa1x\x07\xa1e\x01\xa1r\xa3bad\x06\xc3",
    ),
    (
        RollbackBegan(**OF_RUN, ending=ENDING_ONCE, steps=("s", "r"), at_ms=7),
        b"\x91\x96\xadRollbackBegan\xa1n\xa7wfrun-2\x93\xa9timed_out\xacflo.TimedOut\xa1e\x92\xa1s\xa1r\x07",
    ),
    (
        StepUndone(**OF_RUN, step="s", succeeded=False, at_ms=7, error="e"),
        b"\x91\x97\xaaStepUndone\xa1n\xa7wfrun-2\xa1s\xc2\x07\xa1e",
    ),
    (
        WorkflowFinished(
            **OF_RUN, ending=ENDING_ONCE, output=b"o", at_ms=7, workflow="w", limit_key="p"
        ),
        b"\x91\x98\xb0WorkflowFinished\xa1n\xa7wfrun-2\x93\xa9timed_out\xacflo.TimedOut\xa1e\xc4\x01o\x07\xa1w\xa1p",
    ),
    (
        WorkflowDisabled(namespace="n", name="w"),
        b"\x91\x93\xb0WorkflowDisabled\xa1n\xa1w",
    ),
    (
        WorkflowEnabled(namespace="n", name="w"),
        b"\x91\x93\xafWorkflowEnabled\xa1n\xa1w",
    ),
    (
        StepEnded(**OF_BRANCH, step="s", outcome="success", output=b"o", at_ms=7, error="e"),
        b"\x91\x99\xa9StepEnded\xa1n\xa7wfrun-2\xa3s/b\xa1s\xa7success\xc4\x01o\x07\xa1e",
    ),
]
"""As they were written once."""
