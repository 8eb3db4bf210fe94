"""Events, records and archived runs to fill a log with."""

from collections.abc import Sequence
from typing import Any

from flo.engine.actions.events import ActionRegistered
from flo.engine.actions.records import Action
from flo.engine.runs.events import RunCompleted, RunQueued, RunReleased
from flo.engine.runs.records import Attempt, Run
from flo.log.base import Log
from flo.model.base import Event
from flo.model.runs import RunStatus
from flo.model.storage.archive import Archived
from flo.model.storage.records import Chunk, PositionBy, StreamPosition, StreamRecord

NOON_MS = 1_700_000_000_000
MEBIBYTE = 1024 * 1024


async def pages(
    log: Log, *, below: int | None = None, limit: int = 50, **more: Any
) -> list[Archived]:
    return await log.archive.page("run", "default", "send", below=below, limit=limit, **more)


async def with_records(log: Log) -> list[Chunk]:
    """Eleven records of one stream, in four chunks; each append a millisecond later."""
    payloads = [[b"a" * 10, b"", b"b" * 5], [b"c" * 5, b"d" * 5, b"e"], [b"f" * 20], [b"g"] * 4]
    chunks: list[Chunk] = []
    first, offset = 1, 0
    for number, some in enumerate(payloads):
        at_ms = NOON_MS + 2 * number
        chunks.append(chunk_of(1, first, offset, some, at_ms))
        await log.append([released(number)], [], at_ms, chunks=[chunks[-1]])
        first, offset = first + len(some), offset + sum(map(len, some))
    return chunks


def chunk_of(
    stream: int, first: int, offset: int, payloads: Sequence[bytes], at_ms: int = NOON_MS
) -> Chunk:
    records = tuple(
        record(first + place, payload, at_ms=at_ms) for place, payload in enumerate(payloads)
    )
    return Chunk(stream=stream, first=first, offset=offset, records=records)


def record(sequence: int, payload: bytes, *, at_ms: int = NOON_MS, **more: Any) -> StreamRecord:
    return StreamRecord(sequence=sequence, at_ms=at_ms, payload=payload, **more)


def place_in(chunks: Sequence[Chunk], by: PositionBy, least: int) -> StreamPosition:
    """The place that a look at every record finds."""
    offset = chunks[0].offset
    for one in (record for chunk in chunks for record in chunk.records):
        reached = {
            PositionBy.SEQUENCE: one.sequence,
            PositionBy.TIME: one.at_ms,
            PositionBy.OFFSET: offset,
        }
        if reached[by] >= least:
            return StreamPosition(one.sequence, offset, one.at_ms)
        offset += one.length
    return StreamPosition(chunks[-1].end, offset, 0)


def all_events(log: Log) -> list[Event]:
    return [event for entry in log.read(log.start) for event in entry.events]


def some_events(count: int) -> list[Event]:
    return [released(number) for number in range(count)]


def released(number: int) -> Event:
    return RunReleased(namespace="default", run_id=f"send-{number}")


def run_completed(output: bytes = b"sent") -> Event:
    return RunCompleted(
        namespace="default", run_id="send-1", at_ms=NOON_MS, output=output, outcome="success"
    )


def action_registered() -> Event:
    return ActionRegistered(namespace="default", action=Action(name="send", description="übt ✉"))


def run_queued() -> Event:
    attempt = Attempt(number=1, worker_id="anna", started_at_ms=1, ended_at_ms=2, error="oh")
    run = Run(
        run_id="send-1",
        action="send",
        number=1,
        input=b"\x00\xff",
        priority=10,
        created_at_ms=NOON_MS,
        ready_at_ms=NOON_MS,
        status=RunStatus.PENDING,
        labels={"gpu": True, "size": 3, "zone": "eu", "share": 0.5},
        attempts=(attempt,),
    )
    return RunQueued(namespace="default", run=run)


def finished(
    number: int,
    *,
    kind: str = "run",
    namespace: str = "default",
    name: str = "send",
    status: str = "completed",
    finished_at_ms: int = NOON_MS,
    key: str | None = None,
    body: bytes = b"",
    dead: bool = False,
    sequence: int | None = None,
    tags: tuple[str, ...] = (),
) -> Archived:
    return Archived(
        kind=kind,
        namespace=namespace,
        name=name,
        number=number,
        status=status,
        finished_at_ms=finished_at_ms,
        key=key,
        body=body,
        dead=dead,
        sequence=number + 1 if sequence is None else sequence,
        tags=tags,
    )
