"""Words about workflows that must change nothing, for those who attack a server with them."""

import math

from flo.model.workflows import CreateWorkflow, StartWorkflow

TEXT = """\
kind: Workflow
name: order
version: "1"
idempotency: required
schedule: {cron: "0 2 * * *", paused: true}
start:
  waitForSignal: {type: approved}
  transitions: {success: flo.Completed}
"""
FILL = (CreateWorkflow(text=TEXT), StartWorkflow(name="order", idempotency_key="order-7"))
"""What the words below are about: a workflow, and the run `wfrun-1` of it."""

BAD_TEXTS = [
    "",
    "\0",
    "just some words",
    "kind: Workflow",
    TEXT.replace('"1"', '""'),
    TEXT.replace("flo.Completed", "nowhere"),
    "{" * 5_000,
    "[" * 5_000,
    "- " * 5_000,
    "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]",
    "a: &a [*a]",
    "!!python/object/apply:os.system [ls]",
    "x" * (1024 * 1024 + 1),
    "\U0010ffff" * 1_000,
]
BAD_IDS = ["", "-", "wfrun-0", "wfrun-2", "wfrun-" + "9" * 5_000, "x" * 9_999, "\0", "wfrun-²"]
BAD_NUMBERS = [-(2**63), -1, 0, 1_001, 2**63, 2**64 - 1]
OF_A_RUN = (
    "cancel_workflow",
    "pause_workflow",
    "resume_workflow",
    "rerun_workflow",
    "get_workflow_run",
    "wait_for_workflow",
    "get_history",
    "get_steps",
    "explain_workflow",
)

REFUSED = {
    "create_workflow": {"text": "name: nobody"},
    "validate_workflow": {"text": "name: nobody"},
    "delete_workflow": {"name": "nobody"},
    "disable_workflow": {"name": "nobody"},
    "enable_workflow": {"name": "nobody"},
    "get_workflow": {"name": "nobody"},
    "list_workflows": {},
    "start_workflow": {"name": "nobody"},
    "start_workflow_many": {"name": "nobody"},
    "signal_workflow": {"run_id": "wfrun-9", "type": "approved"},
    "cancel_workflow": {"run_id": "wfrun-9"},
    "pause_workflow": {"run_id": "wfrun-9"},
    "resume_workflow": {"run_id": "wfrun-9"},
    "rerun_workflow": {"run_id": "wfrun-9"},
    "get_workflow_run": {"run_id": "wfrun-9"},
    "wait_for_workflow": {"run_id": "wfrun-9"},
    "list_workflow_runs": {},
    "get_history": {"run_id": "wfrun-9"},
    "get_steps": {"run_id": "wfrun-9"},
    "explain_workflow": {"run_id": "wfrun-9"},
    "pause_schedule": {"workflow": "nobody"},
    "resume_schedule": {"workflow": "nobody"},
    "run_schedule": {"workflow": "nobody"},
    "get_schedule": {"workflow": "nobody"},
    "list_schedules": {},
    "get_plan": {"workflow": "nobody", "plan": "nobody"},
    "emit_event": {"name": "nobody"},
}
"""Words of the right shape that change nothing in a namespace where nothing is."""

WILD = {
    "text": BAD_TEXTS,
    "version": ["", "latest", "v" * 9_999, "\0"],
    "step": ["", "start", "s" * 9_999],
    "where": ["", "a =", "(" * 5_000, "a = 1 " * 2_000, 'a = "', "not " * 5_000, "\0"],
    "since_ms": [*BAD_NUMBERS, math.nan],
    "times": BAD_NUMBERS,
    "type": ["", "t" * 100_000],
    "payload": [b"", b"\xff" * 100_000],
    "plan": ["", "p" * 9_999],
}

HOSTILE = [
    *[(name, {"text": text}) for name in ("create_workflow", "validate_workflow")
      for text in BAD_TEXTS],
    ("create_workflow", {"text": TEXT, "namespace": "a b"}),
    ("delete_workflow", {"name": "order", "version": "7"}),
    ("get_workflow", {"name": "order", "version": "\0" * 999}),
    ("start_workflow", {"name": "order"}),
    ("start_workflow", {"name": "order", "idempotency_key": ""}),
    ("start_workflow", {"name": "order", "idempotency_key": "k" * 9_999}),
    ("start_workflow", {"name": "order", "idempotency_key": "order-7", "input": b"\xff"}),
    ("start_workflow", {"name": "order", "idempotency_key": "new", "version": "7"}),
    ("start_workflow", {"name": "order", "idempotency_key": "new", "input": bytes(2**24 + 1)}),
    ("start_workflow_many", [{"name": "order"}, {"name": "nobody"}]),
    *[(name, {"run_id": run_id}) for name in OF_A_RUN for run_id in BAD_IDS],
    *[("signal_workflow", {"run_id": run_id, "type": "approved"}) for run_id in BAD_IDS],
    ("signal_workflow", {"run_id": "wfrun-1", "type": "t" * 100_000}),
    ("signal_workflow", {"run_id": "wfrun-1", "type": "approved", "payload": bytes(2**24 + 1)}),
    ("cancel_workflow", {"run_id": "wfrun-1", "reason": "r" * 100_000}),
    ("resume_workflow", {"run_id": "wfrun-1"}),
    ("rerun_workflow", {"run_id": "wfrun-1", "step": "nowhere"}),
    ("rerun_workflow", {"run_id": "wfrun-1", "version": "7"}),
    ("rerun_workflow", {"run_id": "wfrun-1", "input": bytes(2**24 + 1)}),
    *[("wait_for_workflow", {"run_id": "wfrun-1", "block_ms": n}) for n in (-1, 300_001, 2**63)],
    ("wait_for_workflow", {"run_id": "wfrun-1", "block_ms": 300_000}),
    *[("list_workflow_runs", {"where": where}) for where in WILD["where"]],
    *[("list_workflow_runs", {"since_ms": number}) for number in BAD_NUMBERS],
    *[("get_history", {"run_id": "wfrun-1", "cursor": c}) for c in ("", "-1", "²", "9" * 5_000)],
    ("get_history", {"run_id": "wfrun-1", "cursor": "9" * 12}),
    *[("get_steps", {"run_id": "wfrun-1", "cursor": c}) for c in ("", "-1", "²", "9" * 5_000)],
    ("get_steps", {"run_id": "wfrun-1", "cursor": "9" * 12}),
    *[("get_steps", {"run_id": "wfrun-1", "limit": number}) for number in BAD_NUMBERS],
    *[("get_history", {"run_id": "wfrun-1", "limit": number}) for number in BAD_NUMBERS],
    *[(name, {"limit": number}) for number in BAD_NUMBERS
      for name in ("list_workflows", "list_workflow_runs", "list_schedules")],
    ("pause_schedule", {"workflow": "order"}),
    *[("get_schedule", {"workflow": "order", "times": n}) for n in (-1, 101, 2**63)],
    ("get_plan", {"workflow": "order", "plan": "nobody"}),
    ("emit_event", {"name": "e" * 100_000}),
    ("emit_event", {"name": "approved"}),
]  # fmt: skip
"""Words about what is in FILL: refused, or a look and nothing more."""

AT_ODDS = [
    ("create_workflow", {"text": TEXT.replace("approved", "agreed")}),
    ("create_workflow", {"text": TEXT.replace("flo.Completed", "flo.Failed")}),
]
"""Words that are refused only because of what is in FILL."""

REFUSED_OVER_HTTP = [
    b"POST /api/v1/workflows?namespace=!!!!!!!!!!!!",
    b"POST /api/v1/workflows/validate",
    b"GET /api/v1/workflows?limit=0",
    b"GET /api/v1/workflows/nobody?version=7",
    b"PUT /api/v1/workflows/nobody/enable",
    b"PUT /api/v1/workflows/nobody/disable",
    b"DELETE /api/v1/workflows/nobody?version=7",
    b"POST /api/v1/workflows/nobody/start?wait_ms=300001",
    b"GET /api/v1/workflows/nobody/plans/nobody",
    b"GET /api/v1/workflow-runs?where=(((&limit=0",
    b"GET /api/v1/workflow-runs/nobody-7?wait_ms=300001",
    b"GET /api/v1/workflow-runs/nobody-7/history?cursor=x",
    b"GET /api/v1/workflow-runs/nobody-7/explain",
    *[
        b"POST /api/v1/workflow-runs/nobody-7/" + route
        for route in (b"signal", b"cancel", b"pause", b"resume", b"rerun")
    ],
    b"GET /api/v1/schedules?limit=0",
    b"GET /api/v1/schedules/nobody?times=101",
    b"PUT /api/v1/schedules/nobody/pause",
    b"PUT /api/v1/schedules/nobody/resume",
    b"POST /api/v1/schedules/nobody/run-now",
    b"POST /api/v1/events/nobody?colour=red",
]
HTTP_BODIES = [
    b'{"text": "kind: Workflow"}',
    b'{"text": "\\ud800"}',
    b"kind: Workflow\nname: [",
    b'{"type":"approved","payload":"%","payload_encoding":"base64"}',
    b'{"type":"approved","payload":' + b"[" * 20_000,
    b'{"step":7,"version":[]}',
]
