"""Stream records as people and programs see them.

1700000000000-1 [hot]: {"order":1} source=web
╰──── id ─────╯ tier   payload     headers
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from flo.cli.app.options import Format
from flo.cli.app.output import payload_text, show, to_json
from flo.cli.app.progress import Progress, progress
from flo.cli.app.say import say
from flo.core.printable import printable
from flo.model.declare.payload import payload_to_json
from flo.model.storage.records import StreamRecord

TIER = "hot"
"""Where the record is kept, in the words of the published command: here, all are in one place."""
NONE = "No records"


class RecordPrinter:
    """Prints records as they come, so that none of them has to be kept.

    As JSON they are one array, with a record in each line; with `endless`, there are only the
    lines.
    """

    def __init__(self, form: Format, count: Progress, *, endless: bool) -> None:
        self._form = form
        self._progress = count
        self._endless = endless
        self.count = 0

    def show(self, records: Sequence[StreamRecord]) -> None:
        if not records:
            return
        match self._form:
            case Format.TEXT:
                say("\n".join(map(record_text, records)))
            case Format.JSON if self._endless:
                say("\n".join(to_json(record_json(one), indent=0) for one in records))
            case Format.JSON:
                self._show_in_array(records)
            case Format.RAW:
                click.echo(records_raw(records), nl=False)
        self.count += len(records)
        self._progress(self.count)

    def end(self) -> None:
        match self._form:
            case Format.TEXT if not self.count:
                say(NONE)
            case Format.JSON if not self._endless:
                say("\n]" if self.count else "[]")
            case _:
                pass

    def _show_in_array(self, records: Sequence[StreamRecord]) -> None:
        text = ",\n".join(f"  {to_json(record_json(record), indent=0)}" for record in records)
        say((",\n" if self.count else "[\n") + text, nl=False)


@contextmanager
def printing(form: Format, *, endless: bool = False) -> Iterator[RecordPrinter]:
    """What is written to a file or a pipe is counted for those who watch."""
    is_seen = endless or sys.stdout.isatty()
    with progress("records", hidden=is_seen) as count:
        printer = RecordPrinter(form, count, endless=endless)
        yield printer
    printer.end()


def show_deliveries(
    form: Format, records: Sequence[StreamRecord], deliveries: Sequence[int]
) -> None:
    """Records that a group has handed out, and how often it has."""
    both = list(zip(records, deliveries, strict=True))
    text = "\n".join(record_text(record, count) for record, count in both) or NONE
    value = [record_json(record) | {"deliveries": count} for record, count in both]
    show(form, value, text=text, raw=records_raw(records))


def record_text(record: StreamRecord, deliveries: int = 1) -> str:
    """One line, whatever is in the record."""
    headers = "".join(f" {name}={value}" for name, value in (record.headers or {}).items())
    again = f" (delivery {deliveries})" if deliveries > 1 else ""
    text = f"{record.stream_id} [{TIER}]: {payload_text(record.payload)}{headers}{again}"
    return printable(text).replace("\n", "\\n")


def record_json(record: StreamRecord) -> dict[str, Any]:
    data, encoding = payload_to_json(record.payload)
    fields: dict[str, Any] = {
        "id": record.stream_id,
        "timestamp_ms": record.at_ms,
        "tier": TIER,
        "data": data,
        "data_encoding": encoding,
        "partition": record.partition,
    }
    if record.key is not None:
        fields["key"] = record.key
    if record.headers:
        fields["headers"] = record.headers
    return fields


def records_raw(records: Iterable[StreamRecord]) -> bytes:
    return b"".join(record.payload + b"\n" for record in records)
