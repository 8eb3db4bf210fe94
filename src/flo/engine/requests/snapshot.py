"""Requests that were carried out, in a snapshot."""

from collections.abc import Iterator

from flo.engine.requests.rules import FORGETTING
from flo.engine.requests.table import KeyedReply
from flo.engine.snapshot import Section, SnapshotPart, in_chunks
from flo.engine.state import State
from flo.model.ids import Namespace

PER_CHUNK = 1_000


class SessionsPart(SnapshotPart):
    sessions: list[tuple[int, int, int, list[tuple[int, bytes]]]]
    """Each with what it has not heard yet, when it was used last, and its replies by number."""


class KeyedRequestsPart(SnapshotPart):
    keyed: list[tuple[Namespace, str, int, bytes, bytes]]


class ForgettingPart(SnapshotPart):
    at_ms: int
    """When the oldest is forgotten."""


def _dump_sessions(state: State) -> Iterator[SessionsPart]:
    sessions = (
        (number, one.unheard, one.at_ms, list(one.replies.items()))
        for number, one in state.requests.sessions.items()
    )
    for chunk in in_chunks(sessions, PER_CHUNK):
        yield SessionsPart(sessions=chunk)


def _restore_sessions(state: State, part: SessionsPart) -> None:
    for number, unheard, at_ms, replies in part.sessions:
        state.requests.add(number, unheard, dict(replies), at_ms)


def _dump_keyed(state: State) -> Iterator[KeyedRequestsPart]:
    keyed = ((*key, *reply) for key, reply in state.requests.keyed.items())
    for chunk in in_chunks(keyed, PER_CHUNK):
        yield KeyedRequestsPart(keyed=chunk)


def _restore_keyed(state: State, part: KeyedRequestsPart) -> None:
    for namespace, key, at_ms, digest, reply in part.keyed:
        state.requests.add_keyed((namespace, key), KeyedReply(at_ms, digest, reply))


def _dump_forgetting(state: State) -> Iterator[ForgettingPart]:
    at_ms = state.due.time_of(FORGETTING)
    if at_ms is not None:
        yield ForgettingPart(at_ms=at_ms)


def _restore_forgetting(state: State, part: ForgettingPart) -> None:
    state.due.set(FORGETTING, part.at_ms)


SNAPSHOT = (
    Section(SessionsPart, _dump_sessions, _restore_sessions),
    Section(KeyedRequestsPart, _dump_keyed, _restore_keyed),
    Section(ForgettingPart, _dump_forgetting, _restore_forgetting),
)
