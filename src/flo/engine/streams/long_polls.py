"""Reads that follow a stream wait for its next records."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from flo.engine.feature import Wake
from flo.engine.long_poll import GROUPS, STREAM, LongPoll, Subject, whole_namespace
from flo.engine.state import State
from flo.engine.streams.events import RecordsAppended, StreamDeleted, StreamTrimmed
from flo.engine.streams.queries import is_at_end
from flo.model.base import Event, Message
from flo.model.streams import ReadStream, RecordPage


def _subjects(query: ReadStream) -> Iterable[Subject]:
    return (STREAM, query.namespace, query.stream), whole_namespace(query.namespace)


def _is_empty(state: State, query: ReadStream, reply: Message) -> bool:
    return isinstance(reply, RecordPage) and not reply.items and is_at_end(state, query, reply)


def _resumed(query: ReadStream, reply: RecordPage) -> ReadStream:
    return replace(query, after=reply.last, last=0)


def _changed(state: State, event: RecordsAppended | StreamDeleted) -> Iterable[Subject]:
    return (STREAM, event.namespace, event.stream), (GROUPS, event.namespace, event.stream)


def _trimmed(state: State, event: StreamTrimmed) -> Iterable[Subject]:
    return ((GROUPS, event.namespace, event.stream),)


LONG_POLLS: Mapping[type[Message], LongPoll] = {
    ReadStream: LongPoll(subjects=_subjects, is_empty=_is_empty, resumed=_resumed),
}

WAKES: Mapping[type[Event], Wake] = {
    RecordsAppended: _changed,
    StreamDeleted: _changed,
    StreamTrimmed: _trimmed,
}
