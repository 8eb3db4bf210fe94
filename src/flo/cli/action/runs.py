"""flo action invoke, status, cancel: single runs of actions."""

from typing import TYPE_CHECKING

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import Format, GlobalSettings, pass_settings
from flo.cli.app.output import Columns, lines, payload_text, show, table, time_text
from flo.cli.app.payload import read_labels, read_payload
from flo.cli.app.waiting import live_line
from flo.model.errors import Unavailable
from flo.model.ids import RunId
from flo.model.runs import OUTCOME_SUCCESS, PRIORITY_DEFAULT, PRIORITY_MAX, RunStatus, RunView

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

STATUS_COLUMNS: Columns[RunView] = {
    "RUN ID": lambda run: run.run_id,
    "STATUS": lambda run: run.status,
    "CREATED": lambda run: time_text(run.created_at_ms),
}


@click.command(
    "invoke",
    cls=FloCommand,
    aliases=["call"],
    examples=[
        'flo action invoke send-email \'{"to":"alice@example.com","subject":"Welcome!"}\'',
        "flo action invoke send-email @email.json --wait --timeout 60",
        'flo action invoke render-video \'{"url":"..."}\' --labels \'{"gpu":true,"vram_gb":24}\'',
        'flo action invoke charge-payment \'{"order":"ORD-123"}\''
        " --idempotency-key order-123-charge",
    ],
)
@click.argument("name")
@click.argument("input", required=False)
@click.option(
    "-p",
    "--priority",
    type=int,
    metavar="N",
    default=PRIORITY_DEFAULT,
    show_default=True,
    help=f"0 to {PRIORITY_MAX}; the higher, the earlier.",
)
@click.option(
    "--delay",
    "delay_ms",
    type=int,
    metavar="MS",
    default=0,
    help="Not to be run before this has passed.",
)
@click.option(
    "-k", "--idempotency-key", metavar="KEY", help="The same key again is the same run again."
)
@click.option(
    "-l",
    "--labels",
    metavar="JSON",
    help="What its worker must have, as a flat JSON object.",
)
@click.option(
    "-w/-a",
    "--wait/--async",
    default=None,
    help="Wait until the run has ended; for WebAssembly actions that is the default.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to wait; the run goes on.",
)
@pass_settings
def invoke(
    settings: GlobalSettings,
    name: str,
    input: str | None,
    priority: int,
    delay_ms: int,
    idempotency_key: str | None,
    labels: str | None,
    wait: bool | None,
    timeout_s: float | None,
) -> None:
    """Queue a run of the action NAME.

    INPUT is any text, usually JSON; `-` reads it from stdin, `@file` from a file.
    """
    if timeout_s is not None and not wait:
        raise click.UsageError("--timeout says how long to wait, and so needs --wait")
    payload, required = read_payload(input), read_labels(labels)
    with settings.connect() as flo:
        invocation = flo.actions.invoke(
            name,
            payload,
            priority=priority,
            delay_ms=delay_ms,
            idempotency_key=idempotency_key,
            labels=required,
        )
        run_id = invocation.run_id
        is_immediate = invocation.inline and wait is None and not delay_ms
        if wait or is_immediate:
            _wait(settings, flo, run_id, timeout_s, is_immediate)
        else:
            value = {"run_id": run_id, "duplicate": invocation.duplicate}
            show(settings.format, value, text=f"Result: {run_id}", raw=run_id)


@click.command("status", cls=FloCommand, examples=["flo action status send-email-1"])
@click.argument("run")
@pass_settings
def show_status(settings: GlobalSettings, run: RunId) -> None:
    """Show how the run RUN is doing."""
    with settings.connect() as flo:
        view = flo.actions.status(run)
    text = "\n".join(filter(None, [table(STATUS_COLUMNS, [view]), _details(view)]))
    show(settings.format, view, text=text, raw=view.status)


@click.command(
    "cancel",
    cls=FloCommand,
    examples=[
        "flo action cancel render-video-1",
        "flo action cancel render-video-1 --reason 'the customer has left'",
    ],
)
@click.argument("run")
@click.option("-r", "--reason", metavar="TEXT", default="", help="Why, for people.")
@pass_settings
def cancel(settings: GlobalSettings, run: RunId, reason: str) -> None:
    """Cancel the run RUN, pending or running; the worker that has it is told at once."""
    with settings.connect() as flo:
        accepted = flo.actions.cancel(run, reason)
    show(settings.format, accepted, text=f"Cancelled run: {run}", raw=accepted.status)


def _wait(
    settings: GlobalSettings,
    flo: "BlockingFlo",
    run_id: RunId,
    timeout_s: float | None,
    is_immediate: bool = False,
) -> None:
    """Show how the run has ended, once it has; one without a result is an error."""
    from flo.client.handles.invocation import RunUnsuccessful

    if settings.format is Format.TEXT and not is_immediate:
        click.echo(f"Result: {run_id}")
    try:
        with live_line(flo, run_id):
            result = flo.actions.wait(run_id, timeout_s)
    except Unavailable as error:
        error.add_note(f"The run goes on. See how it is doing with: flo action status {run_id}")
        raise
    outcome = None if result.outcome == OUTCOME_SUCCESS else result.outcome
    first = f"{run_id} ({result.status} immediately)" if is_immediate else None
    text = lines({"Result": first, "Outcome": outcome, "Output": payload_text(result.output)})
    show(settings.format, result, text=text, raw=result.output or b"")
    if result.status is not RunStatus.COMPLETED:
        unsuccessful = RunUnsuccessful(result)
        unsuccessful.add_note(f"See its attempts with: flo action status {run_id}")
        raise unsuccessful


def _details(run: RunView) -> str:
    """What there is to tell of a run that its table leaves out."""
    is_running = run.status is RunStatus.RUNNING
    is_delayed = run.status is RunStatus.PENDING and run.ready_at_ms > run.created_at_ms
    details: dict[str, object] = {
        "ready": time_text(run.ready_at_ms) if is_delayed else None,
        "attempt": run.attempt or None,
        "worker": run.worker_id,
        "started": time_text(run.started_at_ms),
        "lease until": time_text(run.lease_expires_at_ms) if is_running else None,
        "finished": time_text(run.finished_at_ms),
        "outcome": run.outcome,
        "output": payload_text(run.output),
        "error": run.error,
        "dead-lettered": "yes" if run.dead_lettered else None,
    }
    for attempt in run.attempts:
        ended = f"{time_text(attempt.ended_at_ms)} on {attempt.worker_id}"
        details[f"attempt {attempt.number}"] = f"ended {ended}: {attempt.error}"
    return lines(details)
