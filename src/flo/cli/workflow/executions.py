"""flo workflow start, signal, status, ...: the runs of workflows."""

from flo.cli.app.derive import list_command, plain_command
from flo.cli.app.explanation import explanation_text
from flo.cli.app.output import Columns, time_text, to_json
from flo.cli.app.parameters import Argument, Either, Flag
from flo.cli.app.payload import ReadFrom
from flo.cli.app.printable import printable
from flo.cli.workflow.options import VERSION, read_since
from flo.client.handles.results import ENDED
from flo.model.declare.payload import payload_to_json
from flo.model.executions.history import GetHistory, HistoryView
from flo.model.executions.steps import CallView, GetSteps
from flo.model.workflows import (
    CancelWorkflow,
    ExplainWorkflow,
    GetWorkflowRun,
    ListWorkflowRuns,
    PauseWorkflow,
    RerunWorkflow,
    ResumeWorkflow,
    SignalWorkflow,
    StartWorkflow,
    StepView,
    WorkflowBegun,
    WorkflowRunItem,
    WorkflowRunView,
)

DETAIL_SHOWN_MAX = 60

HISTORY_COLUMNS: Columns[HistoryView] = {
    "TYPE": lambda entry: entry.type,
    "STEP": lambda entry: place_text(entry),
    "DETAIL": lambda entry: entry.detail[:DETAIL_SHOWN_MAX],
    "ATTEMPT": lambda entry: entry.attempt or None,
    "TIME": lambda entry: time_text(entry.at_ms),
    "ERROR": lambda entry: entry.error_code,
    "BY": lambda entry: entry.by,
}

CALL_COLUMNS: Columns[CallView] = {
    "STEP": lambda call: place_text(call),
    "VISIT": lambda call: call.visit,
    "ATTEMPT": lambda call: call.attempt,
    "TARGET": lambda call: call.target,
    "RUN ID": lambda call: call.run_id,
    "STARTED": lambda call: time_text(call.started_at_ms),
    "TOOK MS": lambda call: call.took_ms,
    "OUTCOME": lambda call: outcome_text(call),
    "ERROR": lambda call: call.error_code,
}

RUN_COLUMNS: Columns[WorkflowRunItem] = {
    "RUN ID": lambda run: run.run_id,
    "WORKFLOW": lambda run: run.workflow,
    "STATUS": lambda run: run.status,
    "VERSION": lambda run: run.version,
    "CREATED": lambda run: time_text(run.created_at_ms),
    "FINISHED": lambda run: time_text(run.finished_at_ms),
    "ATTRIBUTES": lambda run: ", ".join(f"{name}={at}" for name, at in run.attributes.items()),
}


def outcome_text(call: CallView) -> str:
    if call.outcome is not None:
        return call.outcome
    return "(under way)" if call.ended_at_ms is None else "(given up)"


def place_text(entry: HistoryView | CallView) -> str:
    """The step, and the branch or item in which it is."""
    return f"{entry.step or ''}{f' ({entry.branch})' if entry.branch else ''}".strip()


def detail_text(entry: HistoryView) -> str:
    """The detail, and the error if there is one and it says more."""
    is_more = entry.error is not None and entry.error != entry.detail
    return f"{entry.detail}: {entry.error}" if is_more else entry.detail


def run_value(run: WorkflowRunView) -> dict[str, object]:
    """A run for programs; the four fields that everyone looks for come first."""
    value: dict[str, object] = {
        "run_id": run.run_id,
        "workflow": run.workflow,
        "version": run.version,
        "status": run.status,
    }
    for name in run.__struct_fields__:
        value.setdefault(name, getattr(run, name))
    value["input"], _ = payload_to_json(run.input)
    value["output"], _ = payload_to_json(run.output)
    value["steps"] = [_step_value(step) for step in run.steps]
    return value


def run_line(run: WorkflowRunView) -> str:
    """The same on one line, without what there is none of."""
    there = {name: at for name, at in run_value(run).items() if at not in (None, [], {}, False)}
    return printable(to_json(there, indent=-1))


def _step_value(step: StepView) -> dict[str, object]:
    output, _ = payload_to_json(step.output)
    return {
        "step": step.step,
        "outcome": step.outcome,
        "output": output,
        "error": step.error,
        "error_code": step.error_code,
        "retryable": step.retryable,
        "at_ms": step.at_ms,
    }


def _started_text(begun: WorkflowBegun) -> str:
    if not begun.duplicate:
        return f"Started workflow run: {begun.run_id}"
    if begun.status in ENDED:
        return (
            f"Workflow run {begun.run_id} has {ENDED[begun.status]} and keeps this key.\n"
            f"Run it again with: flo workflow rerun {begun.run_id}"
        )
    return f"Started workflow run: {begun.run_id} (the same run: this key is known)"


RUN_COMMANDS = (
    plain_command(
        "start",
        StartWorkflow,
        "name",
        Argument("input"),
        VERSION,
        Flag("idempotency_key", "-k", metavar="KEY"),
        Flag("run_id", "-r", metavar="ID"),
        "subject",
        text=_started_text,
        raw="{reply.run_id}",
        examples=[
            'flo workflow start process-order \'{"order_id": "ORD-123", "amount": 99.99}\'',
            "flo workflow start process-order @order.json --version 1.0.0",
            'flo workflow start process-order \'{"order_id":"ORD-123"}\''
            " --idempotency-key order-123",
            "flo workflow start process-order --run-id order-123",
        ],
        aliases=["run"],
        more="INPUT is usually JSON, {} if left out; `-` reads it from stdin, `@file` from a file.",
    ),
    plain_command(
        "signal",
        SignalWorkflow,
        "run_id",
        Either(
            "payload",
            "-p",
            metavar="PAYLOAD",
            error="give the payload once: as an argument, or with --payload",
        ),
        Flag("type", "-t", metavar="TYPE"),
        text="Signal {type!r} sent to workflow {run_id}",
        json=["run_id", "type"],
        examples=[
            'flo workflow signal wfrun-1 --type approval \'{"decision": "approved"}\'',
            "flo workflow signal wfrun-1 --type approval --payload @decision.json",
        ],
        more="PAYLOAD is usually JSON; `-` reads it from stdin, `@file` from a file.",
    ),
    plain_command(
        "status",
        GetWorkflowRun,
        "run_id",
        text=run_line,
        raw="{reply.status}",
        json=run_value,
        examples=["flo workflow status wfrun-1", "flo workflow status wfrun-1 --format json"],
        aliases=["get"],
        help="Show how the run RUN is doing, as a line of JSON; with --format json, all there is.",
    ),
    list_command(
        "history",
        GetHistory,
        "run_id",
        columns=HISTORY_COLUMNS,
        heading="History for run: {run_id}",
        none="no history",
        examples=["flo workflow history wfrun-1", "flo workflow history wfrun-1 --limit 10"],
        aliases=(),
    ),
    list_command(
        "steps",
        GetSteps,
        "run_id",
        columns=CALL_COLUMNS,
        heading="Steps of run: {run_id}",
        none="no steps",
        examples=["flo workflow steps wfrun-1", "flo workflow steps wfrun-1 --format json"],
        aliases=["calls"],
    ),
    list_command(
        "list-runs",
        ListWorkflowRuns,
        Flag("workflow", "-w", metavar="NAME"),
        Flag("status", "-s"),
        Flag("where", "-q", "--where", "--search", metavar="CONDITION"),
        Flag(
            "since_ms",
            "--since",
            type=ReadFrom(read_since, "time"),
            metavar="TIME",
            help="Only runs started since then: 2026-03-14T10:00 (UTC), or how long ago: 90m, 12h, "
            "7d.",
        ),
        columns=RUN_COLUMNS,
        none="no runs",
        examples=[
            "flo workflow list-runs",
            "flo workflow list-runs --workflow process-order --status waiting --since 7d",
            "flo workflow list-runs --where 'customer_id = \"42\" and order_amount > 100'",
        ],
        aliases=["runs"],
    ),
    plain_command(
        "explain",
        ExplainWorkflow,
        "run_id",
        text=explanation_text,
        raw="{reply.summary}",
        examples=["flo workflow explain wfrun-1"],
    ),
    plain_command(
        "cancel",
        CancelWorkflow,
        "run_id",
        Flag("reason", "-r"),
        text="Workflow {run_id} cancelled",
        json=["run_id", "reason"],
        examples=[
            "flo workflow cancel wfrun-1",
            "flo workflow cancel wfrun-1 --reason 'the customer has left'",
        ],
    ),
    plain_command(
        "pause",
        PauseWorkflow,
        "run_id",
        text="Workflow {run_id} paused",
        also={"paused": True},
        examples=["flo workflow pause wfrun-1"],
    ),
    plain_command(
        "resume",
        ResumeWorkflow,
        "run_id",
        text="Workflow {run_id} resumed",
        also={"paused": False},
        examples=["flo workflow resume wfrun-1"],
    ),
    plain_command(
        "rerun",
        RerunWorkflow,
        "run_id",
        Flag("step", "--from", metavar="STEP"),
        Flag("input", metavar="INPUT"),
        VERSION,
        text="Started workflow run: {reply.run_id} (repeats {run_id})",
        raw="{reply.run_id}",
        json={"run_id": "reply.run_id", "origin": "run_id"},
        examples=[
            "flo workflow rerun wfrun-1",
            "flo workflow rerun wfrun-1 --from charge --input '{\"amount\": 50}'",
            "flo workflow rerun wfrun-1 --from charge --version 1.0.0",
        ],
        more="What the steps before have given is taken over. INPUT may be `-` or `@file` too.",
    ),
)
