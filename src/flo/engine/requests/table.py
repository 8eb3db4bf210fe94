"""Which requests were carried out, and what was replied: of sessions, and by keys of users.

    session ──▸ number ──▸ reply          while the client waits for it, or might
    namespace, key ──▸ digest, reply      for a day

Both forget what is oldest when it is too old or too much.
"""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from flo.model.ids import Namespace

STEP_MS = 2 * 60_000
STEPS_MAX = 5
"""A session that was not used in so many steps is forgotten: its client repeats nothing any more.
Steps are counted, and not the time, since a clock that is put forward makes but one."""
KEY_WINDOW_MS = 24 * 3_600_000
LENGTH_MAX = 64 * 1024 * 1024
"""Bytes of memory, about, for each of the two."""
SESSION_LENGTH = 400
REPLY_LENGTH = 150
KEY_LENGTH = 600
"""What one costs beside its bytes, about."""

ChosenKey: TypeAlias = tuple[Namespace, str]


class SessionRequests:
    """The requests of one client that were carried out, and that it may not have heard of."""

    __slots__ = ("length", "newest", "replies", "step", "unheard")

    def __init__(self) -> None:
        self.unheard = 0
        self.newest = -1
        """The highest number of one that was carried out."""
        self.step = 0
        """In which one was carried out last."""
        self.replies: dict[int, bytes] = {}
        """In the order of their numbers."""
        self.length = SESSION_LENGTH

    def add(self, numbers: Sequence[int], replies: Sequence[bytes]) -> None:
        """Requests were carried out; they come in the order of their numbers."""
        is_next = numbers[0] > self.newest
        self.replies.update(zip(numbers, replies, strict=True))
        self.length += sum(map(len, replies)) + REPLY_LENGTH * len(replies)
        if not is_next:  # what is sent again may come after what followed it
            self.replies = dict(sorted(self.replies.items()))
        self.newest = max(self.newest, numbers[-1])

    def hear(self, unheard: int) -> None:
        """The client has heard of all before this one."""
        if unheard <= self.unheard:
            return
        self.unheard = unheard
        if unheard > self.newest:
            self.replies.clear()
            self.length = SESSION_LENGTH
        while self.replies and next(iter(self.replies)) < unheard:
            self.drop_first()

    def drop_first(self) -> None:
        reply = self.replies.pop(next(iter(self.replies)))
        self.length -= len(reply) + REPLY_LENGTH


class KeyedReply(NamedTuple):
    """What was replied to the request with a key, when, and which message that was."""

    at_ms: int
    digest: bytes
    reply: bytes


class RequestTable:
    """Sessions by the step in which they were used last; keys in the order of their use."""

    def __init__(self) -> None:
        self.step = 0
        """How often something was to be forgotten."""
        self.sessions: dict[int, SessionRequests] = {}
        self.keyed: dict[ChosenKey, KeyedReply] = {}
        self._sessions_length = 0
        self._keyed_length = 0

    def add(
        self, session_id: int, unheard: int, numbers: Sequence[int], replies: Sequence[bytes]
    ) -> None:
        """Requests of a session were carried out."""
        session = self.sessions.get(session_id)
        if session is None:
            session = self.sessions[session_id] = SessionRequests()
            session.step = self.step
        else:
            self._sessions_length -= session.length
            if session.step != self.step:
                session.step = self.step
                self.sessions[session_id] = self.sessions.pop(session_id)
        session.hear(unheard)
        session.add(numbers, replies)
        self._sessions_length += session.length
        while self._sessions_length > LENGTH_MAX and len(self.sessions) > 1:
            self._drop_session(next(iter(self.sessions)))
        while self._sessions_length > LENGTH_MAX and session.replies:
            before = session.length
            session.drop_first()
            self._sessions_length += session.length - before

    def restore(
        self, session_id: int, unheard: int, newest: int, step: int, replies: dict[int, bytes]
    ) -> None:
        """Put a session of a snapshot into its place."""
        session = self.sessions[session_id] = SessionRequests()
        session.unheard, session.step = unheard, step
        if replies:
            session.add(list(replies), list(replies.values()))
        session.newest = newest
        self._sessions_length += session.length

    def add_keyed(self, key: ChosenKey, reply: KeyedReply) -> None:
        """A request with a key was carried out."""
        if key in self.keyed:
            self._drop_keyed(key)
        self.keyed[key] = reply
        self._keyed_length += _length_of(key, reply)
        while self._keyed_length > LENGTH_MAX:
            self._drop_keyed(next(iter(self.keyed)))

    def forget(self, now_ms: int) -> None:
        """A step has passed: forget the sessions and the keys that are too old by now."""
        self.step += 1
        while self.sessions:
            oldest = next(iter(self.sessions))
            if self.sessions[oldest].step + STEPS_MAX >= self.step:
                break
            self._drop_session(oldest)
        while self.keyed:
            first = next(iter(self.keyed))
            if self.keyed[first].at_ms + KEY_WINDOW_MS > now_ms:
                break
            self._drop_keyed(first)

    def next_at_ms(self, now_ms: int) -> int | None:
        """When something is to be forgotten next, or a step passes; None if there is nothing."""
        times = [now_ms + STEP_MS] if self.sessions else []
        times += [one.at_ms + KEY_WINDOW_MS for one in islice(self.keyed.values(), 1)]
        return min(times, default=None)

    def _drop_session(self, session_id: int) -> None:
        self._sessions_length -= self.sessions.pop(session_id).length

    def _drop_keyed(self, key: ChosenKey) -> None:
        self._keyed_length -= _length_of(key, self.keyed.pop(key))


def _length_of(key: ChosenKey, reply: KeyedReply) -> int:
    return KEY_LENGTH + len(key[1]) + len(reply.reply)
