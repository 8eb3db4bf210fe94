"""flo stream read: a part of a stream, or all that comes."""

import sys
from collections.abc import Iterator
from math import inf
from time import monotonic, sleep
from typing import TYPE_CHECKING, NamedTuple

import click

from flo.cli.app.derive import operation_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.parameters import Flag
from flo.cli.app.say import say
from flo.cli.stream.records import printing
from flo.model.errors import Unavailable
from flo.model.ids import BLOCK_MS_MAX
from flo.model.storage.records import StreamRecord
from flo.model.streams import RECORDS_PER_READ_MAX, ReadStream, RecordPage

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

LIMIT_DEFAULT = 10
RETRY_S = 0.25
"""The pause before a server that cannot be reached is asked again."""


class StreamReading(NamedTuple):
    """What is to be read of a stream, and for how long."""

    query: ReadStream
    follow: bool
    wait_s: float | None
    """How long to wait for a record where there is none yet; None is for ever."""
    limit: int = sys.maxsize
    poll_s: float = 20.0
    """The longest one query of a follower waits."""


@operation_command(
    "read",
    ReadStream,
    "stream",
    Flag("after", "-s", "--start", metavar="ID"),
    Flag("until", "-e", "--end", metavar="ID"),
    Flag("last", type=click.IntRange(1, RECORDS_PER_READ_MAX), default=None),
    click.Option(
        ["-l", "--limit", "records_max"],
        type=click.IntRange(min=1),
        metavar="N",
        help=f"How many to show at most.  [default: {LIMIT_DEFAULT}; without end if followed]",
    ),
    click.Option(["-f", "--follow"], is_flag=True, help="Go on with what comes, until Ctrl-C."),
    click.Option(
        ["-b", "--block", "wait_ms"],
        type=click.IntRange(0, BLOCK_MS_MAX),
        metavar="MS",
        help="How long to wait for a record, in milliseconds.  [default: 0; for ever if followed]",
    ),
    Flag("partition", "-P", type=click.IntRange(min=0)),
    Flag("key", "-k", "--partition-key", metavar="KEY"),
    aliases=["get"],
    examples=[
        "flo stream read orders",
        "flo stream read orders --last 5 --format json",
        "flo stream read orders --start 1700000000000-1 --limit 100",
        "flo stream read orders --start '$' --block 10",
        "flo stream read orders --follow --limit 1",
    ],
)
def read(
    settings: GlobalSettings,
    query: ReadStream,
    records_max: int | None,
    follow: bool,
    wait_ms: int | None,
) -> None:
    """Show the records of STREAM in their order.

    Each is a line `ID [TIER]: PAYLOAD K=V`. With --format raw it is the bare payload; with --format
    json all are one array, and with --follow an object in each line.
    """
    if follow and query.until is not None:
        raise click.UsageError("--follow has no end, and so goes without --end")
    reading = StreamReading(
        query,
        follow,
        wait_s=wait_ms / 1_000 if wait_ms is not None else None if follow else 0.0,
        limit=records_max or (sys.maxsize if follow else query.last or LIMIT_DEFAULT),
    )
    with settings.connect() as flo, printing(settings.format, endless=follow) as printer:
        for records in pages(flo, reading):
            printer.show(records)


def pages(flo: "BlockingFlo", reading: StreamReading) -> Iterator[list[StreamRecord]]:
    """Page after page, until there are enough, or nobody waits for more.

    A page may be empty although there is more: the server looks at so many records and no further.
    """
    after, last, left = reading.query.after, reading.query.last, reading.limit
    deadline = Deadline(reading.wait_s)
    while True:
        page = _read(flo, reading, deadline, after, last, min(left, RECORDS_PER_READ_MAX))
        yield page.items
        left -= len(page.items)
        if page.items:
            deadline = Deadline(reading.wait_s if reading.follow else 0.0)
        is_at_end = not page.items and page.last == after
        if left == 0 or (is_at_end and (deadline.is_over or not reading.follow)):
            return
        after, last = page.last, 0


def _read(
    flo: "BlockingFlo",
    reading: StreamReading,
    deadline: "Deadline",
    after: str,
    last: int,
    limit: int,
) -> RecordPage:
    """One page; a follower waits for a server that has gone, and goes on when it is back."""
    query = reading.query
    is_reported = False
    while True:
        try:
            return flo.streams.read(
                query.stream,
                after=after,
                until=query.until,
                last=last,
                limit=limit,
                block=min(deadline.left_s, reading.poll_s if reading.follow else inf),
                partition=query.partition,
                key=query.key,
            )
        except Unavailable as problem:
            if not reading.follow or deadline.is_over:
                raise
            if not is_reported:
                say(f"Waiting for the server: {problem.message}", err=True)
                is_reported = True
        sleep(RETRY_S)


class Deadline:
    """Until when to wait for a record; None is for ever."""

    def __init__(self, wait_s: float | None) -> None:
        self._until_s = inf if wait_s is None else monotonic() + wait_s

    @property
    def is_over(self) -> bool:
        return self.left_s == 0.0

    @property
    def left_s(self) -> float:
        return max(0.0, self._until_s - monotonic())
