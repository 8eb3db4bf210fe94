"""flo action ...: actions, and the lists of their runs."""

import click

from flo.cli.action.dlq import dlq
from flo.cli.action.invoke import invoke
from flo.cli.action.register import RATE_UNITS, register
from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import NOTHING_IS_ASKED, list_command, plain_command
from flo.cli.app.explanation import explanation_text
from flo.cli.app.output import (
    Columns,
    aligned,
    counts_text,
    enabled_text,
    lines,
    payload_text,
    table,
    time_text,
    to_json,
)
from flo.cli.app.parameters import Argument, Flag
from flo.model.actions import (
    ActionView,
    DeleteAction,
    DisableAction,
    EnableAction,
    GetAction,
    LimitsView,
    ListActions,
)
from flo.model.errors import FAILURE_CODE
from flo.model.runs import (
    Cancel,
    ExplainRun,
    GetRun,
    ListRuns,
    RunStatus,
    RunView,
)
from flo.model.views.attempts import LateReportView
from flo.model.views.causes import CauseKind, CauseView

DESCRIPTION_SHOWN_MAX = 60

ACTION_COLUMNS: Columns[ActionView] = {
    "NAME": lambda action: action.name,
    "VERSION": lambda action: action.version,
    "ENABLED": lambda action: _yes_or_no(action.enabled),
    "TIMEOUT MS": lambda action: action.timeout_ms,
    "RETRIES": lambda action: action.max_retries,
    "PENDING": lambda action: action.runs[RunStatus.PENDING],
    "RUNNING": lambda action: action.runs[RunStatus.RUNNING],
    "DESCRIPTION": lambda action: action.description[:DESCRIPTION_SHOWN_MAX],
}

RUN_COLUMNS: Columns[RunView] = {
    "RUN ID": lambda run: run.run_id,
    "ACTION": lambda run: run.action,
    "STATUS": lambda run: run.status,
    "CREATED": lambda run: time_text(run.created_at_ms),
    "STARTED": lambda run: time_text(run.started_at_ms),
    "COMPLETED": lambda run: time_text(run.finished_at_ms),
}

STATUS_COLUMNS: Columns[RunView] = {
    "RUN ID": lambda run: run.run_id,
    "STATUS": lambda run: run.status,
    "CREATED": lambda run: time_text(run.created_at_ms),
}


@click.group(
    cls=CommandGroup,
    examples=[
        "flo action register send-email --timeout 60000 --max-retries 3",
        'flo action invoke send-email \'{"to":"alice@example.com","subject":"Welcome!"}\'',
        "flo action status send-email-1",
    ],
)
def action() -> None:
    """Register actions, invoke them, see their runs."""


def _run_text(run: RunView) -> str:
    return "\n".join(filter(None, [table(STATUS_COLUMNS, [run]), _run_details(run)]))


def _run_details(run: RunView) -> str:
    """What the table of a run leaves out."""
    is_running = run.status is RunStatus.RUNNING
    is_begun = run.attempt > 0 or run.finished_at_ms is not None
    is_delayed = run.status is RunStatus.PENDING and run.ready_at_ms > run.created_at_ms
    details: dict[str, object] = {
        "cause": _cause_text(run.cause),
        "invoked by": run.by if is_begun else None,
        "subject": run.subject,
        "ready": time_text(run.ready_at_ms) if is_delayed else None,
        "attempt": run.attempt or None,
        "worker": run.worker_id,
        "started": time_text(run.started_at_ms),
        "lease until": time_text(run.lease_expires_at_ms) if is_running else None,
        "finished": time_text(run.finished_at_ms),
        "cancelled by": run.cancelled_by,
        "took": _spent_text(run.took_ms, run.held_ms),
        "outcome": run.outcome,
        "output": payload_text(run.output),
        "error": run.error,
        "error code": run.error_code if run.error_code != FAILURE_CODE else None,
        "retryable": "no" if run.retryable is False else None,
        "dead-lettered": "yes" if run.dead_lettered else None,
    }
    for attempt in run.attempts:
        ended = f"{time_text(attempt.ended_at_ms)} on {attempt.worker_id}"
        spent = _spent_text(attempt.took_ms, attempt.held_ms)
        took = f" after {spent}" if spent else ""
        details[f"attempt {attempt.number}"] = (
            f"ended {ended}{took} ({attempt.end}): {attempt.error}"
        )
        if attempt.late_report is not None:
            details[f"attempt {attempt.number} late"] = _late_text(attempt.late_report)
    return lines(details)


def _spent_text(took_ms: int | None, held_ms: int | None) -> str | None:
    """How long an attempt took, as its worker measured; a wait of nothing is not shown."""
    if took_ms is None:
        return None
    held = f" (held {held_ms} ms before)" if held_ms else ""
    return f"{took_ms} ms{held}"


def _cause_text(cause: CauseView) -> str | None:
    """The step that the run was queued for; nothing of a run that somebody has invoked."""
    if cause.kind is CauseKind.CALLER:
        return None
    where = f" in {cause.branch}" if cause.branch else ""
    nth = f"visit {cause.visit}, attempt {cause.attempt}"
    return f"step {cause.step}{where} of {cause.workflow_run_id}, {nth}"


def _late_text(late: LateReportView) -> str:
    """What a worker said of an attempt when it was no longer its own."""
    digest = f"sha256 {late.output_digest}" if late.output_digest else None
    said = late.error or payload_text(late.output) or digest
    what = f"{late.outcome}: {said}" if said else late.outcome
    return f"reported {time_text(late.reported_at_ms)} by {late.worker_id}, too late: {what}"


def _settings_text(action: ActionView) -> str:
    return aligned(
        {
            "Name": action.name,
            "Type": action.type,
            "Version": action.version,
            "Enabled": enabled_text(action),
            "Timeout": f"{action.timeout_ms} ms" if action.timeout_ms else "never",
            "Max Retries": action.max_retries,
            "Retry Delay": f"{action.retry_delay_ms} ms",
            "Concurrency": _concurrency_text(action.limits),
            "Rate": _rate_text(action.limits),
            "Secrets": ", ".join(action.secrets) or None,
            "Description": action.description,
            "Created": time_text(action.created_at_ms),
            "Updated": time_text(action.updated_at_ms),
            "Runs": counts_text(action.runs),
            "Input Schema": action.input_schema and to_json(action.input_schema),
            "Output Schema": action.output_schema and to_json(action.output_schema),
        }
    )


def _concurrency_text(limits: LimitsView | None) -> str | None:
    if limits is None or limits.concurrency_max is None:
        return None
    key = limits.concurrency_key
    return f"{limits.concurrency_max}{f' for each {key}' if key else ''}"


def _rate_text(limits: LimitsView | None) -> str:
    """As it is given to --rate."""
    windows = {unit: getattr(limits, window, None) for unit, window in RATE_UNITS.items()}
    return ", ".join(f"{count}/{unit}" for unit, count in windows.items() if count is not None)


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


action.add(
    register,
    invoke,
    plain_command(
        "status",
        GetRun,
        "run_id",
        text=_run_text,
        raw="{reply.status}",
        examples=["flo action status send-email-1"],
    ),
    plain_command(
        "explain",
        ExplainRun,
        "run_id",
        text=explanation_text,
        raw="{reply.summary}",
        examples=[
            "flo action explain send-email-1",
            "flo action explain send-email-1 --format json",
        ],
    ),
    plain_command(
        "cancel",
        Cancel,
        "run_id",
        Flag("reason", "-r"),
        text="Cancelled run: {run_id}",
        raw="{reply.status}",
        examples=[
            "flo action cancel render-video-1",
            "flo action cancel render-video-1 --reason 'the customer has left'",
        ],
    ),
    list_command(
        "list",
        ListActions,
        columns=ACTION_COLUMNS,
        none="no actions",
        examples=["flo action list", "flo action list --format json"],
    ),
    plain_command(
        "info",
        GetAction,
        "name",
        text=_settings_text,
        raw=lambda view: "enabled" if view.enabled else "disabled",
        examples=["flo action info send-email", "flo action info send-email --format json"],
    ),
    plain_command(
        "enable",
        EnableAction,
        "name",
        text="Enabled action: {name}",
        also={"enabled": True},
        examples=["flo action enable send-email"],
    ),
    plain_command(
        "disable",
        DisableAction,
        "name",
        text="Disabled action: {name}",
        also={"enabled": False},
        examples=["flo action disable send-email"],
    ),
    list_command(
        "runs",
        ListRuns,
        Argument("action", "NAME"),
        Flag("status", "-s"),
        "subject",
        columns=RUN_COLUMNS,
        none="no runs",
        limit=50,
        examples=[
            "flo action runs send-email",
            "flo action runs send-email --status failed",
            "flo action runs --status failed",
            "flo action runs --subject customer-7",
        ],
        aliases=["tasks"],
    ),
    plain_command(
        "delete",
        DeleteAction,
        "name",
        NOTHING_IS_ASKED,
        text="Deleted action: {name}",
        examples=["flo action delete send-email"],
        aliases=["rm"],
    ),
    dlq,
)
