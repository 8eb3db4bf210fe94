"""flo pipeline settings, configure: what holds for all pipelines of a namespace."""

import click
import msgspec

from flo.cli.app.command import FloCommand
from flo.cli.app.derive import plain_command
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import aligned, show
from flo.model.pipelines.pipelines import (
    ConfigurePipelines,
    GetPipelineSettings,
    PipelineSettings,
)

OFF = ("off", "none")


def settings_text(held: PipelineSettings) -> str:
    types = ", ".join(f"{one}={most}" for one, most in held.max_type_concurrency.items())
    return aligned(
        {
            "Nodes at a time": held.max_global_running or "no limit",
            "Of a type": types or "no limit",
            "Stream of events": held.event_stream or "none",
        }
    )


settings = plain_command(
    "settings",
    GetPipelineSettings,
    text=settings_text,
    raw=lambda held: msgspec.json.encode(held),
    examples=["flo pipeline settings"],
)


@click.command(
    "configure",
    cls=FloCommand,
    examples=[
        "flo pipeline configure --max-running 100 --max-of-type indexer=4",
        "flo pipeline configure --event-stream pipeline-events",
        "flo pipeline configure --max-running off",
    ],
)
@click.option(
    "--max-running", metavar="N", help="The most nodes that run at a time; off: no limit."
)
@click.option(
    "--max-of-type",
    metavar="TYPE=N",
    multiple=True,
    help="The most nodes of a type that run at a time; TYPE=off: no limit.",
)
@click.option(
    "--event-stream", metavar="STREAM", help="A stream that gets every event; off: none does."
)
@pass_settings
def configure(
    settings: GlobalSettings,
    max_running: str | None,
    max_of_type: tuple[str, ...],
    event_stream: str | None,
) -> None:
    """Change what holds for all pipelines of the namespace; what is not named stays."""
    with settings.connect() as flo:
        held = flo.call(GetPipelineSettings())
        limits = {**held.max_type_concurrency, **dict(map(_limit, max_of_type))}
        running, stream = held.max_global_running, held.event_stream
        if max_running is not None:
            running = _number(max_running, "--max-running")
        if event_stream is not None:
            stream = None if event_stream in OFF else event_stream
        wanted = PipelineSettings(
            max_global_running=running,
            max_type_concurrency={one: most for one, most in limits.items() if most is not None},
            event_stream=stream,
        )
        flo.call(ConfigurePipelines(settings=wanted))
    show(settings.format, wanted, text=settings_text(wanted), raw=msgspec.json.encode(wanted))


def _limit(text: str) -> tuple[str, int | None]:
    name, is_there, number = text.rpartition("=")
    if not is_there or not name:
        raise click.UsageError(f"--max-of-type: expected TYPE=N, got {text!r}")
    return name, _number(number, "--max-of-type")


def _number(text: str, flag: str) -> int | None:
    if text in OFF:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise click.UsageError(f"{flag}: expected a number of 1 or more, or off, got {text!r}")
    return int(text)
