"""flo action invoke: a run of an action, and its result for those who wait."""

from typing import TYPE_CHECKING

import click

from flo.cli.app.derive import operation_command
from flo.cli.app.options import Format, GlobalSettings
from flo.cli.app.output import lines, payload_text, show
from flo.cli.app.parameters import Argument, Flag
from flo.cli.app.payload import JSON_UNLESS_RAW, raw_flag
from flo.cli.app.say import say
from flo.cli.app.waiting import status_line
from flo.model.errors import Unavailable
from flo.model.ids import RunId
from flo.model.runs import OUTCOME_SUCCESS, Invoke, RunStatus

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo


@operation_command(
    "invoke",
    Invoke,
    Argument("action", "NAME"),
    Argument("input", type=JSON_UNLESS_RAW),
    raw_flag(),
    "priority",
    "delay_ms",
    Flag("idempotency_key", "-k", metavar="KEY"),
    Flag("labels", "-l"),
    "subject",
    click.Option(
        ["-w/-a", "--wait/--async"],
        default=None,
        help="Wait until the run has ended; for WebAssembly actions that is the default.",
    ),
    click.Option(
        ["--timeout", "timeout_s"],
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help="How long to wait; the run goes on.",
    ),
    aliases=["call"],
    examples=[
        'flo action invoke send-email \'{"to":"alice@example.com","subject":"Welcome!"}\'',
        "flo action invoke send-email @email.json --wait --timeout 60",
        'flo action invoke render-video \'{"url":"..."}\' --labels \'{"gpu":true,"vram_gb":24}\'',
        'flo action invoke charge-payment \'{"order":"ORD-123"}\''
        " --idempotency-key order-123-charge",
    ],
)
def invoke(
    settings: GlobalSettings, command: Invoke, wait: bool | None, timeout_s: float | None
) -> None:
    """Queue a run of the action NAME.

    INPUT is JSON, or anything with --raw; `-` reads it from stdin, `@file` from a file.
    """
    if timeout_s is not None and not wait:
        raise click.UsageError("--timeout says how long to wait, and so needs --wait")
    with settings.connect() as flo:
        invoked = flo.call(command)
        run_id = invoked.run_id
        is_immediate = invoked.inline and wait is None and not command.delay_ms
        if wait or is_immediate:
            _wait(settings, flo, run_id, timeout_s, is_immediate)
        else:
            value = {"run_id": run_id, "duplicate": invoked.duplicate}
            show(settings.format, value, text=f"Result: {run_id}", raw=run_id)


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
        say(f"Result: {run_id}")
    try:
        with status_line(flo, run_id):
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
