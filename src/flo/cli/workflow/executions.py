"""flo workflow start, signal, cancel, ...: the runs of workflows."""

from flo.cli.app.derive import list_command, plain_command
from flo.cli.app.explanation import explanation_text
from flo.cli.app.output import Columns, time_text
from flo.cli.app.parameters import Argument, Either, Flag
from flo.cli.app.payload import JSON_UNLESS_RAW, ReadFrom, raw_flag
from flo.cli.workflow.options import VERSION, read_since
from flo.cli.workflow.progress import history, status, steps
from flo.cli.workflow.rerun import or_in_bulk
from flo.client.handles.results import ENDED
from flo.model.workflows import (
    CancelWorkflow,
    ExplainWorkflow,
    ListWorkflowRuns,
    PauseWorkflow,
    RerunWorkflow,
    ResumeWorkflow,
    SignalWorkflow,
    StartWorkflow,
    WorkflowBegun,
    WorkflowRunItem,
)

RUN_COLUMNS: Columns[WorkflowRunItem] = {
    "RUN ID": lambda run: run.run_id,
    "WORKFLOW": lambda run: run.workflow,
    "STATUS": lambda run: run.status,
    "VERSION": lambda run: run.version,
    "CREATED": lambda run: time_text(run.created_at_ms),
    "FINISHED": lambda run: time_text(run.finished_at_ms),
    "ATTRIBUTES": lambda run: ", ".join(f"{name}={at}" for name, at in run.attributes.items()),
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
        Argument("input", type=JSON_UNLESS_RAW),
        raw_flag(),
        VERSION,
        Flag("idempotency_key", "-k", metavar="KEY"),
        Flag("run_id", "-r", metavar="ID"),
        "subject",
        text=_started_text,
        warns=lambda begun: begun.warnings,
        raw="{reply.run_id}",
        examples=[
            'flo workflow start process-order \'{"order_id": "ORD-123", "amount": 99.99}\'',
            "flo workflow start process-order @order.json --version 1.0.0",
            'flo workflow start process-order \'{"order_id":"ORD-123"}\''
            " --idempotency-key order-123",
            "flo workflow start process-order --run-id order-123",
        ],
        aliases=["run"],
        more="INPUT is JSON, {} if left out, or anything with --raw; `-` reads it from stdin, "
        "`@file` from a file.",
    ),
    plain_command(
        "signal",
        SignalWorkflow,
        "run_id",
        Either(
            "payload",
            metavar="PAYLOAD",
            type=JSON_UNLESS_RAW,
            error="give the payload once: as an argument, or with --payload",
        ),
        raw_flag(),
        Flag("type", "-t", metavar="TYPE"),
        text="Signal {type!r} sent to workflow {run_id}",
        json=["run_id", "type", "reply.warning"],
        warns=lambda sent: [sent.warning] if sent.warning is not None else [],
        examples=[
            'flo workflow signal wfrun-1 --type approval \'{"decision": "approved"}\'',
            "flo workflow signal wfrun-1 --type approval --payload @decision.json",
        ],
        more="PAYLOAD is JSON, or anything with --raw; `-` reads it from stdin, `@file` from "
        "a file.",
    ),
    status,
    history,
    steps,
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
            help="Only runs started since then: 2026-03-14T10:00, or how long ago: 90m, 12h, 7d.",
        ),
        "subject",
        columns=RUN_COLUMNS,
        none="no runs",
        examples=[
            "flo workflow list-runs",
            "flo workflow list-runs --workflow process-order --status waiting --since 7d",
            "flo workflow list-runs --subject customer-7",
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
    or_in_bulk(
        plain_command(
            "rerun",
            RerunWorkflow,
            "run_id",
            Flag("step", "--from", metavar="STEP"),
            Flag("input", metavar="INPUT", type=JSON_UNLESS_RAW),
            raw_flag(),
            VERSION,
            text="Started workflow run: {reply.run_id} (repeats {run_id})",
            raw="{reply.run_id}",
            json={"run_id": "reply.run_id", "origin": "run_id"},
            examples=[
                "flo workflow rerun wfrun-1",
                "flo workflow rerun wfrun-1 --from charge --input '{\"amount\": 50}'",
                "flo workflow rerun wfrun-1 --from charge --version 1.0.0",
                "flo workflow rerun --failed --since 1d --from-failed-step",
            ],
            more="What the steps before have given is taken over. INPUT may be `-` or `@file` too. "
            "Without RUN it does what `flo bulk rerun` does, to all runs that fit.",
        )
    ),
)
