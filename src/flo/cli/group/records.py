"""flo stream group read, claim, ack, nack, touch: the records of a group, by hand."""

from typing import Any

import click
import msgspec

from flo.cli.app.derive import operation_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import count_text, show
from flo.cli.app.parameters import Flag
from flo.cli.app.say import say
from flo.cli.group.options import CONSUMER, GROUP, IDS
from flo.cli.group.settings import SETTING_FLAGS, says_any, settings_of
from flo.cli.stream.records import show_deliveries
from flo.model.declare.operation import Command
from flo.model.errors import Conflict
from flo.model.groups import (
    IDS_PER_COMMAND_MAX,
    Ack,
    ClaimRecords,
    CreateGroup,
    Nack,
    ReadGroup,
    Settled,
    TouchRecords,
)
from flo.model.ids import StreamId

IDS_FLAG = Flag(
    "ids",
    "-i",
    type=IDS,
    metavar="ID,...",
    help="The records, by their ids; - reads them from stdin, @ from a file.",
)


@operation_command(
    "read",
    ReadGroup,
    *CONSUMER,
    Flag("limit", "-l"),
    Flag("block_ms", "-b"),
    *SETTING_FLAGS,
    examples=[
        "flo stream group read orders --group billing --consumer worker-1",
        "flo stream group read orders -g billing -c worker-1 --limit 100 --block 5000",
        "flo stream group read orders -g audit -c worker-1 --mode exclusive",
    ],
)
def read(settings: GlobalSettings, command: ReadGroup, /, **flags: Any) -> None:
    """Take records of STREAM for a consumer of GROUP.

    They are the consumer's until it acks or nacks them, or the ack timeout ends. Who has not joined
    joins. A group that is not there is created, with the settings that the flags name; those of one
    that is there stay as they are.
    """
    with settings.connect() as flo:
        if says_any(flags):
            create = CreateGroup(
                stream=command.stream, group=command.group, settings=settings_of(flags)
            )
            try:
                flo.call(create)
            except Conflict as error:
                if error.code != "group_exists":
                    raise
        taken = flo.call(command)
    show_deliveries(settings.format, taken.items, taken.deliveries)


@operation_command(
    "ack",
    Ack,
    *GROUP,
    click.Option(
        ["-c", "--consumer"],
        metavar="NAME",
        expose_value=False,
        help="Accepted, but any consumer may ack.",
    ),
    IDS_FLAG,
    examples=[
        "flo stream group ack orders -g billing -c worker-1 --ids 1700000000000-1,1700000000000-2"
    ],
)
def ack(settings: GlobalSettings, command: Ack) -> None:
    """Say that records of GROUP are done. Ids that are not under way are passed over."""
    _settle(settings, "Acked", command, command.ids)


@operation_command(
    "nack",
    Nack,
    *GROUP,
    Flag("consumer", "-c", metavar="NAME"),
    IDS_FLAG,
    "delay_ms",
    examples=[
        "flo stream group nack orders -g billing -c worker-1 --ids 1700000000000-1 --delay 5000"
    ],
)
def nack(settings: GlobalSettings, command: Nack) -> None:
    """Say that records of GROUP are not done; they are handed out again."""
    _settle(settings, "Nacked", command, command.ids)


@operation_command(
    "touch",
    TouchRecords,
    *CONSUMER,
    IDS_FLAG,
    "extend_ms",
    examples=[
        "flo stream group touch orders -g billing -c worker-1 --ids 1700000000000-1 --extend 60000"
    ],
)
def touch(settings: GlobalSettings, command: TouchRecords) -> None:
    """Give a consumer of GROUP more time for records that it has."""
    _settle(settings, "Touched", command, command.ids)


@operation_command(
    "claim",
    ClaimRecords,
    *CONSUMER,
    "min_idle_ms",
    Flag("after", "-s", "--start", metavar="ID"),
    Flag("limit", "-l"),
    examples=[
        "flo stream group claim orders -g billing -c worker-1",
        "flo stream group claim orders -g billing -c worker-1 --min-idle 30000 --limit 10",
    ],
)
def claim(settings: GlobalSettings, command: ClaimRecords) -> None:
    """Take over what other consumers of GROUP have had for too long, or get one's own."""
    taken = settings.call(command)
    show_deliveries(settings.format, taken.items, taken.deliveries)
    if taken.next is not None:
        say(f"There are more: add --start {taken.next}", err=True)


def _settle(
    settings: GlobalSettings, word: str, command: Command[Settled], ids: list[StreamId]
) -> None:
    """Say it of all these ids, of as many at a time as one command may name; show how many."""
    count = 0
    with settings.connect() as flo:
        for start in range(0, len(ids), IDS_PER_COMMAND_MAX):
            some = ids[start : start + IDS_PER_COMMAND_MAX]
            count += flo.call(msgspec.structs.replace(command, ids=some)).count
    text = f"{word} {count_text(count, 'record')}"
    show(settings.format, {"count": count}, text=text, raw=f"{count}")
