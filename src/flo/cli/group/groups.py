"""flo stream group ..."""

from typing import Any

import click
import msgspec

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import list_command, operation_command, plain_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import Columns, aligned, show, time_text
from flo.cli.app.parameters import Flag
from flo.cli.group.dead_letters import dead_letters, purge, requeue
from flo.cli.group.options import CONSUMER, GROUP
from flo.cli.group.records import ack, claim, nack, read, touch
from flo.cli.group.settings import SETTING_FLAGS, settings_of
from flo.model.groups import (
    ConsumerView,
    CreateGroup,
    DeleteGroup,
    GetGroup,
    GroupView,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    ListPending,
    PendingView,
)

GROUP_COLUMNS: Columns[GroupView] = {
    "GROUP": lambda group: group.name,
    "MODE": lambda group: group.settings.mode,
    "CONSUMERS": lambda group: len(group.consumers),
    "LAG": lambda group: group.lag,
    "PENDING": lambda group: group.pending,
    "WAITING": lambda group: group.waiting,
    "DEAD": lambda group: group.dead,
}

PENDING_COLUMNS: Columns[PendingView] = {
    "ID": lambda one: one.stream_id,
    "CONSUMER": lambda one: one.consumer,
    "DELIVERIES": lambda one: one.deliveries,
    "DELIVERED": lambda one: time_text(one.delivered_at_ms),
    "UNTIL": lambda one: time_text(one.until_ms),
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


@operation_command(
    "create",
    CreateGroup,
    *GROUP,
    *SETTING_FLAGS,
    Flag("start", metavar="ID"),
    examples=[
        "flo stream group create orders --group audit",
        "flo stream group create orders -g audit --mode key_shared --ack-timeout 30000",
        "flo stream group create orders -g audit --start '$'",
    ],
)
def create(settings: GlobalSettings, command: CreateGroup, /, **flags: Any) -> None:
    """Create GROUP of STREAM. Whoever joins one that is not there creates it too."""
    settings.call(msgspec.structs.replace(command, settings=settings_of(flags)))
    value = {"stream": command.stream, "group": command.group}
    show(settings.format, value, text=f"Created group: {command.group}", raw=command.group)


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


group.add(
    create,
    read,
    ack,
    nack,
    touch,
    plain_command(
        "join",
        JoinGroup,
        *CONSUMER,
        text="Joined group: {group}",
        raw="{consumer}",
        json=["stream", "group", "consumer"],
        examples=["flo stream group join orders billing worker-2"],
    ),
    plain_command(
        "leave",
        LeaveGroup,
        *CONSUMER,
        text="Left group: {group}",
        raw="{consumer}",
        examples=["flo stream group leave orders billing worker-1"],
    ),
    list_command(
        "pending",
        ListPending,
        *GROUP,
        Flag("consumer", "-c", metavar="NAME"),
        columns=PENDING_COLUMNS,
        none="no pending records",
        limit=50,
        examples=[
            "flo stream group pending orders --group billing",
            "flo stream group pending orders -g billing -c worker-1 --format json",
        ],
        aliases=(),
    ),
    claim,
    plain_command(
        "info",
        GetGroup,
        *GROUP,
        text=_details,
        raw="{reply.lag}",
        examples=["flo stream group info orders --group billing"],
    ),
    list_command(
        "list",
        ListGroups,
        "stream",
        columns=GROUP_COLUMNS,
        none="no groups",
        examples=["flo stream group list orders"],
    ),
    plain_command(
        "delete",
        DeleteGroup,
        *GROUP,
        asks="Delete group {group!r} of {stream!r}?",
        text="Deleted group: {group}",
        raw="{group}",
        examples=["flo stream group delete orders --group billing --force"],
        aliases=["rm"],
    ),
    dead_letters,
    requeue,
    purge,
)
