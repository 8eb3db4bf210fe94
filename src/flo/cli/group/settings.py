"""The flags that say how a group is to work: one for each of its settings."""

from typing import Any

import click
from click.core import ParameterSource

from flo.cli.app.parameters import Flag, build, parameters_of
from flo.model.groups import GroupSettings

SETTING_FLAGS = tuple(
    parameter
    for flag in (
        Flag("mode", "-m"),
        Flag("slots", "-s"),
        Flag("max_standbys"),
        Flag("ack_timeout_ms"),
        Flag("max_deliveries", "--max-deliver", "--max-deliveries"),
        Flag("redelivery_delay_ms", "--redeliver-delay"),
        Flag("no_ack"),
    )
    for parameter in parameters_of(GroupSettings, flag)
)


def settings_of(flags: dict[str, Any]) -> GroupSettings:
    return build(GroupSettings, flags)


def says_any(flags: dict[str, Any]) -> bool:
    """Whether any of them was typed."""
    context = click.get_current_context()
    typed = ParameterSource.COMMANDLINE
    return any(context.get_parameter_source(name) is typed for name in flags)
