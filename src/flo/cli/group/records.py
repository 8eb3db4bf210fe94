"""flo stream group read, ack, nack, touch, claim, pending: the records of a group, by hand."""

from typing import Unpack

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, count_text, show, show_list, time_text
from flo.cli.app.pages import collect, page_options
from flo.cli.group.options import ids_flag, read_ids, which_consumer, which_group
from flo.cli.group.settings import SettingFlags, says_any, setting_flags, settings_of
from flo.cli.stream.records import show_deliveries
from flo.model.errors import Conflict
from flo.model.groups import PendingPage, PendingView
from flo.model.ids import BLOCK_MS_MAX, ConsumerName, GroupName, StreamId, StreamName
from flo.model.streams import RECORDS_PER_READ_MAX, START

PENDING_COLUMNS: Columns[PendingView] = {
    "ID": lambda one: one.stream_id,
    "CONSUMER": lambda one: one.consumer,
    "DELIVERIES": lambda one: one.deliveries,
    "DELIVERED": lambda one: time_text(one.delivered_at_ms),
    "UNTIL": lambda one: time_text(one.until_ms),
}


@click.command(
    "read",
    cls=FloCommand,
    examples=[
        "flo stream group read orders --group billing --consumer worker-1",
        "flo stream group read orders -g billing -c worker-1 --limit 100 --block 5000",
        "flo stream group read orders -g audit -c worker-1 --mode exclusive",
    ],
)
@which_consumer
@click.option(
    "-l",
    "--limit",
    type=click.IntRange(1, RECORDS_PER_READ_MAX),
    metavar="N",
    default=1,
    show_default=True,
    help="How many to take at most.",
)
@click.option(
    "-b",
    "--block",
    "block_ms",
    type=click.IntRange(0, BLOCK_MS_MAX),
    metavar="MS",
    default=0,
    show_default=True,
    help="How long to wait for a record, in milliseconds.",
)
@setting_flags
@pass_settings
def read(
    settings: GlobalSettings,
    stream: StreamName,
    group: GroupName,
    consumer: ConsumerName,
    limit: int,
    block_ms: int,
    **flags: Unpack[SettingFlags],
) -> None:
    """Take records of STREAM for a consumer of GROUP.

    They are the consumer's until it acks or nacks them, or the ack timeout ends. Who has not joined
    joins. A group that is not there is created, with the settings that the flags name; those of one
    that is there stay as they are.
    """
    with settings.connect() as flo:
        known = flo.streams.group(stream, group)
        if says_any(flags):
            try:
                known.create(**settings_of(flags))
            except Conflict as error:
                if error.code != "group_exists":
                    raise
        taken = known.read(consumer, limit=limit, block=block_ms / 1_000)
    show_deliveries(settings.format, taken.items, taken.deliveries)


@click.command(
    "ack",
    cls=FloCommand,
    examples=[
        "flo stream group ack orders -g billing -c worker-1 --ids 1700000000000-1,1700000000000-2"
    ],
)
@which_group
@click.option("-c", "--consumer", metavar="NAME", help="Accepted, but any consumer may ack.")
@ids_flag
@pass_settings
def ack(
    settings: GlobalSettings, stream: StreamName, group: GroupName, consumer: str | None, ids: str
) -> None:
    """Say that records of GROUP are done. Ids that are not under way are passed over."""
    wanted = read_ids(ids)
    with settings.connect() as flo:
        count = flo.streams.group(stream, group).ack(wanted)
    _show_count(settings, "Acked", count)


@click.command(
    "nack",
    cls=FloCommand,
    examples=[
        "flo stream group nack orders -g billing -c worker-1 --ids 1700000000000-1 --delay 5000"
    ],
)
@which_group
@click.option("-c", "--consumer", metavar="NAME", help="Only those that this consumer has.")
@ids_flag
@click.option(
    "--delay",
    "delay_ms",
    type=click.IntRange(min=0),
    metavar="MS",
    help="How long they rest, in milliseconds.  [default: as the group says]",
)
@pass_settings
def nack(
    settings: GlobalSettings,
    stream: StreamName,
    group: GroupName,
    consumer: ConsumerName | None,
    ids: str,
    delay_ms: int | None,
) -> None:
    """Say that records of GROUP are not done; they are handed out again."""
    wanted = read_ids(ids)
    delay_s = delay_ms / 1_000 if delay_ms is not None else None
    with settings.connect() as flo:
        count = flo.streams.group(stream, group).nack(wanted, consumer=consumer, delay=delay_s)
    _show_count(settings, "Nacked", count)


@click.command(
    "touch",
    cls=FloCommand,
    examples=[
        "flo stream group touch orders -g billing -c worker-1 --ids 1700000000000-1 --extend 60000"
    ],
)
@which_consumer
@ids_flag
@click.option(
    "--extend",
    "extend_ms",
    type=click.IntRange(min=1),
    metavar="MS",
    help="How long from now they may take, in milliseconds.  [default: the ack timeout]",
)
@pass_settings
def touch(
    settings: GlobalSettings,
    stream: StreamName,
    group: GroupName,
    consumer: ConsumerName,
    ids: str,
    extend_ms: int | None,
) -> None:
    """Give a consumer of GROUP more time for records that it has."""
    wanted = read_ids(ids)
    extend_s = extend_ms / 1_000 if extend_ms is not None else None
    with settings.connect() as flo:
        count = flo.streams.group(stream, group).touch(wanted, consumer, extend=extend_s)
    _show_count(settings, "Touched", count)


@click.command(
    "pending",
    cls=FloCommand,
    examples=[
        "flo stream group pending orders --group billing",
        "flo stream group pending orders -g billing -c worker-1 --format json",
    ],
)
@which_group
@click.option("-c", "--consumer", metavar="NAME", help="Only what this consumer has.")
@page_options(limit_default=50)
@pass_settings
def pending(
    settings: GlobalSettings,
    stream: StreamName,
    group: GroupName,
    consumer: ConsumerName | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List the records that consumers of GROUP have in hand, the oldest first."""
    with settings.connect() as flo:
        known = flo.streams.group(stream, group)

        def ask(limit: int, cursor: str | None) -> PendingPage:
            return known.pending(consumer=consumer, limit=limit, cursor=cursor)

        items, cursor = collect(ask, limit, cursor)
    show_list(settings.format, items, PENDING_COLUMNS, none="no pending records", cursor=cursor)


@click.command(
    "claim",
    cls=FloCommand,
    examples=[
        "flo stream group claim orders -g billing -c worker-1",
        "flo stream group claim orders -g billing -c worker-1 --min-idle 30000 --limit 10",
    ],
)
@which_consumer
@click.option(
    "--min-idle",
    "min_idle_ms",
    type=click.IntRange(min=0),
    metavar="MS",
    default=0,
    show_default=True,
    help="Take over what others have had for so many milliseconds; 0 for one's own.",
)
@click.option(
    "-s",
    "--start",
    "after",
    metavar="ID",
    default=START,
    show_default=True,
    help="Look at what comes after this id.",
)
@click.option(
    "-l",
    "--limit",
    type=click.IntRange(1, RECORDS_PER_READ_MAX),
    metavar="N",
    default=100,
    show_default=True,
    help="How many to take at most.",
)
@pass_settings
def claim(
    settings: GlobalSettings,
    stream: StreamName,
    group: GroupName,
    consumer: ConsumerName,
    min_idle_ms: int,
    after: StreamId,
    limit: int,
) -> None:
    """Take over what other consumers of GROUP have had for too long, or get one's own."""
    with settings.connect() as flo:
        known = flo.streams.group(stream, group)
        taken = known.claim(consumer, min_idle=min_idle_ms / 1_000, after=after, limit=limit)
    show_deliveries(settings.format, taken.items, taken.deliveries)
    if taken.next is not None:
        click.echo(f"There are more: add --start {taken.next}", err=True)


def _show_count(settings: GlobalSettings, word: str, count: int) -> None:
    text = f"{word} {count_text(count, 'record')}"
    show(settings.format, {"count": count}, text=text, raw=f"{count}")
