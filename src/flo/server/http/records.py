"""Streams and their records as they are answered: flat, and a record with its id."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from flo.model.base import Message
from flo.model.declare.payload import Encoding, Makers, payload_to_json
from flo.model.groups import ClaimedRecords, DeadRecordView, GroupRecords
from flo.model.ids import Namespace, StreamId, StreamName
from flo.model.storage.records import StreamRecord
from flo.model.streams import StreamView


class StreamJson(Message):
    """A stream. `first_id` and `last_id` are null while there is no record in it."""

    name: StreamName
    namespace: Namespace
    created_at_ms: int
    partitions: int
    max_age_ms: int | None
    max_length: int | None
    max_bytes: int | None
    count: int
    bytes: int
    first_id: StreamId | None
    last_id: StreamId | None
    groups: list[str]


class RecordJson(Message):
    """A record.

    `payload` is JSON if its bytes are, text if they are text, base64 if neither, and null if there
    are none: see `payload_encoding`.
    """

    stream_id: StreamId
    sequence: int
    at_ms: int
    payload: Any
    payload_encoding: Encoding | None
    headers: dict[str, str] | None
    key: str | None
    partition: int


class DeliveredJson(RecordJson):
    """A record handed out; `deliveries` says how often it has been, this time included."""

    deliveries: int


class DeadRecordJson(RecordJson):
    """A record that the group gave up, after so many deliveries; it outlives the stream's own."""

    deliveries: int
    died_at_ms: int


class GroupRecordsJson(Message):
    """The records, none if the time ran out; for a draining worker there are no more."""

    items: list[DeliveredJson]
    draining: bool


class ClaimedJson(Message):
    """The records; `next` is the `after` of the next claim, null when all has been looked at."""

    items: list[DeliveredJson]
    next: StreamId | None


def stream_json(view: StreamView) -> StreamJson:
    fields = asdict(view)
    return StreamJson(**asdict(fields.pop("retention")), **fields)


def record_json(record: StreamRecord) -> RecordJson:
    return RecordJson(**_fields(record))


def dead_record_json(view: DeadRecordView) -> DeadRecordJson:
    return DeadRecordJson(
        **_fields(view.record), deliveries=view.deliveries, died_at_ms=view.died_at_ms
    )


def group_records_json(found: GroupRecords) -> GroupRecordsJson:
    return GroupRecordsJson(items=_delivered(found), draining=found.draining)


def claimed_json(claimed: ClaimedRecords) -> ClaimedJson:
    return ClaimedJson(items=_delivered(claimed), next=claimed.next)


def _delivered(found: GroupRecords | ClaimedRecords) -> list[DeliveredJson]:
    return [
        DeliveredJson(**_fields(record), deliveries=count)
        for record, count in zip(found.items, found.deliveries, strict=True)
    ]


def _fields(record: StreamRecord) -> dict[str, Any]:
    shown = payload_to_json(record.payload)
    return asdict(record) | {
        "stream_id": record.stream_id,
        "payload": shown.value,
        "payload_encoding": shown.encoding,
    }


TYPES: Mapping[type, type[Message]] = {
    StreamView: StreamJson,
    StreamRecord: RecordJson,
    DeadRecordView: DeadRecordJson,
    GroupRecords: GroupRecordsJson,
    ClaimedRecords: ClaimedJson,
}
"""What these structs are answered as."""
MAKERS: Makers = {
    StreamView: stream_json,
    StreamRecord: record_json,
    DeadRecordView: dead_record_json,
    GroupRecords: group_records_json,
    ClaimedRecords: claimed_json,
}
