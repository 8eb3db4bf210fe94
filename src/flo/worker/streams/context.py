"""What the handler of a stream knows about its record."""

from datetime import UTC, datetime
from typing import NamedTuple

from flo.model.ids import ConsumerName, GroupName, Namespace, StreamId, StreamName
from flo.model.storage.records import StreamRecord
from flo.worker.context import BaseContext


class RecordPosition(NamedTuple):
    """Which consumer reads which stream, and through which group."""

    namespace: Namespace
    stream: StreamName
    group: GroupName
    consumer: ConsumerName


class StreamContext(BaseContext):
    """`cancelled` turns true when the time is over or another consumer has the record: the result
    no longer counts. An async handler is cancelled then as well; a sync one must check it.
    """

    __slots__ = ("_position", "_record", "deliveries")

    def __init__(self, record: StreamRecord, deliveries: int, position: RecordPosition) -> None:
        super().__init__()
        self._record = record
        self._position = position
        self.deliveries = deliveries
        """How often the record has been delivered, this time included."""

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
