"""What the log remembers of streams."""

from flo.model.base import Event
from flo.model.ids import (
    Namespace,
    StreamName,
)
from flo.model.streams import Retention


class StreamCreated(Event):
    namespace: Namespace
    stream: StreamName
    number: int
    """What the store knows it by; a stream that is made again gets another one."""
    at_ms: int
    partitions: int
    retention: Retention


class StreamAltered(Event):
    namespace: Namespace
    stream: StreamName
    retention: Retention


class StreamDeleted(Event):
    namespace: Namespace
    stream: StreamName


class RecordsAppended(Event):
    """The records themselves are beside the log, in the same append."""

    namespace: Namespace
    stream: StreamName
    count: int
    at_ms: int
    length: int


class StreamTrimmed(Event):
    namespace: Namespace
    stream: StreamName
    first: int
    """The sequence of the first record that is kept."""
    offset: int
    """How many bytes came before it, counted from the stream's first append."""
    at_ms: int
    """The time of that record; 0 if there is none yet."""
