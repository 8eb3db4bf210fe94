"""flo action register: an action with its settings, its schemas, its module and its limits."""

from pathlib import Path

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import show
from flo.cli.app.payload import read_object
from flo.model.actions import (
    ENTRYPOINT_DEFAULT,
    MAX_RETRIES_DEFAULT,
    MEMORY_PAGES_DEFAULT,
    RETRY_DELAY_MS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    ActionLimits,
)

RATE_UNITS = {"s": "max_per_second", "m": "max_per_minute", "h": "max_per_hour"}


@click.command(
    "register",
    cls=FloCommand,
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
    settings: GlobalSettings,
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
