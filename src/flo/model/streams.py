"""Streams and their records: commands, queries, replies.

    orders     1700000000000-1   1700000000000-2   1700000000417-3   …
               ╰── time ───╯ ╰ sequence

A stream id is the time of a record and its sequence in the stream, which begins at 1 and never
skips one. Ids always grow, even when the clock goes back.
"""

from typing import Annotated, TypeAlias

import msgspec

from flo.model.base import Message, Nothing, Record
from flo.model.declare.fields import BlockMs, Checked, Cursor, ItemCount, Limit, Range, about
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import (
    DURATION_MS_MAX,
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    Namespace,
    StreamId,
    StreamName,
    parse_stream_id,
)
from flo.model.storage.records import StreamRecord

PARTITIONS_MAX = 1_024
RECORDS_PER_APPEND_MAX = 1_000
RECORDS_PER_READ_MAX = 1_000
RECORDS_PER_READ_DEFAULT = 100
HEADERS_MAX = 64
HEADERS_LENGTH_MAX = 16_384
LENGTH_MAX = 2**53
START = "0-0"
"""Before every record."""
TAIL = "$"
"""After the newest record."""


def check_position(position: str) -> None:
    """Refuse what is neither a stream id nor the end of a stream."""
    if position != TAIL:
        parse_stream_id(position)


Position: TypeAlias = Annotated[str, Checked(check_position)]
"""A stream id to begin after, or `$`, the end."""
GivenStreamId: TypeAlias = Annotated[StreamId, Checked(parse_stream_id)]
RecordLimit: TypeAlias = Annotated[
    int,
    Range(1, RECORDS_PER_READ_MAX),
    about("The most records to answer; it may be fewer, of about 1 MiB together."),
]


class NewRecord(Message):
    """What is to be appended. Without a partition, its key chooses one; without either, chance."""

    payload: bytes
    headers: Annotated[dict[str, str] | None, about("Names and values beside the payload.")] = None
    key: Annotated[str | None, about("The partition key.")] = None
    partition: int | None = None


class Retention(Record):
    """What a stream keeps; None keeps everything."""

    max_age_ms: Annotated[
        int | None, Range(1, DURATION_MS_MAX * 100), about("Records older than this go.")
    ] = None
    max_length: Annotated[
        int | None, Range(1, LENGTH_MAX), about("The most records; the oldest go first.")
    ] = None
    max_bytes: Annotated[
        int | None, Range(1, LENGTH_MAX), about("The most bytes; the oldest records go first.")
    ] = None


KEEP_ALL = Retention()


class Appended(Message):
    """The ids of the first and the last record of an append."""

    stream_id: StreamId
    last_id: StreamId
    count: int


class RecordPage(Message):
    """Records in their order; `last` is the id to go on after."""

    items: list[StreamRecord] = msgspec.field(default_factory=list)
    last: StreamId = START


class Trimmed(Message):
    """How many records a trim let go of, or would; and the first that is left."""

    removed: int
    first_id: StreamId | None


class StreamView(Message):
    name: StreamName
    namespace: Namespace
    created_at_ms: int
    partitions: int
    retention: Retention
    count: int
    bytes: int
    first_id: StreamId | None
    last_id: StreamId | None
    groups: list[str]


class StreamPage(Message):
    items: list[StreamView]
    cursor: str | None = None


@operation(
    opcode=60,
    permission=Permission.STREAMS_MANAGE,
    http=Route(
        "POST",
        "/streams",
        status=201,
        errors=(409,),
        names={"name": "stream"},
        flat="retention",
        answer="get_stream",
    ),
)
class CreateStream(Command[Nothing]):
    """Make a stream; the first append to one makes it too, with the defaults.

    One that is there already is refused: `stream_exists`.
    """

    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT
    partitions: Annotated[
        int, Range(1, PARTITIONS_MAX), about("How many partitions its records are spread over.")
    ] = 1
    retention: Annotated[Retention, about("What the stream keeps.")] = KEEP_ALL


@operation(opcode=61, permission=Permission.STREAMS_MANAGE)
class AlterStream(Command[Nothing]):
    """Change what a stream keeps."""

    stream: StreamName
    retention: Annotated[Retention, about("What the stream keeps.")]
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=62,
    permission=Permission.STREAMS_MANAGE,
    http=Route("DELETE", "/streams/{name}", errors=(404,), names={"name": "stream"}),
)
class DeleteStream(Command[Nothing]):
    """Delete a stream, its records and its groups."""

    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=63, batch_opcode=64, permission=Permission.STREAMS_WRITE)
class Append(Command[Appended]):
    """Append one record, or several; a stream that is not there is made.

    All are appended, in order, or none. The answer has the ids of the first and the last of them.
    """

    stream: StreamName
    records: Annotated[
        list[NewRecord], ItemCount(RECORDS_PER_APPEND_MAX, "records"), about("What to append.")
    ]
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=66,
    permission=Permission.STREAMS_MANAGE,
    repeatable=lambda trim: trim.dry_run,
    http=Route("POST", "/streams/{name}/trim", errors=(404,), names={"name": "stream"}),
)
class TrimStream(Command[Trimmed]):
    """Let go of the oldest records: all that any of these bounds leaves out.

    Without any of them, what the stream need not keep. Groups never see what is gone.
    """

    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT
    before: Annotated[GivenStreamId | None, about("The id of the first record to keep.")] = None
    max_length: Annotated[int | None, Range(0), about("The most records to keep.")] = None
    max_age_ms: Annotated[int | None, Range(0), about("The greatest age to keep.")] = None
    max_bytes: Annotated[int | None, Range(0), about("The most bytes to keep.")] = None
    dry_run: Annotated[bool, about("Only say how much would go.")] = False


@operation(
    opcode=65,
    permission=Permission.STREAMS_READ,
    http=Route(
        "GET",
        "/streams/{name}/records",
        errors=(404,),
        name="read_records",
        names={"name": "stream"},
    ),
)
class ReadStream(Query[RecordPage]):
    """Records in their order. Reading takes nothing away: whoever asks again gets them again."""

    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT
    after: Annotated[
        Position,
        about("Only records after this id; 0-0 is the start, $ the end: only what comes later."),
    ] = START
    until: Annotated[GivenStreamId | None, about("Only records up to this id, and with it.")] = None
    last: Annotated[
        int,
        Range(0, RECORDS_PER_READ_MAX),
        about("Begin with so many of the newest records, whatever `after` says."),
    ] = 0
    limit: RecordLimit = RECORDS_PER_READ_DEFAULT
    block_ms: Annotated[
        BlockMs, about("Wait so long for the first record, even for the stream to be made.")
    ] = 0
    partition: Annotated[int | None, Range(0), about("Only of this partition.")] = None
    key: Annotated[str | None, about("Only of the partition that this key chooses.")] = None


@operation(
    opcode=67,
    permission=Permission.STREAMS_READ,
    http=Route("GET", "/streams/{name}", errors=(404,), names={"name": "stream"}),
)
class GetStream(Query[StreamView]):
    """A stream: what it keeps, how much is in it, its groups."""

    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=68, permission=Permission.STREAMS_READ, http=Route("GET", "/streams"))
class ListStreams(Query[StreamPage]):
    """The streams, by name."""

    namespace: Namespace = NAMESPACE_DEFAULT
    prefix: Annotated[str, about("Only streams whose names begin so.")] = ""
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None
