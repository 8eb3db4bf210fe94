"""The flags that say how a group is to work."""

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click
from click.core import ParameterSource

from flo.model.groups import (
    ACK_TIMEOUT_MS_DEFAULT,
    DELIVERIES_MAX_DEFAULT,
    SLOTS_DEFAULT,
    STANDBYS_MAX,
    GroupMode,
)

F = TypeVar("F", bound=Callable[..., Any])


class SettingFlags(TypedDict):
    """What the flags below say."""

    mode: str
    slots: int
    max_standbys: int
    ack_timeout_ms: int
    max_deliveries: int
    redelivery_delay_ms: int
    no_ack: bool


def setting_flags(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def says_any(flags: SettingFlags) -> bool:
    """Whether any of them was typed."""
    context = click.get_current_context()
    typed = ParameterSource.COMMANDLINE
    return any(context.get_parameter_source(name) is typed for name in flags)


def settings_of(flags: SettingFlags) -> dict[str, Any]:
    """The same as the client knows them, where durations are in seconds."""
    return {
        "mode": flags["mode"],
        "slots": flags["slots"],
        "max_standbys": flags["max_standbys"],
        "ack_timeout": flags["ack_timeout_ms"] / 1_000,
        "max_deliveries": flags["max_deliveries"],
        "redelivery_delay": flags["redelivery_delay_ms"] / 1_000,
        "no_ack": flags["no_ack"],
    }


_OPTIONS = (
    click.option(
        "-m",
        "--mode",
        type=click.Choice([mode.value for mode in GroupMode]),
        default=GroupMode.SHARED.value,
        show_default=True,
        help="How records are shared out: to whoever asks, to one consumer, or by their keys.",
    ),
    click.option(
        "-s",
        "--slots",
        type=int,
        metavar="N",
        default=SLOTS_DEFAULT,
        show_default=True,
        help="How many sets of keys are told apart in mode key_shared.",
    ),
    click.option(
        "--max-standbys",
        type=int,
        metavar="N",
        default=STANDBYS_MAX,
        show_default=True,
        help="How many consumers may stand by in mode exclusive.",
    ),
    click.option(
        "--ack-timeout",
        "ack_timeout_ms",
        type=int,
        metavar="MS",
        default=ACK_TIMEOUT_MS_DEFAULT,
        show_default=True,
        help="How long a record may take before it is handed out again, in milliseconds.",
    ),
    click.option(
        "--max-deliver",
        "--max-deliveries",
        "max_deliveries",
        type=int,
        metavar="N",
        default=DELIVERIES_MAX_DEFAULT,
        show_default=True,
        help="How often a record is handed out before it is a dead letter.",
    ),
    click.option(
        "--redeliver-delay",
        "redelivery_delay_ms",
        type=int,
        metavar="MS",
        default=0,
        show_default=True,
        help="How long a record rests before it is handed out again, in milliseconds.",
    ),
    click.option("--no-ack", is_flag=True, help="Records are settled when they are handed out."),
)
