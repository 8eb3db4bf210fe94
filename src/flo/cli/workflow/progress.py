"""flo workflow status, history, steps: where a run is, what happened in it, what it called."""

from typing import Any

import click

from flo.cli.app.derive import list_command, operation_command, summary_of
from flo.cli.app.options import Format, GlobalSettings
from flo.cli.app.output import Columns, show, show_list, table, time_text, to_json
from flo.cli.app.pages import LIMIT_DEFAULT, collect, page_options
from flo.cli.app.say import say
from flo.cli.workflow.status import DIGEST_SHOWN as DIGEST_SHOWN
from flo.cli.workflow.status import status_text
from flo.model.declare.payload import payload_to_json
from flo.model.executions.history import GetHistory, HistoryView
from flo.model.executions.steps import CallView, GetSteps
from flo.model.ids import LIST_LIMIT_MAX, RunId
from flo.model.workflows import GetWorkflowRun, StepView, WorkflowRunView

DETAIL_SHOWN_MAX = 60

CALLS = click.Option(["--calls"], is_flag=True, help="Also every attempt at every step.")

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


def _calls_of(call: Any, sent: GetWorkflowRun | GetHistory) -> list[CallView]:
    query = GetSteps(run_id=sent.run_id, namespace=sent.namespace)
    calls, _ = collect(call, query, LIST_LIMIT_MAX)
    return calls


def _calls_text(run_id: RunId, calls: list[CallView]) -> str:
    return f"Calls of run: {run_id}\n{table(CALL_COLUMNS, calls) if calls else '(no calls)'}"


@operation_command(
    "status",
    GetWorkflowRun,
    "run_id",
    CALLS,
    examples=[
        "flo workflow status wfrun-1",
        "flo workflow status wfrun-1 --calls",
        "flo workflow status wfrun-1 --format json",
    ],
    aliases=["get"],
)
def status(settings: GlobalSettings, query: GetWorkflowRun, calls: bool) -> None:
    """Show how the run RUN is doing, for reading; with --format json, all there is."""
    with settings.connect() as flo:
        run = flo.call(query)
        made = _calls_of(flo.call, query) if calls else []
    value, text = run_value(run), status_text(run)
    if calls:
        value["calls"], text = made, f"{text}\n\n{_calls_text(run.run_id, made)}"
    show(settings.format, value, text=text, raw=run.status)


@operation_command(
    "history",
    GetHistory,
    "run_id",
    CALLS,
    *page_options(LIMIT_DEFAULT),
    examples=[
        "flo workflow history wfrun-1",
        "flo workflow history wfrun-1 --calls",
        "flo workflow history wfrun-1 --limit 10",
    ],
    help=summary_of(GetHistory, "List"),
)
def history(settings: GlobalSettings, query: GetHistory, calls: bool) -> None:
    with settings.connect() as flo:
        entries, cursor = collect(flo.call, query, query.limit)
        made = _calls_of(flo.call, query) if calls else []
    if calls and settings.format is Format.JSON:
        say(to_json({"history": entries, "calls": made, "cursor": cursor}))
        return
    is_text = settings.format is Format.TEXT
    if is_text:
        say(f"History for run: {query.run_id}")
    show_list(settings.format, entries, HISTORY_COLUMNS, none="no history", cursor=cursor)
    if calls and is_text:
        say(f"\n{_calls_text(query.run_id, made)}")


steps = list_command(
    "steps",
    GetSteps,
    "run_id",
    columns=CALL_COLUMNS,
    heading="Steps of run: {run_id}",
    none="no steps",
    examples=["flo workflow steps wfrun-1", "flo workflow steps wfrun-1 --format json"],
    aliases=["calls"],
)
