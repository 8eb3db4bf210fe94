"""Reads of a key wait for a version they do not know."""

from collections.abc import Iterable, Mapping

from flo.engine.feature import Wake
from flo.engine.kv.events import KeyDeleted, KeyExpired, KeyPut
from flo.engine.long_poll import KEY, LongPoll, Subject, whole_namespace
from flo.engine.state import State
from flo.model.base import Event, Message
from flo.model.kv import GetKey, Value


def _subjects(query: GetKey) -> Iterable[Subject]:
    return (KEY, query.namespace, query.key), whole_namespace(query.namespace)


def _is_nothing_new(state: State, query: GetKey, reply: Message) -> bool:
    if not isinstance(reply, Value):
        return False
    if query.newer_than is None:
        return reply.value is None
    return reply.version == query.newer_than


def _changed(state: State, event: KeyPut | KeyDeleted | KeyExpired) -> Iterable[Subject]:
    return ((KEY, event.namespace, event.key),)


LONG_POLLS: Mapping[type[Message], LongPoll] = {
    GetKey: LongPoll(subjects=_subjects, is_empty=_is_nothing_new),
}

WAKES: Mapping[type[Event], Wake] = {
    KeyPut: _changed,
    KeyDeleted: _changed,
    KeyExpired: _changed,
}
