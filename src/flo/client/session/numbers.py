"""Numbers for requests, so that one which is sent again is known for the same.

The server remembers what it carried out until the client has heard of it: with every request goes
the number of the first one that is still waited for.
"""

import os
import secrets
from collections import deque
from collections.abc import Callable, Sequence

from flo.client.session.outbox import PendingCall
from flo.model.declare.operation import needs_key
from flo.model.storage.request_keys import SESSION_BITS, RequestKeys

RESEND_S_MAX = 300.0
"""A call that was first sent so long ago is not sent again: the server forgets, though much later
(`engine/requests/table.py`)."""


def draw_session() -> int:
    """No two clients have the same: it never comes from a generator that a program may seed."""
    return secrets.randbits(SESSION_BITS)


class RequestNumbers:
    """The numbers of one session. A forked process is another session."""

    def __init__(self, draw: Callable[[], int] = draw_session) -> None:
        self._draw = draw
        self._session = 0
        self._process_id = -1
        self._next = 0
        self._open: deque[PendingCall] = deque()
        """Those that have a number, from the first one on that is still waited for."""

    def keys_of(self, calls: Sequence[PendingCall], now_s: float) -> RequestKeys | None:
        """What to send with these calls; None if a repetition of any would change nothing."""
        keys = [self._key_of(call, now_s) for call in calls]
        if keys.count(None) == len(keys):
            return None
        first = keys[0]
        if isinstance(first, int) and keys == [*range(first, first + len(keys))]:
            return RequestKeys(self._session, self._unheard(), first)
        return RequestKeys(self._session, self._unheard(), keys)

    def _key_of(self, call: PendingCall, now_s: float) -> int | str | None:
        if call.sent_at_s is None:
            call.sent_at_s = now_s
        if call.key is not None:
            return call.key
        if call.number is None and needs_key(call.message):
            self._number(call)
        return call.number

    def _number(self, call: PendingCall) -> None:
        if self._process_id != os.getpid():
            self._process_id, self._session, self._next = os.getpid(), self._draw(), 0
            self._open.clear()
        call.number = self._next
        self._next += 1
        self._open.append(call)

    def _unheard(self) -> int:
        waiting = self._open
        while waiting and waiting[0].future.done():
            waiting.popleft()
        return waiting[0].number or 0 if waiting else self._next


def may_send_again(call: PendingCall, now_s: float) -> bool:
    """Whether a call whose connection broke may be sent on another one."""
    if call.once:
        return False
    if call.key is None and call.number is None:
        return True
    return call.sent_at_s is None or now_s - call.sent_at_s < RESEND_S_MAX
