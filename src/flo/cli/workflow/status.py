"""A workflow run for reading: where it is, what it waits for, what its steps have given.

Run:       wfrun-1
Workflow:  order 1.0.0 (definition 1b3b75a05f14)
Status:    waiting at approve
Waits for: signal 'approval' at approve, until 2026-03-14 11:00:00+01:00

STEP    OUTCOME  ENDED                      RESULT
charge  success  2026-03-14 10:00:00+01:00  {"charged":7}
"""

from flo.cli.app.output import Columns, aligned, payload_text, pretty_text, table, time_text
from flo.core.printable import printable
from flo.model.workflows import BranchPhase, StepView, WaitView, WorkflowRunView

DIGEST_SHOWN = 12
RESULT_SHOWN_MAX = 60

STEP_COLUMNS: Columns[StepView] = {
    "STEP": lambda step: step.step,
    "OUTCOME": lambda step: step.outcome,
    "ENDED": lambda step: time_text(step.at_ms),
    "RESULT": lambda step: (step.error or payload_text(step.output))[:RESULT_SHOWN_MAX],
}
_WAITS = {
    BranchPhase.SLEEP: "a time",
    BranchPhase.RETRY: "its next attempt",
    BranchPhase.POLL: "its next look",
    BranchPhase.REST: "an executor of its plan",
    BranchPhase.JOIN: "its branches or items",
    BranchPhase.PACE: "its turn",
    BranchPhase.BETWEEN: "the run to be resumed",
}


def status_text(run: WorkflowRunView) -> str:
    definition = f" (definition {run.definition[:DIGEST_SHOWN]})" if run.definition else ""
    details = aligned(
        {
            "Run": run.run_id,
            "Workflow": f"{run.workflow} {run.version}{definition}",
            "Status": _status(run),
            "Waits for": "\n".join(map(_wait_text, run.waits)),
            "Error": f"{run.error} [{run.error_code}]" if run.error else None,
            "Retryable": "no" if run.retryable is False else None,
            "Created": time_text(run.created_at_ms),
            "Finished": time_text(run.finished_at_ms),
            "Started by": run.triggered_by,
            "Key": run.idempotency_key,
            "Subject": run.subject,
            "Parent": run.parent,
            "Repeats": run.origin,
            "Attributes": ", ".join(f"{name}={at}" for name, at in run.attributes.items()),
            "Signals kept": ", ".join(run.signals),
            "Undone": ", ".join(run.undone),
            "Input": pretty_text(run.input),
            "Output": pretty_text(run.output),
        }
    )
    steps = f"\n\n{table(STEP_COLUMNS, run.steps)}" if run.steps else ""
    return printable(f"{details}{steps}")


def _status(run: WorkflowRunView) -> str:
    place = f" at {run.terminal or run.current_step}" if run.terminal or run.current_step else ""
    return f"{run.status}{place}{' (paused)' if run.paused else ''}"


def _wait_text(wait: WaitView) -> str:
    what = _WAITS.get(wait.phase) or wait.awaited or str(wait.phase)
    if wait.phase is BranchPhase.SIGNAL:
        what = f"signal {wait.signal!r}"
    where = f"{wait.step}{f' ({wait.branch})' if wait.branch else ''}"
    until = time_text(wait.until_ms)
    return f"{what} at {where}" + (f", until {until}" if until else "")
