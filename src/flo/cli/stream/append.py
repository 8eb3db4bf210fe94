"""flo stream append: records from the command line, or from stdin."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
import msgspec

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import count_text, show
from flo.cli.app.payload import read_payload
from flo.cli.app.progress import progress
from flo.cli.stream.records import NONE
from flo.cli.stream.stdin import batches_of_lines
from flo.model.errors import FloError
from flo.model.ids import StreamId, StreamName
from flo.model.streams import NewRecord

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

STDIN = "-"


class Total:
    """What the appends of one command line came to."""

    def __init__(self) -> None:
        self.first_id: StreamId | None = None
        self.last_id: StreamId | None = None
        self.count = 0

    def append(self, flo: "BlockingFlo", stream: StreamName, records: list[NewRecord]) -> None:
        for appended in flo.streams.append_many(stream, records):
            self.first_id = self.first_id or appended.stream_id
            self.last_id = appended.last_id
            self.count += appended.count


@click.command(
    "append",
    cls=FloCommand,
    aliases=["add"],
    examples=[
        'flo stream append orders \'{"order":1,"total":99}\'',
        "flo stream append orders @order.json --header source=web,trace=42",
        "flo stream append orders first second third --partition-key customer-7",
    ],
)
@click.argument("stream")
@click.argument("payloads", metavar="PAYLOAD...", nargs=-1, required=True)
@click.option(
    "-H",
    "--header",
    "headers",
    metavar="K=V,...",
    multiple=True,
    help="Headers of each record, as k=v,k=v or as a JSON object; may be repeated.",
)
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="The partition to use.")
@click.option(
    "-k", "--partition-key", "key", metavar="KEY", help="What stays together, and in order."
)
@pass_settings
def append(
    settings: GlobalSettings,
    stream: StreamName,
    payloads: tuple[str, ...],
    headers: tuple[str, ...],
    partition: int | None,
    key: str | None,
) -> None:
    """Append records to STREAM; the first one makes it.

    PAYLOAD is any text, usually JSON, and `@file` is what a file holds; several are appended
    together. `-` reads lines from stdin, and each of them is a record: `flo stream append orders -
    < orders.jsonl`.
    """
    if STDIN in payloads and len(payloads) > 1:
        raise click.UsageError("- reads all records from stdin, and so stands alone")
    read = read_headers(headers)

    def record(payload: bytes) -> NewRecord:
        return NewRecord(payload=payload, headers=read, key=key, partition=partition)

    total = Total()
    with settings.connect() as flo:
        if payloads == (STDIN,):
            _append_lines(total, flo, stream, record)
        else:
            total.append(flo, stream, [record(read_payload(payload)) for payload in payloads])
    _show(settings, total)


def read_headers(texts: tuple[str, ...]) -> dict[str, str] | None:
    headers: dict[str, str] = {}
    for text in texts:
        headers |= _read_object(text) if text.startswith("{") else _read_pairs(text)
    return headers or None


def _read_pairs(text: str) -> dict[str, str]:
    headers = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise click.UsageError(
                f"--header: expected k=v,k=v, got {text!r}; what has a comma in it may stand in a "
                "JSON object"
            )
        headers[name.strip()] = value
    return headers


def _read_object(text: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(
            f'--header: expected an object of texts like {{"k":"v"}}: {error}'
        ) from error


def _append_lines(
    total: Total, flo: "BlockingFlo", stream: StreamName, record: Callable[[bytes], NewRecord]
) -> None:
    """Batch by batch; if one of them is refused, the error says what was appended before it."""
    try:
        with progress("records") as count:
            for lines in batches_of_lines(sys.stdin.buffer):
                total.append(flo, stream, [record(line) for line in lines])
                count(total.count)
    except FloError as error:
        before = total.count + (error.details or {}).get("appended", 0)
        error.add_note(f"Appended before that: {count_text(before, 'line')}")
        raise


def _show(settings: GlobalSettings, total: Total) -> None:
    more = f" ({total.count} records, to {total.last_id})" if total.count > 1 else ""
    text = f"Appended at {total.first_id}{more}" if total.count else NONE
    value = {"stream_id": total.first_id, "count": total.count}
    show(settings.format, value, text=text, raw=total.first_id or "")
