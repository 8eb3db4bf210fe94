"""Requests that were carried out, in a snapshot."""

from collections.abc import Iterator

from flo.engine.requests.rules import FORGETTING
from flo.engine.requests.table import KeyedReply
from flo.engine.snapshot import Section, SnapshotPart, in_chunks
from flo.engine.state import State
from flo.model.ids import Namespace

PER_CHUNK = 1_000


class SessionsPart(SnapshotPart):
    sessions: list[tuple[int, int, int, int, list[tuple[int, bytes]]]]
    """Each with what it has not heard yet, its newest, the step of its last, and its replies."""


class KeyedRequestsPart(SnapshotPart):
    keyed: list[tuple[Namespace, str, int, bytes, bytes]]


class ForgettingPart(SnapshotPart):
    step: int
    at_ms: int | None
    """When the next step passes."""


def _dump_sessions(state: State) -> Iterator[SessionsPart]:
    sessions = (
        (number, one.unheard, one.newest, one.step, list(one.replies.items()))
        for number, one in state.requests.sessions.items()
    )
    for chunk in in_chunks(sessions, PER_CHUNK):
        yield SessionsPart(sessions=chunk)


def _restore_sessions(state: State, part: SessionsPart) -> None:
    for number, unheard, newest, step, replies in part.sessions:
        state.requests.restore(number, unheard, newest, step, dict(replies))


def _dump_keyed(state: State) -> Iterator[KeyedRequestsPart]:
    keyed = ((*key, *reply) for key, reply in state.requests.keyed.items())
    for chunk in in_chunks(keyed, PER_CHUNK):
        yield KeyedRequestsPart(keyed=chunk)


def _restore_keyed(state: State, part: KeyedRequestsPart) -> None:
    for namespace, key, at_ms, digest, reply in part.keyed:
        state.requests.add_keyed((namespace, key), KeyedReply(at_ms, digest, reply))


def _dump_forgetting(state: State) -> Iterator[ForgettingPart]:
    yield ForgettingPart(step=state.requests.step, at_ms=state.due.time_of(FORGETTING))


def _restore_forgetting(state: State, part: ForgettingPart) -> None:
    state.requests.step = part.step
    if part.at_ms is not None:
        state.due.set(FORGETTING, part.at_ms)


SNAPSHOT = (
    Section(SessionsPart, _dump_sessions, _restore_sessions),
    Section(KeyedRequestsPart, _dump_keyed, _restore_keyed),
    Section(ForgettingPart, _dump_forgetting, _restore_forgetting),
)
