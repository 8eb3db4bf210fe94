"""The events of a log as lines: for reading, and as JSON for programs."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from flo.cli.app.options import Format
from flo.cli.app.output import time_text
from flo.core.printable import printable_line


class DumpedEvent(NamedTuple):
    position: int
    at_ms: int
    event: list[Any]


def event_lines(folder: Path, first: int, limit: int | None, format: Format) -> Iterator[str]:
    """One line for every event from a position on, wherever it is kept."""
    for dumped in islice(_events(folder, first), limit):
        if format is not Format.TEXT:
            yield msgspec.json.encode(dumped._asdict()).decode()
            continue
        name, *fields = dumped.event
        values = msgspec.json.encode(fields).decode()
        yield printable_line(f"{dumped.position:>8}  {time_text(dumped.at_ms)}  {name}  {values}")


def _events(folder: Path, first: int) -> Iterator[DumpedEvent]:
    from flo.log.segments import SegmentFolder
    from flo.log.sqlite.history import read_kept
    from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER

    decode = msgspec.msgpack.Decoder(ext_hook=_sealed).decode
    for entry in read_kept(folder / LOG_FILE, SegmentFolder(folder / SEGMENT_FOLDER), first):
        for index, event in enumerate(decode(entry.body), entry.first):
            if index >= first:
                yield DumpedEvent(index, entry.at_ms, _readable(event))


def _sealed(code: int, data: memoryview) -> str:
    return f"(extension {code}, {len(data)} bytes)"


def _readable(value: Any) -> Any:
    """The same with bytes as text where they are text; payloads mostly are."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"({len(value)} bytes)"
    if isinstance(value, list):
        return [_readable(one) for one in value]
    if isinstance(value, dict):
        return {str(_readable(key)): _readable(one) for key, one in value.items()}
    return value
