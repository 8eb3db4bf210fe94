"""Sessions of browsers: a cookie that scripts cannot read, and a word that other sites do not know.

They live in memory: after a restart one logs in again. They end with the token they began with.
"""

import secrets
from hmac import compare_digest
from typing import NamedTuple

from flo.model.errors import FloError, Forbidden, Unauthenticated
from flo.server.auth.guard import Registry
from flo.server.auth.identity import Identity
from flo.shard.clock import Clock

COOKIE = "flo_session"
CSRF_HEADER = "flo-csrf"
LIFETIME_MS = 12 * 3_600_000
SESSIONS_MAX = 10_000


class BrowserSession(NamedTuple):
    identity: Identity
    csrf: str
    """What a page of ours sends back with whatever changes something."""
    until_ms: int


class BrowserSessions:
    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._sessions: dict[str, BrowserSession] = {}

    def begin(self, identity: Identity) -> tuple[str, BrowserSession]:
        """The word for the cookie, and the session."""
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        word = secrets.token_urlsafe(32)
        until_ms = self._clock.now_ms() + LIFETIME_MS
        session = BrowserSession(identity, secrets.token_urlsafe(32), until_ms)
        self._sessions[word] = session
        return word, session

    def end(self, word: str) -> None:
        self._sessions.pop(word, None)

    def session(self, word: str) -> BrowserSession:
        """The session of a cookie; Unauthenticated if it has ended."""
        session = self._sessions.get(word)
        problem: FloError | None = None
        if session is None or session.until_ms <= self._clock.now_ms():
            problem = Unauthenticated("the session has ended: log in again", code="session_ended")
        elif session.identity is not None:
            problem = self._registry.problem_of(session.identity)
        if problem is not None or session is None:
            self.end(word)
            raise problem or Unauthenticated("log in again")
        return session

    def check(self, session: BrowserSession, csrf: str) -> None:
        """Refuse a change that a page of another site may have sent."""
        if not compare_digest(session.csrf.encode(), csrf.encode()):
            raise Forbidden(f"expected the session's word in the header {CSRF_HEADER}", code="csrf")
