"""flo action ..."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flo.cli.command import Group
from flo.cli.dlq import dlq
from flo.cli.options import Format, Settings, pass_settings
from flo.cli.output import (
    Columns,
    aligned,
    counts_text,
    lines,
    payload_text,
    show,
    show_list,
    table,
    time_text,
    to_json,
)
from flo.cli.pages import collect, page_options
from flo.cli.payload import read_labels, read_object, read_payload
from flo.cli.waiting import live_line
from flo.model.actions import (
    ENTRYPOINT_DEFAULT,
    MAX_RETRIES_DEFAULT,
    MEMORY_PAGES_DEFAULT,
    RETRY_DELAY_MS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    ActionLimits,
    ActionView,
    LimitsView,
)
from flo.model.errors import Unavailable
from flo.model.ids import RunId
from flo.model.runs import (
    OUTCOME_SUCCESS,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    RunPage,
    RunStatus,
    RunView,
)

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

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

STATUS_COLUMNS: Columns[RunView] = {
    "RUN ID": lambda run: run.run_id,
    "STATUS": lambda run: run.status,
    "CREATED": lambda run: time_text(run.created_at_ms),
}

RUN_COLUMNS: Columns[RunView] = {
    "RUN ID": lambda run: run.run_id,
    "ACTION": lambda run: run.action,
    "STATUS": lambda run: run.status,
    "CREATED": lambda run: time_text(run.created_at_ms),
    "STARTED": lambda run: time_text(run.started_at_ms),
    "COMPLETED": lambda run: time_text(run.finished_at_ms),
}


RATE_UNITS = {"s": "max_per_second", "m": "max_per_minute", "h": "max_per_hour"}


@click.group(
    cls=Group,
    examples=[
        "flo action register send-email --timeout 60000 --max-retries 3",
        'flo action invoke send-email \'{"to":"alice@example.com","subject":"Welcome!"}\'',
        "flo action status send-email-1",
    ],
)
def action() -> None:
    """Register actions, invoke them, see their runs."""


@action.command(
    "register",
    examples=[
        "flo action register send-email --timeout 60000 --max-retries 3",
        "flo action register send-email --namespace prod",
        "flo action register send-email --input-schema email.schema.json",
        "flo action register rules-engine --wasm ./rules_engine.wasm",
        "flo action register charge --concurrency 1 --concurrency-key '{input.customer_id}'",
        "flo action register call-api --rate 100/s --rate 5000/m",
    ],
)
@click.argument("name")
@click.option(
    "--timeout",
    "timeout_ms",
    type=int,
    metavar="MS",
    default=TIMEOUT_MS_DEFAULT,
    show_default=True,
    help="How long an attempt may take before its worker is given up; 0 for ever.",
)
@click.option(
    "-r",
    "--max-retries",
    "--retries",
    "max_retries",
    type=int,
    metavar="N",
    default=MAX_RETRIES_DEFAULT,
    show_default=True,
    help="How many attempts may follow the first.",
)
@click.option(
    "--retry-delay",
    "retry_delay_ms",
    type=int,
    metavar="MS",
    default=RETRY_DELAY_MS_DEFAULT,
    show_default=True,
    help="The delay before the first retry; it doubles with each.",
)
@click.option("--description", metavar="TEXT", default="", help="What it does, for people.")
@click.option(
    "--input-schema",
    metavar="FILE|JSON",
    help="A JSON Schema: inputs that do not fit are refused.",
)
@click.option(
    "--output-schema",
    metavar="FILE|JSON",
    help="A JSON Schema: results that do not fit are refused.",
)
@click.option(
    "--wasm",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A WebAssembly module: the server performs the action itself.",
)
@click.option(
    "--wasm-entrypoint",
    metavar="NAME",
    default=ENTRYPOINT_DEFAULT,
    show_default=True,
    help="The function of the module to call.",
)
@click.option(
    "--wasm-memory-limit",
    type=int,
    metavar="PAGES",
    default=MEMORY_PAGES_DEFAULT,
    show_default=True,
    help="The most memory it may have, in pages of 64 KB.",
)
@click.option(
    "--concurrency",
    "concurrency_max",
    type=int,
    metavar="N",
    help="So many runs at a time, over all workers.",
)
@click.option(
    "--concurrency-key",
    metavar="TEMPLATE",
    default="",
    help="Count them for each value of this: '{input.customer_id}'.",
)
@click.option(
    "--rate",
    metavar="N/s|N/m|N/h",
    multiple=True,
    help="So many runs may begin in a second, minute or hour; may be given for each.",
)
@pass_settings
def register(
    settings: Settings,
    name: str,
    timeout_ms: int,
    max_retries: int,
    retry_delay_ms: int,
    description: str,
    input_schema: str | None,
    output_schema: str | None,
    wasm: Path | None,
    wasm_entrypoint: str,
    wasm_memory_limit: int,
    concurrency_max: int | None,
    concurrency_key: str,
    rate: tuple[str, ...],
) -> None:
    """Register the action NAME, or replace its settings."""
    schema_in = read_object(input_schema, "--input-schema")
    schema_out = read_object(output_schema, "--output-schema")
    with settings.connect() as flo:
        registered = flo.actions.register(
            name,
            timeout_ms=timeout_ms,
            max_retries=max_retries,
            retry_delay_ms=retry_delay_ms,
            description=description,
            input_schema=schema_in,
            output_schema=schema_out,
            wasm=wasm.read_bytes() if wasm is not None else None,
            wasm_entrypoint=wasm_entrypoint,
            wasm_memory_limit=wasm_memory_limit,
            limits=_limits(concurrency_max, concurrency_key, rate),
        )
    show(settings.format, registered, text=f"Registered action: {name}", raw=name)


@action.command(
    "invoke",
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
    settings: Settings,
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


@action.command("status", examples=["flo action status send-email-1"])
@click.argument("run")
@pass_settings
def show_status(settings: Settings, run: RunId) -> None:
    """Show how the run RUN is doing."""
    with settings.connect() as flo:
        view = flo.actions.status(run)
    text = "\n".join(filter(None, [table(STATUS_COLUMNS, [view]), _details(view)]))
    show(settings.format, view, text=text, raw=view.status)


@action.command(
    "cancel",
    examples=[
        "flo action cancel render-video-1",
        "flo action cancel render-video-1 --reason 'the customer has left'",
    ],
)
@click.argument("run")
@click.option("-r", "--reason", metavar="TEXT", default="", help="Why, for people.")
@pass_settings
def cancel(settings: Settings, run: RunId, reason: str) -> None:
    """Cancel the run RUN, pending or running; the worker that has it is told at once."""
    with settings.connect() as flo:
        accepted = flo.actions.cancel(run, reason)
    show(settings.format, accepted, text=f"Cancelled run: {run}", raw=accepted.status)


@action.command(
    "list", aliases=["ls"], examples=["flo action list", "flo action list --format json"]
)
@page_options(limit_default=100)
@pass_settings
def list_actions(settings: Settings, limit: int, cursor: str | None) -> None:
    """List the registered actions."""
    with settings.connect() as flo:
        actions, cursor = collect(flo.actions.list, limit, cursor)
    show_list(settings.format, actions, ACTION_COLUMNS, none="no actions", cursor=cursor)


@action.command(
    "info", examples=["flo action info send-email", "flo action info send-email --format json"]
)
@click.argument("name")
@pass_settings
def info(settings: Settings, name: str) -> None:
    """Show the settings of the action NAME, its schemas, and how many runs it has."""
    with settings.connect() as flo:
        view = flo.actions.get(name)
    raw = "enabled" if view.enabled else "disabled"
    show(settings.format, view, text=_settings_text(view), raw=raw)


@action.command("enable", examples=["flo action enable send-email"])
@click.argument("name")
@pass_settings
def enable(settings: Settings, name: str) -> None:
    """Let the action NAME be invoked again."""
    with settings.connect() as flo:
        flo.actions.enable(name)
    value = {"name": name, "enabled": True}
    show(settings.format, value, text=f"Enabled action: {name}", raw=name)


@action.command("disable", examples=["flo action disable send-email"])
@click.argument("name")
@pass_settings
def disable(settings: Settings, name: str) -> None:
    """Refuse new runs of the action NAME; those that are there go on."""
    with settings.connect() as flo:
        flo.actions.disable(name)
    value = {"name": name, "enabled": False}
    show(settings.format, value, text=f"Disabled action: {name}", raw=name)


@action.command(
    "runs",
    aliases=["tasks"],
    examples=["flo action runs send-email", "flo action runs send-email --status failed"],
)
@click.argument("name")
@click.option(
    "-s",
    "--status",
    type=click.Choice([status.value for status in RunStatus]),
    help="Only runs in this status.",
)
@page_options(limit_default=50)
@pass_settings
def list_runs(
    settings: Settings, name: str, status: str | None, limit: int, cursor: str | None
) -> None:
    """List the runs of the action NAME, the newest first."""
    with settings.connect() as flo:

        def ask(limit: int, cursor: str | None) -> RunPage:
            return flo.actions.runs(name, status, limit, cursor)

        runs, cursor = collect(ask, limit, cursor)
    show_list(settings.format, runs, RUN_COLUMNS, none="no runs", cursor=cursor)


@action.command("delete", aliases=["rm"], examples=["flo action delete send-email"])
@click.argument("name")
@click.option("-f", "--force", is_flag=True, help="Accepted, but nothing is asked anyway.")
@pass_settings
def delete(settings: Settings, name: str, force: bool) -> None:
    """Delete the action NAME: its live runs go on to their end, new ones are refused."""
    with settings.connect() as flo:
        flo.actions.delete(name)
    show(settings.format, {"name": name}, text=f"Deleted action: {name}", raw=name)


action.add_command(dlq)


def _limits(
    concurrency_max: int | None, concurrency_key: str, rates: tuple[str, ...]
) -> ActionLimits | None:
    """The limits that the flags mean; None if there are none."""
    if concurrency_max is None and not rates:
        if concurrency_key:
            raise click.UsageError("--concurrency-key says what to count, and needs --concurrency")
        return None
    windows: dict[str, int] = {}
    for rate in rates:
        count, slash, unit = rate.partition("/")
        if not slash or unit not in RATE_UNITS or not count.isdecimal():
            raise click.UsageError(
                f"expected a rate such as 100/s, 5000/m or 50000/h, got {rate!r}"
            )
        if RATE_UNITS[unit] in windows:
            raise click.UsageError(f"--rate says twice how many may begin per {unit}")
        windows[RATE_UNITS[unit]] = int(count)
    return ActionLimits(concurrency_max=concurrency_max, concurrency_key=concurrency_key, **windows)


def _wait(
    settings: Settings,
    flo: "BlockingFlo",
    run_id: RunId,
    timeout_s: float | None,
    is_immediate: bool = False,
) -> None:
    """Show how the run has ended, once it has; one without a result is an error."""
    from flo.client.invocation import RunUnsuccessful

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


def _settings_text(action: ActionView) -> str:
    return aligned(
        {
            "Name": action.name,
            "Type": action.type,
            "Version": action.version,
            "Enabled": _yes_or_no(action.enabled),
            "Timeout": f"{action.timeout_ms} ms" if action.timeout_ms else "never",
            "Max Retries": action.max_retries,
            "Retry Delay": f"{action.retry_delay_ms} ms",
            "Limits": _limits_text(action.limits),
            "Description": action.description,
            "Created": time_text(action.created_at_ms),
            "Updated": time_text(action.updated_at_ms),
            "Runs": counts_text(action.runs),
            "Input Schema": action.input_schema and to_json(action.input_schema),
            "Output Schema": action.output_schema and to_json(action.output_schema),
        }
    )


def _limits_text(limits: LimitsView | None) -> str | None:
    if limits is None:
        return None
    said = [
        f"{count}/{unit}"
        for unit, window in RATE_UNITS.items()
        if (count := getattr(limits, window)) is not None
    ]
    if limits.concurrency_max is not None:
        each = f" for each {limits.concurrency_key}" if limits.concurrency_key else ""
        said.insert(0, f"{limits.concurrency_max} at a time{each}")
    return ", ".join(said)


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


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
