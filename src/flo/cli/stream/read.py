"""flo stream read: a part of a stream, or all that comes."""

import sys
from collections.abc import Iterator
from math import inf
from time import monotonic, sleep
from typing import TYPE_CHECKING, NamedTuple

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.stream.records import printing
from flo.model.errors import Unavailable
from flo.model.ids import BLOCK_MS_MAX, StreamId, StreamName
from flo.model.streams import RECORDS_PER_READ_MAX, START, TAIL, RecordPage, StreamRecord

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

LIMIT_DEFAULT = 10
AGAIN_S = 0.25
"""How long to leave a server alone that is out of reach."""


class Wanted(NamedTuple):
    """What is to be read of a stream."""

    stream: StreamName
    after: str
    follow: bool
    wait_s: float | None
    """How long to wait for a record where there is none yet; None is for ever."""
    until: StreamId | None = None
    last: int = 0
    limit: int = sys.maxsize
    partition: int | None = None
    key: str | None = None
    poll_s: float = 20.0
    """How long one question of a follower waits at most."""


@click.command(
    "read",
    cls=FloCommand,
    aliases=["get"],
    examples=[
        "flo stream read orders",
        "flo stream read orders --last 5 --format json",
        "flo stream read orders --start 1700000000000-1 --limit 100",
        "flo stream read orders --start '$' --block 10",
        "flo stream read orders --follow --limit 1",
    ],
)
@click.argument("stream")
@click.option(
    "-s",
    "--start",
    "after",
    metavar="ID",
    default=START,
    show_default=True,
    help=f"Begin after this id; '{TAIL}' is the end, for what comes from now on.",
)
@click.option("-e", "--end", "until", metavar="ID", help="The last id to show.")
@click.option(
    "--last",
    type=click.IntRange(1, RECORDS_PER_READ_MAX),
    metavar="N",
    help="Begin with the newest N, wherever they are.",
)
@click.option(
    "-l",
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"How many to show at most.  [default: {LIMIT_DEFAULT}; without end if followed]",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "-b",
    "--block",
    "block_ms",
    type=click.IntRange(0, BLOCK_MS_MAX),
    metavar="MS",
    help="How long to wait for a record, in milliseconds.  [default: 0; for ever if followed]",
)
@click.option(
    "-P", "--partition", type=click.IntRange(min=0), metavar="N", help="Only this partition."
)
@click.option("-k", "--partition-key", "key", metavar="KEY", help="Only the partition of this key.")
@pass_settings
def read(
    settings: GlobalSettings,
    stream: StreamName,
    after: str,
    until: StreamId | None,
    last: int | None,
    limit: int | None,
    follow: bool,
    block_ms: int | None,
    partition: int | None,
    key: str | None,
) -> None:
    """Show the records of STREAM in their order.

    Each is a line `ID [TIER]: PAYLOAD K=V`. With --format raw it is the bare payload; with --format
    json all are one array, and with --follow an object in each line.
    """
    if follow and until is not None:
        raise click.UsageError("--follow has no end, and so goes without --end")
    wanted = Wanted(
        stream=stream,
        after=after,
        until=until,
        last=last or 0,
        limit=limit or (sys.maxsize if follow else last or LIMIT_DEFAULT),
        wait_s=block_ms / 1_000 if block_ms is not None else None if follow else 0.0,
        partition=partition,
        key=key,
        follow=follow,
    )
    with settings.connect() as flo, printing(settings.format, endless=follow) as printer:
        for records in pages(flo, wanted):
            printer.show(records)


def pages(flo: "BlockingFlo", wanted: Wanted) -> Iterator[list[StreamRecord]]:
    """Page after page, until there are enough, or nobody waits for more.

    A page may be empty although there is more: the server looks at so many records and no further.
    """
    after, last, left = wanted.after, wanted.last, wanted.limit
    patience = _Patience(wanted.wait_s)
    while True:
        page = _read(flo, wanted, patience, after, last, min(left, RECORDS_PER_READ_MAX))
        yield page.items
        left -= len(page.items)
        if page.items:
            patience = _Patience(wanted.wait_s if wanted.follow else 0.0)
        is_at_end = not page.items and page.last == after
        if left == 0 or (is_at_end and (patience.is_over or not wanted.follow)):
            return
        after, last = page.last, 0


def _read(
    flo: "BlockingFlo", wanted: Wanted, patience: "_Patience", after: str, last: int, limit: int
) -> RecordPage:
    """One page; who follows a stream stays when the server goes, and goes on when it is back."""
    is_told = False
    while True:
        try:
            return flo.streams.read(
                wanted.stream,
                after=after,
                until=wanted.until,
                last=last,
                limit=limit,
                block=min(patience.left_s, wanted.poll_s if wanted.follow else inf),
                partition=wanted.partition,
                key=wanted.key,
            )
        except Unavailable as problem:
            if not wanted.follow or patience.is_over:
                raise
            if not is_told:
                click.echo(f"Waiting for the server: {problem.message}", err=True)
                is_told = True
        sleep(AGAIN_S)


class _Patience:
    """How much longer to wait for a record; None is for ever."""

    def __init__(self, wait_s: float | None) -> None:
        self._until_s = inf if wait_s is None else monotonic() + wait_s

    @property
    def is_over(self) -> bool:
        return self.left_s == 0.0

    @property
    def left_s(self) -> float:
        return max(0.0, self._until_s - monotonic())
