"""What the handler of a stream knows about its record."""

import asyncio
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar, overload

from flo.client.payloads.payload import decode_payload
from flo.model.ids import ConsumerName, GroupName, Namespace, StreamId, StreamName
from flo.model.storage.records import StreamRecord

T = TypeVar("T")


class RecordPosition(NamedTuple):
    """Which consumer reads which stream, and through which group."""

    namespace: Namespace
    stream: StreamName
    group: GroupName
    consumer: ConsumerName


class StreamContext:
    """`cancelled` turns true when the time is over or another consumer has the record: the result
    no longer counts. An async handler is cancelled then as well; a sync one must check it.
    """

    __slots__ = ("_position", "_record", "cancelled", "deliveries")

    def __init__(self, record: StreamRecord, deliveries: int, position: RecordPosition) -> None:
        self._record = record
        self._position = position
        self.deliveries = deliveries
        """How often the record has been delivered, this time included."""
        self.cancelled = False

    def __repr__(self) -> str:
        return f"StreamContext(stream_id={self.stream_id!r}, deliveries={self.deliveries})"

    @property
    def stream_id(self) -> StreamId:
        return self._record.stream_id

    @property
    def payload(self) -> bytes:
        return self._record.payload

    @property
    def headers(self) -> dict[str, str]:
        return self._record.headers or {}

    @property
    def key(self) -> str | None:
        """The partition key."""
        return self._record.key

    @property
    def partition(self) -> int:
        return self._record.partition

    @property
    def appended_at(self) -> datetime:
        return datetime.fromtimestamp(self._record.at_ms / 1_000, UTC)

    @property
    def stream(self) -> StreamName:
        return self._position.stream

    @property
    def group(self) -> GroupName:
        return self._position.group

    @property
    def consumer(self) -> ConsumerName:
        return self._position.consumer

    @property
    def namespace(self) -> Namespace:
        return self._position.namespace

    def raise_if_cancelled(self) -> None:
        """For sync handlers: end here, as an async one would, if the result no longer counts."""
        if self.cancelled:
            raise asyncio.CancelledError(f"record {self.stream_id} is with another consumer")

    def json(self) -> Any:
        return self.into(Any)

    @overload
    def into(self, type: type[T]) -> T: ...
    @overload
    def into(self, type: Any) -> Any: ...
    def into(self, type: Any) -> Any:
        """The payload as a value of this type; Invalid if it is none."""
        return decode_payload(self._record.payload, type)
