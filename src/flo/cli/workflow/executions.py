"""flo workflow start, signal, status, ...: the runs of workflows."""

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import Format, GlobalSettings, pass_settings
from flo.cli.app.output import Columns, lines, show, show_list, time_text, to_json
from flo.cli.app.pages import collect, page_options
from flo.cli.app.payload import read_payload
from flo.cli.app.printable import printable
from flo.cli.workflow.options import connected, read_since, version_flag
from flo.model.ids import RunId
from flo.model.payload import payload_to_json
from flo.model.workflows import (
    LATEST,
    Explanation,
    HistoryPage,
    HistoryView,
    StepView,
    WorkflowRunItem,
    WorkflowRunPage,
    WorkflowRunView,
    WorkflowStatus,
)

DETAIL_SHOWN_MAX = 60

HISTORY_COLUMNS: Columns[HistoryView] = {
    "TYPE": lambda entry: entry.type,
    "STEP": lambda entry: place_text(entry),
    "DETAIL": lambda entry: entry.detail[:DETAIL_SHOWN_MAX],
    "ATTEMPT": lambda entry: entry.attempt or None,
    "TIME": lambda entry: time_text(entry.at_ms),
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


@click.command(
    "start",
    cls=FloCommand,
    aliases=["run"],
    examples=[
        'flo workflow start process-order \'{"order_id": "ORD-123", "amount": 99.99}\'',
        "flo workflow start process-order @order.json --version 1.0.0",
        'flo workflow start process-order \'{"order_id":"ORD-123"}\' --idempotency-key order-123',
        "flo workflow start process-order --run-id order-123",
    ],
)
@click.argument("name")
@click.argument("input", required=False)
@version_flag("Which version of it.", LATEST)
@click.option(
    "-k", "--idempotency-key", metavar="KEY", help="The same key again is the same run again."
)
@click.option(
    "-r",
    "--run-id",
    metavar="ID",
    help="What the run is to be called; otherwise it is given a number.",
)
@pass_settings
def start(
    settings: GlobalSettings,
    name: str,
    input: str | None,
    version: str,
    idempotency_key: str | None,
    run_id: RunId | None,
) -> None:
    """Start a run of the workflow NAME.

    INPUT is usually JSON; `-` reads it from stdin, `@file` from a file. Without it, it is {}.
    """
    payload = None if input is None else read_payload(input)
    with connected(settings) as flo:
        run = flo.workflows.start(
            name, payload, version=version, idempotency_key=idempotency_key, run_id=run_id
        )
    value = {"run_id": run.run_id, "duplicate": run.duplicate}
    known = " (the same run: this key is known)" if run.duplicate else ""
    text = f"Started workflow run: {run.run_id}{known}"
    show(settings.format, value, text=text, raw=run.run_id)


@click.command(
    "signal",
    cls=FloCommand,
    examples=[
        'flo workflow signal wfrun-1 --type approval \'{"decision": "approved"}\'',
        "flo workflow signal wfrun-1 --type approval --payload @decision.json",
    ],
)
@click.argument("run")
@click.argument("payload", required=False)
@click.option("-t", "--type", required=True, metavar="TYPE", help="What the step waits for.")
@click.option(
    "-p", "--payload", "given", metavar="PAYLOAD", help="The payload, for those who like flags."
)
@pass_settings
def signal(
    settings: GlobalSettings, run: RunId, payload: str | None, type: str, given: str | None
) -> None:
    """Send a signal to the run RUN; it is kept until a step waits for its type.

    PAYLOAD is usually JSON; `-` reads it from stdin, `@file` from a file.
    """
    if payload is not None and given is not None:
        raise click.UsageError("give the payload once: as an argument, or with --payload")
    data = read_payload(given if payload is None else payload)
    with connected(settings) as flo:
        flo.workflows.signal(run, type, data)
    value = {"run_id": run, "type": type}
    show(settings.format, value, text=f"Signal {type!r} sent to workflow {run}", raw=run)


@click.command(
    "status",
    cls=FloCommand,
    aliases=["get"],
    examples=["flo workflow status wfrun-1", "flo workflow status wfrun-1 --format json"],
)
@click.argument("run")
@pass_settings
def status(settings: GlobalSettings, run: RunId) -> None:
    """Show how the run RUN is doing, as one line of JSON; with --format json, all there is."""
    with connected(settings) as flo:
        view = flo.workflows.status(run)
    show(settings.format, run_value(view), text=run_line(view), raw=view.status)


@click.command(
    "history",
    cls=FloCommand,
    examples=["flo workflow history wfrun-1", "flo workflow history wfrun-1 --limit 10"],
)
@click.argument("run")
@page_options(limit_default=100)
@pass_settings
def history(settings: GlobalSettings, run: RunId, limit: int, cursor: str | None) -> None:
    """Show what has happened in the run RUN, the oldest first."""
    with connected(settings) as flo:

        def ask(limit: int, cursor: str | None) -> HistoryPage:
            return flo.workflows.history(run, limit=limit, cursor=cursor)

        entries, cursor = collect(ask, limit, cursor)
    if settings.format is Format.TEXT:
        click.echo(f"History for run: {run}")
    show_list(settings.format, entries, HISTORY_COLUMNS, none="no history", cursor=cursor)


@click.command(
    "list-runs",
    cls=FloCommand,
    aliases=["runs"],
    examples=[
        "flo workflow list-runs",
        "flo workflow list-runs --workflow process-order --status waiting --since 7d",
        "flo workflow list-runs --where 'customer_id = \"42\" and order_amount > 100'",
    ],
)
@click.option("-w", "--workflow", metavar="NAME", help="Only runs of this workflow.")
@click.option(
    "-s",
    "--status",
    type=click.Choice([status.value for status in WorkflowStatus]),
    help="Only runs in this status.",
)
@click.option(
    "-q",
    "--where",
    "--search",
    "where",
    metavar="CONDITION",
    help="Only runs whose search attributes fulfil this.",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Only runs started since then: 2026-03-14T10:00 (UTC), or how long ago: 90m, 12h, 7d.",
)
@page_options(limit_default=100)
@pass_settings
def list_runs(
    settings: GlobalSettings,
    workflow: str | None,
    status: str | None,
    where: str | None,
    since: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List workflow runs, the newest first: those under way, and those that have ended."""
    context = read_since(since)
    with connected(settings) as flo:

        def ask(limit: int, cursor: str | None) -> WorkflowRunPage:
            return flo.workflows.runs(
                workflow=workflow,
                status=status,
                where=where,
                since=context,
                limit=limit,
                cursor=cursor,
            )

        runs, cursor = collect(ask, limit, cursor)
    show_list(settings.format, runs, RUN_COLUMNS, none="no runs", cursor=cursor)


@click.command(
    "cancel",
    cls=FloCommand,
    examples=[
        "flo workflow cancel wfrun-1",
        "flo workflow cancel wfrun-1 --reason 'the customer has left'",
    ],
)
@click.argument("run")
@click.option("-r", "--reason", metavar="TEXT", default="", help="Why, for people.")
@pass_settings
def cancel(settings: GlobalSettings, run: RunId, reason: str) -> None:
    """Cancel the run RUN, its actions and its children; what it has done is undone."""
    with connected(settings) as flo:
        flo.workflows.cancel(run, reason)
    value = {"run_id": run, "reason": reason}
    show(settings.format, value, text=f"Workflow {run} cancelled", raw=run)


@click.command("pause", cls=FloCommand, examples=["flo workflow pause wfrun-1"])
@click.argument("run")
@pass_settings
def pause(settings: GlobalSettings, run: RunId) -> None:
    """Pause the run RUN: what is under way comes to its end, nothing new begins."""
    with connected(settings) as flo:
        flo.workflows.pause(run)
    value = {"run_id": run, "paused": True}
    show(settings.format, value, text=f"Workflow {run} paused", raw=run)


@click.command("resume", cls=FloCommand, examples=["flo workflow resume wfrun-1"])
@click.argument("run")
@pass_settings
def resume(settings: GlobalSettings, run: RunId) -> None:
    """Let the run RUN go on."""
    with connected(settings) as flo:
        flo.workflows.resume(run)
    value = {"run_id": run, "paused": False}
    show(settings.format, value, text=f"Workflow {run} resumed", raw=run)


@click.command(
    "rerun",
    cls=FloCommand,
    examples=[
        "flo workflow rerun wfrun-1",
        "flo workflow rerun wfrun-1 --from charge --input '{\"amount\": 50}'",
        "flo workflow rerun wfrun-1 --from charge --version 1.0.0",
    ],
)
@click.argument("run")
@click.option("--from", "step", metavar="STEP", help="Begin at this step; otherwise at the start.")
@click.option("--input", metavar="INPUT", help="Another input; otherwise the same again.")
@version_flag("Another version; otherwise the same again.")
@pass_settings
def rerun(
    settings: GlobalSettings, run: RunId, step: str | None, input: str | None, version: str | None
) -> None:
    """Start a new run that repeats the run RUN from a step on.

    What the steps before have given is taken over. INPUT may be `-` for stdin, or `@file`.
    """
    payload = None if input is None else read_payload(input)
    with connected(settings) as flo:
        again = flo.workflows.rerun(run, step=step, input=payload, version=version)
    value = {"run_id": again.run_id, "origin": run}
    text = f"Started workflow run: {again.run_id} (repeats {run})"
    show(settings.format, value, text=text, raw=again.run_id)


@click.command("explain", cls=FloCommand, examples=["flo workflow explain wfrun-1"])
@click.argument("run")
@pass_settings
def explain(settings: GlobalSettings, run: RunId) -> None:
    """Tell why the run RUN is where it is, and what would move it."""
    with connected(settings) as flo:
        explanation = flo.workflows.explain(run)
    text = _explanation_text(explanation)
    show(settings.format, explanation, text=text, raw=explanation.summary)


RUN_COMMANDS = (
    start,
    signal,
    status,
    history,
    list_runs,
    explain,
    cancel,
    pause,
    resume,
    rerun,
)


def place_text(entry: HistoryView) -> str:
    """The step, and the branch or item in which it is."""
    return f"{entry.step or ''}{f' ({entry.branch})' if entry.branch else ''}".strip()


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
        "at_ms": step.at_ms,
    }


def _explanation_text(explanation: Explanation) -> str:
    others = [reason for reason in explanation.reasons if reason != explanation.summary]
    told = [f"{explanation.run_id} is {explanation.status}. {explanation.summary}"]
    told += [f"  - {reason}" for reason in others]
    if next_at := time_text(explanation.next_at_ms):
        told.append(lines({"Next": next_at}))
    told += [f"Try: {command}" for command in explanation.advice]
    return printable("\n".join(told))
