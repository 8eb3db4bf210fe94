"""flo action register: an action with its settings, its schemas, its module and its limits."""

from pathlib import Path

import click
import msgspec

from flo.cli.app.derive import operation_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import show
from flo.cli.app.parameters import Flag, number_type, parameters_of
from flo.model.actions import ActionLimits, RegisterAction

RATE_UNITS = {"s": "max_per_second", "m": "max_per_minute", "h": "max_per_hour"}
RATE = click.Option(
    ["--rate"],
    metavar="N/s|N/m|N/h",
    multiple=True,
    help="So many runs may begin in a second, minute or hour; may be given for each.",
)


@operation_command(
    "register",
    RegisterAction,
    "name",
    "timeout_ms",
    Flag("max_retries", "-r", "--max-retries", "--retries"),
    "retry_delay_ms",
    "description",
    "input_schema",
    "output_schema",
    click.Option(
        ["--wasm"],
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A WebAssembly module: the server performs the action itself.",
    ),
    Flag("wasm_entrypoint", metavar="NAME"),
    Flag("wasm_memory_limit", metavar="PAGES"),
    *parameters_of(ActionLimits, Flag("concurrency_max", "--concurrency")),
    *parameters_of(ActionLimits, Flag("concurrency_key", metavar="TEMPLATE")),
    RATE,
    click.Option(
        ["--secret", "secret_names"],
        metavar="NAME",
        multiple=True,
        help="A secret whose value its workers are given; may be given more than once.",
    ),
    examples=[
        "flo action register send-email --timeout 60000 --max-retries 3",
        "flo action register send-email --namespace prod",
        "flo action register send-email --input-schema email.schema.json",
        "flo action register rules-engine --wasm ./rules_engine.wasm",
        "flo action register charge --concurrency 1 --concurrency-key '{input.customer_id}'",
        "flo action register call-api --rate 100/s --rate 5000/m",
        "flo action register charge --secret STRIPE_KEY",
    ],
)
def register(
    settings: GlobalSettings,
    command: RegisterAction,
    wasm: Path | None,
    concurrency_max: int | None,
    concurrency_key: str,
    rate: tuple[str, ...],
    secret_names: tuple[str, ...],
) -> None:
    """Register the action NAME, or replace its settings."""
    command = msgspec.structs.replace(
        command,
        wasm_module=wasm.read_bytes() if wasm is not None else None,
        limits=_limits(concurrency_max, concurrency_key, rate),
        secrets=list(secret_names),
    )
    registered = settings.call(command)
    show(settings.format, registered, text=f"Registered action: {command.name}", raw=command.name)


def _rate_type(unit: str) -> click.ParamType[int]:
    return number_type(ActionLimits, RATE_UNITS[unit])


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
        windows[RATE_UNITS[unit]] = _rate_type(unit).convert(count, RATE, None)
    return ActionLimits(concurrency_max=concurrency_max, concurrency_key=concurrency_key, **windows)
