"""flo action ...: actions and their lists. The commands about one run are in action_runs.py."""

import click

from flo.cli.action.dlq import dlq
from flo.cli.action.register import RATE_UNITS, register
from flo.cli.action.runs import cancel, invoke, show_status
from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, aligned, counts_text, show, show_list, time_text, to_json
from flo.cli.app.pages import collect, page_options
from flo.model.actions import ActionView, LimitsView
from flo.model.runs import RunPage, RunStatus, RunView

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


for command in (register, invoke, show_status, cancel):
    action.add_command(command)


@action.command(
    "list", aliases=["ls"], examples=["flo action list", "flo action list --format json"]
)
@page_options(limit_default=100)
@pass_settings
def list_actions(settings: GlobalSettings, limit: int, cursor: str | None) -> None:
    """List the registered actions."""
    with settings.connect() as flo:
        actions, cursor = collect(flo.actions.list, limit, cursor)
    show_list(settings.format, actions, ACTION_COLUMNS, none="no actions", cursor=cursor)


@action.command(
    "info", examples=["flo action info send-email", "flo action info send-email --format json"]
)
@click.argument("name")
@pass_settings
def info(settings: GlobalSettings, name: str) -> None:
    """Show the settings of the action NAME, its schemas, and how many runs it has."""
    with settings.connect() as flo:
        view = flo.actions.get(name)
    raw = "enabled" if view.enabled else "disabled"
    show(settings.format, view, text=_settings_text(view), raw=raw)


@action.command("enable", examples=["flo action enable send-email"])
@click.argument("name")
@pass_settings
def enable(settings: GlobalSettings, name: str) -> None:
    """Let the action NAME be invoked again."""
    with settings.connect() as flo:
        flo.actions.enable(name)
    value = {"name": name, "enabled": True}
    show(settings.format, value, text=f"Enabled action: {name}", raw=name)


@action.command("disable", examples=["flo action disable send-email"])
@click.argument("name")
@pass_settings
def disable(settings: GlobalSettings, name: str) -> None:
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
    settings: GlobalSettings, name: str, status: str | None, limit: int, cursor: str | None
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
def delete(settings: GlobalSettings, name: str, force: bool) -> None:
    """Delete the action NAME: its live runs go on to their end, new ones are refused."""
    with settings.connect() as flo:
        flo.actions.delete(name)
    show(settings.format, {"name": name}, text=f"Deleted action: {name}", raw=name)


action.add_command(dlq)


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
            "Concurrency": _concurrency_text(action.limits),
            "Rate": _rate_text(action.limits),
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
