"""flo stream group ..."""

import sys
from typing import Unpack

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, aligned, show, show_list, time_text
from flo.cli.app.pages import collect, page_options
from flo.cli.group.dead_letters import letters, purge, requeue
from flo.cli.group.options import which_consumer, which_group
from flo.cli.group.records import ack, claim, nack, pending, read, touch
from flo.cli.group.settings import SettingFlags, setting_flags, settings_of
from flo.model.groups import ConsumerView, GroupPage, GroupView
from flo.model.ids import ConsumerName, GroupName, StreamName
from flo.model.streams import START, TAIL

GROUP_COLUMNS: Columns[GroupView] = {
    "GROUP": lambda group: group.name,
    "MODE": lambda group: group.settings.mode,
    "CONSUMERS": lambda group: len(group.consumers),
    "LAG": lambda group: group.lag,
    "PENDING": lambda group: group.pending,
    "WAITING": lambda group: group.waiting,
    "DEAD": lambda group: group.dead,
}


@click.group(
    "group",
    cls=CommandGroup,
    aliases=["cg"],
    examples=[
        "flo stream group create orders --group audit --mode exclusive",
        "flo stream group read orders --group billing --consumer worker-1",
        "flo stream group ack orders -g billing -c worker-1 --ids 1700000000000-1",
    ],
)
def group() -> None:
    """Share the records of a stream out to consumers.

    Each group sees every record. In it a record goes to one consumer, again and again until it is
    acked; what was handed out too often is a dead letter.
    """


@group.command(
    "create",
    examples=[
        "flo stream group create orders --group audit",
        "flo stream group create orders -g audit --mode key_shared --ack-timeout 30000",
        "flo stream group create orders -g audit --start '$'",
    ],
)
@which_group
@setting_flags
@click.option(
    "--start",
    metavar="ID",
    default=START,
    show_default=True,
    help=f"Its first record is the one after this id; '{TAIL}' is the end.",
)
@pass_settings
def create(
    settings: GlobalSettings,
    stream: StreamName,
    group: GroupName,
    start: str,
    **flags: Unpack[SettingFlags],
) -> None:
    """Create GROUP of STREAM. Whoever joins one that is not there creates it too."""
    with settings.connect() as flo:
        flo.streams.group(stream, group).create(start=start, **settings_of(flags))
    value = {"stream": stream, "group": group}
    show(settings.format, value, text=f"Created group: {group}", raw=group)


group.add_command(read)
group.add_command(ack)
group.add_command(nack)
group.add_command(touch)


@group.command("join", examples=["flo stream group join orders billing worker-2"])
@which_consumer
@pass_settings
def join(
    settings: GlobalSettings, stream: StreamName, group: GroupName, consumer: ConsumerName
) -> None:
    """Make CONSUMER a member of GROUP; a read does so too."""
    with settings.connect() as flo:
        flo.streams.group(stream, group).join(consumer)
    _show_consumer(settings, f"Joined group: {group}", stream, group, consumer)


@group.command("leave", examples=["flo stream group leave orders billing worker-1"])
@which_consumer
@pass_settings
def leave(
    settings: GlobalSettings, stream: StreamName, group: GroupName, consumer: ConsumerName
) -> None:
    """Let CONSUMER leave GROUP; the records that it has go to others at once."""
    with settings.connect() as flo:
        flo.streams.group(stream, group).leave(consumer)
    _show_consumer(settings, f"Left group: {group}", stream, group, consumer)


group.add_command(pending)
group.add_command(claim)


@group.command("info", examples=["flo stream group info orders --group billing"])
@which_group
@pass_settings
def info(settings: GlobalSettings, stream: StreamName, group: GroupName) -> None:
    """Show how far GROUP is, how it works, and who its consumers are."""
    with settings.connect() as flo:
        view = flo.streams.group(stream, group).info()
    show(settings.format, view, text=_details(view), raw=f"{view.lag}")


@group.command("list", aliases=["ls"], examples=["flo stream group list orders"])
@click.argument("stream")
@page_options(limit_default=100)
@pass_settings
def list_groups(
    settings: GlobalSettings, stream: StreamName, limit: int, cursor: str | None
) -> None:
    """List the groups of STREAM."""
    with settings.connect() as flo:

        def ask(limit: int, cursor: str | None) -> GroupPage:
            return flo.streams.groups(stream, limit, cursor)

        groups, cursor = collect(ask, limit, cursor)
    show_list(settings.format, groups, GROUP_COLUMNS, none="no groups", cursor=cursor)


@group.command(
    "delete",
    aliases=["rm"],
    examples=["flo stream group delete orders --group billing --force"],
)
@which_group
@click.option("-f", "--force", is_flag=True, help="Do not ask, even on a terminal.")
@pass_settings
def delete(settings: GlobalSettings, stream: StreamName, group: GroupName, force: bool) -> None:
    """Delete GROUP: how far it is, and its dead letters. On a terminal it asks first."""
    if not force and sys.stdin.isatty():
        click.confirm(f"Delete group {group!r} of {stream!r}?", abort=True, err=True)
    with settings.connect() as flo:
        flo.streams.group(stream, group).delete()
    value = {"stream": stream, "group": group}
    show(settings.format, value, text=f"Deleted group: {group}", raw=group)


group.add_command(letters)
group.add_command(requeue)
group.add_command(purge)


def _show_consumer(
    settings: GlobalSettings,
    text: str,
    stream: StreamName,
    group: GroupName,
    consumer: ConsumerName,
) -> None:
    value = {"stream": stream, "group": group, "consumer": consumer}
    show(settings.format, value, text=text, raw=consumer)


def _details(group: GroupView) -> str:
    settings = group.settings
    consumers = f"Consumers ({len(group.consumers)})"
    return aligned(
        {
            "Group": group.name,
            "Stream": group.stream,
            "Created": time_text(group.created_at_ms),
            "Mode": settings.mode,
            "Ack Timeout": "none" if settings.no_ack else f"{settings.ack_timeout_ms} ms",
            "Max Deliveries": settings.max_deliveries,
            "Redelivery Delay": f"{settings.redelivery_delay_ms} ms",
            "Lag": group.lag,
            "Pending": group.pending,
            "Waiting": group.waiting,
            "Dead": group.dead,
            consumers: "\n".join(map(_consumer_text, group.consumers)),
        }
    )


def _consumer_text(consumer: ConsumerView) -> str:
    chosen = ", takes everything" if consumer.is_chosen else ""
    joined = time_text(consumer.joined_at_ms)
    return f"{consumer.name} — pending: {consumer.pending}, joined: {joined}{chosen}"
